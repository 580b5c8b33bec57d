// Package history reconstructs a fleet's history from its commits alone: the reason and the outcome of
// each operation by muster, and the edits by people in between. It reads operations newest first,
// git's own order, and keeps little: commits newer than a dispatch contain its outcome, so the outcome
// is known when the dispatch is read. [ledger.Outcome] documents the observation behind each figure.
package history

import (
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Config is the input of rows.
type Config struct {
	// Overlays is the directory of overlays. The base is next to it.
	Overlays string
	// Now is the current time: orders that are older than the longest lease are not in flight.
	Now time.Time
	// Since is the time at which reading ends; zero reads to the beginning. See [ledger.Stop].
	Since time.Time
	// Edits returns the changes of commits by people below the directories of [Config.Selection], one
	// value for each commit. trees contains the trees of nearby commits. If Edits is nil, commits by
	// people are omitted, except those of commands.
	Edits func(commits []branch.Commit, trees map[string]string) ([]branch.Edits, error)
	// Count counts all commits unless it is nil.
	Count *Count
}

// Count is the number of commits that were read, by author. The zero value is ready to use.
type Count struct {
	// Commits is the number of commits read, Muster that of commits by muster.
	Commits int `json:"commits"`
	Muster  int `json:"muster"`
	// Malformed commits are by muster and cannot be parsed.
	Malformed int `json:"malformed"`
	// Others are by people, also with commands of muster. Unrelated of them change nothing that muster reads, and the changes of
	// Unknown of them cannot be determined.
	Others    int `json:"others"`
	Unrelated int `json:"unrelated"`
	Unknown   int `json:"unknown"`
	// Cut is the last commit that was read if the repository lacks its parents, as a shallow clone
	// does; empty if the history is complete.
	Cut string `json:"cut,omitempty"`
}

// base returns the directory next to the overlays that their templates build on.
func (c Config) base() string { return path.Join(path.Dir(path.Clean(c.Overlays)), "base") }

// Selection returns the files of people's commits that are read.
func (c Config) Selection() branch.Selection {
	return branch.Selection{
		Below:   []string{path.Clean(c.Overlays), c.base()},
		Content: func(name string) bool { return path.Base(name) == policyFile },
	}
}

// policyFile is the file of an overlay whose content is compared.
const policyFile = "scaling.yaml"

// Rows completes the operations of a log, which must be newest first, in the same order: it adds reasons
// and outcomes, and replaces each commit by people by its edits. With Edits, the operations are
// [ledger.Operation.Brief]. Rows yields an error of the log or of Edits, and then ends. The caller may
// stop at any time.
func (c Config) Rows(log iter.Seq2[ledger.Operation, error]) iter.Seq2[ledger.Operation, error] {
	return func(yield func(ledger.Operation, error) bool) {
		if c.Count == nil {
			c.Count = &Count{}
		}
		b := &rowBuilder{Config: c, max: minHeld, yield: yield}
		var last branch.Commit
		var cut bool
		if !c.Since.IsZero() {
			log = ledger.Stop{Since: c.Since, People: maxOld}.Apply(log)
		}
		for r, err := range log {
			if cut = errors.Is(err, ledger.ErrCut); cut {
				break
			}
			if err != nil {
				if b.release() {
					yield(ledger.Operation{}, err)
				}
				return
			}
			last = r.Commit
			if !b.add(r) {
				return
			}
		}
		if cut || c.Since.IsZero() && len(last.Parents) > 0 {
			c.Count.Cut = last.ID
		}
		b.release()
	}
}

// rowBuilder completes operations. Rows after a commit by people are held back until there are enough
// such commits to read their changes together.
type rowBuilder struct {
	Config
	outcomes outcomes
	yield    func(ledger.Operation, error) bool

	max     int                // maximum number of held rows
	held    []ledger.Operation // one without an operation represents the rows of the next of foreign
	foreign []branch.Commit
	trees   map[string]string
}

// minHeld is the number of rows that are held back at first, so that the first rows are available
// soon. It doubles up to maxHeld.
const minHeld, maxHeld = 32, 4096

// maxOld is the number of consecutive commits by people with times before Since after which reading
// ends.
const maxOld = 256

// add adds the next operation, and reports whether to continue.
func (b *rowBuilder) add(r ledger.Operation) bool {
	b.Count.Commits++
	switch {
	case r.ByMuster(), r.Kind.Command():
		if b.complete(&r); r.ByMuster() {
			b.Count.Muster++
		} else {
			b.Count.Others++
		}
		if b.Edits != nil { // many are held
			r = r.Brief()
		}
		b.held = append(b.held, r)
	case r.Damage != nil:
		b.Count.Malformed++
		r.Why = "cannot be read: " + r.Damage.Error()
		b.held = append(b.held, r)
	default:
		b.Count.Others++
		if b.Edits == nil {
			return true
		}
		b.held = append(b.held, ledger.Operation{})
		b.foreign = append(b.foreign, r.Commit)
	}
	if len(b.foreign) > 0 {
		if b.trees == nil {
			b.trees = map[string]string{}
		}
		b.trees[r.Commit.ID] = r.Commit.Tree
	}
	if len(b.foreign) > 0 && len(b.held) < b.max {
		return true
	}
	return b.release()
}

// release yields the held rows, and reports whether to continue.
func (b *rowBuilder) release() bool {
	var edits []branch.Edits
	if len(b.foreign) > 0 {
		var err error
		if edits, err = b.Edits(b.foreign, b.trees); err != nil {
			b.yield(ledger.Operation{}, err)
			return false
		}
		b.max = min(b.max*2, maxHeld)
	}
	next := 0 // of foreign
	for _, held := range b.held {
		rows := []ledger.Operation{held}
		if held.Kind == "" {
			rows = b.people(b.foreign[next], edits[next])
			next++
		}
		for _, row := range rows {
			if !b.yield(row, nil) {
				return false
			}
		}
	}
	b.held, b.foreign, b.trees = b.held[:0], nil, nil
	return true
}

// complete sets the reason and the outcome of an operation that the trailers state.
func (b *rowBuilder) complete(o *ledger.Operation) {
	b.outcomes.note(o)
	switch o.Kind {
	case ledger.Dispatch:
		o.Outcome, o.Why = b.outcomes.outcome(o, b.Now), reason(o)
	case ledger.Repair:
		o.Why = "muster's files were edited"
		if len(o.Repaired) == 1 {
			o.Why = o.Repaired[0] + " was edited"
		}
	case ledger.Cancel:
		ids := o.Dispatches()
		if rest := len(ids) - maxNamed; rest > 0 {
			ids = append(ids[:maxNamed], fmt.Sprintf("and %d more", rest))
		}
		o.Why, o.Reason = "cancels "+strings.Join(ids, ", "), reasonOf(o.Message)
	case ledger.CloseBreaker:
		o.Why, o.Reason = "closes the circuit breaker after "+ledger.Count(o.Failures, "failed order"), reasonOf(o.Message)
	default:
		o.Why = ledger.OutcomeOf(o.Orders, o.Failures)
	}
}

// reason returns why agents were ordered, from the observation and the names of the dispatches.
func reason(e *ledger.Operation) string {
	pending, _ := e.Observation.Count(e.Overlay)
	upcoming := 0
	for _, j := range e.Observation.Jobs {
		if slices.Contains(j.Overlays, e.Overlay) {
			upcoming += j.Upcoming
		}
	}
	var words []string
	say := func(n int, what string) {
		if n > 0 {
			words = append(words, strconv.Itoa(n)+" "+what)
		}
	}
	if e.Trial() {
		words = append(words, "trial")
	}
	say(pending, "pending")
	say(upcoming, "upcoming")
	if slices.ContainsFunc(e.Orders, func(o ledger.Order) bool { return o.Purpose == plan.ForWarmPool }) {
		words = append(words, "warm pool")
	}
	if len(words) == 0 {
		words = append(words, "nothing pending")
	}
	if e.Limit != "" {
		words = append(words, e.Limit)
	}
	return strings.Join(words, ", ")
}
