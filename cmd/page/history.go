package page

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/generator"
	audit "muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
)

const (
	// keptFor is the length of the timeline.
	keptFor = 24 * time.Hour
	// maxPoints and maxMarks are the maximum numbers for one overlay. All overlays together have at
	// most maxAllPoints, in equal shares. The oldest are dropped.
	maxPoints    = 3000
	maxAllPoints = 200_000
	maxMarks     = 1000
	// maxPast is the maximum number of operations from git.
	maxPast = 50
)

// The quantities of a point, in the order of its values.
const (
	pending = iota
	busy
	idle
	inFlight
	quantities
	limit = quantities // max of the policy; commits do not record it
)

// unknown is the value of an unknown quantity.
const unknown = -1

// figures are the values of an overlay at a time.
type figures struct {
	values [quantities + 1]int32
	// oldest is since when the oldest pending job waits, in Unix seconds; zero: none does, or unknown.
	oldest int64
}

// point contains the figures of an overlay from a time until they were last observed, in Unix
// seconds because there are many points.
type point struct {
	at, until int64
	figures
}

// mark is one dispatch commit.
type mark struct {
	at     time.Time
	agents int
	text   string
	key    string
}

// track is the history of one overlay, oldest first.
type track struct {
	points []point
	marks  []mark
}

// history contains the data of the timeline and of the list of operations: the ticks of this
// process, and before them the commits. It is safe for concurrent use. Times without a change
// need no memory.
type history struct {
	overlays string // the directory of overlays
	mu       sync.Mutex
	tracks   map[string]*track
	past     []ledger.Operation // from git, newest first
	from     time.Time          // the first tick; zero: none
	gap      time.Duration      // the longest time between two ticks in which the figures are known
	problem  string             // why git's history is missing; empty: it is present
	limited  audit.Limited
	policies map[string]plan.Policy // by overlay
}

func newHistory(overlays string, gap time.Duration) *history {
	return &history{overlays: path.Clean(overlays), gap: gap, tracks: map[string]*track{}, policies: map[string]plan.Policy{}, problem: "it has not been read yet"}
}

func (h *history) track(name string) *track {
	if h.tracks[name] == nil {
		h.tracks[name] = &track{}
	}
	return h.tracks[name]
}

// addTick adds the result of a tick.
func (h *history) addTick(r generator.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.from.IsZero() {
		h.from = r.Began
	}
	dispatched := map[string]int{}
	if !r.DryRun && r.Err == nil {
		for _, a := range slices.Concat(r.Result.Landed, r.Result.Operations) {
			if a.Kind != ledger.Dispatch {
				continue
			}
			e := a.Operation("")
			dispatched[a.Decision.Overlay] += e.Agents()
			if h.track(a.Decision.Overlay).mark(mark{at: a.Decision.At(), agents: e.Agents(), text: e.Subject(), key: strings.Join(e.Dispatches(), " ")}) {
				h.limited.Add(e)
			}
		}
	}
	for _, o := range r.Result.Input.Overlays {
		h.policies[o.Name] = o.Policy
	}
	if own := r.Result.Operations; len(own) > 0 && !r.DryRun && r.Err == nil {
		last := own[len(own)-1].Operation("") // its commit is the head; those of the others are read from git
		last.ID, last.Observation = r.Result.Head.Commit, plan.Observation{}
		h.past = slices.Concat([]ledger.Operation{last}, h.past)
		h.past = h.past[:min(len(h.past), maxPast)]
	}
	seen := map[string]bool{}
	for _, d := range r.Result.Decisions { // also of a tick whose push failed
		s := d.Figures
		seen[d.Overlay] = true
		h.track(d.Overlay).addPoint(d.At(), h.gap, known(int32(s.Pending), int32(s.Busy), int32(s.Idle), int32(s.InFlight+dispatched[d.Overlay]), int32(s.Max), d.Observation.Oldest(d.Overlay)))
	}
	for name, t := range h.tracks {
		if n := len(t.points); !seen[name] && n > 0 && t.points[n-1].at <= r.Began.Unix() {
			t.addPoint(r.Began, 0, unknownFigures())
		}
	}
	h.prune(r.Ended.Add(-keptFor))
	h.limited.Forget(r.Ended)
}

func known(waiting, running, free, ordered, most int32, oldest time.Time) figures {
	f := figures{values: [quantities + 1]int32{pending: waiting, busy: running, idle: free, inFlight: ordered, limit: most}}
	if waiting > 0 && !oldest.IsZero() {
		f.oldest = oldest.Unix()
	}
	return f
}

func unknownFigures() figures {
	return figures{values: [quantities + 1]int32{unknown, unknown, unknown, unknown, unknown}}
}

// addPoint adds the figures at a time. If those before were last observed longer ago than gap, nothing
// is known in between; zero: the time does not matter.
func (t *track) addPoint(at time.Time, gap time.Duration, f figures) {
	if n := len(t.points); n > 0 {
		last := &t.points[n-1]
		switch late := gap > 0 && at.Unix()-last.until > int64(gap/time.Second); {
		case late && last.figures != unknownFigures():
			t.points = append(t.points, point{at: last.until + 1, until: last.until + 1, figures: unknownFigures()})
		case last.figures == f:
			last.until = at.Unix()
			return
		}
	}
	t.points = append(t.points, point{at: at.Unix(), until: at.Unix(), figures: f})
}

// mark adds a dispatch, once. It reports whether it was new.
func (t *track) mark(m mark) bool {
	if t.marked(m.key) {
		return false
	}
	t.marks = append(t.marks, m)
	return true
}

func (t *track) marked(key string) bool {
	return t != nil && slices.ContainsFunc(t.marks, func(x mark) bool { return x.key == key })
}

// prune drops data from before a time, and overlays without any data left.
func (h *history) prune(before time.Time) {
	most := min(maxPoints, maxAllPoints/max(1, len(h.tracks)))
	for name, t := range h.tracks {
		t.points = dropOld(t.points, most, func(p point) bool { return p.until < before.Unix() })
		t.marks = dropOld(t.marks, maxMarks, func(m mark) bool { return m.at.Before(before) })
		empty := !slices.ContainsFunc(t.points, func(p point) bool { return p.figures != unknownFigures() })
		if empty && len(t.marks) == 0 {
			delete(h.tracks, name)
		}
	}
}

// dropOld returns the newest elements of a list in order of time: at most most, and none that
// is old.
func dropOld[T any](all []T, most int, old func(T) bool) []T {
	all = all[max(0, len(all)-most):]
	for len(all) > 0 && old(all[0]) {
		all = all[1:]
	}
	return all
}

// addOld counts operations from git that are too old for the timeline. from is the time of the oldest one if the history
// was not read to the end of the period; otherwise zero.
func (h *history) addOld(operations []ledger.Operation, from time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limited.From = from
	for _, e := range operations {
		h.limited.Add(e)
	}
}

// addCommits adds operations from git, newest first. first reports whether this is the first read.
func (h *history) addCommits(operations []ledger.Operation, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = ""
	var past []ledger.Operation
	replay, replayed := audit.Sampler{}, newHistory(h.overlays, 0)
	for _, e := range slices.Backward(operations) {
		replay.Add(e, func(s audit.Sample) {
			// Of the time until the next commit, git records nothing.
			t := replayed.track(s.Overlay)
			if n := len(t.points); n > 0 && t.points[n-1].at >= s.At.Unix() {
				t.points = t.points[:n-1]
			}
			t.addPoint(s.At, 0, known(int32(s.Pending), int32(s.Busy), int32(s.Idle), int32(s.InFlight), unknown, s.Oldest))
			t.addPoint(s.At.Add(time.Second), 0, unknownFigures())
		})
		if t := replayed.tracks[e.Overlay]; t != nil && e.Kind == ledger.Dispatch {
			t.mark(mark{at: e.Decided, agents: e.Agents(), text: e.Subject(), key: strings.Join(e.Dispatches(), " ")})
		}
		// Of a later time, addTick counts the orders of this process.
		if first && e.Decided.Before(h.from) || !first && !h.tracks[e.Overlay].marked(strings.Join(e.Dispatches(), " ")) {
			h.limited.Add(e)
		}
		e.Observation = plan.Observation{}
		past = append(past, e)
	}
	slices.Reverse(past)
	h.past = slices.Concat(past, h.past)
	h.past = h.past[:min(len(h.past), maxPast)]
	for name, old := range replayed.tracks {
		t := h.track(name)
		if first { // this process has recorded later points
			old.points = slices.DeleteFunc(old.points, func(p point) bool { return p.at >= h.from.Unix() })
			t.points = append(old.points, t.points...)
		}
		for _, m := range old.marks {
			t.mark(m)
		}
		slices.SortStableFunc(t.marks, func(a, b mark) int { return a.at.Compare(b.at) })
	}
}

// operations returns the newest operations on an overlay, or on all if the name is empty, newest first:
// those of this process, and those from git. Of one decision there is one operation of each kind on an
// overlay. Those from git have a commit.
func (h *history) operations(own []ledger.Operation, only string, most int) []ledger.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	type key struct {
		base, path string
		kind       ledger.Kind
	}
	known := map[key]bool{}
	var all []ledger.Operation
	for _, o := range slices.Concat(h.past, own) {
		if k := (key{o.Base, o.Path, o.Kind}); !known[k] && (only == "" || o.Overlay == only) {
			known[k] = true
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b ledger.Operation) int { return b.Decided.Compare(a.Decided) })
	return all[:min(len(all), most)]
}

// waitP95 returns the age of the oldest pending job that was not exceeded in 95 of 100 minutes of the
// last hour, and in how many minutes it was known: of an overlay, or of all if the name is empty.
func (h *history) waitP95(only string, now time.Time) (wait time.Duration, minutes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var waits []int64
	for i := range int64(60) {
		at, most, known := now.Unix()-60*i, int64(0), false
		for name, t := range h.tracks {
			if only != "" && name != only {
				continue
			}
			n, _ := slices.BinarySearchFunc(t.points, at+1, func(p point, at int64) int { return cmp.Compare(p.at, at) })
			if n == 0 || t.points[n-1].values[pending] == unknown || n == len(t.points) && at-t.points[n-1].until > int64(h.gap/time.Second) {
				continue
			}
			known = true
			if p := t.points[n-1]; p.oldest > 0 {
				most = max(most, at-p.oldest)
			}
		}
		if known {
			waits = append(waits, most)
		}
	}
	if len(waits) == 0 {
		return 0, 0
	}
	slices.Sort(waits)
	return time.Duration(waits[(len(waits)*95+99)/100-1]) * time.Second, len(waits)
}

// busiest returns the overlays with data, ordered by agents dispatched, most first.
func (h *history) busiest() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	agents := func(name string) (sum int) {
		for _, m := range h.tracks[name].marks {
			sum += m.agents
		}
		return sum
	}
	return slices.SortedFunc(maps.Keys(h.tracks), func(a, b string) int {
		return cmp.Or(cmp.Compare(agents(b), agents(a)), cmp.Compare(a, b))
	})
}
