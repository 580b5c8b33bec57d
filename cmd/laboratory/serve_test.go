package laboratory

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	check(t, s.run(ctx, &out, "bin/muster"))
	if text := errs.String(); !strings.Contains(text, "overlays/default") || !strings.Contains(text, "overlays/large") {
		t.Errorf("it prints\n%s", text)
	}
	abs, err := filepath.Abs("bin/muster")
	check(t, err)
	if !strings.Contains(out.String(), "  "+abs+" run --listen 127.0.0.1:") {
		t.Errorf("it prints\n%s", out.String())
	}
}

// TestServeUsage asserts what serve refuses.
func TestServeUsage(t *testing.T) {
	for _, args := range [][]string{{"serve", "--incident", "flood"}, {"serve", "x", "y"}} {
		if code, _, stderr := execute(t, args...); code != invocation.ExitUsage || !strings.HasPrefix(stderr, "muster-sim: ") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}
