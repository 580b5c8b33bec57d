package plan

import (
	"encoding/binary"
	"slices"
	"strings"
)

// ruleIndex finds those of many lists of rules that an agent satisfies. It compares few others: it has
// each list under the rule that the fewest lists contain.
type ruleIndex struct {
	rules  [][]string
	byRule map[string][]int32
	any    []int32 // lists without rules
}

// newRuleIndex returns an index of the lists.
func newRuleIndex(lists [][]string) ruleIndex {
	x := ruleIndex{rules: lists, byRule: make(map[string][]int32, len(lists))}
	counts := map[string]int{}
	for _, rules := range lists {
		for _, rule := range rules {
			counts[wildcard(rule)]++
		}
	}
	for i, rules := range lists {
		rarest := ""
		for k, rule := range rules {
			if rule = wildcard(rule); k == 0 || counts[rule] < counts[rarest] {
				rarest = rule
			}
		}
		if len(rules) == 0 {
			x.any = append(x.any, int32(i))
		} else {
			x.byRule[rarest] = append(x.byRule[rarest], int32(i))
		}
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

// candidates calls f with lists that contain all lists which an agent with the tags satisfies, and
// may contain others. Each is in order.
func (x ruleIndex) candidates(tags []string, f func(lists []int32)) {
	f(x.any)
	for _, tag := range tags {
		f(x.byRule[tag])
		if key, value, ok := strings.Cut(tag, "="); ok && value != "*" {
			var place [64]byte
			f(x.byRule[string(append(append(place[:0], key...), "=*"...))])
		}
	}
}

// satisfied appends the lists that an agent with the tags satisfies, in order.
func (x ruleIndex) satisfied(to []int32, tags []string) []int32 {
	begin := len(to)
	x.candidates(tags, func(lists []int32) {
		for _, i := range lists {
			if Satisfies(tags, x.rules[i]) {
				to = append(to, i)
			}
		}
	})
	slices.Sort(to[begin:])
	return to[:begin+len(slices.Compact(to[begin:]))]
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
