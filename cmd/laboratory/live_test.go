package laboratory

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator/buildkite/fakebuildkite"
)

// realTime is the clock of a simulated Buildkite that follows the machine's, as agents do. If a program waits for
// minutes until an agent is lost, the clock jumps.
type realTime struct{ *fakebuildkite.Server }

func (c realTime) Sleep(ctx context.Context, d time.Duration) error {
	if d > 2*time.Minute {
		c.Advance(d)
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// world is a simulated Buildkite that live may write to.
type world struct {
	*fakebuildkite.Server
	t       *testing.T
	cluster string
}

// newWorld returns a Buildkite in real time. It skips the test unless LIVE_AGENT is set, because it takes two minutes
// with the published agent, which make agent builds.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("LIVE_AGENT") == "" {
		t.Skip("make agent runs it")
	}
	t.Parallel()
	s := fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), AgentInterval: time.Second, UserLimit: 1000, OrgLimit: 4000, Scopes: fakebuildkite.WriteScopes})
	w := &world{s, t, s.AddCluster("one")}
	w.AddQueue(w.cluster, "default")
	w.AddAgentToken(w.cluster, "bkct_secret")
	go func() {
		for t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
			w.AdvanceTo(time.Now())
		}
	}()
	return w
}

// live runs muster-sim live --write with the published agent, and returns its exit code and output.
func (w *world) live(ctx context.Context) (code int, out, errs string) {
	w.t.Helper()
	agents, err := filepath.Glob("../../bin/buildkite-agent-*")
	if err != nil || len(agents) == 0 {
		w.t.Fatal("make agent builds the agent")
	}
	http := httptest.NewServer(w.Server)
	defer http.CloseClientConnections()
	token := filepath.Join(w.t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("bkct_secret"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	p := invocation.Program{
		Args: []string{
			"live", "--write", "--buildkite-org", "acme", "--buildkite-url", http.URL, "--agent-endpoint", http.URL + "/v3/",
			"--agent-token-file", token, "--agent-program", agents[0],
		},
		Environ: append(os.Environ(), "BUILDKITE_API_TOKEN=test-token"), Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Clock: realTime{w.Server},
	}
	code = p.Run(ctx, Commands)
	w.t.Log(stdout.String())
	if p, q, k := w.Pipelines(), w.Queues(w.cluster), w.Stacks(); len(p) > 0 || len(q) != 1 || len(k) > 0 {
		w.t.Errorf("left are the pipelines %q, the queues %q and the stacks %q", p, q, k)
	}
	for _, a := range w.Agents() {
		if a.State == "connected" {
			w.t.Errorf("the agent %s is left", a.Name)
		}
	}
	return code, stdout.String(), stderr.String()
}

// TestLiveWithPublishedAgent asserts that the published agent confirms all beliefs about agents that live --write
// reaches, and that all is removed.
func TestLiveWithPublishedAgent(t *testing.T) {
	w := newWorld(t)
	code, out, _ := w.live(t.Context())
	if code != invocation.ExitOK {
		t.Errorf("the exit code is %d", code)
	}
	for _, id := range []string{
		"agent-connects-in-time", "agent-idle-timeout", "agent-lingers-briefly", "agent-lost", "agent-name", "agent-never-connected",
		"agent-one-job", "agent-priority", "agent-startup-hook", "agent-uptime", "rest-agent-paused",
	} {
		if !regexp.MustCompile(`(?m)^` + id + ` +confirmed`).MatchString(out) {
			t.Errorf("%s is not confirmed", id)
		}
	}
}

// TestLiveInterrupted asserts that after Ctrl-C no agent and no object is left, while a job runs and an agent is
// stopped.
func TestLiveInterrupted(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for busy := false; !busy && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			for _, a := range w.Agents() {
				busy = busy || strings.HasSuffix(a.Name, "-busy") && a.Job != ""
			}
		}
		time.Sleep(8 * time.Second)
		cancel()
	}()
	code, out, errs := w.live(ctx)
	if code != invocation.ExitOutside || out != "" || !strings.Contains(errs, "what it created is removed") {
		t.Errorf("the exit code is %d, and the output %q", code, out)
	}
}
