package hosts

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runProgram runs muster run as a process, beside a simulated Buildkite with the machine's clock: while its
// credentials are replaced, and before and after the URL of its repository changes.
func runProgram(t *testing.T, s server) {
	for _, part := range []struct {
		name string
		can  func(p place) bool // whether the host has this
		play func(y *story)
	}{
		{"rotation", func(p place) bool { return p.rotates != nil }, (*story).rotation},
		{"move", func(p place) bool { return p.moved != nil }, (*story).move},
	} {
		t.Run(part.name, func(t *testing.T) {
			if y := begin(t, s, &row{}); part.can(y.place) {
				y.seed()
				part.play(y)
			}
		})
	}
}

// process is muster run as a process.
type process struct {
	*exec.Cmd
	t     *testing.T
	log   string // the file that it writes
	ended chan error
}

// run starts muster run with flags.
func (y *story) run(flags ...string) *process {
	y.t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		y.world.AdvanceTo(time.Now())
		y.world.ServeHTTP(w, r)
	}))
	y.t.Cleanup(api.Close)
	p := &process{t: y.t, log: filepath.Join(y.t.TempDir(), "log"), ended: make(chan error, 1)}
	out, err := os.Create(p.log)
	must(y.t, err)
	y.t.Cleanup(func() { out.Close() })
	p.Cmd = exec.Command(*program, append([]string{"run", "--interval", "1s", "--startup-jitter", "0s"}, flags...)...)
	p.Env = append(os.Environ(), "HOME="+y.t.TempDir(), "MUSTER_BUILDKITE_URL="+api.URL+"/", "MUSTER_BUILDKITE_ORG=acme")
	p.Stdout, p.Stderr = out, out
	must(y.t, p.Start())
	y.t.Cleanup(func() { _ = p.Process.Kill() })
	go func() { p.ended <- p.Wait() }()
	return p
}

// text is what the process has logged.
func (p *process) text() string {
	text, err := os.ReadFile(p.log)
	must(p.t, err)
	return string(text)
}

// logs waits until the log contains a text n times.
func (p *process) logs(text string, n int) {
	p.t.Helper()
	expired := time.After(*patience)
	for strings.Count(p.text(), text) < n {
		select {
		case err := <-p.ended:
			p.t.Fatalf("it ended (%v) before it logged %q:\n%s", err, text, p.text())
		case <-time.After(20 * time.Millisecond):
		case <-expired:
			p.t.Fatalf("it has not logged %q %d times:\n%s", text, n, p.text())
		}
	}
}

// stop ends the process with SIGTERM.
func (p *process) stop() {
	p.t.Helper()
	must(p.t, p.Process.Signal(syscall.SIGTERM))
	if err := <-p.ended; err != nil {
		p.t.Errorf("%v\n%s", err, p.text())
	}
}

// ordered asserts how many agents each dispatch ordered, the first one first.
func (y *story) ordered(want ...string) {
	y.t.Helper()
	out, err := y.place.Git("log", "--reverse", "--grep=^Operation: dispatch", "--format=%s", "main")
	must(y.t, err)
	var got []string
	for subject := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(subject)[1:4], " "))
	}
	if !slices.Equal(got, want) {
		y.t.Errorf("ordered %q, want %q", got, want)
	}
}

// rotation replaces the credentials of git and of Buildkite while muster runs: the server first rejects the
// former ones, then muster continues with the new ones.
func (y *story) rotation() {
	c, token := y.place.rotates(y.t), filepath.Join(y.t.TempDir(), "token")
	c.renew(y.t)
	put(y.t, token, "test-token\n")
	p := y.run(append(c.flags, "--repo", y.place.config.URL, "--buildkite-token-file", token)...)
	y.build(3)
	p.logs("agents=3", 1)

	c.expire(y.t)
	y.build(2)
	p.logs(c.rejected, 1)
	c.renew(y.t)
	p.logs("agents=2", 1)

	y.world.SetToken("next-token")
	y.build(1)
	p.logs("Buildkite does not accept the API token (401)", 1)
	put(y.t, token, "next-token\n")
	p.logs("agents=1", 1)
	p.stop()
	y.ordered("dispatch 3 agents", "dispatch 2 agents", "dispatch 1 agent")
}

// move starts muster again with another URL of the repository while agents are in flight: the fleet is the
// same, and nothing is ordered twice.
func (y *story) move() {
	token := filepath.Join(y.t.TempDir(), "token")
	put(y.t, token, "test-token\n")
	read := func() string {
		y.t.Helper()
		identity, err := y.place.Git("show", "main:overlays/default/dispatches/state.yaml")
		must(y.t, err)
		_, identity, _ = strings.Cut(identity, "\nidentity:\n")
		identity, _, _ = strings.Cut(identity, "\n  overlay:")
		return identity
	}
	p := y.run(append(y.place.flags, "--repo", y.place.config.URL, "--buildkite-token-file", token)...)
	y.build(3)
	p.logs("agents=3", 1)
	p.stop()
	before := read()

	p = y.run(append(y.place.moved, "--buildkite-token-file", token, "--log-level", "debug")...)
	p.logs("nothing to do", 2)
	y.build(2)
	p.logs("agents=2", 1)
	p.stop()
	y.ordered("dispatch 3 agents", "dispatch 2 agents")
	if after := read(); after != before || !strings.Contains(before, "id: ") {
		y.t.Errorf("the identity is %q, was %q", after, before)
	}
}
