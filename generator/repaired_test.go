package generator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
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

// TestRepairsInTurn: a tick repairs a hundred overlays and orders for the others; the next ticks repair the rest, also if
// the server refuses the repairs of the first.
func TestRepairsInTurn(t *testing.T) {
	for _, refused := range []bool{false, true} {
		b, names := newLargeBench(231)
		for _, name := range names[:230] {
			b.fleet.edit("a person", branch.Change{Path: "overlays/" + name + "/dispatches/state.yaml", Content: []byte("nonsense: [")})
		}
		if refused {
			b.refuse(func(a ledger.Draft) error {
				if a.Path < "overlays/o100" {
					return &branch.Refused{Message: "frozen"}
				}
				return nil
			})
		}
		g := b.generator()
		var got []string
		for range 3 {
			r := tick(t, g)
			repairs, orders := 0, 0
			for _, op := range r.Operations {
				switch op.Kind {
				case ledger.Repair:
					repairs++
				case ledger.Dispatch:
					orders++
				}
			}
			got = append(got, fmt.Sprintf("%d repairs, %d orders, %d suspended, %d conflicts", repairs, orders, len(r.Suspended), r.Conflicts))
			b.now = b.now.Add(15 * time.Second)
		}
		want := []string{"100 repairs, 101 orders, 130 suspended, 0 conflicts", "100 repairs, 100 orders, 30 suspended, 0 conflicts", "30 repairs, 30 orders, 0 suspended, 0 conflicts"}
		if refused {
			want = []string{"0 repairs, 1 orders, 230 suspended, 0 conflicts", "100 repairs, 100 orders, 130 suspended, 0 conflicts", "30 repairs, 30 orders, 100 suspended, 0 conflicts"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("refused %t:\n%q, want\n%q", refused, got, want)
		}
	}
}

// TestValidRepairedFirst: overlays that are invalid after their repair too do not delay that of a valid one.
func TestValidRepairedFirst(t *testing.T) {
	b, names := newLargeBench(231)
	for _, name := range names {
		b.fleet.edit("a person", branch.Change{Path: "overlays/" + name + "/dispatches/state.yaml", Content: []byte("nonsense: [")})
	}
	for _, name := range names[:230] {
		b.fleet.edit("a person", branch.Change{Path: "overlays/" + name + "/scaling.yaml", Content: []byte("nonsense: [")})
	}
	r := tick(t, b.generator())
	orders := slices.DeleteFunc(slices.Clone(r.Operations), func(op ledger.Draft) bool { return op.Kind != ledger.Dispatch })
	if len(orders) != 1 || orders[0].Path != "overlays/"+names[230] {
		t.Errorf("%d orders, and %d operations", len(orders), len(r.Operations))
	}
}
