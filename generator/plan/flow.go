package plan

// flow hands out groups of agents to groups of jobs, as many as can be: a
// maximum flow by augmenting paths. Its cost depends on how many groups there
// are and hardly on their sizes. What is served stays served, by this agent or
// by another, whatever is handed out afterwards; so what is asked for first is
// what is served first.
type flow struct {
	free  []int               // agents of each supply that serve nothing yet
	want  []int               // jobs of each demand that nothing serves yet
	moved [][]int             // agents of a supply that serve a demand
	can   func(i, j int) bool // whether supply i may serve demand j
}

func newFlow(supply, demand []int, can func(i, j int) bool) *flow {
	f := &flow{free: supply, want: demand, can: can, moved: make([][]int, len(supply))}
	for i := range f.moved {
		f.moved[i] = make([]int, len(demand))
	}
	return f
}

// serve gives up to n agents of supply i to demand j, directly or by letting
// it take the place of agents that then serve j. It returns how many.
func (f *flow) serve(j, i, n int) int {
	served := 0
	for served < n && f.want[j] > 0 && f.free[i] > 0 {
		m := f.reach(j, i, min(n-served, f.want[j], f.free[i]), make([]bool, len(f.want)))
		if m == 0 {
			break
		}
		f.free[i] -= m
		f.want[j] -= m
		served += m
	}
	return served
}

func (f *flow) reach(j, target, n int, visited []bool) int {
	visited[j] = true
	if f.can(target, j) {
		f.moved[target][j] += n
		return n
	}
	for i := range f.moved {
		if !f.can(i, j) {
			continue
		}
		for k, there := range f.moved[i] {
			if there == 0 || visited[k] {
				continue
			}
			if m := f.reach(k, target, min(n, there), visited); m > 0 {
				f.moved[i][k] -= m
				f.moved[i][j] += m
				return m
			}
		}
	}
	return 0
}

// serveAll lets the supplies from first to last serve every demand in order.
func (f *flow) serveAll(first, last int) {
	for j := range f.want {
		for i := first; i < last; i++ {
			f.serve(j, i, f.free[i])
		}
	}
}

// serveEvenly does the same, but takes from the supply that has the least,
// counting what it has given, so that all come to have alike as far as they can.
func (f *flow) serveEvenly(first, last int, has func(i int) int) {
	given := make([]int, last)
	for i := first; i < last; i++ {
		given[i] = has(i)
	}
	for j := range f.want {
		dry := make([]bool, last)
		for f.want[j] > 0 {
			least, next := -1, -1
			for i := first; i < last; i++ {
				switch {
				case dry[i] || f.free[i] == 0:
				case least < 0 || given[i] < given[least]:
					least, next = i, least
				case next < 0 || given[i] < given[next]:
					next = i
				}
			}
			if least < 0 {
				break
			}
			n := f.want[j]
			if next >= 0 {
				n = max(1, given[next]-given[least])
			}
			n = f.serve(j, least, n)
			given[least] += n
			dry[least] = n == 0
		}
	}
}
