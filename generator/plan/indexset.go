package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// IndexSet is a set of a dispatch's indexes. The zero value is the empty set.
// Its text form lists ranges, as in "0-3,7".
type IndexSet struct{ ranges []indexRange }

// indexRange is a range of indexes. The ranges of a set are sorted, and indexes that it does not
// contain separate them. So a set needs no more memory than its text.
type indexRange struct{ first, last int }

// MaxIndex bounds the indexes of a set: Kubernetes runs at most 100,000
// pods at once for one Indexed Job (pkg/apis/batch/validation).
const MaxIndex = 100_000

// find returns the first range that does not end before an index.
func (s IndexSet) find(i int) int {
	at, _ := slices.BinarySearchFunc(s.ranges, i, func(r indexRange, i int) int { return cmp.Compare(r.last, i) })
	return at
}

// Add adds an index to the set. It ignores indexes that no Job can have.
func (s *IndexSet) Add(i int) {
	if i < 0 || i >= MaxIndex {
		return
	}
	joined := indexRange{i, i}
	from := s.find(i - 1)
	to := from
	for ; to < len(s.ranges) && s.ranges[to].first <= i+1; to++ {
		joined = indexRange{min(joined.first, s.ranges[to].first), max(joined.last, s.ranges[to].last)}
	}
	s.ranges = slices.Replace(s.ranges, from, to, joined)
}

// clone returns a copy of the set.
func (s IndexSet) clone() IndexSet { return IndexSet{slices.Clone(s.ranges)} }

// Has reports whether the index is in the set.
func (s IndexSet) Has(i int) bool {
	at := s.find(i)
	return at < len(s.ranges) && s.ranges[at].first <= i
}

// Below returns how many of the indexes 0 to n-1 are in the set.
func (s IndexSet) Below(n int) (count int) {
	for _, r := range s.ranges {
		count += max(0, min(r.last+1, n)-r.first)
	}
	return count
}

// below returns the indexes below n.
func (s IndexSet) below(n int) (all []int) {
	for _, r := range s.ranges {
		for i := r.first; i <= r.last && i < n; i++ {
			all = append(all, i)
		}
	}
	return all
}

// IsZero reports whether the set is empty.
func (s IndexSet) IsZero() bool { return len(s.ranges) == 0 }

// String lists the set as ranges; the empty set is "".
func (s IndexSet) String() string {
	var text []byte
	for i, r := range s.ranges {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(r.first), 10)
		if r.first < r.last {
			text = strconv.AppendInt(append(text, '-'), int64(r.last), 10)
		}
	}
	return string(text)
}

// MarshalText is [IndexSet.String].
func (s IndexSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what [IndexSet.String] writes: ranges in ascending order.
func (s *IndexSet) UnmarshalText(text []byte) error {
	*s = IndexSet{}
	if len(text) == 0 {
		return nil
	}
	next := 0 // the lowest index that may follow
	for part := range strings.SplitSeq(string(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < next || last < first || last >= MaxIndex {
			return fmt.Errorf("indexes %.80q: %.40q is not a range above those before it", text, part)
		}
		if n := len(s.ranges); n > 0 && first == next {
			s.ranges[n-1].last = last
		} else {
			s.ranges = append(s.ranges, indexRange{first, last})
		}
		next = last + 1
	}
	return nil
}
