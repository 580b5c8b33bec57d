package history

import (
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Config says what rows are made of.
type Config struct {
	// Overlays is the directory of overlays. The base is next to it.
	Overlays string
	// Now is when the history is read: what was ordered longer ago than any lease lasts
	// is not in flight.
	Now time.Time
	// Since is the time at which reading ends; zero reads to the beginning. The first older commit
	// by muster ends it, because the clocks of people are not reliable.
	Since time.Time
	// Edits says what commits of people have changed, a value for each of them, below
	// the directories of [Config.Selection]. trees has the trees of other commits near them. Nil
	// leaves people's commits out.
	Edits func(commits []branch.Commit, trees map[string]string) ([]branch.Edits, error)
	// Count counts every commit; nil: no counting.
	Count *Count
}

// Count is how many commits were read, and of whom. The zero value is ready.
type Count struct {
	// Commits is the number of commits read, Muster that of commits by muster.
	Commits int `json:"commits"`
	Muster  int `json:"muster"`
	// Malformed were muster's and cannot be read.
	Malformed int `json:"malformed"`
	// Others are people's, Elsewhere of them touch nothing that muster reads, and
	// of Unknown it cannot be said what they changed.
	Others    int `json:"others"`
	Unrelated int `json:"unrelated"`
	Unknown   int `json:"unknown"`
	// Cut is the last commit that was read, where it has parents that this repository does
	// not have: a shallow clone. Empty: the history has no more.
	Cut string `json:"cut,omitempty"`
}

// base returns the directory next to the overlays that their templates build on.
func (c Config) base() string { return path.Join(path.Dir(path.Clean(c.Overlays)), "base") }

// Selection says which files of people's commits are looked at.
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

// Name is the name of the overlay in a directory.
func (c Config) Name(dir string) string { return strings.TrimPrefix(dir, path.Clean(c.Overlays)+"/") }

// Rows returns the rows of records, which must be newest first, in the same order. It yields an
// error of the records or of Edits, and then ends. The caller may stop at any time.
func (c Config) Rows(records iter.Seq2[ledger.Record, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if c.Count == nil {
			c.Count = &Count{}
		}
		m := &maker{Config: c, max: minHeld, yield: yield}
		var last branch.Commit
		for r, err := range records {
			if err != nil {
				if m.release() {
					yield(Row{}, err)
				}
				return
			}
			if m.past(r) {
				last.Parents = nil
				break
			}
			last = r.Commit
			if !m.add(r) {
				return
			}
		}
		if len(last.Parents) > 0 {
			c.Count.Cut = last.ID
		}
		m.release()
	}
}

// maker makes rows of records. What comes after a commit of people's is held back,
// until there are enough of those to look at together.
type maker struct {
	Config
	fates fates
	yield func(Row, error) bool

	old     int   // commits in a row that are older than Since
	max     int   // that are held back
	held    []Row // one without an operation represents the rows of the next of foreign
	foreign []branch.Commit
	trees   map[string]string
}

// minHeld and maxHeld are how many rows are held back at first, so that the first
// ones come soon, and later.
const minHeld, maxHeld = 32, 4096

// maxOld are the commits of people in a row after which what is older than Since is
// believed to be.
const maxOld = 256

// past reports whether a record, and all that follow, are older than is wanted.
func (m *maker) past(r ledger.Record) bool {
	switch {
	case m.Since.IsZero() || !r.Commit.At.Before(m.Since):
		m.old = 0
		return false
	case r.Entry != nil:
		return true
	}
	m.old++
	return m.old > maxOld
}

// add takes the next record, and reports whether more are wanted.
func (m *maker) add(r ledger.Record) bool {
	m.Count.Commits++
	switch {
	case r.Entry != nil:
		m.Count.Muster++
		m.held = append(m.held, m.own(r.Entry))
	case r.Damage != nil:
		m.Count.Malformed++
		m.held = append(m.held, m.malformed(r))
	default:
		m.Count.Others++
		if m.Edits == nil {
			return true
		}
		m.held = append(m.held, Row{})
		m.foreign = append(m.foreign, r.Commit)
	}
	if len(m.foreign) > 0 {
		if m.trees == nil {
			m.trees = map[string]string{}
		}
		m.trees[r.Commit.ID] = r.Commit.Tree
	}
	if len(m.foreign) > 0 && len(m.held) < m.max {
		return true
	}
	return m.release()
}

// release yields what is held back, and reports whether more is wanted.
func (m *maker) release() bool {
	var edits []branch.Edits
	if len(m.foreign) > 0 {
		var err error
		if edits, err = m.Edits(m.foreign, m.trees); err != nil {
			m.yield(Row{}, err)
			return false
		}
		m.max = min(m.max*2, maxHeld)
	}
	next := 0 // of foreign
	for _, held := range m.held {
		rows := []Row{held}
		if held.Operation == "" {
			rows = m.people(m.foreign[next], edits[next])
			next++
		}
		for _, row := range rows {
			if !m.yield(row, nil) {
				return false
			}
		}
	}
	m.held, m.foreign, m.trees = m.held[:0], nil, nil
	return true
}

// own returns the row of a commit by muster.
func (m *maker) own(e *ledger.Entry) Row {
	m.fates.note(e)
	row := Row{
		At: e.At, Overlay: m.Name(e.Overlay), Operation: Operation(e.Kind), Agents: e.Agents, Dispatches: e.Dispatches,
		Commit: e.Commit, By: e.Author, Email: e.Email, Queue: e.Observation.Queue, Version: e.Version,
	}
	if e.Kind == ledger.Dispatch {
		row.Outcome = m.fates.outcome(e, m.Now)
		row.Why = m.reason(e)
		return row
	}
	row.Why = tail(e.Summary)
	if row.Why == "" {
		row.Why = "files of muster's were edited"
	}
	return row
}

// probeRule is how a summary says that an agent is a probe.
const probeRule = " as a probe"

// reason says what asked for agents: what the observation has, and what the names of
// the dispatches tell.
func (m *maker) reason(e *ledger.Entry) string {
	pending, _ := e.Observation.Count(m.Name(e.Overlay))
	upcoming := 0
	for _, j := range e.Observation.Jobs {
		if slices.Contains(j.Overlays, m.Name(e.Overlay)) {
			upcoming += j.Upcoming
		}
	}
	var words []string
	say := func(n int, what string) {
		if n > 0 {
			words = append(words, strconv.Itoa(n)+" "+what)
		}
	}
	if strings.HasSuffix(e.Summary, probeRule) {
		words = append(words, "probe")
	}
	say(pending, "pending")
	say(upcoming, "upcoming")
	if slices.ContainsFunc(e.Dispatches, plan.WarmPoolID) {
		words = append(words, "warm pool")
	}
	if len(words) == 0 {
		return "nothing pending"
	}
	return strings.Join(words, ", ")
}

// headRule is the beginning of a summary, as in "retire 2 dispatches, ".
var headRule = regexp.MustCompile(`^(?:repair dispatches/|retire [0-9]+ dispatch(?:es)?)(?:, )?`)

// tail is what a summary says beyond the act.
func tail(summary string) string { return headRule.ReplaceAllString(summary, "") }

// malformed is the row of a commit that was muster's.
func (m *maker) malformed(r ledger.Record) Row {
	c := r.Commit
	overlay, _, _ := strings.Cut(c.Message, ":") // by its subject; a message is damaged only where that can be read
	return Row{At: c.At, Overlay: strings.TrimSpace(overlay), Operation: Malformed, Why: "cannot be read: " + r.Damage.Error(), Commit: c.ID, By: c.Author, Email: c.Email}
}
