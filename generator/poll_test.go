package generator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// slow is a bench whose polls of Buildkite take a number of calls that wait
// before each is whole. A reading shows what there was when it began.
type slow struct {
	*bench
	waits, left int
	begun       *plan.Snapshot
	done        int            // readings
	before      func(left int) // each call
}

func (s *slow) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	if s.begun == nil {
		begun, err := s.bench.Snapshot(ctx, query)
		if err != nil {
			return begun, err
		}
		s.begun, s.left = &begun, s.waits
	}
	if s.before != nil {
		s.before(s.left)
	}
	if s.left--; s.left >= 0 {
		return plan.Snapshot{}, &buildkite.Unfinished{Wait: time.Minute, Requests: 25, PerMinute: 25}
	}
	whole := *s.begun
	if s.waits > 0 {
		whole.Until = query.At
	}
	s.begun = nil
	s.done++
	return whole, nil
}

func newSlow(waits int, names ...string) (*slow, *generator.Generator) {
	s := &slow{bench: newBench(names...), waits: waits}
	return s, s.generator(func(cfg *generator.Config) { cfg.Buildkite = s })
}

func whole(t *testing.T, g *generator.Generator) generator.Result {
	t.Helper()
	r, err := g.Whole(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOneShotWaitsOutRateLimits asserts that a command that runs once waits after a 429 of Buildkite,
// for at most five minutes in all, and then fails with that reason.
func TestOneShotWaitsOutRateLimits(t *testing.T) {
	for _, test := range []struct {
		resets []time.Duration
		waited time.Duration
		err    string
	}{
		{[]time.Duration{8 * time.Second}, 8 * time.Second, ""},
		{[]time.Duration{time.Minute, 4 * time.Minute}, 5 * time.Minute, ""},
		{[]time.Duration{time.Minute, 4*time.Minute + time.Second}, time.Minute, "is used up for another 4m1s; this command waits at most 5m0s in all"},
		{[]time.Duration{time.Hour}, 0, "is used up for another 1h0m0s; this command waits at most 5m0s in all"},
	} {
		b := newBench("a")
		b.jobs("a", 3)
		resets := test.resets
		b.onSnapshot = func() error {
			if len(resets) == 0 {
				return nil
			}
			reset := resets[0]
			resets = resets[1:]
			return &buildkite.RateLimited{Scope: "rest", Reset: reset}
		}
		_, err := b.generator().Once(t.Context())
		if waited := b.now.Sub(scenarioStart()); waited != test.waited || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%v: waited %s, %v", test.resets, waited, err)
		}
		if got := len(b.fleet.history()) > 1; got != (err == nil) {
			t.Errorf("%v: ordered is %v", test.resets, got)
		}
	}
}

// TestSpreadPoll: muster decides on a poll that took minutes; its orders have a whole lease, and are
// not repeated.
func TestSpreadPoll(t *testing.T) {
	s, g := newSlow(3, "a")
	s.jobs("a", 3)
	r := whole(t, g)
	if got := kinds(r.Operations); got != "a: dispatch 3" {
		t.Fatalf("operations %q", got)
	}
	d, end := r.Decisions[0], scenarioStart().Add(3*time.Minute)
	if x := d.Dispatch[0]; !x.At.Equal(end) || !x.NotAfter.Equal(end.Add(10*time.Minute)) {
		t.Errorf("dispatched %+v, want a lease from %s on", x, end)
	}
	if !d.Observation.At.Equal(scenarioStart()) || !d.Observation.Until.Equal(end) {
		t.Errorf("observed from %s until %s", d.Observation.At, d.Observation.Until)
	}
	if r := whole(t, g); len(r.Operations) != 0 {
		t.Errorf("and then %q", kinds(r.Operations))
	}
}

// TestLeaseEndsWhileReading: agents whose lease ends while Buildkite is read may
// have come since the reading began. They are counted on.
func TestLeaseEndsWhileReading(t *testing.T) {
	s, g := newSlow(0, "a")
	s.jobs("a", 3)
	whole(t, g)
	s.now = scenarioStart().Add(10*time.Minute + 30*time.Second) // the grace is not over
	s.waits = 4
	if r := whole(t, g); len(r.Operations) != 0 {
		t.Errorf("ordered again: %q", kinds(r.Operations))
	}
	s.waits = 0
	if r := whole(t, g); kinds(r.Operations) == "" {
		t.Error("no agent registered, and nothing was ordered")
	}
}

// TestPollDiscardedAfterRetirement: another writer retires a dispatch during a poll that does not list
// its agents. The poll is discarded.
func TestPollDiscardedAfterRetirement(t *testing.T) {
	s, g := newSlow(0, "a", "b")
	s.jobs("a", 3)
	ordered := whole(t, g).Decisions[0].Dispatch[0]
	rival := &bench{remote: s.remote, overlays: s.overlays}
	rival.snapshot.Sightings = sightings(ordered, "a")
	retires := rival.generator()
	s.waits = 2
	s.before = func(left int) {
		if left == 1 && s.done == 1 {
			rival.now = s.now.Add(5 * time.Minute) // it retires no sooner
			if got := kinds(tick(t, retires).Operations); got != "a: retire 1" {
				t.Errorf("the rival: %q", got)
			}
			s.snapshot.Jobs = nil // its agents took them
		}
	}
	if r := whole(t, g); len(r.Operations) != 0 {
		t.Errorf("ordered again: %q", kinds(r.Operations))
	}
	if s.done != 3 { // the first, the one that was dropped, and another
		t.Errorf("%d polls", s.done)
	}
}

// TestConflictAfterSpreadPoll: after a conflict, a decision on a poll that took minutes is recomputed
// on the same snapshot.
func TestConflictAfterSpreadPoll(t *testing.T) {
	s, g := newSlow(2, "a")
	s.jobs("a", 3)
	moves := 2
	s.onCommit = func([]ledger.Draft) error {
		if moves--; moves >= 0 {
			s.fleet.edit("somebody", branch.Change{Path: "README.md", Content: []byte(strings.Repeat("x", moves+1))})
			return branch.ErrMoved
		}
		return nil
	}
	r := whole(t, g)
	if kinds(r.Operations) != "a: dispatch 3" || r.Conflicts != 2 || s.done != 1 {
		t.Errorf("%q after %d conflicts and %d polls", kinds(r.Operations), r.Conflicts, s.done)
	}
}

// TestSpreadPollsAreReported: one line when polls begin to be spread over several ticks, and one
// when that ends.
func TestSpreadPollsAreReported(t *testing.T) {
	s, g := newSlow(2, "a")
	ctx, cancel := context.WithCancel(t.Context())
	begun := s.now
	s.triggers = func() {
		switch since := s.now.Sub(begun); {
		case since > time.Hour:
			cancel()
		case since > 30*time.Minute:
			s.waits = 0
		}
	}
	if err := g.Run(ctx, 15*time.Second, 0); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "spread over") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	want := []string{
		`level=WARN msg="polls are spread over several ticks: they need more than half of Buildkite's rate limit" condition=Degraded reason=RateLimited requests=25 per-minute=25 next=1m0s`,
		`level=INFO msg="resolved: polls are spread over several ticks: they need more than half of Buildkite's rate limit" condition=Degraded reason=RateLimited duration=30m15s`,
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log says\n%s", strings.Join(lines, "\n"))
	}
	if strings.Contains(s.log.String(), "tick failed") {
		t.Error("a reading that waits is no tick that failed")
	}
}

// TestScenariosWithSpreadPolls runs fault simulations with polls that take minutes, with one muster
// and with two: pages of three, and six requests a minute for each. Nothing is ordered twice.
func TestScenariosWithSpreadPolls(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, seed := range []uint64{7, 14, 28} {
		s := drawShape(seed)
		s.length, s.every, s.rates = 90*time.Minute, 15*time.Second, rates{lag: s.rates.lag, startup: s.rates.startup}
		s.http, s.perPage, s.userLimit = true, 3, 12
		if seed%2 == 0 {
			s.musters, s.stagger, s.userLimit = 2, 7*time.Second, 12
		}
		w := playPlain(t, s)
		w.conclude()
		var spread int
		for _, c := range w.fleet.history() {
			if c.operation != nil && !c.operation.Decision.Observation.Until.IsZero() {
				spread++
			}
		}
		t.Logf("seed %d: %d commits on polls that took several ticks; %s", seed, spread, w.sums())
	}
}
