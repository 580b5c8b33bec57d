package generator_test

import (
	"context"
	"slices"
	"testing"

	"muster/generator"
	"muster/gitops/branch"
)

// TestRefusedRepair: an overlay whose repair the server refuses is suspended, and the tick continues
// with the others. Its warning is there once.
func TestRefusedRepair(t *testing.T) {
	for _, oneByOne := range []bool{false, true} {
		for _, edited := range [][]string{{"a"}, {"a", "b"}} {
			b := newBench("a", "b", "c")
			b.limits.OneByOne = oneByOne
			b.refuse(refuse("a", &branch.Refused{Message: "a is frozen"}))
			for _, name := range edited {
				b.fleet.edit("a person", branch.Change{Path: "overlays/" + name + "/dispatches/state.yaml", Content: []byte("nonsense: [")})
			}
			b.jobs("b", 2)
			r, err := b.generator().Tick(t.Context())
			var warned, suspended []string
			for _, w := range r.Warnings {
				warned = append(warned, w.Overlay)
			}
			for _, s := range r.Suspended {
				suspended = append(suspended, s.Overlay)
			}
			want := map[int]string{1: "b: dispatch 2", 2: "b: repair; b: dispatch 2"}[len(edited)]
			if got := kinds(r.Operations); err != nil || got != want || !slices.Equal(suspended, []string{"a"}) || !slices.Equal(warned, edited) {
				t.Errorf("one by one %t, %v edited: %q, %v; suspended %v, warned of %v", oneByOne, edited, got, err, suspended, warned)
			}
		}
	}
}

// lagging is a repository that shows a push only to the second reader of the head.
type lagging struct {
	*archive
	shown *branch.Head
	lags  bool
}

// Head implements generator.Repository.
func (l *lagging) Head(context.Context) (branch.Head, error) {
	before := l.shown
	now := l.fleet.head().head()
	l.shown = &now
	if l.lags && before != nil && before.Commit != now.Commit {
		l.lags = false
		return *before, nil
	}
	return now, nil
}

// TestRepairedHead: after a repair the tick continues from the head that the push returned, which a
// mirror may not show yet.
func TestRepairedHead(t *testing.T) {
	a := twins(t)
	l := &lagging{archive: a.archive}
	g := a.bench.generator(func(c *generator.Config) { c.Repository = l })
	tick(t, g)
	a.fleet.edit("a person", branch.Change{Path: a.file})
	h := a.fleet.head().head()
	l.shown, l.lags = &h, true
	r := tick(t, g)
	if got := kinds(r.Operations); got != "a: repair" || r.Conflicts > 0 || r.Rewritten != nil {
		t.Errorf("%q, %d conflicts, rewritten %v", got, r.Conflicts, r.Rewritten)
	}
}
