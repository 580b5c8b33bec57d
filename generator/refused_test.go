package generator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/gitops/branch"
	"muster/gitops/ledger"
)

// hooked is a repository with a hook that refuses acts.
type hooked struct {
	*bench
	refuses func(ledger.Act) error
	pushes  int
}

func (h *hooked) Commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	h.pushes++
	for _, a := range acts {
		if err := h.refuses(a); err != nil {
			return branch.Tip{}, fmt.Errorf("pushing: %w", err)
		}
	}
	return h.bench.Commit(ctx, tip, acts)
}

func newHooked(refuses func(ledger.Act) error, names ...string) (*hooked, *generator.Generator) {
	h := &hooked{bench: newBench(names...), refuses: refuses}
	return h, h.generator(func(c *generator.Config) { c.Repository = h })
}

func refuse(overlay string, err error) func(ledger.Act) error {
	return func(a ledger.Act) error {
		if a.Path == "overlays/"+overlay {
			return err
		}
		return nil
	}
}

// TestOneOverlayRefused: a hook that refuses one overlay's files, or files that
// make no commit, suspend that overlay alone, with the server's words, and are
// tried again after some minutes.
func TestOneOverlayRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"by a hook":    {&branch.Refused{Message: "b is frozen"}, "invalid: overlays/b: the server refused the push: b is frozen"},
		"by its files": {fmt.Errorf("%w: x cannot be a file and a directory at once", branch.ErrInvalid), "invalid: overlays/b: its changes cannot be committed: "},
	} {
		t.Run(name, func(t *testing.T) {
			h, g := newHooked(refuse("b", c.err), "a", "b", "c")
			for _, queue := range []string{"a", "b", "c"} {
				h.jobs(queue, 2)
			}
			r := tick(t, g)
			if got := kinds(r.Acts); got != "a: dispatch 2; c: dispatch 2" {
				t.Errorf("acts %q", got)
			}
			if len(r.Suspended) != 1 || r.Suspended[0].Overlay != "b" || !strings.HasPrefix(r.Suspended[0].Why.String(), c.says) {
				t.Errorf("suspended %v, want b: %s", r.Suspended, c.says)
			}
			pushes := h.pushes
			h.jobs("a", 2)
			if r = tick(t, g); kinds(r.Acts) != "a: dispatch 2" || h.pushes != pushes+1 || len(r.Suspended) != 1 {
				t.Errorf("then acts %q in %d pushes, suspended %v", kinds(r.Acts), h.pushes-pushes, r.Suspended)
			}
			// Alone, it is still what is refused, and not the branch.
			h.now = h.now.Add(6 * time.Minute)
			h.snapshot.At = h.now
			if r = tick(t, g); kinds(r.Acts) != "" || h.pushes != pushes+2 || len(r.Suspended) != 1 {
				t.Errorf("after 6 minutes acts %q in %d pushes, suspended %v", kinds(r.Acts), h.pushes-pushes, r.Suspended)
			}
			h.refuses = func(ledger.Act) error { return nil }
			h.now = h.now.Add(6 * time.Minute)
			h.snapshot.At = h.now
			if r = tick(t, g); !strings.Contains(kinds(r.Acts), "b: dispatch 2") || len(r.Suspended) != 0 {
				t.Errorf("at last acts %q, suspended %v", kinds(r.Acts), r.Suspended)
			}
		})
	}
}

// TestEveryOverlayRefused: a branch that takes nothing is an error of the tick,
// and is not tried overlay by overlay at each.
func TestEveryOverlayRefused(t *testing.T) {
	refused := &branch.Refused{Message: "protected branch"}
	h, g := newHooked(func(ledger.Act) error { return refused }, "a", "b")
	h.jobs("a", 2)
	h.jobs("b", 2)
	for i, want := range []int{3, 4, 5} {
		r, err := g.Tick(t.Context())
		if !errors.As(err, &refused) || len(r.Acts) != 0 || h.pushes != want {
			t.Errorf("tick %d: %v, %d acts, %d pushes, want %d", i, err, len(r.Acts), h.pushes, want)
		}
	}
}

// TestRaceAmongActsPushedApart: what was committed before another writer was
// first is reported, and the rest decided again.
func TestRaceAmongActsPushedApart(t *testing.T) {
	h, g := newHooked(refuse("b", &branch.Refused{Message: "no"}), "a", "b", "c")
	for _, queue := range []string{"a", "b", "c"} {
		h.jobs(queue, 2)
	}
	h.onCommit = func(branch.Tip) error {
		if h.commits == 2 {
			h.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
		}
		return nil
	}
	r := tick(t, g)
	if got := kinds(r.Acts); got != "a: dispatch 2; c: dispatch 2" || r.Races != 1 || len(r.Suspended) != 1 {
		t.Errorf("acts %q, %d races, suspended %v", got, r.Races, r.Suspended)
	}
}
