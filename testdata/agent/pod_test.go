package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"muster/base"
	"muster/generator/plan"
)

// job is as much of a dispatch's manifest as a kubelet needs here.
type job struct {
	Spec struct {
		Template struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec struct {
				Containers []struct {
					Image   string   `json:"image"`
					Command []string `json:"command"`
					Env     []struct {
						Name      string `json:"name"`
						Value     string `json:"value"`
						ValueFrom struct {
							FieldRef struct {
								FieldPath string `json:"fieldPath"`
							} `json:"fieldRef"`
							SecretKeyRef *struct{} `json:"secretKeyRef"`
						} `json:"valueFrom"`
					} `json:"env"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// pod is one run of the container's command, as the kubelet makes it, with the
// published agent behind it.
type pod struct {
	*world
	overlay plan.Overlay
	cmd     *exec.Cmd
	out     buffer
	home    string
	over    chan struct{} // closed when the process has ended
	exit    int           // 128 and the signal where one ended it
}

// options are how a pod differs from a usual one.
type options struct {
	token    string        // empty: the right one
	queue    string        // empty: the policy's
	lease    time.Duration // zero: an hour
	idle     time.Duration // zero: an hour
	uptime   time.Duration // zero: it takes one job
	env      []string      // what an owner adds
	dispatch string
	shell    shell // zero: /bin/sh
}

// shell is a program that runs the container's command, and the name under which it is called.
type shell struct {
	program, name string
	env           []string
}

// entrypoint does what the image's own does (packaging/docker of buildkite/agent),
// but for /docker-entrypoint.d and ssh keys. tini is process 1 in the image; here
// it is where it is installed.
const entrypoint = `#!/usr/bin/env bash
set -euo pipefail
if tini=$(command -v tini); then
  exec "$tini" -s -- buildkite-agent "$@"
fi
exec buildkite-agent "$@"
`

// config is the image's buildkite-agent.cfg, with other directories.
const config = `name="%%hostname-%%spawn"
build-path="%[1]s/cfg/builds"
hooks-path="%[1]s/cfg/hooks"
plugins-path="%[1]s/cfg/plugins"
`

// start orders one agent and starts its pod.
func (w *world) start(o options) *pod {
	w.t.Helper()
	if o.token == "" {
		o.token = agentToken
	}
	if o.lease == 0 {
		o.lease = time.Hour
	}
	if o.idle == 0 {
		o.idle = time.Hour
	}
	if o.dispatch == "" {
		o.dispatch = "default-7f3k9c2b"
	}
	// Not t.TempDir: the agent's sockets lie below, and their paths must be short.
	home, err := os.MkdirTemp("", "pod-")
	must(w.t, err)
	w.t.Cleanup(func() { os.RemoveAll(home) })
	p := &pod{world: w, home: home, over: make(chan struct{})}
	now := time.Now().Truncate(time.Second) // as a dispatch has it
	overlay, text := w.order(plan.Dispatch{
		ID: o.dispatch, Purpose: plan.ForDemand, Agents: 1,
		At: now.Add(-time.Hour), NotAfter: now.Add(o.lease), IdleTimeout: o.idle, Uptime: o.uptime,
	})
	p.overlay = overlay
	var j job
	must(w.t, yaml.Unmarshal(text, &j))
	bin := filepath.Join(p.home, "bin")
	p.write("bin/buildkite-agent-entrypoint", entrypoint)
	p.write("agent.cfg", fmt.Sprintf(config, p.home))
	p.write("home/.keep", "")
	p.write("tmp/.keep", "")
	must(w.t, os.Symlink(binary, filepath.Join(bin, "buildkite-agent")))
	c := j.Spec.Template.Spec.Containers[0]
	annotations := j.Spec.Template.Metadata.Annotations
	if o.queue != "" {
		annotations["muster.dev/agent-tags"] = strings.Replace(annotations["muster.dev/agent-tags"], "queue=default", "queue="+o.queue, 1)
	}
	p.cmd = exec.Command(c.Command[0], c.Command[1:]...)
	if s := o.shell; s.program != "" {
		p.cmd = exec.Command(s.program, c.Command[1:]...)
		p.cmd.Args[0] = s.name
		o.env = slices.Concat(o.env, s.env)
	}
	p.cmd.Dir = p.home
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append([]string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(p.home, "tmp"),
		"JOB_COMPLETION_INDEX=0", "SSL_CERT_FILE=" + w.cert, // the kubelet's, and the way to Buildkite
		"BUILDKITE_AGENT_ENDPOINT=" + w.http.URL + "/v3", "BUILDKITE_AGENT_CONFIG=" + filepath.Join(p.home, "agent.cfg"),
	}, o.env...)
	for _, e := range c.Env {
		value := strings.Replace(e.Value, "/home/ubuntu", filepath.Join(p.home, "home"), 1)
		if path := e.ValueFrom.FieldRef.FieldPath; path != "" {
			key, _ := strings.CutPrefix(path, "metadata.annotations['")
			value = annotations[strings.TrimSuffix(key, "']")]
		}
		if e.ValueFrom.SecretKeyRef != nil {
			value = o.token
		}
		p.cmd.Env = append(p.cmd.Env, e.Name+"="+value)
	}
	p.run()
	return p
}

func (p *pod) run() {
	p.t.Helper()
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second // what a build left behind may hold the output open
	must(p.t, p.cmd.Start())
	go func() {
		defer close(p.over)
		err := p.cmd.Wait()
		var exit *exec.ExitError
		switch status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus); {
		case status.Signaled():
			p.exit = 128 + int(status.Signal())
		case err == nil || errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay):
			p.exit = p.cmd.ProcessState.ExitCode()
		default:
			p.exit = -1
		}
	}()
	p.t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.over
		if p.t.Failed() {
			p.t.Logf("the agents asked %v, and the pod said:\n%s", p.requests(), p.out.String())
			for _, j := range p.Jobs() {
				p.t.Logf("the %s job's log:\n%s", j.State, p.JobLog(j.ID))
			}
		}
	})
}

func (p *pod) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	must(p.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)))
}

// until waits for something that must come while the pod runs.
func (p *pod) until(what string, come func() bool) {
	p.t.Helper()
	for !come() {
		select {
		case <-p.over:
			if !come() {
				p.t.Fatalf("the pod ended with exit code %d before %s", p.exit, what)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *pod) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// ends waits for the pod's end.
func (p *pod) ends(exit int) {
	p.t.Helper()
	if <-p.over; p.exit != exit {
		p.t.Errorf("the pod ended with exit code %d, want %d", p.exit, exit)
	}
}

// sigterm is what the kubelet sends to process 1.
func (p *pod) sigterm() {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
}

// connects waits until the agent is connected and muster counts it as idle.
func (p *pod) connects() string {
	p.t.Helper()
	p.until("it was connected", func() bool { return len(p.Agents()) == 1 })
	p.wantCounts(counts{Own: 1, Spare: 1, Registered: 1})
	return p.Agents()[0].ID
}

func (p *pod) wantCounts(want counts) {
	p.t.Helper()
	if snapshot, got := p.look(p.overlay); got != want {
		p.t.Errorf("muster counts %+v, want %+v; it read %+v", got, want, snapshot)
	}
}

// tree are the pod's processes.
func (p *pod) tree() []int {
	p.t.Helper()
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	must(p.t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{p.cmd.Process.Pid}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// buffer is what a pod has said.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestImageIsTheAgentThatIsTested: a new image needs a new agent here.
func TestImageIsTheAgentThatIsTested(t *testing.T) {
	text, err := base.Files.ReadFile("job.yaml")
	must(t, err)
	var j job
	must(t, yaml.Unmarshal(text, &j))
	image := j.Spec.Template.Spec.Containers[0].Image
	if !strings.HasPrefix(image, "docker.io/buildkite/agent:"+Version+"-") {
		t.Errorf("the image is %s, and the agent that is tested is %s: change Version and sum", image, Version)
	}
	said, err := exec.Command(binary, "--version").Output()
	if err != nil || !strings.HasPrefix(string(said), "buildkite-agent version "+Version+"+") {
		t.Errorf("%s says %q, %v", binary, said, err)
	}
}
