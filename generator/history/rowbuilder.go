package history

import (
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
	// Since is the time at which reading ends; zero reads to the beginning. The first older commit
	// by muster ends it, because the clocks of people are not reliable.
	Since time.Time
	// Edits returns the changes of commits by people below the directories of [Config.Selection], one
	// value for each commit. trees contains the trees of nearby commits. If Edits is nil, commits by
	// people are omitted.
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
	// Others are by people. Unrelated of them change nothing that muster reads, and the changes of
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
		Content: func(name string) bool { return path.Base(name) == policyFile || path.Base(name) == stateFile },
	}
}

// Files of an overlay whose content is compared.
const (
	policyFile = "scaling.yaml"
	stateFile  = "state.yaml"
)

// Name returns the name of the overlay in a directory.
func (c Config) Name(dir string) string { return strings.TrimPrefix(dir, path.Clean(c.Overlays)+"/") }

// Rows returns the rows of records, which must be newest first, in the same order. It yields an
// error of the records or of Edits, and then ends. The caller may stop at any time.
func (c Config) Rows(records iter.Seq2[ledger.Record, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if c.Count == nil {
			c.Count = &Count{}
		}
		b := &rowBuilder{Config: c, max: minHeld, yield: yield}
		var last branch.Commit
		for r, err := range records {
			if err != nil {
				if b.release() {
					yield(Row{}, err)
				}
				return
			}
			if b.isBeforeSince(r) {
				last.Parents = nil
				break
			}
			last = r.Commit
			if !b.add(r) {
				return
			}
		}
		if len(last.Parents) > 0 {
			c.Count.Cut = last.ID
		}
		b.release()
	}
}

// rowBuilder makes rows of records. Rows after a commit by people are held back until there are enough
// such commits to read their changes together.
type rowBuilder struct {
	Config
	outcomes outcomes
	yield    func(Row, error) bool

	old     int   // commits in a row that are older than Since
	max     int   // maximum number of held rows
	held    []Row // one without an operation represents the rows of the next of foreign
	foreign []branch.Commit
	trees   map[string]string
}

// minHeld is the number of rows that are held back at first, so that the first rows are available
// soon. It doubles up to maxHeld.
const minHeld, maxHeld = 32, 4096

// maxOld is the number of consecutive commits by people with times before Since after which reading
// ends.
const maxOld = 256

// isBeforeSince reports whether a record and all later ones are before Since.
func (b *rowBuilder) isBeforeSince(r ledger.Record) bool {
	switch {
	case b.Since.IsZero() || !r.Commit.At.Before(b.Since):
		b.old = 0
		return false
	case r.Entry != nil:
		return true
	}
	b.old++
	return b.old > maxOld
}

// add adds the next record, and reports whether to continue.
func (b *rowBuilder) add(r ledger.Record) bool {
	b.Count.Commits++
	switch {
	case r.Entry != nil:
		b.Count.Muster++
		b.held = append(b.held, b.own(r.Entry))
	case r.Damage != nil:
		b.Count.Malformed++
		b.held = append(b.held, b.malformed(r))
	default:
		b.Count.Others++
		if b.Edits == nil {
			return true
		}
		b.held = append(b.held, Row{})
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
			b.yield(Row{}, err)
			return false
		}
		b.max = min(b.max*2, maxHeld)
	}
	next := 0 // of foreign
	for _, held := range b.held {
		rows := []Row{held}
		if held.Operation == "" {
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

// own returns the row of a commit by muster.
func (b *rowBuilder) own(e *ledger.Operation) Row {
	b.outcomes.note(e)
	row := Row{
		At: e.At, Overlay: b.Name(e.Overlay), Operation: Operation(e.Kind), Agents: e.Agents(), Dispatches: e.Dispatches(),
		Commit: e.Commit, By: e.Author, Email: e.Email, Queue: e.Observation.Queue, Version: e.Version,
	}
	if e.Kind == ledger.Dispatch {
		row.Outcome = b.outcomes.outcome(e, b.Now)
		row.Why = b.reason(e)
		return row
	}
	row.Why = ledger.Outcome(e.Orders)
	if e.Kind == ledger.Repair {
		row.Why = "muster's files were edited"
		if len(e.Repaired) == 1 {
			row.Why = e.Repaired[0] + " was edited"
		}
	}
	return row
}

// reason returns why agents were ordered, from the observation and the names of the dispatches.
func (b *rowBuilder) reason(e *ledger.Operation) string {
	pending, _ := e.Observation.Count(b.Name(e.Overlay))
	upcoming := 0
	for _, j := range e.Observation.Jobs {
		if slices.Contains(j.Overlays, b.Name(e.Overlay)) {
			upcoming += j.Upcoming
		}
	}
	var words []string
	say := func(n int, what string) {
		if n > 0 {
			words = append(words, strconv.Itoa(n)+" "+what)
		}
	}
	if e.Probe() {
		words = append(words, "probe")
	}
	say(pending, "pending")
	say(upcoming, "upcoming")
	if slices.ContainsFunc(e.Orders, func(o ledger.Order) bool { return o.Purpose == plan.ForWarmPool }) {
		words = append(words, "warm pool")
	}
	if len(words) == 0 {
		return "nothing pending"
	}
	return strings.Join(words, ", ")
}

// malformed returns the row of a commit by muster that cannot be parsed.
func (b *rowBuilder) malformed(r ledger.Record) Row {
	c := r.Commit
	return Row{At: c.At, Overlay: b.Name(r.Damage.Overlay), Operation: Malformed, Why: "cannot be read: " + r.Damage.Error(), Commit: c.ID, By: c.Author, Email: c.Email}
}
