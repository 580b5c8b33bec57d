package generator_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// hooked is a repository with a hook that refuses acts.
type hooked struct {
	*bench
	refuses func(ledger.Operation) error
	pushes  int
}

func (h *hooked) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
	h.pushes++
	for _, a := range ops {
		if err := h.refuses(a); err != nil {
			return branch.Head{}, fmt.Errorf("pushing: %w", err)
		}
	}
	return h.bench.Commit(ctx, head, ops)
}

// newHooked returns a repository with two jobs in the queue of each overlay, and its generator.
func newHooked(refuses func(ledger.Operation) error, names ...string) (*hooked, *generator.Generator) {
	h := &hooked{bench: newBench(names...), refuses: refuses}
	for _, name := range names {
		h.jobs(name, 2)
	}
	return h, h.generator(func(c *generator.Config) { c.Repository = h })
}

func refuse(overlay string, err error) func(ledger.Operation) error {
	return func(a ledger.Operation) error {
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
		err      error
		says     string
		oneByOne bool
	}{
		"by a hook":             {&branch.Refused{Message: "b is frozen"}, "invalid: overlays/b: the server refused the push: b is frozen", false},
		"by its files":          {fmt.Errorf("%w: x cannot be a file and a directory at once", branch.ErrInvalid), "invalid: overlays/b: its changes cannot be committed: ", false},
		"by a hook, one by one": {&branch.Refused{Message: "b is frozen"}, "invalid: overlays/b: the server refused the push: b is frozen", true},
	} {
		t.Run(name, func(t *testing.T) {
			h, g := newHooked(refuse("b", c.err), "a", "b", "c")
			if c.oneByOne {
				g = h.generator(func(cfg *generator.Config) { cfg.Repository = single{h} })
			}
			r := tick(t, g)
			if got := kinds(r.Operations); got != "a: dispatch 2; c: dispatch 2" {
				t.Errorf("acts %q", got)
			}
			if len(r.Suspended) != 1 || r.Suspended[0].Overlay != "b" || !strings.HasPrefix(r.Suspended[0].Why.String(), c.says) {
				t.Errorf("suspended %v, want b: %s", r.Suspended, c.says)
			}
			pushes := h.pushes
			h.jobs("a", 2)
			if r = tick(t, g); kinds(r.Operations) != "a: dispatch 2" || h.pushes != pushes+1 || len(r.Suspended) != 1 {
				t.Errorf("then acts %q in %d pushes, suspended %v", kinds(r.Operations), h.pushes-pushes, r.Suspended)
			}
			// Alone, it is still what is refused, and not the branch.
			h.now = h.now.Add(6 * time.Minute)
			h.snapshot.At = h.now
			if r = tick(t, g); kinds(r.Operations) != "" || h.pushes != pushes+2 || len(r.Suspended) != 1 {
				t.Errorf("after 6 minutes acts %q in %d pushes, suspended %v", kinds(r.Operations), h.pushes-pushes, r.Suspended)
			}
			h.refuses = func(ledger.Operation) error { return nil }
			h.now = h.now.Add(6 * time.Minute)
			h.snapshot.At = h.now
			if r = tick(t, g); !strings.Contains(kinds(r.Operations), "b: dispatch 2") || len(r.Suspended) != 0 {
				t.Errorf("at last acts %q, suspended %v", kinds(r.Operations), r.Suspended)
			}
		})
	}
}

// identifiedTree has identities of its files and directories, as the trees of git do.
type identifiedTree struct{ *tree }

func (t identifiedTree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.tree, name)
	entries = slices.Clone(entries)
	for i, e := range entries {
		entries[i] = identifiedEntry{e, t.tree, path.Join(name, e.Name())}
	}
	return entries, err
}

type identifiedEntry struct {
	fs.DirEntry
	tree *tree
	path string
}

func (e identifiedEntry) Identity() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(e.tree.files)) {
		if name == e.path || strings.HasPrefix(name, e.path+"/") {
			fmt.Fprintf(sum, "%s %x\n", name, sha256.Sum256(e.tree.files[name]))
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// identifiedHook is a hooked repository whose trees have identities.
type identifiedHook struct{ *hooked }

func (h identifiedHook) Head(context.Context) (branch.Head, error) {
	head := h.fleet.head()
	return branch.Head{Commit: head.id, Tree: identifiedTree{head.tree}}, nil
}

// TestRefusedOverlayIsTriedAgainWhenItsFilesChange asserts that a person's commit to the
// overlay ends the suspension at once, and that a commit to anything else does not.
func TestRefusedOverlayIsTriedAgainWhenItsFilesChange(t *testing.T) {
	hook, _ := newHooked(refuse("b", &branch.Refused{Message: "b is frozen"}), "a", "b")
	h := identifiedHook{hook}
	g := h.generator(func(c *generator.Config) { c.Repository = h })
	if r := tick(t, g); kinds(r.Operations) != "a: dispatch 2" || len(r.Suspended) != 1 {
		t.Fatalf("acts %q, suspended %v", kinds(r.Operations), r.Suspended)
	}
	h.refuses = func(ledger.Operation) error { return nil }
	h.fleet.edit("a person", branch.Change{Path: "overlays/README.md", Content: []byte("x")}, branch.Change{Path: "overlays/a/README.md", Content: []byte("x")})
	if r := tick(t, g); kinds(r.Operations) != "" || len(r.Suspended) != 1 || r.Suspended[0].Overlay != "b" {
		t.Errorf("with another overlay's files: acts %q, suspended %v", kinds(r.Operations), r.Suspended)
	}
	h.fleet.edit("a person", branch.Change{Path: "overlays/b/README.md", Content: []byte("x")})
	if r := tick(t, g); kinds(r.Operations) != "b: dispatch 2" || len(r.Suspended) != 0 {
		t.Errorf("with its own files: acts %q, suspended %v", kinds(r.Operations), r.Suspended)
	}
}

// swallowing is a repository that breaks the connection after the first push has landed,
// and then serves the former head for some reads.
type swallowing struct {
	*bench
	lags int
}

func (s *swallowing) Head(context.Context) (branch.Head, error) {
	head := s.fleet.head()
	if s.lags > 0 && head.parent != nil {
		s.lags--
		head = head.parent
	}
	return head.head(), nil
}

func (s *swallowing) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
	next, err := s.bench.Commit(ctx, head, ops)
	if err == nil && s.commits == 1 {
		return branch.Head{}, errors.New("the connection broke off")
	}
	return next, err
}

// TestPushThatBrokeOffLandsBehindALaggingMirror asserts that an unchanged head does not
// mean that a push failed: the push is reported when the branch shows it.
func TestPushThatBrokeOffLandsBehindALaggingMirror(t *testing.T) {
	s := &swallowing{bench: newBench("a")}
	g := s.generator(func(c *generator.Config) { c.Repository = s })
	s.jobs("a", 2)
	if r, err := g.Tick(t.Context()); err == nil || len(r.Operations) > 0 {
		t.Fatalf("acts %q, %v", kinds(r.Operations), err)
	}
	s.lags, s.snapshot.Jobs = 1, nil
	if r := tick(t, g); len(r.Operations) > 0 || len(r.Landed) > 0 {
		t.Errorf("behind: acts %q, landed %q", kinds(r.Operations), kinds(r.Landed))
	}
	if r := tick(t, g); len(r.Operations) > 0 || kinds(r.Landed) != "a: dispatch 2" {
		t.Errorf("then acts %q, landed %q", kinds(r.Operations), kinds(r.Landed))
	}
}

// TestEveryOverlayRefused asserts that a tick fails if the server rejects every push, and that
// only the first tick pushes the operations of each overlay separately.
func TestEveryOverlayRefused(t *testing.T) {
	refused := &branch.Refused{Message: "protected branch"}
	h, g := newHooked(func(ledger.Operation) error { return refused }, "a", "b")
	s, oneByOne := newSingle(func(ledger.Operation) error { return refused }, "a", "b")
	for i, want := range []int{3, 4, 5} {
		r, err := g.Tick(t.Context())
		if !errors.As(err, &refused) || len(r.Operations) != 0 || h.pushes != want {
			t.Errorf("tick %d: %v, %d operations, %d pushes, want %d", i, err, len(r.Operations), h.pushes, want)
		}
		if r, err = oneByOne.Tick(t.Context()); !errors.As(err, &refused) || len(r.Operations) != 0 || s.pushes != want-1 {
			t.Errorf("tick %d, one by one: %v, %d operations, %d pushes, want %d", i, err, len(r.Operations), s.pushes, want-1)
		}
	}
}

// TestNotReadyWhileEveryPushIsRefused: git and Buildkite answer, and yet muster is not ready.
func TestNotReadyWhileEveryPushIsRefused(t *testing.T) {
	const interval = 15 * time.Second
	refused := &branch.Refused{Message: "protected branch"}
	h := &hooked{bench: newBench("a", "b"), refuses: func(ledger.Operation) error { return refused }}
	v := watch(t, h.Now, interval)
	g := h.generator(func(c *generator.Config) { c.Repository, c.Watch = h, v })
	ctx, stop := context.WithCancel(t.Context())
	ticks := 0
	h.triggers = func() {
		ticks++
		switch ready := v.Snapshot().NotReady(h.now); {
		case ticks == 1 && len(ready) > 0:
			t.Errorf("without a push it is not ready: %q", ready)
		case ticks == 2 && !slices.Equal(ready, []string{refused.Error()}):
			t.Errorf("while the push is refused it is not ready because of %q", ready)
		case ticks == 3 && len(ready) > 0:
			t.Errorf("after a push it is not ready: %q", ready)
		}
		switch ticks {
		case 1:
			h.jobs("a", 2)
			h.jobs("b", 2)
		case 2:
			h.refuses = func(ledger.Operation) error { return nil }
		case 3:
			stop()
		}
	}
	if err := g.Run(ctx, interval, 0); err != nil {
		t.Fatal(err)
	}
	if ticks != 3 {
		t.Errorf("%d ticks, want 3", ticks)
	}
}

// TestRaceAmongActsPushedApart: what was committed before another writer was
// first is reported, and the rest decided again.
func TestRaceAmongActsPushedApart(t *testing.T) {
	h, g := newHooked(refuse("b", &branch.Refused{Message: "no"}), "a", "b", "c")
	h.onCommit = func(branch.Head) error {
		if h.commits == 2 {
			h.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
		}
		return nil
	}
	r := tick(t, g)
	if got := kinds(r.Operations); got != "a: dispatch 2; c: dispatch 2" || r.Conflicts != 1 || len(r.Suspended) != 1 {
		t.Errorf("acts %q, %d races, suspended %v", got, r.Conflicts, r.Suspended)
	}
}
