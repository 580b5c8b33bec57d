package generator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// bench is one Generator on a table, with everything in reach.
type bench struct {
	remote
	overlays []*overlay
	now      time.Time
	snapshot plan.Snapshot
	err      error // of Buildkite

	limits     branch.Limits
	onHead     func() error                   // before the head is read
	onSnapshot func() error                   // before a snapshot
	onCommit   func(ops []ledger.Draft) error // before a commit
	commits    int                            // that were tried
	since      []time.Time                    // the queries to Buildkite
	slept      []time.Duration
	log        bytes.Buffer
	triggers   func() // at each sleep
}

func newBench(names ...string) *bench {
	b := &bench{remote: remote{who: "muster"}, now: scenarioStart()}
	for _, name := range names {
		b.overlays = append(b.overlays, &overlay{name: name, spec: policy{
			queue: name, max: 10, lease: 10 * time.Minute, idle: 5 * time.Minute, upkeepIdle: time.Hour,
		}})
	}
	b.fleet = newFleet(b.Now, retiringFiles(b.overlays))
	return b
}

// retiringFiles are the files of overlays whose Jobs are deleted soon, so that retirements wait for five minutes
// only.
func retiringFiles(overlays []*overlay) map[string][]byte {
	all := files(overlays)
	all["base/job.yaml"] = bytes.Replace(all["base/job.yaml"], []byte("ttlSecondsAfterFinished: 3600"), []byte("ttlSecondsAfterFinished: 600"), 1)
	return all
}

func (b *bench) generator(change ...func(*generator.Config)) *generator.Generator {
	cfg := generator.Config{
		Repository: b, Buildkite: b, Clock: b, Overlays: "overlays",
		Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "head" {
				return slog.Attr{}
			}
			return a
		}})),
	}
	for _, f := range change {
		f(&cfg)
	}
	return generator.New(cfg)
}

func (b *bench) Now() time.Time { return b.now }

func (b *bench) Sleep(ctx context.Context, d time.Duration) error {
	b.slept = append(b.slept, d)
	b.now = b.now.Add(d)
	if b.triggers != nil {
		b.triggers()
	}
	return ctx.Err()
}

func (b *bench) Head(ctx context.Context) (branch.Head, error) {
	if b.onHead != nil {
		if err := b.onHead(); err != nil {
			return branch.Head{}, err
		}
	}
	return b.remote.Head(ctx)
}

func (b *bench) Limits() branch.Limits { return b.limits }

func (b *bench) Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	b.commits++
	if b.onCommit != nil {
		if err := b.onCommit(ops); err != nil {
			return branch.Head{}, err
		}
	}
	return b.remote.Commit(ctx, head, ops)
}

func (b *bench) Snapshot(_ context.Context, query plan.Query) (plan.Snapshot, error) {
	b.since = append(b.since, query.Since)
	if b.onSnapshot != nil {
		if err := b.onSnapshot(); err != nil {
			return plan.Snapshot{}, err
		}
	}
	s := b.snapshot
	s.At = query.At
	return s, b.err
}

// jobs sets the number of runnable jobs of a queue.
func (b *bench) jobs(queue string, n int) {
	for i := range n {
		b.snapshot.Jobs = append(b.snapshot.Jobs, plan.Job{
			ID: fmt.Sprintf("%s-%d", queue, i), Rules: []string{"queue=" + queue}, State: plan.JobPending, Since: b.now.Add(-time.Second), URL: "https://buildkite.com/acme/1",
		})
	}
}

// sightings are the agents of a dispatch that have had a job.
func sightings(d plan.Dispatch, queue string) []plan.Sighting {
	var all []plan.Sighting
	for i := range d.Agents {
		all = append(all, plan.Sighting{
			Agent: fmt.Sprint(d.ID, i), Tags: []string{"queue=" + queue, "dispatch=" + d.ID, fmt.Sprintf("index=%d", i), "overlay=" + queue},
		})
	}
	return all
}

// afterTick is called after each tick of a loop with the number of ticks. The loop ends if it
// returns false.
type afterTick func(ticks int, r generator.Result, err error) (more bool)

// run runs the loop until after ends it.
func (b *bench) run(t *testing.T, interval time.Duration, after afterTick, change ...func(*generator.Config)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ticks := 0
	g := b.generator(append(change, func(c *generator.Config) {
		c.Done = func(r generator.Result, err error) {
			if ticks++; !after(ticks, r, err) {
				stop()
			}
		}
	})...)
	if err := g.Run(ctx, interval, 0); err != nil {
		t.Fatal(err)
	}
}

func tick(t *testing.T, g *generator.Generator) generator.Result {
	t.Helper()
	r, err := g.Tick(t.Context())
	if err != nil {
		t.Fatalf("tick: %v", err)
	}
	return r
}

// kinds describes operations, as in "default: dispatch 12; default: retire 1".
func kinds(ops []ledger.Draft) string {
	words := make([]string, len(ops))
	for i, a := range ops {
		d := a.Decision
		switch a.Kind {
		case ledger.Dispatch:
			words[i] = fmt.Sprintf("%s: dispatch %d", d.Overlay, d.Figures.Dispatch)
		case ledger.Withdraw, ledger.Retire:
			words[i] = fmt.Sprintf("%s: %s %d", d.Overlay, a.Kind, len(a.Retirements()))
		default:
			words[i] = fmt.Sprintf("%s: %s", d.Overlay, a.Kind)
		}
	}
	return strings.Join(words, "; ")
}

// TestTickPollsAgainAfterConflict: after a conflict, the tick decides on the new head.
func TestTickPollsAgainAfterConflict(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	b.onCommit = func([]ledger.Draft) error {
		if b.commits == 1 {
			b.overlays[0].spec.max = 1
			b.fleet.edit("a person", branch.Change{Path: "overlays/a/scaling.yaml", Content: b.overlays[0].policyText()})
			b.snapshot.Jobs = b.snapshot.Jobs[:2]
		}
		return nil
	}
	r := tick(t, b.generator())
	if got := kinds(r.Operations); got != "a: dispatch 1" || r.Conflicts != 1 || len(b.since) != 2 || r.Decisions[0].Figures.Pending != 2 {
		t.Errorf("%q after %d conflicts and %d polls, want one operation after 1 and 2", got, r.Conflicts, len(b.since))
	}
	if len(b.slept) != 0 {
		t.Errorf("slept %v before the second poll", b.slept)
	}
}

// TestTickFailsAfterRepeatedConflicts: a tick fails after 16 tries, or after four seconds and at
// least five. From the third try, it waits with exponential back-off, at most 0.4 s.
func TestTickFailsAfterRepeatedConflicts(t *testing.T) {
	for _, each := range []time.Duration{0, 2 * time.Second} { // that a try takes
		b := newBench("a")
		b.jobs("a", 3)
		b.onCommit = func([]ledger.Draft) error {
			b.now = b.now.Add(each)
			return fmt.Errorf("pushing: %w", branch.ErrMoved)
		}
		start := b.now
		r, err := b.generator().Tick(t.Context())
		if !errors.Is(err, generator.ErrConflicts) || r.Conflicts < 5 || b.commits != r.Conflicts || len(r.Operations) != 0 {
			t.Errorf("%v after %d conflicts, %d tried, operations %v", err, r.Conflicts, b.commits, r.Operations)
		}
		if len(b.slept) != r.Conflicts-2 {
			t.Errorf("slept %v", b.slept)
		}
		for i, d := range b.slept {
			if longest := 100 * time.Millisecond << min(i, 2); d < 0 || d >= longest {
				t.Errorf("the wait number %d is %s, want less than %s", i, d, longest)
			}
		}
		took := b.now.Sub(start)
		early, late := r.Conflicts < 16 && took < 4*time.Second, r.Conflicts > 16 || took > 4400*time.Millisecond
		if slow := each > 0; slow && r.Conflicts != 5 || !slow && (early || late) {
			t.Errorf("%d conflicts took %s", r.Conflicts, took)
		}
	}
}

// TestBackOffEndsWithContext: BackOff returns when its context ends.
func TestBackOffEndsWithContext(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	b.onCommit = func([]ledger.Draft) error { return branch.ErrMoved }
	ctx, stop := context.WithCancel(t.Context())
	b.triggers = stop
	if _, err := b.generator().Tick(ctx); !errors.Is(err, context.Canceled) || b.commits != 2 {
		t.Errorf("%v after %d pushes, want the context's error after 2", err, b.commits)
	}
}

func TestFaultsCommitNothing(t *testing.T) {
	trouble := errors.New("the line is dead")
	for name, c := range map[string]struct {
		prepare func(b *bench)
		want    string
	}{
		"buildkite": {func(b *bench) { b.err = trouble }, "observing Buildkite: the line is dead"},
		"push":      {func(b *bench) { b.onCommit = func([]ledger.Draft) error { return trouble } }, "committing: the line is dead"},
		"no overlays": {func(b *bench) {
			var gone []branch.Change
			for name := range b.fleet.head().tree.files {
				gone = append(gone, branch.Change{Path: name})
			}
			b.fleet.edit("a person", gone...)
		}, "no overlays can be read below "},
	} {
		b := newBench("a")
		b.jobs("a", 3)
		c.prepare(b)
		before, g := b.fleet.head().id, b.generator()
		for range 1100 { // some hours
			r, err := g.Tick(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || len(r.Operations) != 0 || b.fleet.head().id != before {
				t.Fatalf("%s: error %v, operations %v; want %q and none", name, err, r.Operations, c.want)
			}
			b.now = b.now.Add(15 * time.Second)
		}
	}
}

func TestDryRun(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	before := b.fleet.head().id
	r, err := b.generator(func(c *generator.Config) { c.DryRun = true }).Once(t.Context())
	if err != nil || kinds(r.Operations) != "a: dispatch 3" || b.commits != 0 || b.fleet.head().id != before || r.Head.Commit != before {
		t.Errorf("operations %q, %d pushes, error %v; want one operation and no push", kinds(r.Operations), b.commits, err)
	}
	if want := "level=INFO msg=\"dry run: dispatched\" overlay=a queue=a agents=3 dispatch="; !strings.HasPrefix(b.log.String(), want) || strings.Count(b.log.String(), "\n") != 1 {
		t.Errorf("log %q, want one line that begins %q", b.log.String(), want)
	}
}

// TestSince: finished builds are requested only as far back as needed.
func TestSince(t *testing.T) {
	b := newBench("a")
	g := b.generator()
	start := b.now
	next := func(after time.Duration) generator.Result {
		b.now = start.Add(after)
		return tick(t, g)
	}
	next(0) // nothing on order
	b.jobs("a", 3)
	first := next(time.Minute).Operations[0].Decision.Dispatch[0]
	next(2 * time.Minute) // the order is new
	next(3 * time.Minute) // it was connected at the last poll
	next(9 * time.Minute) // which may have been long ago
	b.err = errors.New("no answer")
	b.now = start.Add(10 * time.Minute)
	if _, err := g.Tick(t.Context()); err == nil {
		t.Fatal("want an error")
	}
	b.err = nil
	b.snapshot = plan.Snapshot{Sightings: sightings(first, "a")[:2]}
	next(10 * time.Minute) // the last poll failed
	b.snapshot = plan.Snapshot{Sightings: sightings(first, "a")}
	next(11 * time.Minute) // one was missing until now
	next(12 * time.Minute) // nothing is missing
	var got []time.Duration
	for _, s := range b.since {
		if s.IsZero() {
			got = append(got, -1)
		} else {
			got = append(got, s.Sub(start))
		}
	}
	m := time.Minute
	want := []time.Duration{-1, -1, -4 * m, -3 * m, -2 * m, 4 * m, 4 * m, 5 * m, -1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("asked for builds since, after the start, -1 for none (-want +got):\n%s", diff)
	}
}

// TestRestart: a new process finds the agents of a dispatch from Buildkite
// alone, asking back to the order.
func TestRestart(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	d := tick(t, b.generator()).Operations[0].Decision.Dispatch[0]
	b.now = b.now.Add(4 * time.Minute)
	b.snapshot = plan.Snapshot{Sightings: sightings(d, "a")}
	g := b.generator()
	if r := tick(t, g); len(r.Operations) != 0 || len(r.Decisions[0].Retire) != 1 {
		t.Errorf("operations %v, retirements %v; want one that can wait", kinds(r.Operations), r.Decisions[0].Retire)
	}
	if since := b.since[len(b.since)-1]; !since.Equal(d.At.Add(-5 * time.Minute)) {
		t.Errorf("asked for builds since %s, want five minutes before the order at %s", since, d.At)
	}
	b.snapshot = plan.Snapshot{}
	b.now = b.now.Add(5 * time.Minute)
	r := tick(t, g)
	if got := kinds(r.Operations); got != "a: retire 1" || r.Operations[0].Decision.Retire[0].Reason != plan.AllRegistered {
		t.Errorf("operations %q, want the retirement of a settled order", got)
	}
	if names := b.fleet.head().tree.below("overlays/a/dispatches"); !slices.Equal(names, []string{"kustomization.yaml", "state.yaml"}) {
		t.Errorf("dispatches holds %v", names)
	}
}

// TestRetirementWaits: a retirement that can wait does so although others push, and one that is due is pushed
// alone.
func TestRetirementWaits(t *testing.T) {
	b := newBench("a", "b")
	b.jobs("a", 3)
	g := b.generator()
	d := tick(t, g).Operations[0].Decision.Dispatch[0]
	b.now = b.now.Add(time.Minute)
	b.snapshot = plan.Snapshot{Sightings: sightings(d, "a")}
	if r := tick(t, g); len(r.Operations) != 0 {
		t.Errorf("operations %q, want none yet", kinds(r.Operations))
	}
	b.jobs("a", 1)
	b.jobs("b", 1)
	if got, want := kinds(tick(t, g).Operations), "a: dispatch 1; b: dispatch 1"; got != want {
		t.Errorf("operations %q, want %q", got, want)
	}
	b.now = b.now.Add(5 * time.Minute)
	if got, want := kinds(tick(t, g).Operations), "a: retire 1"; got != want {
		t.Errorf("operations %q, want %q", got, want)
	}
}

// TestConditionsAreLoggedOnce: what is wrong is logged when it appears and when
// it is resolved, and the other overlays are served meanwhile.
func TestConditionsAreLoggedOnce(t *testing.T) {
	b := newBench("a", "b")
	b.jobs("b", 2)
	b.snapshot.Jobs = append(b.snapshot.Jobs, plan.Job{ID: "x", Rules: []string{"queue=b", "os=plan9"}, State: plan.JobPending, URL: "https://buildkite.com/acme/7"})
	policy := branch.Change{Path: "overlays/a/scaling.yaml", Content: []byte("spec: 7\n")}
	b.fleet.edit("a person", policy)
	b.fleet.edit("a person", branch.Change{Path: "overlays/b/dispatches/state.yaml", Content: []byte("nonsense\n")})
	b.run(t, 15*time.Second, func(ticks int, r generator.Result, err error) bool {
		if err != nil {
			t.Errorf("tick %d: %v", ticks, err)
		}
		switch ticks {
		case 1:
			if kinds(r.Operations) != "b: repair; b: dispatch 2" || len(r.Suspended) != 1 || r.Suspended[0].Overlay != "a" || len(r.Warnings) != 1 {
				t.Errorf("operations %q, suspended %v, warnings %v", kinds(r.Operations), r.Suspended, r.Warnings)
			}
		case 3:
			policy.Content = b.overlays[0].policyText()
			b.fleet.edit("a person", policy)
			b.snapshot.Jobs = nil
		}
		return ticks < 5
	})
	var lines []string
	for line := range strings.Lines(b.log.String()) {
		if !strings.HasPrefix(line, "level=DEBUG") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	counts := map[string]int{}
	for _, want := range []string{"level=ERROR msg=\"suspended: overlays/a/", "level=WARN msg=\"overlays/b/dispatches/state.yaml", "level=WARN msg=\"jobs match no overlay of their queue",
		"level=INFO msg=repaired overlay=b queue=b", "level=INFO msg=dispatched overlay=b queue=b agents=2 dispatch=b-",
		"level=INFO msg=\"resolved: suspended: overlays/a/", "level=INFO msg=\"resolved: jobs match no", "level=INFO msg=\"resolved: overlays/b/"} {
		for _, line := range lines {
			if strings.HasPrefix(line, want) {
				counts[want]++
			}
		}
		if counts[want] != 1 {
			t.Errorf("%d lines begin %q, want one", counts[want], want)
		}
	}
	if len(lines) != 8 {
		t.Errorf("%d lines above debug, want 8:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// TestConditionOfUnobservedQueue: a tick that did not poll a queue does not resolve its unserved jobs.
func TestConditionOfUnobservedQueue(t *testing.T) {
	b := newBench("a", "b")
	b.snapshot.Jobs = []plan.Job{{ID: "x", Rules: []string{"queue=a", "os=plan9"}, State: plan.JobPending}}
	b.run(t, 15*time.Second, func(ticks int, _ generator.Result, _ error) bool {
		switch ticks {
		case 1:
			b.fleet.edit("a person", branch.Change{Path: "overlays/a/scaling.yaml", Content: []byte("spec: 7\n")})
		case 3:
			b.fleet.edit("a person", branch.Change{Path: "overlays/a/scaling.yaml", Content: b.overlays[0].policyText()})
			b.snapshot.Jobs = nil
		}
		return ticks < 4
	})
	if n := strings.Count(b.log.String(), "resolved: jobs match no overlay"); n != 1 {
		t.Errorf("resolved %d times, want once, when the queue is looked at again:\n%s", n, b.log.String())
	}
	if at, suspended := strings.Index(b.log.String(), "resolved: jobs match"), strings.Index(b.log.String(), "resolved: suspended"); at < suspended-200 {
		t.Errorf("resolved too early:\n%s", b.log.String())
	}
}

// retryAfter is the error of a host that limits requests.
type retryAfter time.Duration

func (r retryAfter) Error() string             { return fmt.Sprintf("retry after %s", time.Duration(r)) }
func (r retryAfter) RetryAfter() time.Duration { return time.Duration(r) }

// TestRunWaits: a tick each interval whatever a tick takes, longer when Buildkite or the git host asks for
// it, without a request meanwhile, and an end when the context ends.
func TestRunWaits(t *testing.T) {
	b := newBench("a")
	var starts []time.Duration
	var limited error
	asked := 0
	b.onHead = func() error {
		asked++
		return limited
	}
	b.run(t, 15*time.Second, func(ticks int, _ generator.Result, err error) bool {
		starts = append(starts, b.now.Sub(scenarioStart()))
		b.err, limited, b.onCommit = nil, nil, nil
		switch ticks {
		case 1:
			b.now = b.now.Add(5 * time.Second) // a slow tick
		case 2:
			b.now = b.now.Add(40 * time.Second) // a very slow one
		case 3:
			b.err = fmt.Errorf("listing: %w", &buildkite.RateLimited{Scope: "rest", Reset: 50 * time.Second})
		case 5:
			limited = fmt.Errorf("reading: %w", retryAfter(50*time.Second))
		case 6:
			b.jobs("a", 1)
			b.onCommit = func([]ledger.Draft) error { return retryAfter(50 * time.Second) }
		}
		if failed := err != nil; failed != (ticks == 4 || ticks == 6 || ticks == 7) {
			t.Errorf("tick %d: %v", ticks, err)
		}
		return ticks < 8
	})
	const s = time.Second
	want := []time.Duration{0, 15 * s, 55 * s, 70 * s, 120 * s, 135 * s, 185 * s, 235 * s}
	if diff := cmp.Diff(want, starts); diff != "" || asked != len(want) {
		t.Errorf("%d requests, ticks (-want +got):\n%s", asked, diff)
	}
	log := b.log.String()
	if n := strings.Count(log, "level=WARN msg=\"tick failed\""); n != 3 || strings.Contains(log, "level=ERROR") {
		t.Errorf("%d warnings logged, want 3 and no error: %s", n, log)
	}
}

// TestRunJitter: the first tick waits a part of the jitter.
func TestRunJitter(t *testing.T) {
	b := newBench("a")
	ctx, stop := context.WithCancel(t.Context())
	g := b.generator(func(c *generator.Config) { c.Done = func(generator.Result, error) { stop() } })
	if err := g.Run(ctx, 15*time.Second, 10*time.Second); err != nil || len(b.slept) != 2 || b.slept[0] < 0 || b.slept[0] >= 10*time.Second {
		t.Errorf("slept %v, error %v; want less than 10 s first", b.slept, err)
	}
	b.slept = nil
	if err := g.Run(ctx, 15*time.Second, 10*time.Second); err != nil || len(b.since) != 1 {
		t.Errorf("error %v, %d polls; want none after the context has ended", err, len(b.since))
	}
}
