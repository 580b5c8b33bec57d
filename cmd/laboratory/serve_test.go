package laboratory

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops/gitserver"
)

// jumpingClock is a clock whose sleeps return at once. It calls each when a minute has passed.
type jumpingClock struct {
	now  time.Time
	each func(minute int)
}

func (c *jumpingClock) Now() time.Time { return c.now }

func (c *jumpingClock) Sleep(ctx context.Context, d time.Duration) error {
	before := c.now
	if c.now = before.Add(100 * d); c.now.Minute() != before.Minute() && c.each != nil {
		c.each(int(c.now.Sub(demoStart()).Minutes()))
	}
	return ctx.Err()
}

// TestServeIncidents asserts what each incident does while it lasts, and that it ends.
func TestServeIncidents(t *testing.T) {
	answers := func(s *serve) (failed, all int) {
		for range 100 {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/v2/organizations/acme/agents", nil)
			r.Header.Set("Authorization", "Bearer test-token")
			if s.Buildkite.ServeHTTP(w, r); w.Code == http.StatusServiceUnavailable {
				failed++
			}
			all++
		}
		return failed, all
	}
	registered := func(s *serve) bool {
		name := "job-" + s.Buildkite.Now().Format("1504")
		s.cluster.Run(simulation.Job{Name: name, Agents: 5, Tags: []string{"queue=large"}, IdleTimeout: time.Minute})
		s.Buildkite.Advance(100 * time.Second)
		return slices.ContainsFunc(s.Buildkite.Agents(), func(a fakebuildkite.AgentRecord) bool { return strings.HasPrefix(a.Name, name) })
	}
	effects := map[string]func(s *serve) bool{
		"buildkite-fails": func(s *serve) bool { failed, all := answers(s); return failed > 0 && failed < all },
		"buildkite-down":  func(s *serve) bool { failed, all := answers(s); return failed == all },
		"no-agents":       func(s *serve) bool { return !registered(s) },
		"no-nodes":        func(s *serve) bool { return s.cluster.Nodes == 2 },
		"no-sync":         func(s *serve) bool { return s.noSync },
	}
	for _, i := range incidents {
		ctx, cancel := context.WithCancel(t.Context())
		var errs bytes.Buffer
		clock := &jumpingClock{now: demoStart()}
		s := &serve{dir: filepath.Join(t.TempDir(), "serve"), incident: i.name, clock: clock, stderr: &errs, noSync: i.name != "no-sync"} // which takes long
		seen := map[int]bool{}
		clock.each = func(minute int) {
			switch minute {
			case 1, 4, 14:
				seen[minute] = effects[i.name](s)
			case 20:
				cancel()
			}
		}
		check(t, s.run(ctx, &bytes.Buffer{}, ""))
		if seen[1] || !seen[4] || seen[14] || len(seen) != 3 {
			t.Errorf("%s: by minute, its effect was seen: %v", i.name, seen)
		}
		if text := errs.String(); !strings.Contains(text, "begins: "+i.description) || !strings.Contains(text, "ends: "+i.description) || strings.Contains(text, "fails:") {
			t.Errorf("%s: it prints\n%s", i.name, text)
		}
	}
	if len(effects) != len(incidents) {
		t.Errorf("%d effects of %d incidents", len(effects), len(incidents))
	}
}

// TestServeSyncs asserts that serve runs the Jobs that are pushed, and prints an error of the syncer once.
func TestServeSyncs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	clock := &jumpingClock{now: demoStart()}
	s := &serve{dir: filepath.Join(t.TempDir(), "serve"), clock: clock, stderr: &errs}
	repository := gitserver.Repository{Dir: filepath.Join(s.dir, "fleet.git")}
	clock.each = func(minute int) {
		switch minute {
		case 1:
			_, err := repository.Commit("Break the list", clock.now, change("overlays/large/dispatches/kustomization.yaml", "resources: [none.yaml]\n"))
			check(t, err)
		case 9:
			cancel()
		}
	}
	check(t, s.run(ctx, &bytes.Buffer{}, ""))
	if n := strings.Count(errs.String(), "the syncer fails: syncing overlays/large"); n != 1 {
		t.Errorf("it prints the error %d times:\n%s", n, errs.String())
	}
}

// TestServeAppliesOtherOverlays asserts that an overlay that fails stops no other one, and that the command
// line has an absolute path.
func TestServeAppliesOtherOverlays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	clock := &jumpingClock{now: demoStart()}
	s := &serve{dir: filepath.Join(t.TempDir(), "serve"), clock: clock, stderr: &errs}
	repository := gitserver.Repository{Dir: filepath.Join(s.dir, "fleet.git")}
	clock.each = func(minute int) {
		switch minute {
		case 1:
			_, err := repository.Commit("Break the list of the first overlay", clock.now, change("overlays/default/dispatches/kustomization.yaml", "resources: [none.yaml]\n"))
			check(t, err)
			_, err = repository.Commit("Break the list of the other", clock.now, change("overlays/large/dispatches/kustomization.yaml", "resources: [none.yaml]\n"))
			check(t, err)
		case 5:
			cancel()
		}
	}
	check(t, s.run(ctx, &out, "muster-sim-1/muster-sim"))
	if text := errs.String(); !strings.Contains(text, "overlays/default") || !strings.Contains(text, "overlays/large") {
		t.Errorf("it prints\n%s", text)
	}
	dir, err := filepath.Abs("muster-sim-1")
	check(t, err)
	for _, command := range []string{dir + "/muster run --listen 127.0.0.1:", dir + "/muster-sim live "} {
		if !strings.Contains(out.String(), "  "+command) {
			t.Errorf("it does not print %q:\n%s", command, out.String())
		}
	}
}

// idleClock is a clock that stands still: its sleeps end with the context.
type idleClock struct{ stoppedClock }

func (idleClock) Sleep(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }

// TestServeLive asserts that the commands that serve prints let live --write run against it: nothing is contradicted,
// and nothing remains.
func TestServeLive(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	s := &serve{dir: filepath.Join(t.TempDir(), "serve"), clock: idleClock{}, stderr: io.Discard, noSync: true}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(s.run(ctx, write, ""), write.Close()) }()
	var exports, args []string
	dir := t.TempDir()
	for lines := bufio.NewScanner(read); args == nil && lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case !strings.HasPrefix(lines.Text(), "  "):
		case words[0] == "export":
			exports = append(exports, words[1:]...)
		case words[0] == "echo":
			check(t, os.WriteFile(filepath.Join(dir, strings.TrimPrefix(words[2], ">")), []byte(words[1]+"\n"), 0o600))
		case words[0] == "muster-sim" && words[1] == "live":
			args = append(words[1:], "--agent-program", filepath.Join(dir, "none"))
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	t.Chdir(dir)
	var out, errs bytes.Buffer
	p := invocation.Program{Args: args, Environ: exports, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Clock: s.Buildkite}
	code := p.Run(t.Context(), Commands)
	if text := out.String(); code != invocation.ExitOK || !regexp.MustCompile(`(?m)^stacks-runnable +confirmed`).MatchString(text) || !strings.Contains(text, "\ngit-compare-and-swap            confirmed") {
		t.Errorf("the exit code is %d, and the output\n%s\n%s", code, text, errs.String())
	}
	if p, q, k := s.Buildkite.Pipelines(), s.Buildkite.Queues(s.queues), s.Buildkite.Stacks(); len(p) > 0 || !slices.Equal(q, demoQueues) || len(k) > 0 {
		t.Errorf("left are the pipelines %q, the queues %q and the stacks %q", p, q, k)
	}
	if refs, err := (gitserver.Repository{Dir: filepath.Join(s.dir, "fleet.git")}).Git("for-each-ref", "--format=%(refname)"); err != nil || refs != "refs/heads/main\n" {
		t.Errorf("the refs are %q (%v)", refs, err)
	}
	cancel()
	check(t, <-ended)
}

// TestServeUsage asserts what serve refuses.
func TestServeUsage(t *testing.T) {
	for _, args := range [][]string{{"serve", "--incident", "flood"}, {"serve", "x", "y"}} {
		if code, _, stderr := execute(t, args...); code != invocation.ExitUsage || !strings.HasPrefix(stderr, "muster-sim: ") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}
