package plan

import (
	"slices"
	"strings"
)

// satisfies reports whether an agent with the tags may take a job with the
// rules: every rule must be among the tags, and "key=*" takes any value of key.
// Source: buildkite.com/docs/agent/v3/cli-start#agent-targeting.
func satisfies(tags, rules []string) bool {
	for _, rule := range rules {
		if !carries(tags, rule) {
			return false
		}
	}
	return true
}

func carries(tags []string, rule string) bool {
	if key, ok := strings.CutSuffix(rule, "=*"); ok {
		_, has := tagValue(tags, key)
		return has
	}
	return slices.Contains(tags, rule)
}

// agentTags are the tags that an agent of the overlay will carry, except for
// its index.
func (o Overlay) agentTags() []string {
	tags := []string{TagQueue + "=" + o.Policy.Queue, TagOverlay + "=" + o.Slug()}
	return append(tags, o.Policy.Tags...)
}

// assign hands out supply to demand, as much as can be: supply[i] units may
// serve demand[j] where can(i, j). It returns what each demand got and what
// each supply has left. It is a maximum flow by augmenting paths over groups,
// so its cost depends on the number of groups and not on their sizes; supplies
// and demands that come first are used first, so equal input gives equal output.
func assign(supply, demand []int, can func(i, j int) bool) (got, left []int) {
	f := flow{left: slices.Clone(supply), want: slices.Clone(demand), can: can}
	f.moved = make([][]int, len(supply))
	for i := range f.moved {
		f.moved[i] = make([]int, len(demand))
	}
	for i := range supply {
		for f.left[i] > 0 {
			f.visited = make([]bool, len(demand))
			n := f.augment(i, f.left[i])
			if n == 0 {
				break
			}
			f.left[i] -= n
		}
	}
	got = make([]int, len(demand))
	for j := range demand {
		got[j] = demand[j] - f.want[j]
	}
	return got, f.left
}

type flow struct {
	left, want []int
	moved      [][]int
	can        func(i, j int) bool
	visited    []bool
}

// augment finds room for up to n units of supply i, moving other supplies'
// units to other demands where that makes room, and returns how many it placed.
func (f *flow) augment(i, n int) int {
	for j := range f.want {
		if f.want[j] > 0 && f.can(i, j) {
			n = min(n, f.want[j])
			f.want[j] -= n
			f.moved[i][j] += n
			return n
		}
	}
	for j := range f.want {
		if f.visited[j] || !f.can(i, j) {
			continue
		}
		f.visited[j] = true
		for k := range f.moved {
			if k == i || f.moved[k][j] == 0 {
				continue
			}
			if m := f.augment(k, min(n, f.moved[k][j])); m > 0 {
				f.moved[k][j] -= m
				f.moved[i][j] += m
				return m
			}
		}
	}
	return 0
}
