package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory contains figures of a cgroup: bytes, and the number of processes killed for memory.
type memory struct{ peak, limit, killed int }

// memory compares the most memory that muster's container has used with its limit.
func (d *deployment) memory(v *overlay) {
	for range 3 {
		d.another(v)
	}
	pods := d.ready(v, 1)
	m, err := memoryOf(d.processOf(v, pods[0], "muster"))
	v.must(err)
	const mib = 1 << 20
	if m.limit != 256*mib {
		v.t.Errorf("its limit is %d bytes, want 256 MiB as deploy/base/deployment.yaml says", m.limit)
	}
	if m.peak == 0 || m.peak >= m.limit || m.killed > 0 {
		v.t.Errorf("its memory was %d bytes at most, with a limit of %d; %d processes were killed", m.peak, m.limit, m.killed)
	}
	results.measured("memory of muster as `deploy/` runs it: peak, limit", v.syncer.name(), fmt.Sprintf("%d MiB, %d MiB", m.peak/mib, m.limit/mib))
}

// memoryOf reads the cgroup of a process, version 1 or 2.
func memoryOf(pid string) (m memory, err error) {
	text, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return m, err
	}
	dir, peak, limit, events := "", "memory.peak", "memory.max", "memory.events"
	for line := range strings.Lines(string(text)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch {
		case controllers == "memory":
			dir = filepath.Join("/sys/fs/cgroup/memory", path)
			peak, limit, events = "memory.max_usage_in_bytes", "memory.limit_in_bytes", "memory.oom_control"
		case id == "0" && dir == "":
			dir = filepath.Join("/sys/fs/cgroup", path)
		}
	}
	for name, to := range map[string]*int{peak: &m.peak, limit: &m.limit, events: &m.killed} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return m, err
		}
		number := strings.TrimSpace(string(text))
		if name == events {
			_, number, _ = strings.Cut(number, "oom_kill ")
			number, _, _ = strings.Cut(number, "\n")
		}
		if *to, err = strconv.Atoi(number); err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
	}
	return m, nil
}
