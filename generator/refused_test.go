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
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/github"
	"muster/gitops/unraced"
)

// newRefusing returns a bench with two jobs in the queue of each overlay, whose server refuses operations.
func newRefusing(refuses func(ledger.Draft) error, names ...string) *bench {
	b := newBench(names...)
	b.refuse(refuses)
	for _, name := range names {
		b.jobs(name, 2)
	}
	return b
}

// refuse makes the server refuse each push that has an operation for which f returns an error.
func (b *bench) refuse(f func(ledger.Draft) error) {
	b.onCommit = func(ops []ledger.Draft) error {
		for _, op := range ops {
			if err := f(op); err != nil {
				return fmt.Errorf("pushing: %w", err)
			}
		}
		return nil
	}
}

func refuse(overlay string, err error) func(ledger.Draft) error {
	return func(a ledger.Draft) error {
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
	const frozen = "push refused: the server refused the push: b is frozen"
	for name, c := range map[string]struct {
		err      error
		says     string
		oneByOne bool
	}{
		"by a hook":             {&branch.Refused{Message: "b is frozen"}, frozen, false},
		"by its files":          {fmt.Errorf("%w: x cannot be a file and a directory at once", branch.ErrInvalid), "invalid: overlays/b: its changes cannot be committed: ", false},
		"by a hook, one by one": {&branch.Refused{Message: "b is frozen"}, frozen, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRefusing(refuse("b", c.err), "a", "b", "c")
			b.limits.OneByOne = c.oneByOne
			g := b.generator()
			r := tick(t, g)
			if got := kinds(r.Operations); got != "a: dispatch 2; c: dispatch 2" {
				t.Errorf("operations %q", got)
			}
			if len(r.Suspended) != 1 || r.Suspended[0].Overlay != "b" || !strings.HasPrefix(r.Suspended[0].Why.String(), c.says) {
				t.Errorf("suspended %v, want b: %s", r.Suspended, c.says)
			}
			pushes := b.commits
			b.jobs("a", 2)
			if r = tick(t, g); kinds(r.Operations) != "a: dispatch 2" || b.commits != pushes+1 || len(r.Suspended) != 1 {
				t.Errorf("then operations %q in %d pushes, suspended %v", kinds(r.Operations), b.commits-pushes, r.Suspended)
			}
			// Alone, it is still what is refused, and not the branch.
			b.now = b.now.Add(6 * time.Minute)
			b.snapshot.At = b.now
			if r = tick(t, g); kinds(r.Operations) != "" || b.commits != pushes+2 || len(r.Suspended) != 1 {
				t.Errorf("after 6 minutes operations %q in %d pushes, suspended %v", kinds(r.Operations), b.commits-pushes, r.Suspended)
			}
			b.onCommit = nil
			b.now = b.now.Add(6 * time.Minute)
			b.snapshot.At = b.now
			if r = tick(t, g); !strings.Contains(kinds(r.Operations), "b: dispatch 2") || len(r.Suspended) != 0 {
				t.Errorf("at last operations %q, suspended %v", kinds(r.Operations), r.Suspended)
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

// identifiedBench is a bench whose trees have identities.
type identifiedBench struct{ *bench }

func (b identifiedBench) Head(context.Context) (branch.Head, error) {
	head := b.fleet.head()
	return branch.Head{Commit: head.id, Tree: identifiedTree{head.tree}}, nil
}

// TestRefusedOverlayIsRetriedWhenItsFilesChange asserts that a person's commit to the
// overlay ends the suspension at once, and that a commit to anything else does not.
func TestRefusedOverlayIsRetriedWhenItsFilesChange(t *testing.T) {
	h := identifiedBench{newRefusing(refuse("b", &branch.Refused{Message: "b is frozen"}), "a", "b")}
	g := h.generator(func(c *generator.Config) { c.Repository = h })
	if r := tick(t, g); kinds(r.Operations) != "a: dispatch 2" || len(r.Suspended) != 1 {
		t.Fatalf("operations %q, suspended %v", kinds(r.Operations), r.Suspended)
	}
	h.onCommit = nil
	h.fleet.edit("a person", branch.Change{Path: "overlays/README.md", Content: []byte("x")}, branch.Change{Path: "overlays/a/README.md", Content: []byte("x")})
	if r := tick(t, g); kinds(r.Operations) != "" || len(r.Suspended) != 1 || r.Suspended[0].Overlay != "b" {
		t.Errorf("with another overlay's files: operations %q, suspended %v", kinds(r.Operations), r.Suspended)
	}
	h.fleet.edit("a person", branch.Change{Path: "overlays/b/README.md", Content: []byte("x")})
	if r := tick(t, g); kinds(r.Operations) != "b: dispatch 2" || len(r.Suspended) != 0 {
		t.Errorf("with its own files: operations %q, suspended %v", kinds(r.Operations), r.Suspended)
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

func (s *swallowing) Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	next, err := s.bench.Commit(ctx, head, ops)
	if err == nil && s.commits == 1 {
		return branch.Head{}, &branch.Unsettled{Before: head.Commit, After: next.Commit, Err: errors.New("the connection broke off")}
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
		t.Fatalf("operations %q, %v", kinds(r.Operations), err)
	}
	s.lags, s.snapshot.Jobs = 1, nil
	if r := tick(t, g); len(r.Operations) > 0 || len(r.Landed) > 0 {
		t.Errorf("behind: operations %q, landed %q", kinds(r.Operations), kinds(r.Landed))
	}
	if r := tick(t, g); len(r.Operations) > 0 || kinds(r.Landed) != "a: dispatch 2" {
		t.Errorf("then operations %q, landed %q", kinds(r.Operations), kinds(r.Landed))
	}
}

// TestLandedPushIsNotifiedOnce asserts that a push is passed on once, with its files, as soon as it is
// known to have landed, and that one that has not landed never is.
func TestLandedPushIsNotifiedOnce(t *testing.T) {
	lost := errors.New("the connection broke off")
	for name, c := range map[string]struct {
		landed, others bool
		unsettled      error // of the first push; nil: its response arrives
		pushes         int   // passed on
	}{
		"response arrives":                           {landed: true, pushes: 1},
		"response lost":                              {landed: true, unsettled: lost, pushes: 1},
		"response lost, others on top":               {landed: true, others: true, unsettled: lost, pushes: 1},
		"response lost, the branch is known to move": {landed: true, others: true, unsettled: branch.ErrMoved, pushes: 1},
		"request lost":                               {unsettled: lost, pushes: 1},
		"request lost, others instead":               {others: true, unsettled: branch.ErrMoved, pushes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("a")
			b.jobs("a", 2)
			first := true
			commit := func(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
				if !first || c.unsettled == nil {
					return b.Commit(ctx, head, ops)
				}
				first = false
				u := &branch.Unsettled{Before: head.Commit, Err: c.unsettled, Message: ledger.Message(ops[0], "v0")}
				if c.landed {
					if _, err := b.Commit(ctx, head, ops); err != nil {
						t.Fatal(err)
					}
				}
				if c.others {
					b.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
				}
				return branch.Head{}, u
			}
			var got []string
			g := b.generator(func(cfg *generator.Config) {
				cfg.Repository = committing{b, commit}
				cfg.Landed = func(before, after string, changes []branch.Change) {
					got = append(got, fmt.Sprintf("%s..%s: %d files", before, after, len(changes)))
				}
			})
			operations := 0
			for range 3 {
				r, _ := g.Tick(t.Context())
				operations += len(r.Operations) + len(r.Landed)
			}
			var want []string
			for _, c := range b.fleet.history() {
				if c.operation != nil {
					want = append(want, fmt.Sprintf("%s..%s: %d files", c.parent.id, c.id, len(c.operation.Changes)))
				}
			}
			if !slices.Equal(got, want) || len(want) != c.pushes || operations != c.pushes {
				t.Errorf("passed on %q of %q; %d operations counted", got, want, operations)
			}
		})
	}
}

// TestPushesInARowAreSettled asserts that each push whose result is unknown is settled, although others
// with unknown results followed: one of three lands after them, and is reported and passed on once.
func TestPushesInARowAreSettled(t *testing.T) {
	const pushes = 3
	for landing := range pushes {
		for _, named := range []bool{true, false} { // whether the writer knows the commit's identifier
			for _, others := range []bool{false, true} {
				b := newBench("a")
				b.jobs("a", 2)
				var late []func() string // makes a push, and returns its commit
				commit := func(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
					u := &branch.Unsettled{Before: head.Commit, Message: ledger.Message(ops[0], "v0"), Err: errors.New("the connection broke off")}
					if named {
						u.Message, u.After = "", fmt.Sprint("not made ", len(late))
					}
					late = append(late, func() string {
						next, err := b.Commit(ctx, head, ops)
						if err != nil {
							t.Fatal(err)
						}
						if named {
							u.After = next.Commit
						}
						return next.Commit
					})
					return branch.Head{}, u
				}
				var got []string
				g := b.generator(func(cfg *generator.Config) {
					cfg.Repository = committing{b, commit}
					cfg.Landed = func(before, after string, changes []branch.Change) {
						got = append(got, fmt.Sprintf("%s..%s: %d files", before, after, len(changes)))
					}
				})
				before := b.fleet.head().id
				for i := range pushes {
					if _, err := g.Tick(t.Context()); err == nil {
						t.Fatal("a push without a result is no error")
					}
					if i%2 == 0 { // the next push may be made in the same second, with the same message
						b.now = b.now.Add(time.Second)
					}
				}
				want := fmt.Sprintf("%s..%s: %d files", before, late[landing](), 3)
				if others {
					b.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
				}
				operations := 0
				for range 3 {
					r := tick(t, g)
					operations += len(r.Operations) + len(r.Landed)
				}
				if len(got) != 1 || got[0] != want || operations != 1 {
					t.Errorf("push %d, named %t, others %t: passed on %q, want %q; %d operations reported", landing, named, others, got, want, operations)
				}
			}
		}
	}
}

// committing is a bench with another Commit.
type committing struct {
	*bench
	commit func(context.Context, branch.Head, []ledger.Draft) (branch.Head, error)
}

// Commit implements [generator.Repository].
func (c committing) Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	return c.commit(ctx, head, ops)
}

// TestEveryOverlayRefused asserts that a tick fails if the server rejects every push, and that
// only the first tick pushes the operations of each overlay separately.
func TestEveryOverlayRefused(t *testing.T) {
	refused := &branch.Refused{Message: "protected branch"}
	for oneByOne, pushes := range map[bool][]int{false: {3, 4, 5}, true: {2, 3, 4}} {
		b := newRefusing(func(ledger.Draft) error { return refused }, "a", "b")
		b.limits.OneByOne = oneByOne
		g := b.generator()
		for i, want := range pushes {
			if r, err := g.Tick(t.Context()); !errors.As(err, &refused) || len(r.Operations) != 0 || b.commits != want {
				t.Errorf("one by one %t, tick %d: %v, %v, %d pushes, want %d", oneByOne, i, err, r.Operations, b.commits, want)
			}
		}
	}
}

// TestConflictAmongSeparatePushes: the tick reports what was committed before a conflict, and
// recomputes the rest.
func TestConflictAmongSeparatePushes(t *testing.T) {
	b := newRefusing(nil, "a", "b", "c")
	b.refuse(func(op ledger.Draft) error {
		if op.Path == "overlays/c" && b.commits == 4 { // after all together, a and b
			return branch.ErrMoved
		}
		return refuse("b", &branch.Refused{Message: "no"})(op)
	})
	r := tick(t, b.generator())
	if got := kinds(r.Operations); got != "a: dispatch 2; c: dispatch 2" || r.Conflicts != 1 || len(r.Suspended) != 1 {
		t.Errorf("operations %q, %d conflicts, suspended %v", got, r.Conflicts, r.Suspended)
	}
}

// TestConflictAmongSingleOperations: the tick reports what was committed before a conflict, and
// recomputes the rest on the new head.
func TestConflictAmongSingleOperations(t *testing.T) {
	s := newRefusing(nil, "a", "b", "c")
	s.limits.OneByOne = true
	conflicted := false
	s.refuse(func(a ledger.Draft) error {
		if a.Path == "overlays/b" && !conflicted {
			conflicted = true
			s.overlays[1].spec.max = 1
			s.fleet.edit("a person", branch.Change{Path: "overlays/b/scaling.yaml", Content: s.overlays[1].policyText()})
			return branch.ErrMoved
		}
		return nil
	})
	r := tick(t, s.generator())
	if got := kinds(r.Operations); got != "a: dispatch 2; b: dispatch 1; c: dispatch 2" || r.Conflicts != 1 {
		t.Errorf("operations %q after %d conflicts", got, r.Conflicts)
	}
	var who []string
	for _, c := range s.fleet.history()[1:] {
		who = append(who, c.who)
	}
	if got := strings.Join(who, ", "); got != "muster, a person, muster, muster" {
		t.Errorf("the commits are of %s", got)
	}
}

// TestLimitAmongSingleOperations: after a rate limit, the remaining operations are recomputed and
// come first.
func TestLimitAmongSingleOperations(t *testing.T) {
	s := newRefusing(nil, "a", "b", "c")
	s.limits.OneByOne = true
	left := 1
	s.refuse(func(ledger.Draft) error {
		if left--; left < 0 {
			return retryAfter(time.Minute)
		}
		return nil
	})
	g := s.generator()
	var all []string
	for i := range 4 {
		r, err := g.Tick(t.Context())
		var wait retryAfter
		if errors.As(err, &wait) != (i < 3) || i == 3 && err != nil {
			t.Errorf("tick %d: %v", i, err)
		}
		for _, a := range r.Operations {
			all = append(all, kinds([]ledger.Draft{a}))
		}
		s.now = s.now.Add(time.Second)
		if i == 0 {
			s.jobs("a", 3) // a has operations again, and its turn is last
		}
		left = 1
	}
	if got := strings.Join(all, "; "); !strings.HasPrefix(got, "a: dispatch 2; b: dispatch 2; c: dispatch 2; a: dispatch ") {
		t.Errorf("the operations are %s", got)
	}
}

// cutShort is two overlays that have everything to do at once, of which a limit lets only
// so many acts of the first tick through: a list broken by hand is repaired, one more
// agent is ordered than the hour's limit left, and an order that has come is retired.
type cutShort struct {
	*bench
	left int // operations that are let through; below zero: all
}

func newCutShort(t *testing.T) *cutShort {
	t.Helper()
	s := newRefusing(nil, "a", "b")
	s.onCommit, s.limits.OneByOne = nil, true
	for _, o := range s.overlays {
		o.spec.perHour, o.spec.lookahead = 3, 100
	}
	s.fleet = newFleet(s.Now, retiringFiles(s.overlays))
	c := &cutShort{bench: s, left: -1}
	first := tick(t, s.generator())
	if got := kinds(first.Operations); got != "a: dispatch 2; b: dispatch 2" {
		t.Fatalf("began with %q", got)
	}
	s.snapshot.Jobs = nil
	for _, a := range first.Operations {
		name := strings.TrimPrefix(a.Path, "overlays/")
		for _, d := range a.Decision.Dispatch {
			s.snapshot.Sightings = append(s.snapshot.Sightings, sightings(d, name)...)
		}
		s.jobs(name, 2)
		s.fleet.edit("a person", branch.Change{Path: a.Path + "/dispatches/kustomization.yaml", Content: []byte("resources: []\n")})
	}
	s.now = s.now.Add(10 * time.Minute)
	s.refuse(func(ledger.Draft) error {
		if c.left == 0 {
			return retryAfter(time.Minute)
		}
		c.left--
		return nil
	})
	return c
}

// ordered is how many agents each overlay has ordered, and what its dispatches are named
// that are in git.
func (c *cutShort) ordered(t *testing.T) map[string]int {
	t.Helper()
	all, names := map[string]int{}, map[string]bool{}
	for _, x := range c.fleet.history() {
		if x.operation == nil || x.operation.Kind != ledger.Dispatch {
			continue
		}
		for _, d := range x.operation.Decision.Dispatch {
			if names[d.ID] {
				t.Errorf("%s is ordered twice", d.ID)
			}
			names[d.ID] = true
			all[x.operation.Path] += d.Agents
		}
	}
	return all
}

// TestEveryPrefixOfATick: if operations are pushed one by one and a limit ends the tick, git is valid
// after each of them: a new process orders nothing twice, keeps the hourly limit, and gets the same
// result as an uninterrupted one.
func TestEveryPrefixOfATick(t *testing.T) {
	unraced.Only(t)
	const acts = "a: repair, dispatch 1, retire 1; b: repair, dispatch 1, retire 1"
	for k := range 7 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			c := newCutShort(t)
			c.left = k
			r, err := c.generator().Tick(t.Context())
			if len(r.Operations) != k || (err != nil) != (k < 6) {
				t.Fatalf("%q and %v, want %d operations of %q", kinds(r.Operations), err, k, acts)
			}
			c.left = -1
			for range 3 {
				c.now = c.now.Add(15 * time.Second)
				tick(t, c.generator())
			}
			for overlay, agents := range c.ordered(t) {
				if agents != 3 {
					t.Errorf("%s has ordered %d agents in this hour, of 3", overlay, agents)
				}
			}
			if n := verifyAll(t, c.fleet); n != 8 {
				t.Errorf("%d commits, want those of %q and the first two", n, acts)
			}
		})
	}
}

// TestLargeOperationsOnGitHub: an order and a retirement of 200 dispatches are each split into
// operations that fit into one write request to GitHub, and every operation matches its decision.
func TestLargeOperationsOnGitHub(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	const (
		dispatches = 200
		jobs       = dispatches * plan.JobAgents
	)
	b := newBench("a")
	b.overlays[0].spec.max = jobs
	b.fleet = newFleet(b.Now, retiringFiles(b.overlays))
	b.jobs("a", jobs)
	b.limits = new(github.Writer).Limits()
	g := b.generator()
	agents, retired := 0, 0
	var ordered []plan.Dispatch
	for tries := 0; retired < dispatches && tries < 15; tries++ {
		for _, op := range tick(t, g).Operations {
			size := 0
			for _, c := range op.Changes {
				size += len(c.Content)
			}
			if n := len(op.Changes); n > b.limits.Files || size > b.limits.Bytes {
				t.Errorf("an operation changes %d files, %d bytes, want at most %+v", n, size, b.limits)
			}
			e := op.Operation("")
			if op.Kind == ledger.Retire {
				retired += len(e.Orders)
				continue
			}
			agents += e.Agents()
			ordered = append(ordered, op.Decision.Dispatch...)
		}
		if b.now = b.now.Add(time.Minute); agents == jobs && len(b.snapshot.Jobs) > 0 { // all come
			b.snapshot.Jobs = nil
			for _, d := range ordered {
				b.snapshot.Sightings = append(b.snapshot.Sightings, sightings(d, "a")...)
			}
		}
	}
	if agents != jobs || retired != dispatches || b.commits != 4 {
		t.Errorf("%d operations for %d agents and %d dispatches, want 4 for %d and %d", b.commits, agents, retired, jobs,
			dispatches)
	}
	if n := verifyAll(t, b.fleet); n != b.commits {
		t.Errorf("%d commits are muster's, want %d", n, b.commits)
	}
}

// TestPushedInParts asserts that the operations of many overlays are pushed in several parts, and that a conflict
// between two parts costs no operation, and repeats none.
func TestPushedInParts(t *testing.T) {
	b, names := newLargeBench(120)
	var parts []int
	b.onCommit = func(ops []ledger.Draft) error {
		if parts = append(parts, len(ops)); len(parts) == 2 {
			return branch.ErrMoved
		}
		return nil
	}
	g := b.generator()
	tick(t, g)
	b.now = b.now.Add(15 * time.Second)
	tick(t, g)
	if want := []int{25, 25, 25, 25, 25, 20}; !slices.Equal(parts, want) {
		t.Errorf("the parts have %v operations, want %v", parts, want)
	}
	for _, name := range names {
		orders := 0
		for file := range b.fleet.head().tree.files {
			if strings.HasPrefix(file, "overlays/"+name+"/dispatches/"+name+"-") {
				orders++
			}
		}
		if orders != 1 {
			t.Errorf("%s has %d orders", name, orders)
		}
	}
}

// TestFewInLargeTrees asserts that fewer operations are pushed together if their directory has many names: the tree of
// each commit contains them all.
func TestFewInLargeTrees(t *testing.T) {
	b, _ := newLargeBench(20)
	var others []branch.Change
	for i := range 2000 {
		others = append(others, branch.Change{Path: fmt.Sprintf("overlays/%0200d/README", i), Content: []byte("other")})
	}
	b.fleet.edit("a person", others...)
	var parts []int
	b.onCommit = func(ops []ledger.Draft) error {
		parts = append(parts, len(ops))
		return nil
	}
	tick(t, b.generator())
	if want := []int{9, 9, 2}; !slices.Equal(parts, want) {
		t.Errorf("the parts have %v operations, want %v", parts, want)
	}
}

// TestPartRefused: if the server refuses all operations of a part, muster pushes the next parts too, and suspends
// only the overlays that were refused.
func TestPartRefused(t *testing.T) {
	for _, repairs := range []bool{false, true} {
		b, names := newLargeBench(60)
		for _, name := range names {
			if repairs {
				b.fleet.edit("a person", branch.Change{Path: "overlays/" + name + "/dispatches/state.yaml", Content: []byte("nonsense: [")})
			}
		}
		b.refuse(func(a ledger.Draft) error {
			if a.Path < "overlays/o025" {
				return &branch.Refused{Message: "frozen"}
			}
			return nil
		})
		r := tick(t, b.generator())
		var suspended []string
		for _, s := range r.Suspended {
			suspended = append(suspended, s.Overlay)
		}
		want := 35 // dispatches
		if repairs {
			want = 70
		}
		if len(r.Operations) != want || !slices.Equal(suspended, names[:25]) {
			t.Errorf("repairs %t: %d operations, want %d; suspended %v", repairs, len(r.Operations), want, suspended)
		}
	}
}

// newLargeBench returns a bench with n overlays, of two jobs each, and their names.
func newLargeBench(n int) (*bench, []string) {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("o%03d", i))
	}
	b := newBench(names...)
	for _, name := range names {
		b.jobs(name, 2)
	}
	return b, names
}
