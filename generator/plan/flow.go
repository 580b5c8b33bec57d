package plan

import (
	"cmp"
	"container/heap"
	"slices"
)

// flow assigns groups of agents (sources) to groups of demand (sinks). It finds a maximum flow by
// augmenting paths. A sink that is served stays served, by the same source or another, whatever is
// assigned later. So the order of the requests is their priority.
//
// Its cost depends on the number of groups and hardly on their sizes. A search ends as soon as it
// has found the source that is next in order, which is usually near although hundreds of overlays
// share a group of jobs.
type flow struct {
	free   []int          // unused agents of each source
	want   []int          // agents that each sink still needs
	takers [][]int32      // the sources that may serve each sink, in order
	more   [][]int32      // further ones, while they may serve it; may be nil
	serves [][]edge       // the sinks that a source serves, or has served
	places map[link]int32 // the indexes of edges in serves
	part   []int32        // by sink: the part of the graph that it is in, or -1; no search leaves a part
	parts  []part
	search search
}

// part is a connected part of the graph.
type part struct {
	sources []int32 // in order
	begin   int     // where those of the phase with unused agents begin
	phase   int
}

// edge is a number of agents of one source that serve a sink.
type edge struct {
	sink   int32
	agents int
}

// link identifies an edge.
type link struct{ source, sink int32 }

// newFlow returns a flow without assignments. takers lists the sources that may serve each
// sink, in order.
func newFlow(supply, demand []int, takers [][]int32) *flow {
	f := &flow{
		free: supply, want: demand, takers: takers, serves: make([][]edge, len(supply)), places: map[link]int32{},
		search: search{
			seen: make([]int, len(demand)), dead: make([]int, len(demand)), from: make([]step, len(demand)),
			reached: make([]int, len(supply)), at: make([]int32, len(supply)),
		},
	}
	f.divideParts()
	return f
}

// divideParts finds the parts of the graph.
func (f *flow) divideParts() {
	of := make([]int32, len(f.free)) // by source: one of the same part, up to the first of it
	for i := range of {
		of[i] = int32(i)
	}
	find := func(i int32) int32 {
		for of[i] != i {
			of[i] = of[of[i]]
			i = of[i]
		}
		return i
	}
	for j := range f.takers {
		for _, list := range f.takersOf(int32(j)) {
			for _, i := range list {
				a, b := find(i), find(f.first(j))
				of[max(a, b)] = min(a, b)
			}
		}
	}
	f.part, f.parts = make([]int32, len(f.want)), make([]part, len(f.free))
	for i := range of {
		p := &f.parts[find(int32(i))]
		p.sources = append(p.sources, int32(i))
	}
	for j := range f.part {
		if f.part[j] = f.first(j); f.part[j] >= 0 {
			f.part[j] = find(f.part[j])
		}
	}
}

// takersOf returns the sources that may serve a sink, in two lists.
func (f *flow) takersOf(sink int32) [2][]int32 {
	if f.more == nil {
		return [2][]int32{f.takers[sink]}
	}
	return [2][]int32{f.takers[sink], f.more[sink]}
}

// first returns a source that may serve a sink; -1 if no source may.
func (f *flow) first(sink int) int32 {
	for _, list := range f.takersOf(int32(sink)) {
		if len(list) > 0 {
			return list[0]
		}
	}
	return -1
}

// search finds the sources that can serve one sink: directly, or by replacing agents of other
// sources, which then serve the sink. It is a tree of sinks. Each sink in it would be served by the
// source that serves the next sink now. The tree stays valid while agents are assigned along it and
// while it grows, because that creates no new path from the same sink.
type search struct {
	root    int
	round   int
	seen    []int   // by sink: the round in which it was found
	from    []step  // by sink: how
	reached []int   // by source: the round in which it was found
	at      []int32 // by source: the sink that it would serve
	queue   []int32 // the sinks that were found
	next    int     // the first of them whose takers were not read
	sources []int32 // that were found
	branch  int     // the first sink of the queue that may lead to others than direct sources
	// dead is by sink the phase in which no more agents can be found for it. A phase has the same
	// sources throughout. No path of another sink then leads through a dead one.
	dead  []int
	phase int
}

// step says that a source which serves this sink could serve another instead.
type step struct{ sink, source int32 }

// begin starts a search.
func (f *flow) begin(sink int) {
	s := &f.search
	s.root = sink
	s.round++
	s.queue, s.sources, s.next, s.branch = s.queue[:0], s.sources[:0], 0, 0
	s.find(int32(sink), step{})
}

// find adds a sink to the tree.
func (s *search) find(sink int32, from step) {
	if s.seen[sink] != s.round && s.dead[sink] != s.phase {
		s.seen[sink], s.from[sink] = s.round, from
		s.queue = append(s.queue, sink)
	}
}

// reach continues the search until it has found a source, and reports whether it did. After false
// the search has found all.
func (f *flow) reach(source int32) bool {
	s := &f.search
	for s.reached[source] != s.round {
		if s.next == len(s.queue) {
			return false
		}
		j := s.queue[s.next]
		for n, list := range f.takersOf(j) {
			_, found := slices.BinarySearch(list, source)
			if found || n > 0 && slices.Contains(list, source) {
				s.at[source] = j
				return true
			}
		}
		s.next++
		for _, list := range f.takersOf(j) {
			for _, i := range list {
				if s.reached[i] == s.round {
					continue
				}
				s.reached[i], s.at[i] = s.round, j
				s.sources = append(s.sources, i)
				for _, e := range f.serves[i] {
					if e.agents > 0 {
						s.find(e.sink, step{sink: j, source: i})
					}
				}
			}
		}
	}
	return true
}

// found returns, in order, the sources from first to last with unused agents that a complete search
// found. If the result is empty, the sinks of the search are dead.
func (f *flow) found(first, last int) (all []int32) {
	s := &f.search
	for _, i := range s.sources {
		if int(i) >= first && int(i) < last && f.free[i] > 0 {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		for _, j := range s.queue {
			s.dead[j] = s.phase
		}
	}
	slices.Sort(all)
	return all
}

// serve assigns up to n agents of a source that was found to the sink of the search, and returns
// their number; zero means that the path is exhausted.
func (f *flow) serve(i, n int) int {
	s := &f.search
	n = min(n, f.free[i], f.want[s.root])
	for k := int(s.at[i]); k != s.root; k = int(s.from[k].sink) {
		n = min(n, f.moved(s.from[k].source, int32(k)).agents)
	}
	if n <= 0 {
		return 0
	}
	k := s.at[i]
	f.moved(int32(i), k).agents += n
	for int(k) != s.root {
		from := s.from[k]
		f.moved(from.source, k).agents -= n
		f.moved(from.source, from.sink).agents += n
		k = from.sink
	}
	f.free[i] -= n
	f.want[s.root] -= n
	return n
}

// moved returns the agents of a source that serve a sink. The pointer is valid until the next call.
func (f *flow) moved(source, sink int32) *edge {
	at, ok := f.places[link{source, sink}]
	if !ok {
		at = int32(len(f.serves[source]))
		f.places[link{source, sink}] = at
		f.serves[source] = append(f.serves[source], edge{sink: sink})
	}
	return &f.serves[source][at]
}

// serving returns how many agents of a source serve a sink.
func (f *flow) serving(source, sink int) int {
	if at, ok := f.places[link{int32(source), int32(sink)}]; ok {
		return f.serves[source][at].agents
	}
	return 0
}

// serveAll assigns the sources from first to last to the sinks, both in order.
func (f *flow) serveAll(first, last int, sinks ...int) {
	f.search.phase++
	for _, j := range sinks {
		for f.want[j] > 0 && f.part[j] >= 0 && f.serveFrom(j, first, last, f.unused(j, first, last)) > 0 {
		}
	}
}

// unused returns the sources of a sink's part from the first with unused agents on, of those from
// first to last.
func (f *flow) unused(sink, first, last int) []int32 {
	p := &f.parts[f.part[sink]]
	if p.phase != f.search.phase {
		p.phase = f.search.phase
		p.begin, _ = slices.BinarySearch(p.sources, int32(first))
	}
	for p.begin < len(p.sources) && int(p.sources[p.begin]) < last && f.free[p.sources[p.begin]] == 0 {
		p.begin++
	}
	return p.sources[p.begin:]
}

// serveFrom assigns those of the sources that one search finds to a sink, and returns the number of
// agents.
func (f *flow) serveFrom(j, first, last int, sources []int32) (served int) {
	f.begin(j)
	complete, direct := false, false
	for n := 0; n < len(sources) && int(sources[n]) < last && f.want[j] > 0; n++ {
		i := sources[n]
		switch {
		case f.free[i] == 0:
			continue
		case !complete && !f.reach(i):
			complete = true
			sources = f.found(first, last)
			n, _ = slices.BinarySearch(sources, i)
			n-- // i is not among them
			continue
		}
		agents := f.serve(int(i), f.want[j])
		served += agents
		if agents == 0 && !direct && f.blocked() {
			complete, direct = true, true
			sources, n = f.direct(i, last), -1
		}
	}
	return served
}

// blocked reports whether only sources that may serve the sink of the search itself are left: the
// others can serve it only in the place of sources that serve another sink no more.
func (f *flow) blocked() bool {
	s := &f.search
	for ; s.branch < len(s.queue) && (s.branch == 0 || int(s.from[s.queue[s.branch]].sink) == s.root); s.branch++ {
		if k := s.queue[s.branch]; s.branch > 0 && f.moved(s.from[k].source, k).agents > 0 {
			return false
		}
	}
	return s.next > 0
}

// direct returns, in order, the sources after one and before last with unused agents that may serve
// the sink of the search.
func (f *flow) direct(after int32, last int) (all []int32) {
	for _, list := range f.takersOf(int32(f.search.root)) {
		for _, i := range list {
			if i > after && int(i) < last && f.free[i] > 0 {
				all = append(all, i)
			}
		}
	}
	slices.Sort(all)
	return all
}

// serveEvenly assigns the sources from first on to the sinks before end, in order. group and level
// are those of the sources. Lower groups serve first. Within a group, each agent comes from the
// source with the lowest level, counting the agents it has given, so that the levels become as
// equal as possible.
func (f *flow) serveEvenly(first, end int, group, level []int) {
	f.search.phase++
	parts := map[int32]*evenly{}
	for j := range end {
		p := f.part[j]
		if f.want[j] == 0 || p < 0 {
			continue
		}
		all := parts[p]
		if all == nil {
			at, _ := slices.BinarySearch(f.parts[p].sources, int32(first))
			all = newEvenly(f, f.parts[p].sources[at:], first, group, level)
			parts[p] = all
		}
		f.begin(j)
		from := all
		for f.want[j] > 0 {
			i, n := from.least(f.want[j])
			if i < 0 {
				break
			}
			if from == all && !f.reach(int32(i)) {
				from = newEvenly(f, f.found(first, first+len(level)), first, group, level)
				continue
			}
			n = f.serve(i, n)
			if n == 0 { // the path is exhausted: search for another
				f.begin(j)
				from = all
				continue
			}
			level[i-first] += n
		}
	}
}

// evenly is a heap of sources with unused agents: first those of the first group with the lowest
// level. Levels may have grown since they were noted.
type evenly struct {
	flow         *flow
	first        int
	group, level []int
	sources      []even
}

// even is a source with the level that was noted.
type even struct {
	source int32
	level  int
}

// newEvenly returns a heap of the sources.
func newEvenly(f *flow, sources []int32, first int, group, level []int) *evenly {
	e := &evenly{flow: f, first: first, group: group, level: level, sources: make([]even, 0, len(sources))}
	for _, i := range sources {
		e.sources = append(e.sources, even{i, level[int(i)-first]})
	}
	heap.Init(e)
	return e
}

// least returns the first source, and how many of at most n agents it gives before another is first;
// -1 if no source has unused agents.
func (e *evenly) least(n int) (source, agents int) {
	for len(e.sources) > 0 {
		x := &e.sources[0]
		now := e.level[int(x.source)-e.first]
		switch {
		case e.flow.free[x.source] == 0:
			heap.Pop(e)
			continue
		case x.level != now:
			x.level = now
			heap.Fix(e, 0)
			continue
		}
		for _, other := range e.sources[1:min(3, len(e.sources))] {
			if e.group[int(other.source)-e.first] == e.group[int(x.source)-e.first] {
				n = min(n, max(1, other.level-x.level))
			}
		}
		return int(x.source), n
	}
	return -1, 0
}

func (e *evenly) Len() int { return len(e.sources) }
func (e *evenly) Less(i, k int) bool {
	a, b := e.sources[i], e.sources[k]
	return cmp.Or(cmp.Compare(e.group[int(a.source)-e.first], e.group[int(b.source)-e.first]), cmp.Compare(a.level, b.level), cmp.Compare(a.source, b.source)) < 0
}
func (e *evenly) Swap(i, k int) { e.sources[i], e.sources[k] = e.sources[k], e.sources[i] }
func (e *evenly) Push(x any)    { e.sources = append(e.sources, x.(even)) }
func (e *evenly) Pop() any {
	last := e.sources[len(e.sources)-1]
	e.sources = e.sources[:len(e.sources)-1]
	return last
}
