package plan

import "slices"

// flow assigns groups of agents (sources) to groups of demand (sinks). It finds a maximum flow by
// augmenting paths. A sink that is served stays served, by the same source or another, whatever is
// assigned later. So the order of the requests is their priority.
//
// Its cost depends on the number of groups and hardly on their sizes: one search for each sink and
// phase, and one more for each group that is exhausted.
type flow struct {
	free   []int         // agents of each source that serve nothing yet
	want   []int         // agents that each sink still asks for
	moved  []map[int]int // agents of a source that serve a sink
	takers [][]int32     // the sources that may serve a sink, in order
	serves [][]int32     // the sinks that a source serves, or has served
	search search
}

// newFlow returns a flow without assignments. takers lists the sources that may serve each
// sink, in order.
func newFlow(supply, demand []int, takers [][]int32) *flow {
	return &flow{
		free: supply, want: demand,
		moved: make([]map[int]int, len(supply)), takers: takers, serves: make([][]int32, len(supply)),
		search: search{seen: make([]int, len(demand)), from: make([]step, len(demand)), reached: make([]int, len(supply)), at: make([]int32, len(supply))},
	}
}

// search is the result of searching all sources that can serve one sink: a tree of sinks. Each
// sink in it would be served by the source that serves the next sink now. The tree stays valid
// while agents are assigned along it, because that creates no new path from the same sink.
type search struct {
	root    int
	round   int
	seen    []int   // by sink: the round in which it was found
	from    []step  // by sink: how
	reached []int   // by source: the round in which it was found
	at      []int32 // by source: the sink that it would serve
	queue   []int32
	sources []int32 // that were found, in order
}

// step says that a source which serves this sink could serve another instead.
type step struct{ sink, source int32 }

// explore finds every source that could serve the sink: directly, or by replacing agents of other
// sources, which then serve the sink.
func (f *flow) explore(sink int) {
	s := &f.search
	s.root = sink
	s.round++
	s.seen[sink] = s.round
	s.queue, s.sources = append(s.queue[:0], int32(sink)), s.sources[:0]
	for n := 0; n < len(s.queue); n++ {
		j := s.queue[n]
		for _, i := range f.takers[j] {
			if s.reached[i] == s.round {
				continue
			}
			s.reached[i], s.at[i] = s.round, j
			s.sources = append(s.sources, i)
			for _, k := range f.serves[i] {
				if s.seen[k] != s.round && f.moved[i][int(k)] > 0 {
					s.seen[k] = s.round
					s.from[k] = step{sink: j, source: i}
					s.queue = append(s.queue, k)
				}
			}
		}
	}
	slices.Sort(s.sources)
}

// found returns, in order, those sources from first to last that the last search found.
func (f *flow) found(first, last int) []int32 {
	all := f.search.sources
	from, _ := slices.BinarySearch(all, int32(first))
	to, _ := slices.BinarySearch(all, int32(last))
	return all[from:to]
}

// serve hands up to n agents of a source that was found to the sink of the last
// search. It returns how many; none means that the way is used up.
func (f *flow) serve(i, n int) int {
	s := &f.search
	n = min(n, f.free[i], f.want[s.root])
	for k := int(s.at[i]); k != s.root; k = int(s.from[k].sink) {
		n = min(n, f.moved[s.from[k].source][k])
	}
	if n <= 0 {
		return 0
	}
	k := int(s.at[i])
	f.move(i, k, n)
	for k != s.root {
		from := s.from[k]
		f.moved[from.source][k] -= n
		f.move(int(from.source), int(from.sink), n)
		k = int(from.sink)
	}
	f.free[i] -= n
	f.want[s.root] -= n
	return n
}

func (f *flow) move(i, j, n int) {
	if f.moved[i] == nil {
		f.moved[i] = map[int]int{}
	}
	if _, ok := f.moved[i][j]; !ok {
		f.serves[i] = append(f.serves[i], int32(j))
	}
	f.moved[i][j] += n
}

// serveAll lets the sources from first to last serve the sinks from one to
// another in order. The sources themselves are taken in order, too.
func (f *flow) serveAll(first, last, from, to int) {
	for j := from; j < to; j++ {
		for f.want[j] > 0 {
			f.explore(j)
			served := 0
			for _, i := range f.found(first, last) {
				if f.free[i] > 0 && f.want[j] > 0 {
					served += f.serve(int(i), f.want[j])
				}
			}
			if served == 0 {
				break
			}
		}
	}
}

// serveEvenly lets the sources from first on serve the sinks before end, in order. group and level
// are those of the sources. Lower groups serve first. Within a group, each agent comes from the
// source with the lowest level, counting the agents it has given, so that the levels become as
// equal as possible.
func (f *flow) serveEvenly(first, end int, group, level []int) {
	for j := range end {
		if f.want[j] > 0 {
			f.explore(j)
		}
		for f.want[j] > 0 {
			least, next := f.min(first, group, level)
			if least < 0 {
				break
			}
			n := f.want[j]
			if next >= 0 {
				n = max(1, level[next]-level[least])
			}
			n = f.serve(first+least, n)
			if n == 0 { // the way to it is used up: is there another?
				f.explore(j)
				continue
			}
			level[least] += n
		}
	}
}

// min returns the sources with the lowest and the second lowest level in the first group of the
// sources that were found, counted from first, the first of equals; -1 if there is no such source.
func (f *flow) min(first int, group, level []int) (least, next int) {
	least, next = -1, -1
	for _, k := range f.found(first, first+len(level)) {
		i := int(k) - first
		switch {
		case f.free[k] == 0:
		case least >= 0 && group[i] != group[least]: // groups are in order
			return least, next
		case least < 0 || level[i] < level[least]:
			least, next = i, least
		case next < 0 || level[i] < level[next]:
			next = i
		}
	}
	return least, next
}
