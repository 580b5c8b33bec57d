package plan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// indexes is the set of the first n indexes.
func indexes(n int) (s IndexSet) {
	for i := range n {
		s.Add(i)
	}
	return s
}

// TestIndexSetAreBounded: a tag or a message with an index that no Job can have
// costs no memory, and what is written is read again.
func TestIndexSetAreBounded(t *testing.T) {
	var s IndexSet
	for _, i := range []int{-1, MaxIndex, MaxIndex + 63, 1 << 40} {
		s.Add(i)
		if s.Has(i) || !s.IsZero() || len(s.ranges) > 0 {
			t.Fatalf("%d is added, as %d ranges", i, len(s.ranges))
		}
	}
	for text, fine := range map[string]bool{
		"": true, "0": true, "0-3,7": true, "99999": true, "0-99999": true,
		"100000": false, "99999-100000": false, "0-1000000": false, "-1": false, "3-1": false, "1,1": false, "0-3,3": false, "0,": false, "x": false, "1-x": false,
	} {
		var read IndexSet
		err := read.UnmarshalText([]byte(text))
		if (err == nil) != fine || fine && read.String() != text || err != nil && !strings.Contains(err.Error(), "not a range") {
			t.Errorf("%q is read as %q: %v", text, read, err)
		}
	}
	if err := s.UnmarshalText([]byte("0-3,4,6")); err != nil || s.String() != "0-4,6" {
		t.Errorf("ranges that follow each other are read as %q: %v", s, err)
	}
}

func TestIndexSetTextIsTheSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s, back IndexSet
		want := map[int]bool{}
		for _, i := range rapid.SliceOf(rapid.IntRange(-2, 300)).Draw(t, "indexes") {
			s.Add(i)
			if i >= 0 {
				want[i] = true
			}
		}
		if err := back.UnmarshalText([]byte(s.String())); err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(0, 320).Draw(t, "below")
		count := 0
		for i := range 320 {
			if s.Has(i) != want[i] || back.Has(i) != want[i] {
				t.Fatalf("%q: index %d", s, i)
			}
			if want[i] && i < n {
				count++
			}
		}
		if s.Below(n) != count {
			t.Fatalf("%q has %d below %d, counted %d", s, s.Below(n), n, count)
		}
	})
}
