package plan

import "slices"

// flow hands out groups of agents (sources) to groups of what asks for agents
// (sinks), as many as can be: a maximum flow by augmenting paths. What is served
// stays served, by this agent or by another, whatever is handed out afterwards;
// so what is asked for first is what is served first.
//
// Its cost depends on how many groups there are and hardly on their sizes: one
// search per sink and phase, and one more for each group that runs dry.
type flow struct {
	free   []int     // agents of each source that serve nothing yet
	want   []int     // agents that each sink still asks for
	moved  [][]int   // agents of a source that serve a sink
	takers [][]int32 // the sources that may serve a sink, in order
	serves [][]int32 // the sinks that a source serves, or has served
	search search
}

// newFlow returns a flow in which nothing is served. can reports whether source
// i may serve sink j.
func newFlow(supply, demand []int, can func(i, j int) bool) *flow {
	f := &flow{
		free: supply, want: demand,
		moved: make([][]int, len(supply)), takers: make([][]int32, len(demand)), serves: make([][]int32, len(supply)),
		search: search{seen: make([]int, len(demand)), from: make([]step, len(demand)), reached: make([]int, len(supply)), at: make([]int32, len(supply))},
	}
	for i := range supply {
		f.moved[i] = make([]int, len(demand))
		for j := range demand {
			if can(i, j) {
				f.takers[j] = append(f.takers[j], int32(i))
			}
		}
	}
	return f
}

// clone returns a flow of its own with all that is served.
func (f *flow) clone() *flow {
	c := &flow{
		free: slices.Clone(f.free), want: slices.Clone(f.want),
		moved: slices.Clone(f.moved), takers: slices.Clone(f.takers), serves: slices.Clone(f.serves),
		search: search{seen: make([]int, len(f.want)), from: make([]step, len(f.want)), reached: make([]int, len(f.free)), at: make([]int32, len(f.free))},
	}
	for i := range c.moved {
		c.moved[i], c.serves[i] = slices.Clone(f.moved[i]), slices.Clone(f.serves[i])
	}
	for j := range c.takers {
		c.takers[j] = slices.Clone(f.takers[j])
	}
	return c
}

// search is what one sink can get, and from where: a tree of sinks, each of
// which would be served by the source that serves the next one now. It stays
// good while agents are handed out along it, because that opens no new way from
// the same sink.
type search struct {
	root    int
	round   int
	seen    []int   // by sink: the round in which it was found
	from    []step  // by sink: how
	reached []int   // by source: the round in which it was found
	at      []int32 // by source: the sink that it would serve
	queue   []int32
}

// step says that a source which serves this sink could serve another instead.
type step struct{ sink, source int32 }

// explore finds every source that could serve the sink, directly or by letting
// agents that serve others serve it and taking their place.
func (f *flow) explore(sink int) {
	s := &f.search
	s.root = sink
	s.round++
	s.seen[sink] = s.round
	s.queue = append(s.queue[:0], int32(sink))
	for n := 0; n < len(s.queue); n++ {
		j := s.queue[n]
		for _, i := range f.takers[j] {
			if s.reached[i] == s.round {
				continue
			}
			s.reached[i], s.at[i] = s.round, j
			for _, k := range f.serves[i] {
				if f.moved[i][k] > 0 && s.seen[k] != s.round {
					s.seen[k] = s.round
					s.from[k] = step{sink: j, source: i}
					s.queue = append(s.queue, k)
				}
			}
		}
	}
}

// reaches reports whether the last search found a source that has agents left.
func (f *flow) reaches(i int) bool {
	return f.search.reached[i] == f.search.round && f.free[i] > 0
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
	if f.moved[i][j] == 0 {
		if !slices.Contains(f.serves[i], int32(j)) {
			f.serves[i] = append(f.serves[i], int32(j))
		}
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
			for i := first; i < last && f.want[j] > 0; i++ {
				if f.reaches(i) {
					served += f.serve(i, f.want[j])
				}
			}
			if served == 0 {
				break
			}
		}
	}
}

// serveEvenly lets the sources from first to last serve all sinks in order, each
// agent from the source that has the least, counting what it has given, so that
// all come to have alike as far as they can.
func (f *flow) serveEvenly(first, last int, has func(i int) int) {
	level := make([]int, last)
	for i := first; i < last; i++ {
		level[i] = has(i)
	}
	for j := range f.want {
		if f.want[j] > 0 {
			f.explore(j)
		}
		for f.want[j] > 0 {
			least, next := f.least(first, last, level)
			if least < 0 {
				break
			}
			n := f.want[j]
			if next >= 0 {
				n = max(1, level[next]-level[least])
			}
			n = f.serve(least, n)
			if n == 0 { // the way to it is used up: is there another?
				f.explore(j)
				continue
			}
			level[least] += n
		}
	}
}

// least returns the sources that were found and have the least and the second
// least, the first of equals; -1 where there is none.
func (f *flow) least(first, last int, level []int) (least, next int) {
	least, next = -1, -1
	for i := first; i < last; i++ {
		switch {
		case !f.reaches(i):
		case least < 0 || level[i] < level[least]:
			least, next = i, least
		case next < 0 || level[i] < level[next]:
			next = i
		}
	}
	return least, next
}
