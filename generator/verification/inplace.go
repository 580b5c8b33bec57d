package verification

import (
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// unit is a commit to verify.
type unit struct {
	op ledger.Operation
	// inPlace reports whether an operation of muster is where it was pushed: its parent is the commit
	// that it was decided on, or an operation in place that was decided on the same commit. Of each
	// overlay there is one operation of each kind. A command makes one commit, on its parent. Commits that
	// were rebased, squashed, cherry-picked or copied are not in place.
	inPlace bool
	known   bool // inPlace is known; true for other commits
	wanted  bool // in the range
}

// chain is a run of consecutive operations that were decided on the same commit, the newest first.
type chain struct {
	base  string
	units []*unit
	has   map[operationKey]bool
}

type operationKey struct {
	overlay string
	kind    ledger.Kind
}

// sequence makes units of operations, which must be newest first, and detects the end of the range.
type sequence struct {
	since time.Time
	count *Count
	// excluded are older commits that the range excludes, with their ancestors; included are older
	// commits that it includes.
	excluded, included map[string]bool
	bounded            bool // the range excludes commits
	ended              bool
	last               *branch.Commit
	queue              []*unit             // those that are not passed on yet
	open               map[string][]*chain // by the commit that comes next
	read               map[string]bool     // commits: those of merged lines are not always read before their parents
}

func newSequence(until string, since time.Time, count *Count) *sequence {
	s := &sequence{since: since, count: count, excluded: map[string]bool{}, included: map[string]bool{}, bounded: until != "", open: map[string][]*chain{}, read: map[string]bool{}}
	if s.bounded {
		s.excluded[until] = true
	}
	return s
}

// excludes reports whether the range excludes a commit.
func (s *sequence) excludes(c *branch.Commit) bool {
	if !s.bounded {
		return false
	}
	excluded := s.excluded[c.ID]
	delete(s.excluded, c.ID)
	delete(s.included, c.ID)
	for _, parent := range c.Parents {
		switch {
		case excluded:
			s.excluded[parent] = true
			delete(s.included, parent)
		case !s.excluded[parent]:
			s.included[parent] = true
		}
	}
	s.count.Reached = s.count.Reached || excluded
	return excluded
}

// add adds the next operation, calls done for the units that are known, and reports whether to continue.
func (s *sequence) add(r ledger.Operation, done func(*unit)) bool {
	u := &unit{op: r, known: !r.ByMuster(), inPlace: r.Kind.Command() && slices.Contains(r.Parents, r.Base)}
	switch {
	case s.ended:
	case s.excludes(&r.Commit):
		s.ended = len(s.included) == 0
	case r.ByMuster() && r.Commit.At.Before(s.since):
		s.ended = true
	default:
		s.last = &r.Commit
		u.wanted = !r.Commit.At.Before(s.since) || r.ByMuster() // otherwise it is old by the clock of its author: reading continues
		if !r.Commit.At.Before(s.since) {
			s.count.Commits++
		}
	}
	s.place(u)
	if u.wanted {
		s.queue = append(s.queue, u)
	}
	s.pass(done)
	return !s.ended || len(s.open) > 0 // the last operations may be in place
}

// place finds out whether the operations that were waiting for the commit of a unit are in place.
func (s *sequence) place(u *unit) {
	waiting := s.open[u.op.ID]
	delete(s.open, u.op.ID)
	s.read[strings.Clone(u.op.ID)] = true
	var own *chain
	for _, c := range waiting {
		switch {
		case !c.continues(&u.op):
			c.settle(false)
		case own == nil:
			own = c
		default: // two lines of history begin here
			for k := range c.has {
				own.has[k] = true
			}
			own.units = append(own.units, c.units...)
		}
	}
	if !u.op.ByMuster() || own == nil && !u.wanted {
		return
	}
	if own == nil {
		own = &chain{base: u.op.Base, has: map[operationKey]bool{}}
	}
	own.units = append(own.units, u)
	own.has[keyOf(&u.op)] = true
	switch parents := u.op.Parents; {
	case len(parents) == 0:
		own.settle(false)
	case parents[0] == own.base:
		own.settle(true)
	case s.read[parents[0]]:
		own.settle(false)
	default:
		s.open[parents[0]] = append(s.open[parents[0]], own)
	}
}

func keyOf(e *ledger.Operation) operationKey { return operationKey{e.Path, e.Kind} }

// continues reports whether the operation of an older commit belongs to the chain.
func (c *chain) continues(e *ledger.Operation) bool {
	return e.ByMuster() && e.Base == c.base && !c.has[keyOf(e)]
}

// settle sets whether the operations are in place.
func (c *chain) settle(inPlace bool) {
	for _, u := range c.units {
		u.inPlace, u.known = inPlace, true
	}
}

// pass passes on the first units, up to one that is not known.
func (s *sequence) pass(done func(*unit)) {
	for len(s.queue) > 0 && s.queue[0].known {
		done(s.queue[0])
		s.queue = s.queue[1:]
	}
}

// end ends the log. If the last commit has parents, the clone is shallow: the commits on which its last
// operations were decided are missing.
func (s *sequence) end(done func(*unit)) {
	for _, chains := range s.open {
		for _, c := range chains {
			c.settle(true)
		}
	}
	s.pass(done)
	if s.last != nil && !s.ended && len(s.last.Parents) > 0 {
		s.count.Cut = s.last.ID
	}
}
