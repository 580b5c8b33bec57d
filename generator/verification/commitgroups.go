package verification

import (
	"iter"
	"reflect"
	"slices"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Push is a run of consecutive commits that one tick of muster may have pushed together, one for
// each operation, newest first. Several instances of muster may have polled in the same second:
// see [Push.Ticks]. The zero value is empty.
type Push struct {
	Records []ledger.Record
}

// Add adds the next record of a log, newest first, if it belongs to the push, and reports
// whether it does. An empty push accepts every commit that muster made.
func (p *Push) Add(r ledger.Record) bool {
	if r.Entry == nil {
		return false
	}
	if n := len(p.Records); n > 0 {
		last := p.Records[n-1]
		same := last.Entry.Observation.At.Equal(r.Entry.Observation.At) && last.Entry.Observation.Until.Equal(r.Entry.Observation.Until)
		if !same || last.Entry.Version != r.Entry.Version || len(last.Commit.Parents) == 0 || last.Commit.Parents[0] != r.Commit.ID {
			return false
		}
	}
	p.Records = append(p.Records, r)
	return true
}

// Ticks yields each run of commits that one tick may have pushed together with a commit of
// the push, and the index of the commit in that run. The commits of a tick have the same
// observation of each queue, and at most one repair, order and retirement of each overlay,
// in that order. All of them were decided on the parent of the oldest, which may be any
// commit of the push, so that several runs are possible. The longest comes first.
func (p Push) Ticks(commit int) iter.Seq2[Push, int] {
	return func(yield func(Push, int) bool) {
		last := commit
		for t := newTick(p.Records[commit]); last+1 < len(p.Records) && t.older(p.Records[last+1]); last++ {
		}
		for ; last >= commit; last-- {
			t, first := newTick(p.Records[commit]), commit
			for _, r := range p.Records[commit+1 : last+1] {
				t.older(r)
			}
			for first > 0 && t.newer(p.Records[first-1]) {
				first--
			}
			for at := first; at <= commit; at++ { // a repair counts for the whole tick
				if at > first && p.Records[at-1].Entry.Kind != ledger.Repair {
					continue
				}
				if !yield(Push{p.Records[at : last+1]}, commit-at) {
					return
				}
			}
		}
	}
}

// tick is the common state of the commits of one tick.
type tick struct {
	polls          map[string]plan.Observation // by queue
	oldest, newest map[string]int              // ranks of operations, by overlay
}

func newTick(r ledger.Record) *tick {
	t := &tick{polls: map[string]plan.Observation{}, oldest: map[string]int{}, newest: map[string]int{}}
	t.add(r)
	return t
}

func (t *tick) add(r ledger.Record) {
	e := r.Entry
	t.polls[e.Observation.Queue] = e.Observation
	if _, known := t.oldest[e.Overlay]; !known {
		t.oldest[e.Overlay], t.newest[e.Overlay] = rank(e), rank(e)
	}
	t.oldest[e.Overlay], t.newest[e.Overlay] = min(t.oldest[e.Overlay], rank(e)), max(t.newest[e.Overlay], rank(e))
}

// older adds the commit before those of the tick if it may belong to it; newer does so for
// the commit after them.
func (t *tick) older(r ledger.Record) bool {
	at, known := t.oldest[r.Entry.Overlay]
	return t.join(r, !known || rank(r.Entry) < at)
}

func (t *tick) newer(r ledger.Record) bool {
	at, known := t.newest[r.Entry.Overlay]
	return t.join(r, !known || rank(r.Entry) > at)
}

func (t *tick) join(r ledger.Record, inOrder bool) bool {
	poll, known := t.polls[r.Entry.Observation.Queue]
	if !inOrder || known && !reflect.DeepEqual(poll, r.Entry.Observation) {
		return false
	}
	t.add(r)
	return true
}

// rank returns the position of an operation among the operations of one overlay in a tick.
func rank(e *ledger.Entry) int {
	return slices.Index([]ledger.Kind{ledger.Repair, ledger.Dispatch, ledger.Retire}, e.Kind)
}

// unit contains the commits that are verified together: those of one push, or one commit by people.
type unit struct {
	push Push
	// wanted is the number of the push's commits in the range. The others are needed to find the
	// commit that they were decided on.
	wanted int
}

// grouping makes units of records, and detects the end of the range.
type grouping struct {
	since time.Time
	count *Count
	// left are later records that the range excludes, with their ancestors; wanted are later records
	// that it includes.
	left, wanted map[string]bool
	bounded      bool // the range excludes commits
	ended        bool
	open         unit
	last         *branch.Commit
}

func newGrouping(until string, since time.Time, count *Count) *grouping {
	g := &grouping{since: since, count: count, left: map[string]bool{}, wanted: map[string]bool{}, bounded: until != ""}
	if g.bounded {
		g.left[until] = true
	}
	return g
}

// leaves reports whether the range excludes a commit.
func (g *grouping) leaves(c *branch.Commit) bool {
	if !g.bounded {
		return false
	}
	left := g.left[c.ID]
	delete(g.left, c.ID)
	delete(g.wanted, c.ID)
	for _, parent := range c.Parents {
		switch {
		case left:
			g.left[parent] = true
			delete(g.wanted, parent)
		case !g.left[parent]:
			g.wanted[parent] = true
		}
	}
	g.count.Reached = g.count.Reached || left
	return left
}

// add adds the next record, and reports whether to continue.
func (g *grouping) add(r ledger.Record, done func(unit)) bool {
	if g.ended { // earlier commits may belong to the last push
		return g.extend(r)
	}
	if g.leaves(&r.Commit) {
		g.ended = len(g.wanted) == 0
		return g.extend(r) || !g.ended
	}
	if r.Entry != nil && r.Commit.At.Before(g.since) {
		g.ended = true
		return g.extend(r)
	}
	g.last = &r.Commit
	old := r.Commit.At.Before(g.since) // by the clock of its author: reading continues
	if !old {
		g.count.Commits++
	}
	if r.Entry == nil {
		records := g.open.push.Records
		if n := len(records); n > 0 && len(records[n-1].Commit.Parents) > 0 && records[n-1].Commit.Parents[0] == r.Commit.ID {
			g.close(done)
		}
		if !old {
			done(unit{push: Push{[]ledger.Record{r}}, wanted: 1})
		}
		return true
	}
	if !g.open.push.Add(r) {
		g.close(done)
		g.open.push.Add(r)
	}
	g.open.wanted++
	return true
}

// extend adds a record outside of the range to the open push, if it belongs to it.
func (g *grouping) extend(r ledger.Record) bool {
	return len(g.open.push.Records) > 0 && g.open.push.Add(r)
}

// close ends the open push.
func (g *grouping) close(done func(unit)) {
	if len(g.open.push.Records) > 0 {
		done(g.open)
	}
	g.open = unit{}
}

// end ends the log. If the last commit has parents, the clone is shallow.
func (g *grouping) end(done func(unit)) {
	g.close(done)
	if g.last != nil && !g.ended && len(g.last.Parents) > 0 {
		g.count.Cut = g.last.ID
	}
}
