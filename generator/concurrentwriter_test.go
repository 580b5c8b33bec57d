package generator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// busy is a bench on which everything takes time, and on whose branch a rival pushes
// without a pause.
type busy struct {
	*bench
	every time.Duration
	next  time.Time
	n     int
}

// pass lets time pass, and the rival push.
func (b *busy) pass(d time.Duration) {
	end := b.now.Add(d)
	for !b.next.After(end) {
		b.now, b.next = b.next, b.next.Add(b.every)
		b.n++
		b.fleet.edit("a rival", branch.Change{Path: "elsewhere.txt", Content: fmt.Append(nil, b.n)})
	}
	b.now = end
}

// Sleep implements [generator.Clock].
func (b *busy) Sleep(ctx context.Context, d time.Duration) error {
	b.pass(d)
	return ctx.Err()
}

// Head implements [generator.Repository]. It takes as long as the fetch of a small change
// does, and Commit as long as a push to a repository of 10,000 files does
// (docs/explanation/performance.md).
func (b *busy) Head(context.Context) (branch.Head, error) {
	head := b.fleet.head().head()
	b.pass(10 * time.Millisecond)
	return head, nil
}

// Commit implements [generator.Repository].
func (b *busy) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
	b.pass(27 * time.Millisecond)
	return b.bench.Commit(ctx, head, ops)
}

// Snapshot implements [generator.Buildkite]: two requests over a long line.
func (b *busy) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	s, err := b.bench.Snapshot(ctx, query)
	b.pass(300 * time.Millisecond)
	return s, err
}

// TestRivalWithoutPause: against one who pushes ten times a second for a minute, a
// commit lands at least every five seconds, and nothing is an error.
func TestRivalWithoutPause(t *testing.T) {
	b := &busy{bench: newBench("a"), every: 100 * time.Millisecond}
	b.overlays[0].spec.max = 1000
	b.fleet.edit("a person", branch.Change{Path: "overlays/a/scaling.yaml", Content: b.overlays[0].policyText()})
	start := b.now
	b.next = start
	b.jobs("a", 1)
	b.run(t, time.Second, func(int, generator.Result, error) bool {
		b.jobs("a", 1)
		return b.now.Sub(start) <= time.Minute
	}, func(c *generator.Config) { c.Repository, c.Buildkite, c.Clock = b, b, b })
	last, landed := start, 0
	for _, c := range b.fleet.history() {
		if c.who != "muster" {
			continue
		}
		if landed++; c.at.Sub(last) > 5*time.Second {
			t.Errorf("nothing landed between %s and %s", last.Sub(start), c.at.Sub(start))
		}
		last = c.at
	}
	if b.now.Sub(last) > 5*time.Second {
		t.Errorf("nothing landed after %s", last.Sub(start))
	}
	if strings.Contains(b.log.String(), "level=ERROR") || b.n < 600 {
		t.Errorf("of %d pushes of the rival's the log says\n%s", b.n, b.log.String())
	}
	t.Logf("%d commits beside %d of the rival's", landed, b.n)
}

// TestOnlyNewCommitsAreRead asserts that a tick reads no commit of the log that was there at the
// last tick. One more may cost one more request, and a writer that pushes continuously would be
// faster each time.
func TestOnlyNewCommitsAreRead(t *testing.T) {
	c := &archive{bench: newBench("a")}
	g := c.generator()
	c.jobs("a", 1)
	tick(t, g)
	for n := range 3 {
		c.read = 0
		for i := range n {
			c.fleet.edit("a rival", branch.Change{Path: "elsewhere.txt", Content: fmt.Append(nil, n, i)})
		}
		tick(t, g)
		if c.read != n {
			t.Errorf("%d commits came, and %d were read", n, c.read)
		}
	}
}
