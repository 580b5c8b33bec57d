package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/node"
	"muster/testdata/e2e/process"
)

// agents runs the pods of the stand-in: the base's own command with the published
// agent, each in a process of its own, and where a label of the pod says so an agent
// inside of the simulated Buildkite, of which there can be thousands.
type agents struct {
	dir, binary string
	buildkite   *buildkite

	mu    sync.Mutex
	fails map[string]map[string]bool // by overlay, the indexes that exit with 1
	held  map[string]chan struct{}   // by overlay, what its pods wait for
	light map[string]*lightAgent     // by the agent's identifier
	ended map[string]bool            // those that ended before they were in light
}

// The label of pods whose agents are inside of the simulated Buildkite.
const lightLabel = "e2e.muster.dev/light"

// entrypoint does what the image's own does, as in testdata/agent.
const entrypoint = `#!/usr/bin/env bash
set -euo pipefail
if tini=$(command -v tini); then
  exec "$tini" -s -- buildkite-agent "$@"
fi
exec buildkite-agent "$@"
`

// The annotation of pods that says by how many seconds the clock of their node is
// ahead.
const clockAnnotation = "e2e-clock"

const agentConfig = `name="%%hostname-%%spawn"
build-path="%[1]s/cfg/builds"
hooks-path="%[1]s/cfg/hooks"
plugins-path="%[1]s/cfg/plugins"
`

// failIndexes lets indexes of an overlay's dispatches exit with 1 at once.
func (a *agents) failIndexes(overlay string, indexes ...int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails[overlay] = map[string]bool{}
	for _, i := range indexes {
		a.fails[overlay][strconv.Itoa(i)] = true
	}
}

// hold keeps the containers of an overlay from starting, as where an image is pulled
// for long, until release is called or the test ends. A node does not stop before.
func (a *agents) hold(t *testing.T, overlay string) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	a.mu.Lock()
	a.held[overlay] = gate
	a.mu.Unlock()
	release = sync.OnceFunc(func() {
		a.mu.Lock()
		delete(a.held, overlay)
		a.mu.Unlock()
		close(gate)
	})
	t.Cleanup(release)
	return release
}

// Run starts the agent of a pod.
func (a *agents) Run(pod node.Pod, c node.Container, env map[string]string) (node.Running, error) {
	a.mu.Lock()
	held := a.held[pod.Metadata.Labels["muster.dev/overlay"]]
	a.mu.Unlock()
	if held != nil {
		<-held
	}
	a.mu.Lock()
	fails := a.fails[pod.Metadata.Labels["muster.dev/overlay"]][env["JOB_COMPLETION_INDEX"]]
	a.mu.Unlock()
	if pod.Metadata.Labels[lightLabel] != "" && !fails {
		return a.runLight(pod, env)
	}
	// Short: the agent's sockets lie below.
	home, err := os.MkdirTemp(a.dir, "p")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(home, "bin")
	write := func(name, text string) error {
		path := filepath.Join(home, name)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
	}
	if err := errors.Join(write("bin/buildkite-agent-entrypoint", entrypoint), write("agent.cfg", fmt.Sprintf(agentConfig, home)),
		write("home/.keep", ""), write("tmp/.keep", ""), os.Symlink(a.binary, filepath.Join(bin, "buildkite-agent"))); err != nil {
		return nil, err
	}
	if ahead := pod.Metadata.Annotations[clockAnnotation]; ahead != "" {
		if err := write("bin/date", "#!/bin/sh\nexec /bin/date --date=\""+ahead+" seconds\" \"$@\"\n"); err != nil {
			return nil, err
		}
	}
	command := append(append([]string{}, c.Command...), c.Args...)
	if fails {
		command = []string{"/bin/sh", "-c", "exit 1"}
	}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(home, "tmp"), "SSL_CERT_FILE=" + a.buildkite.certificate,
		"BUILDKITE_AGENT_ENDPOINT=" + a.buildkite.agentURL + "/v3", "BUILDKITE_AGENT_CONFIG=" + filepath.Join(home, "agent.cfg"),
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+strings.Replace(value, "/home/ubuntu", filepath.Join(home, "home"), 1))
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &agentProcess{cmd: cmd, home: home, over: make(chan struct{})}
	go r.wait()
	return r, nil
}

// agentProcess is a pod's process and what it started.
type agentProcess struct {
	cmd  *exec.Cmd
	home string
	over chan struct{}
	exit int
}

func (r *agentProcess) wait() {
	_ = r.cmd.Wait()
	status, _ := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	r.exit = r.cmd.ProcessState.ExitCode()
	if status.Signaled() {
		r.exit = 128 + int(status.Signal())
	}
	close(r.over)
}

func (r *agentProcess) Over() <-chan struct{} { return r.over }
func (r *agentProcess) Exit() int             { return r.exit }
func (r *agentProcess) Terminate()            { _ = r.cmd.Process.Signal(syscall.SIGTERM) }
func (r *agentProcess) Kill()                 { process.KillTree(r.cmd.Process.Pid) }

// lightAgent is an agent inside of the simulated Buildkite.
type lightAgent struct {
	buildkite *buildkite
	id        string
	once      sync.Once
	over      chan struct{}
	exit      int
}

func (l *lightAgent) Over() <-chan struct{} { return l.over }
func (l *lightAgent) Exit() int             { return l.exit }
func (l *lightAgent) Terminate()            { l.buildkite.StopAgent(l.id) }
func (l *lightAgent) Kill() {
	l.buildkite.LoseAgent(l.id)
	l.end(137)
}

func (l *lightAgent) end(exit int) {
	l.once.Do(func() {
		l.exit = exit
		close(l.over)
	})
}

// runLight does what the base's command does: the lease, then an agent with the
// dispatch's tags.
func (a *agents) runLight(pod node.Pod, env map[string]string) (node.Running, error) {
	notAfter, err := time.Parse(time.RFC3339, env["MUSTER_NOT_AFTER"])
	if err != nil {
		return nil, err
	}
	idle, err := strconv.Atoi(env["MUSTER_IDLE_TIMEOUT"])
	if err != nil {
		return nil, err
	}
	l := &lightAgent{buildkite: a.buildkite, over: make(chan struct{})}
	if time.Now().After(notAfter) {
		l.end(0)
		return l, nil
	}
	tags := append(strings.Split(env["MUSTER_AGENT_TAGS"], ","), "index="+env["JOB_COMPLETION_INDEX"])
	l.id, err = a.buildkite.Connect(fakebuildkite.Agent{
		Name: pod.Metadata.Name, Cluster: a.buildkite.cluster, Tags: tags, Priority: 2, AfterJob: true, IdleTimeout: time.Duration(idle) * time.Second,
	})
	if err != nil {
		l.end(1)
		return l, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended[l.id] {
		l.end(0)
	}
	a.light[l.id] = l
	return l, nil
}

// left is told by the simulated Buildkite of each agent that leaves.
func (a *agents) left(record fakebuildkite.AgentRecord) {
	a.mu.Lock()
	l := a.light[record.ID]
	if l == nil {
		a.ended[record.ID] = true
	}
	a.mu.Unlock()
	if l != nil && record.Reason != fakebuildkite.EndedLost {
		l.end(0)
	}
}
