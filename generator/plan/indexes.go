package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Indexes is a set of a dispatch's indexes. The zero value is the empty set.
// Its text form lists ranges, as in "0-3,7".
type Indexes struct{ words []uint64 }

// MaxIndex bounds the indexes that a set takes: Kubernetes runs at most 100,000
// pods at once for one Indexed Job (pkg/apis/batch/validation).
const MaxIndex = 100_000

// Add puts an index into the set. One that no Job can have is left out.
func (s *Indexes) Add(i int) {
	if i < 0 || i >= MaxIndex {
		return
	}
	for len(s.words) <= i/64 {
		s.words = append(s.words, 0)
	}
	s.words[i/64] |= 1 << (i % 64)
}

// clone returns a copy of the set.
func (s Indexes) clone() Indexes { return Indexes{words: slices.Clone(s.words)} }

// Has reports whether the index is in the set.
func (s Indexes) Has(i int) bool {
	return i >= 0 && i/64 < len(s.words) && s.words[i/64]&(1<<(i%64)) != 0
}

// Below returns how many of the indexes 0 to n-1 are in the set.
func (s Indexes) Below(n int) int {
	count := 0
	for w, word := range s.words {
		switch {
		case n >= (w+1)*64:
			count += bits.OnesCount64(word)
		case n > w*64:
			count += bits.OnesCount64(word & (1<<(n-w*64) - 1))
		}
	}
	return count
}

// below returns the indexes below n.
func (s Indexes) below(n int) (all []int) {
	for w, word := range s.words {
		for ; word != 0; word &= word - 1 {
			if i := w*64 + bits.TrailingZeros64(word); i < n {
				all = append(all, i)
			}
		}
	}
	return all
}

// IsZero reports whether the set is empty.
func (s Indexes) IsZero() bool { return s.Below(MaxIndex) == 0 }

// String lists the set as ranges; the empty set is "".
func (s Indexes) String() string {
	var ranges []string
	for i, end := 0, len(s.words)*64; i < end; i++ {
		if !s.Has(i) {
			continue
		}
		first := i
		for s.Has(i + 1) {
			i++
		}
		if first == i {
			ranges = append(ranges, strconv.Itoa(i))
		} else {
			ranges = append(ranges, fmt.Sprintf("%d-%d", first, i))
		}
	}
	return strings.Join(ranges, ",")
}

// MarshalText is [Indexes.String].
func (s Indexes) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what [Indexes.String] writes: ranges in ascending order.
func (s *Indexes) UnmarshalText(text []byte) error {
	*s = Indexes{}
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
		next = last + 1
		for i := first; i <= last; i++ {
			s.Add(i)
		}
	}
	return nil
}
