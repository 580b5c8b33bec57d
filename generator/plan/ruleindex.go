package plan

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// ruleIndex finds those of many lists of rules that an agent satisfies. It is a tree: the path to a
// node are rules, the rarest first, and the node has the lists of exactly these rules. A search visits
// only nodes whose rules the agent satisfies.
type ruleIndex struct {
	ranks map[string]int32 // of rules, the rarest first
	nodes []ruleNode       // the first is the root
	next  map[ruleStep]int32
}

// ruleNode is a node of a [ruleIndex].
type ruleNode struct {
	lists []int32 // in order
	inner bool    // there are nodes below it
}

// ruleStep leads from a node to the one below it with a further rule.
type ruleStep struct{ node, rank int32 }

// newRuleIndex returns an index of the lists.
func newRuleIndex(lists [][]string) ruleIndex {
	counts := make(map[string]int32, len(lists))
	for _, rules := range lists {
		for _, rule := range rules {
			counts[wildcard(rule)]++
		}
	}
	names := slices.AppendSeq(make([]string, 0, len(counts)), maps.Keys(counts))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(a, b)) })
	x := ruleIndex{ranks: counts, nodes: make([]ruleNode, 1, 2*len(lists)+1), next: make(map[ruleStep]int32, 2*len(lists))}
	for rank, rule := range names {
		x.ranks[rule] = int32(rank)
	}
	var place [16]int32
	path := place[:0]
	for i, rules := range lists {
		path = path[:0]
		for _, rule := range rules {
			path = append(path, x.ranks[wildcard(rule)])
		}
		slices.Sort(path)
		node := int32(0)
		for _, rank := range slices.Compact(path) {
			step := ruleStep{node, rank}
			next, known := x.next[step]
			if !known {
				next = int32(len(x.nodes))
				x.nodes[node].inner = true
				x.next[step], x.nodes = next, append(x.nodes, ruleNode{})
			}
			node = next
		}
		x.nodes[node].lists = append(x.nodes[node].lists, int32(i))
	}
	return x
}

// wildcard returns "key=*" for "key=" as well, and other rules as they are.
func wildcard(rule string) string {
	if key, value, ok := strings.Cut(rule, "="); ok && value == "" {
		return key + "=*"
	}
	return rule
}

// each calls f with the lists that an agent with the tags satisfies, in several parts. Each is in order.
func (x ruleIndex) each(tags []string, f func(lists []int32)) {
	var some [64]int32
	ranks := some[:0]
	for _, tag := range tags {
		if rank, known := x.ranks[tag]; known {
			ranks = append(ranks, rank)
		}
		if key, _, ok := strings.Cut(tag, "="); ok {
			var place [64]byte
			if rank, known := x.ranks[string(append(append(place[:0], key...), "=*"...))]; known {
				ranks = append(ranks, rank)
			}
		}
	}
	slices.Sort(ranks)
	x.below(0, slices.Compact(ranks), f)
}

// below calls f with the lists of a node and of those below it that the ranks lead to.
func (x ruleIndex) below(node int32, ranks []int32, f func(lists []int32)) {
	n := &x.nodes[node]
	if len(n.lists) > 0 {
		f(n.lists)
	}
	for i := 0; n.inner && i < len(ranks); i++ {
		if next, known := x.next[ruleStep{node, ranks[i]}]; known {
			x.below(next, ranks[i+1:], f)
		}
	}
}

// satisfied appends the lists that an agent with the tags satisfies, in order.
func (x ruleIndex) satisfied(to []int32, tags []string) []int32 {
	begin := len(to)
	x.each(tags, func(lists []int32) { to = append(to, lists...) })
	slices.Sort(to[begin:])
	return to
}

// A set of numbers as a text: texts are in the order of the sets' bits, those of the first numbers
// being the most significant.

// appendNumber appends a number that is larger than those before.
func appendNumber(set []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(set, ^uint32(n))
}

// numbers returns the numbers of a set.
func numbers(set string) []int {
	all := make([]int, 0, len(set)/4)
	for ; len(set) > 0; set = set[4:] {
		all = append(all, int(^binary.BigEndian.Uint32([]byte(set[:4]))))
	}
	return all
}
