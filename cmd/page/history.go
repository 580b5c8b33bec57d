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
	// maxPoints and maxMarks are the maximum numbers for one overlay; the oldest are dropped.
	maxPoints = 3000
	maxMarks  = 1000
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
)

// unknown is the value of an unknown quantity.
const unknown = -1

// point contains the values of an overlay from a time until they were last observed, in Unix
// seconds because there are many points.
type point struct {
	at, until int64
	values    [quantities]int32
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
	problem  string             // why git's history is missing; empty: it is present
}

func newHistory(overlays string) *history {
	return &history{overlays: path.Clean(overlays), tracks: map[string]*track{}, problem: "it has not been read yet"}
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
			h.track(a.Decision.Overlay).mark(mark{at: a.Decision.At(), agents: e.Agents(), text: e.Subject(), key: strings.Join(e.Dispatches(), " ")})
		}
	}
	seen := map[string]bool{}
	if r.Err == nil {
		for _, d := range r.Result.Decisions {
			s := d.Figures
			seen[d.Overlay] = true
			h.track(d.Overlay).addPoint(d.At(), [quantities]int32{pending: int32(s.Pending), busy: int32(s.Busy), idle: int32(s.Idle), inFlight: int32(s.InFlight + dispatched[d.Overlay])})
		}
	}
	for name, t := range h.tracks {
		if n := len(t.points); !seen[name] && n > 0 && t.points[n-1].at <= r.Began.Unix() {
			t.addPoint(r.Began, unknownValues())
		}
	}
	h.prune(r.Ended.Add(-keptFor))
}

func unknownValues() [quantities]int32 { return [quantities]int32{unknown, unknown, unknown, unknown} }

// addPoint adds the values at a time.
func (t *track) addPoint(at time.Time, values [quantities]int32) {
	if n := len(t.points); n > 0 && t.points[n-1].values == values {
		t.points[n-1].until = at.Unix()
		return
	}
	t.points = append(t.points, point{at: at.Unix(), until: at.Unix(), values: values})
}

// mark adds a dispatch, once.
func (t *track) mark(m mark) {
	if !slices.ContainsFunc(t.marks, func(x mark) bool { return x.key == m.key }) {
		t.marks = append(t.marks, m)
	}
}

// prune drops data from before a time, and overlays without any data left.
func (h *history) prune(before time.Time) {
	for name, t := range h.tracks {
		t.points = dropOld(t.points, maxPoints, func(p point) bool { return p.until < before.Unix() })
		t.marks = dropOld(t.marks, maxMarks, func(m mark) bool { return m.at.Before(before) })
		empty := !slices.ContainsFunc(t.points, func(p point) bool { return p.values != unknownValues() })
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

// addCommits adds operations from git, newest first. first reports whether this is the first read.
func (h *history) addCommits(operations []ledger.Operation, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = ""
	var past []ledger.Operation
	replay, replayed := audit.Sampler{}, newHistory(h.overlays)
	for _, e := range slices.Backward(operations) {
		replay.Add(e, func(s audit.Sample) {
			values := [quantities]int32{pending: int32(s.Pending), busy: int32(s.Busy), idle: int32(s.Idle), inFlight: int32(s.InFlight)}
			replayed.track(s.Overlay).addPoint(s.At, values)
		})
		if t := replayed.tracks[e.Overlay]; t != nil && e.Kind == ledger.Dispatch {
			t.mark(mark{at: e.Decided, agents: e.Agents(), text: e.Subject(), key: strings.Join(e.Dispatches(), " ")})
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

// operations returns the newest operations, newest first: those of this process, and those from git. Of
// one decision there is one operation of each kind on an overlay.
func (h *history) operations(own []ledger.Operation, most int) []ledger.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	type key struct {
		base, path string
		kind       ledger.Kind
	}
	known := map[key]bool{}
	var all []ledger.Operation
	for _, o := range slices.Concat(own, h.past) {
		if k := (key{o.Base, o.Path, o.Kind}); !known[k] {
			known[k] = true
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b ledger.Operation) int { return b.Decided.Compare(a.Decided) })
	return all[:min(len(all), most)]
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
