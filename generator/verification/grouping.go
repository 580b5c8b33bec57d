package verification

import (
	"time"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

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
