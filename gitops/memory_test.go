package gitops

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// ticksRole dispatches and retires TICKS times and prints its memory.
func ticksRole() error {
	r, err := New(Config{URL: os.Getenv("URL")})
	if err != nil {
		return err
	}
	ticks, err := strconv.Atoi(os.Getenv("TICKS"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range ticks + 1 {
		tip, err := r.Tip(ctx)
		if err != nil {
			return err
		}
		commit := dispatch(i)
		if i > 0 {
			commit.Changes = append(commit.Changes, branch.Change{Path: dispatch(i - 1).Changes[0].Path})
		}
		if _, err := r.Push(ctx, tip, []branch.Draft{commit}); err != nil {
			return err
		}
		if i == ticks/10 || i == ticks {
			peak, now, err := memoryUse()
			if err != nil {
				return err
			}
			fmt.Println(peak, now)
		}
	}
	return nil
}

// memoryUse returns the most and the present resident memory in MB.
func memoryUse() (peak, now float64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		for name, to := range map[string]*float64{"VmHWM:": &peak, "VmRSS:": &now} {
			if fields[0] == name {
				*to, err = strconv.ParseFloat(fields[1], 64)
				*to /= 1024
			}
		}
	}
	return peak, now, err
}

var benchTicks = flag.Int("ticks", 200, "how many pushes memory is watched over")

// BenchmarkMemory runs ticks that each push in a process of its own.
func BenchmarkMemory(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		fleet := repository("fleet")
		before := sizesOf(b, fleet)
		url := serveElsewhere(b, root) + "/fleet.git"
		_, out := start(b, "ticks", "URL="+url, fmt.Sprintf("TICKS=%d", *benchTicks))
		var early, late, peak float64
		for _, now := range []*float64{&early, &late} {
			if !out.Scan() {
				b.Fatal("the ticks ended early")
			}
			_, err := fmt.Sscan(out.Text(), &peak, now)
			must(b, err)
		}
		for b.Loop() {
			// The ticks are watched once, however often this runs.
		}
		b.ReportMetric(0, "ns/op")
		row(b, "git alone: peak memory", " MB", peak, 45)
		row(b, fmt.Sprintf("  growth over %d dispatches", *benchTicks-*benchTicks/10), " MB", late-early, 3)
		after := sizesOf(b, fleet)
		_, err := fleet.Git("repack", "-q", "-d")
		must(b, err)
		commits := float64(*benchTicks + 1)
		row(b, "server: growth per commit beside all dispatches, loose", " B", (after["size"]-before["size"])*1024/commits, 0)
		row(b, "  packed", " B", (sizesOf(b, fleet)["size-pack"]-before["size-pack"])*1024/commits, 0)
	})
}

// sizesOf is what git count-objects says of a repository, sizes in KiB.
func sizesOf(b testing.TB, r gitserver.Repository) map[string]float64 {
	out, err := r.Git("count-objects", "-v")
	must(b, err)
	counts := map[string]float64{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		counts[name], err = strconv.ParseFloat(value, 64)
		must(b, err)
	}
	return counts
}
