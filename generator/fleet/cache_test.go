package fleet

import (
	"errors"
	"testing"
)

func TestRemembered(t *testing.T) {
	var r remembered[int]
	var found int
	load := func(keys ...string) (values []int) {
		t.Helper()
		r.begin()
		for _, k := range keys {
			v, err := r.get(contentKey(k, nil), func() (int, error) {
				found++
				if k == "wrong" {
					return 0, errors.New("wrong")
				}
				return found, nil
			})
			if (err != nil) != (k == "wrong") {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		r.end()
		return values
	}
	for i, step := range []struct {
		keys  []string
		found int // how often it was looked for, so far
	}{
		{[]string{"a", "b", "a"}, 2},
		{[]string{"b", "a"}, 2},
		{[]string{"a"}, 2},
		{[]string{"a", "b"}, 3}, // b was not used and is forgotten
		{[]string{"wrong", "wrong"}, 5},
		{[]string{"wrong", "a"}, 7}, // and so was a
	} {
		if load(step.keys...); found != step.found {
			t.Errorf("step %d: looked %d times, want %d", i, found, step.found)
		}
	}
	if v := load("a"); v[0] != 7 {
		t.Errorf("a is %d, want 7", v[0])
	}
}
