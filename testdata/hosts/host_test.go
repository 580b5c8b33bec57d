// Package hosts runs git hosts that muster's team did not write. See README.md.
package hosts

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/gitops"
	"muster/gitops/gitserver"
)

// host is a git host that is run here.
type host struct {
	name string
	// headFirst is whether it compares the head before it runs hooks, so that check cannot
	// test the rules of the branch.
	headFirst bool
	// hidesLocks is whether a push to a locked branch fails without a reason, so that the next tick retries.
	hidesLocks bool
	// needs is what is missing to run it; empty: nothing.
	needs func() string
	// start runs it until the test ends.
	start func(t *testing.T) server
}

// server is a host that runs.
type server interface {
	// version is the host's, as it says itself.
	version() string
	// repository makes an empty one, which the host serves.
	repository(t *testing.T) place
	// restart kills the host, as a machine that goes down does, and starts it again.
	restart(t *testing.T)
}

// place is a repository at a host, and what can be done with it there.
type place struct {
	gitserver.Repository
	// config has the address and the credentials of one who may write.
	config gitops.Config
	// url and environ are the same for git itself.
	url     string
	environ []string
	// flags are the same for muster's command line.
	flags []string
	// reader is one who may read alone, and kept one whom the rules of the branch keep
	// from writing it; nil: the host has no such users.
	reader, kept *gitops.Config
	// protect makes the host's own rules refuse pushes to the branch, and free ends
	// that; nil: it has none, and the tests' own rule stands for them.
	protect, free func(t *testing.T)
	// rename gives the repository another name; nil: the host has no way.
	rename func(t *testing.T)
	// rotates returns credentials that can be replaced; nil: the host requires none.
	rotates func(t *testing.T) credentials
	// moved are flags for another URL of the repository; nil: it has none.
	moved []string
	// verified reports whether the host shows a commit as signed; nil: it shows nothing.
	verified func(t *testing.T, commit string) bool
}

// credentials are those of a user who may write.
type credentials struct {
	// flags are those of muster's command line.
	flags []string
	// rejected is what muster logs if the host rejects them.
	rejected string
	// expire lets the host reject them, and renew replaces them by valid ones.
	expire, renew func(t *testing.T)
}

// hosts are all that are run.
func hosts() []host {
	return []host{plainGit, dulwich, jgit, gitolite, gitea, giteaSSH}
}

// rules are hooks of the tests' own, where the host runs git's.
const rules = `#!/bin/sh
[ -f HEAD ] || cd "$GIT_DIR" || exit 1
if [ -f muster-hold ]; then
	touch muster-held
	while [ -f muster-hold ]; do sleep 0.05; done
fi
[ ! -f muster-refuse ] || { cat muster-refuse >&2; exit 1; }
`

// refuse lets every push be refused with these words; empty: no more.
func (p place) refuse(t *testing.T, words string) {
	t.Helper()
	file := filepath.Join(p.Dir, "muster-refuse")
	if words == "" {
		must(t, os.Remove(file))
		return
	}
	put(t, file, words+"\n")
}

// hold lets the next push wait in the host.
func (p place) hold(t *testing.T) {
	t.Helper()
	put(t, filepath.Join(p.Dir, "muster-hold"), "")
}

// held reports whether a push waits.
func (p place) held() bool {
	_, err := os.Stat(filepath.Join(p.Dir, "muster-held"))
	return err == nil
}

// letGo ends the waiting.
func (p place) letGo(t *testing.T) {
	t.Helper()
	must(t, os.Remove(filepath.Join(p.Dir, "muster-hold")))
	must(t, os.Remove(filepath.Join(p.Dir, "muster-held")))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

// output runs a program and returns what it prints.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &problem)
	}
	return strings.TrimSpace(string(out))
}

// newKey writes a new ssh key into a file, and returns its public half.
func newKey(t *testing.T, file string) (public string) {
	t.Helper()
	must(t, os.RemoveAll(file))
	output(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file))
	text, err := os.ReadFile(file + ".pub")
	must(t, err)
	return string(text)
}

// freePort is one on which nobody listens.
func freePort(t *testing.T) int {
	t.Helper()
	return freePorts(t, 1)[0]
}

// freePorts are several, no two the same.
func freePorts(t *testing.T, count int) (ports []int) {
	t.Helper()
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// daemon is a program that serves at a port.
type daemon struct {
	port    int
	command func() *exec.Cmd
	cmd     *exec.Cmd
	ended   chan struct{} // closed when it has
	said    *os.File
}

// startDaemon runs a program until the test ends, and waits until it serves.
func startDaemon(t *testing.T, port int, command func() *exec.Cmd) *daemon {
	t.Helper()
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	must(t, err)
	d := &daemon{port: port, command: command, said: said}
	d.start(t)
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("the host said:\n%s", d.words())
		}
	})
	return d
}

func (d *daemon) start(t *testing.T) {
	t.Helper()
	d.cmd = d.command()
	d.cmd.Stdout, d.cmd.Stderr = d.said, d.said
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, d.cmd.Start())
	d.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(d.cmd, d.ended)
	for {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-d.ended:
			t.Fatalf("the host has ended:\n%s", d.words())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the host and all that it has started, as sessions of sshd, which leave the
// group.
func (d *daemon) kill() {
	for _, pid := range append(descendants(d.cmd.Process.Pid), d.cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-d.ended
}

// descendants are the processes that a process has started, and those that they have.
func descendants(pid int) []int {
	var all []int
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // none: it has ended
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // proc_pid_children(5)
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

func (d *daemon) restart(t *testing.T) {
	t.Helper()
	d.kill()
	d.start(t)
}

// words is what the host has printed.
func (d *daemon) words() string {
	text, err := os.ReadFile(d.said.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// files names what is missing of some files.
func files(names ...string) func() string {
	return func() string {
		var missing []string
		for _, name := range names {
			if _, err := os.Stat(name); err != nil {
				missing = append(missing, name)
			}
		}
		return strings.Join(missing, ", ")
	}
}

var names atomic.Int64

// newName is one that no other repository has.
func newName() string { return fmt.Sprintf("fleet%d", names.Add(1)) }
