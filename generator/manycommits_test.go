package generator_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// TestOrderOfAnotherBehindManyCommits asserts that another muster's order that was deleted
// before this muster read it counts as it was ordered.
func TestOrderOfAnotherBehindManyCommits(t *testing.T) {
	a := &archive{bench: newBench("a")}
	g := a.generator()
	tick(t, g)
	a.jobs("a", 5)
	d := tick(t, a.generator()).Operations[0].Decision.Dispatch[0]
	file := dispatches + "/" + d.ID + ".yaml"
	a.fleet.crowd(300)
	a.fleet.edit("a person", rewrite(lowered, "$1: 7")(file, a.at(file))...)
	a.fleet.crowd(300)
	a.fleet.edit("a person", branch.Change{Path: file}, branch.Change{Path: dispatches + "/state.yaml"})
	a.fleet.crowd(2000)
	a.asked = 0
	if r := tick(t, g); kinds(r.Operations) != "a: repair" || r.Decisions[0].Figures.InFlight != 5 {
		t.Errorf("%q, %d in flight, want a repair and 5", kinds(r.Operations), r.Decisions[0].Figures.InFlight)
	}
	if a.asked > 20 {
		t.Errorf("the past was read %d times", a.asked)
	}
}

// TestRetirementsOfOthers asserts that a dispatch that another muster retired is neither
// restored nor in flight for a muster that read it in git before.
func TestRetirementsOfOthers(t *testing.T) {
	a := twins(t)
	other := a.generator()
	a.snapshot.Sightings, a.snapshot.Jobs = sightings(a.d, "a"), nil
	a.now = a.now.Add(time.Minute)
	tick(t, other)
	a.now = a.now.Add(6 * time.Minute)
	if got := kinds(tick(t, other).Operations); got != "a: retire 1" {
		t.Fatalf("the other does %q, want it to retire", got)
	}
	a.snapshot.Sightings = nil // this one has not seen the agents
	a.jobs("a", 5)
	if r := tick(t, a.g); strings.Contains(kinds(r.Operations), "repair") || r.Decisions[0].Figures.InFlight != 0 {
		t.Errorf("%q, %d in flight, want nothing of what was retired", kinds(r.Operations), r.Decisions[0].Figures.InFlight)
	}
}

// graph is a history with merges, read newest first like that of a git client.
type graph struct {
	*bench
	log  []branch.Commit
	read int
}

func (g *graph) Commits(context.Context, string, branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		for _, c := range g.log {
			if g.read++; !yield(c, nil) {
				return
			}
		}
	}
}

func (g *graph) File(_ context.Context, commit, _ string) ([]byte, error) {
	if commit == "old" {
		return nil, fs.ErrNotExist
	}
	return nil, fmt.Errorf("%w: a file of %s", errWanted, commit)
}

func (g *graph) Edits(context.Context, []branch.Commit, map[string]string, branch.Selection) ([]branch.Edits, error) {
	return nil, errors.ErrUnsupported
}

// errWanted is returned for the file of an order that was found.
var errWanted = errors.New("found")

// TestLogIsReadToItsEnds asserts that the search for orders stops, on each line of a
// history with merges, at muster's commits by the time of their observations. Dates of
// other people's commits do not stop it, and a shallow history is an error.
func TestLogIsReadToItsEnds(t *testing.T) {
	b := newBench("a")
	without := newBench("a") // without state.yaml, whose identity may be a week older
	state := []byte("apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nidentity: {id: a, overlay: overlays/a}\n")
	b.fleet.head().tree = b.fleet.head().tree.with([]branch.Change{{Path: stateOfA, Content: state}})
	day := 24 * time.Hour
	own := func(kind ledger.Kind, id string, observed, made time.Duration, parents ...string) branch.Commit {
		op := ledger.Draft{Kind: kind, Path: "overlays/a", Base: "c0ffee"}
		op.Decision.Overlay, op.Decision.Observation.At = "a", b.now.Add(observed)
		if kind == ledger.Dispatch {
			op.Decision.Dispatch = []plan.Dispatch{{ID: "a-lost", Agents: 5, NotAfter: b.now.Add(10 * time.Minute)}}
			op.Decision.Figures.Dispatch = 5
		}
		return branch.Commit{ID: id, Parents: parents, At: b.now.Add(made), Message: ledger.Message(op, "v0")}
	}
	theirs := func(id string, made time.Duration, parents ...string) branch.Commit {
		return branch.Commit{ID: id, Parents: parents, At: b.now.Add(made), Message: id + "\n"}
	}
	head := strings.Repeat("0", 40)
	lost := func(parents ...string) branch.Commit {
		return own(ledger.Dispatch, "lost", -time.Minute, -time.Minute, parents...)
	}
	old := func(parents ...string) branch.Commit { return own(ledger.Repair, "old", -2*day, -2*day, parents...) }
	for _, test := range []struct {
		name string
		log  []branch.Commit
		want string // in the error; empty: the tick succeeds
		read int
	}{
		{"to the root", []branch.Commit{theirs(head, 0, "b"), theirs("b", -90*day)}, "", 2},
		{"a date of others that is old", []branch.Commit{theirs(head, -90*day, "lost"), lost()}, "found", 2},
		{"an old one of muster's", []branch.Commit{theirs(head, 0, "old"), old("b"), theirs("b", -3*day)}, "", 2},
		{"an old one that was committed again", []branch.Commit{theirs(head, 0, "old"), own(ledger.Repair, "old", -2*day, 0, "lost"), lost()}, "found", 3},
		{"an old date of muster's", []branch.Commit{theirs(head, 0, "new"), own(ledger.Repair, "new", 0, -2*day, "lost"), lost()}, "found", 3},
		{"cut off", []branch.Commit{theirs(head, 0, "b"), theirs("b", -90*day, "nowhere")}, "git fetch --unshallow", 2},
		{"a line behind an old date", []branch.Commit{theirs(head, 0, "old", "skewed"), old("b"), theirs("skewed", -5*day, "lost"), lost("b"), theirs("b", -9*day, "nowhere")}, "found", 4},
		{"a line that ends twice", []branch.Commit{theirs(head, 0, "old", "side"), old("b"), theirs("b", -3*day, "root"), theirs("side", -4*day, "b"), theirs("root", -9*day)}, "", 4},
	} {
		g := &graph{bench: b, log: test.log}
		_, err := b.generator(func(c *generator.Config) { c.Repository = g }).Tick(t.Context())
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || g.read != test.read {
			t.Errorf("%s: %v after %d commits, want %q after %d", test.name, err, g.read, test.want, test.read)
		}
	}
	for age, read := range map[time.Duration]int{-2 * day: 3, -9 * day: 2} {
		g := &graph{bench: without, log: []branch.Commit{theirs(head, 0, "old"), own(ledger.Repair, "old", age, age, "b"), theirs("b", -90*day)}}
		if _, err := without.generator(func(c *generator.Config) { c.Repository = g }).Tick(t.Context()); err != nil || g.read != read {
			t.Errorf("without state.yaml, muster's last commit %s ago: %v after %d commits, want %d", -age, err, g.read, read)
		}
	}
}

// TestShallowDryRun: a dry run on a shallow history counts the orders in state.yaml, and says so.
func TestShallowDryRun(t *testing.T) {
	a := twins(t)
	g := &graph{bench: a.bench, log: []branch.Commit{{ID: a.fleet.head().id, At: a.now, Parents: []string{"nowhere"}}}}
	m := a.bench.generator(func(c *generator.Config) { c.Repository, c.DryRun = g, true })
	if r := tick(t, m); !r.Unverified || r.Decisions[0].Figures.InFlight != 5 || len(r.Suspended) > 0 {
		t.Errorf("unverified %t, %d in flight, suspended %v", r.Unverified, r.Decisions[0].Figures.InFlight, r.Suspended)
	}
	if r := tick(t, a.bench.generator(func(c *generator.Config) { c.DryRun = true })); r.Unverified {
		t.Error("a complete history is unverified")
	}
}

// TestReplacedHistoryIsReadWhole asserts that the whole history is read if the branch was
// reset or replaced, and that a shallow one is an error.
func TestReplacedHistoryIsReadWhole(t *testing.T) {
	b := newBench("a")
	g := &graph{bench: b, log: []branch.Commit{{ID: b.fleet.head().id, At: b.now}}}
	m := b.generator(func(c *generator.Config) { c.Repository = g })
	tick(t, m)
	b.fleet.edit("a person", branch.Change{Path: "notes.txt", Content: []byte("replaced\n")})
	g.log = []branch.Commit{{ID: b.fleet.head().id, At: b.now, Parents: []string{"nowhere"}}}
	if _, err := m.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("%v, want an error that says what helps", err)
	}
}

// drawCrowds draws how often thousands of commits of other people are pushed at once.
func drawCrowds(s *shape) {
	if s.theme == "people" || s.theme == "everything" {
		s.rates.crowds = upTo(rand.New(rand.NewPCG(s.seed, 21)), 4)
	}
}

// beginCrowds makes somebody delete a dispatch and push thousands of commits before the
// next tick, which may be that of a new process.
func (w *scenario) beginCrowds() {
	r := rand.New(rand.NewPCG(w.seed, 22))
	w.work.each(w, r, w.rates.crowds, func() func() {
		n, m, kill := 300+r.IntN(3000), w.musters[r.IntN(len(w.musters))], r.IntN(2) == 0
		return func() {
			w.deleteNewest()
			w.trace("a crowd pushes %d commits", n)
			w.fleet.crowd(n)
			w.seen["crowds"]++
			if kill {
				m.killed = true
			}
		}
	})
}

// deleteNewest deletes the dispatch that was ordered last, if it is in git.
func (w *scenario) deleteNewest() {
	log := w.fleet.history()
	for _, c := range slices.Backward(log) {
		if c.operation == nil || c.operation.Kind != ledger.Dispatch {
			continue
		}
		for _, d := range c.operation.Decision.Dispatch {
			file := c.operation.Path + "/dispatches/" + d.ID + ".yaml"
			if _, there := log[len(log)-1].tree.files[file]; there {
				w.edit("deletes "+d.ID, branch.Change{Path: file})
			}
		}
		return
	}
}
