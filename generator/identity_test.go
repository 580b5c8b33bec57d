package generator_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/fleet"
	"muster/generator/plan"
	"muster/gitops/branch"
)

const stateOfA = "overlays/a/dispatches/state.yaml"

// onBranch configures the branch of a generator.
func onBranch(name string) func(*generator.Config) {
	return func(c *generator.Config) { c.Branch = name }
}

// identity returns what state.yaml of an overlay has.
func (b *bench) identity(overlay string) plan.Identity {
	return fleet.ReadState(b.fleet.head().tree.files[fleet.StateFile("overlays/"+overlay)]).Identity
}

// limit sets max of the first overlay.
func (b *bench) limit(n int) {
	b.overlays[0].spec.max = n
	b.fleet.edit("a person", branch.Change{Path: "overlays/a/scaling.yaml", Content: b.overlays[0].policyText()})
}

// tagsOf returns the identifiers in the tags of the agents that a result orders.
func tagsOf(r generator.Result) (ids []string) {
	for _, a := range r.Operations {
		for _, d := range a.Decision.Dispatch {
			id, _ := plan.TagValue(d.Tags, plan.TagIdentity)
			ids = append(ids, id)
		}
	}
	return ids
}

// TestIdentityFromTheFirstCommit asserts that all writers derive the same identifier from one commit. It
// differs for another branch, another overlay and another commit, and never changes.
func TestIdentityFromTheFirstCommit(t *testing.T) {
	first := func(name, branchName string) (string, *bench) {
		b := newBench(name)
		b.jobs(name, 2)
		r := tick(t, b.generator(onBranch(branchName)))
		ids := tagsOf(r)
		if id := b.identity(name); len(ids) != 1 || id != (plan.Identity{ID: ids[0], Overlay: "overlays/" + name, Branch: branchName}) {
			t.Fatalf("the agents have %q, and state.yaml %+v", ids, id)
		}
		return ids[0], b
	}
	id, b := first("a", "main")
	if same, _ := first("a", "main"); same != id || len(id) != 10 {
		t.Errorf("two writers derive %q and %q", id, same)
	}
	for _, other := range [][2]string{{"a", "east"}, {"b", "main"}} {
		if got, _ := first(other[0], other[1]); got == id {
			t.Errorf("%q has the identifier of the first", other)
		}
	}
	later := newBench("a")
	later.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
	later.jobs("a", 2)
	if ids := tagsOf(tick(t, later.generator(onBranch("main")))); ids[0] == id {
		t.Error("another repository has the identifier of the first")
	}
	b.jobs("a", 4)
	if ids := tagsOf(tick(t, b.generator(onBranch("main")))); !slices.Equal(ids, []string{id}) {
		t.Errorf("the second order has %q, want %q", ids, id)
	}
}

// TestIdentityIsFoundAgain: state.yaml is deleted or damaged, once or often, with and without dispatches in
// git, before and after a restart. The agents of the first order count.
func TestIdentityIsFoundAgain(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		for _, retired := range []bool{false, true} {
			for name, content := range map[string][]byte{"deleted": nil, "damaged": []byte("apiVersion: [\n"), "without a valid identity": []byte("apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nidentity: {id: \"*\"}\n")} {
				b := newBench("a")
				b.limit(4)
				b.jobs("a", 4)
				g := b.generator(onBranch("main"))
				r := tick(t, g)
				id, d := b.identity("a").ID, r.Operations[0].Decision.Dispatch[0]
				for i := range d.Agents {
					b.snapshot.Agents = append(b.snapshot.Agents, plan.Agent{
						ID: d.ID + string(rune('0'+i)), State: plan.AgentBusy, Connected: b.now.Add(time.Minute),
						Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index="+string(rune('0'+i))),
					})
				}
				if retired {
					b.now = b.now.Add(6 * time.Minute)
					tick(t, g)
					b.now = b.now.Add(6 * time.Minute)
					if r := tick(t, g); len(b.fleet.head().tree.below("overlays/a/dispatches")) != 2 {
						t.Fatalf("the dispatch is not retired: %s", kinds(r.Operations))
					}
				}
				for range 10 {
					b.fleet.edit("a person", branch.Change{Path: stateOfA, Content: content})
					if restarted {
						g = b.generator(onBranch("main"))
					}
					r = tick(t, g)
				}
				if s := r.Decisions[0].Figures; s.Dispatch != 0 || s.Current != 4 {
					t.Errorf("%s, restarted %t, retired %t: %d current, %d dispatched, want 4 and none", name, restarted, retired, s.Current, s.Dispatch)
				}
				if got := r.Input.Overlays[0].Identity.ID; got != id {
					t.Errorf("%s, restarted %t, retired %t: the identifier is %q, and was %q", name, restarted, retired, got, id)
				}
			}
		}
	}
}

// TestIdentityRemoved: a fleet without an identity in state.yaml is another one from then on. Agents of
// the former one count while their dispatch is in git, and are then another muster's.
func TestIdentityRemoved(t *testing.T) {
	b := newBench("a")
	b.limit(4)
	b.jobs("a", 4)
	g := b.generator(onBranch("main"))
	r := tick(t, g)
	d := r.Operations[0].Decision.Dispatch[0]
	id := b.identity("a").ID
	text := b.fleet.head().tree.files[stateOfA]
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "identity:") || strings.HasPrefix(line, "  ")
	})
	b.fleet.edit("a person", branch.Change{Path: stateOfA, Content: []byte(strings.Join(lines, ""))})
	b.snapshot.Agents = []plan.Agent{{ID: "1", State: plan.AgentBusy, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index=0")}}
	for _, g := range []*generator.Generator{g, b.generator(onBranch("main"))} {
		r = tick(t, g)
		now := r.Input.Overlays[0].Identity.ID
		if s := r.Decisions[0].Figures; s.Current != 4 || s.Dispatch != 0 || now == id || now == "" {
			t.Errorf("the identifier is %q, and was %q; %d agents are current, %d dispatched", now, id, s.Current, s.Dispatch)
		}
	}
	b.now = b.now.Add(time.Hour)
	b.snapshot.Jobs = nil
	tick(t, g)
	if r = tick(t, g); r.Decisions[0].Figures.Current != 0 || r.Decisions[0].Observation.Capacity("a").OtherFleets != 1 {
		t.Errorf("after the deadline: %+v", r.Decisions[0].Figures)
	}
}

// TestCopiedBranch: a branch with the identity of another that still exists is a copy. Without that
// branch it was renamed, and has its agents.
func TestCopiedBranch(t *testing.T) {
	for _, exists := range []bool{true, false} {
		b := newBench("a")
		b.jobs("a", 3)
		r := tick(t, b.generator(onBranch("east")))
		d, id := r.Operations[0].Decision.Dispatch[0], b.identity("a").ID
		if b.fleet.branches = []string{"main"}; exists {
			b.fleet.branches = append(b.fleet.branches, "east")
		}
		b.snapshot.Agents = []plan.Agent{{ID: "1", State: plan.AgentBusy, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index=0")}}
		if !exists {
			b.snapshot.Jobs = b.snapshot.Jobs[1:]
		}
		g := b.generator(onBranch("west"))
		r = tick(t, g)
		s, now := r.Decisions[0].Figures, r.Input.Overlays[0].Identity
		if exists {
			if s.Current != 2 || s.InFlight != 2 || s.Dispatch != 1 || now.ID == id || now.CopiedFrom != id || r.Decisions[0].Observation.Capacity("a").OtherFleets != 1 {
				t.Errorf("a copy: %+v, %+v", s, now)
			}
			if got := kinds(r.Operations); got != "a: dispatch 1; a: withdraw 1" || b.fleet.head().tree.files["overlays/a/dispatches/"+d.ID+".yaml"] != nil {
				t.Errorf("a copy: %s, want its dispatch withdrawn", got)
			}
			if n := strings.Count(b.log.String(), "the overlay is a copy, and gets an identifier of its own"); n != 1 {
				t.Errorf("a copy: %d lines in\n%s", n, b.log.String())
			}
			if again := b.identity("a"); again != now || again.Branch != "west" {
				t.Errorf("a copy: state.yaml has %+v, want %+v", again, now)
			}
			if got := kinds(tick(t, g).Operations); got != "" {
				t.Errorf("a copy, in the next tick: %s", got)
			}
			b.now = b.now.Add(time.Hour) // the copied dispatch leaves, and nothing is a copy any more
			b.snapshot.Jobs = nil
			tick(t, g)
			b.jobs("a", 1)
			if tick(t, b.generator(onBranch("west"))); b.identity("a") != (plan.Identity{ID: now.ID, Overlay: "overlays/a", Branch: "west"}) {
				t.Errorf("afterwards: %+v", b.identity("a"))
			}
			continue
		}
		if s.Current != 3 || s.Dispatch != 0 || now != (plan.Identity{ID: id, Overlay: "overlays/a", Branch: "west"}) || len(r.Operations) != 0 {
			t.Errorf("renamed: %+v, %+v, %s", s, now, kinds(r.Operations))
		}
		b.jobs("a", 5)
		if tick(t, g); b.identity("a") != now {
			t.Errorf("renamed: state.yaml has %+v after the next order", b.identity("a"))
		}
	}
}

// TestCopiedBranchWithoutState: a copy of a branch whose state.yaml was deleted ("Delete it to forget") before
// muster's first commit there is still a copy while the original exists.
func TestCopiedBranchWithoutState(t *testing.T) {
	for name, content := range map[string][]byte{"deleted": nil, "damaged": []byte("x: [\n")} {
		for _, exists := range []bool{true, false} {
			b := newBench("a")
			b.jobs("a", 3)
			r := tick(t, b.generator(onBranch("east")))
			d, id := r.Operations[0].Decision.Dispatch[0], b.identity("a").ID
			if b.fleet.branches = []string{"west"}; exists {
				b.fleet.branches = append(b.fleet.branches, "east")
			}
			b.snapshot.Agents = []plan.Agent{{ID: "1", State: plan.AgentBusy, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index=0")}}
			b.fleet.edit("a person", branch.Change{Path: stateOfA, Content: content})
			r = tick(t, b.generator(onBranch("west")))
			now := r.Input.Overlays[0].Identity
			if (now.ID == id) == exists {
				t.Errorf("%s: the other branch exists: %t; the identity is %+v, that of the original %q", name, exists, now, id)
			}
		}
	}
}

// TestBranchCreatedLater asserts that each tick looks up the former branch, once for all overlays, until a
// commit makes the answer permanent: the branch may be created at any time.
func TestBranchCreatedLater(t *testing.T) {
	b := newBench("a", "b")
	b.jobs("a", 3)
	b.jobs("b", 3)
	tick(t, b.generator(onBranch("east")))
	id := b.identity("a").ID
	b.snapshot.Jobs = nil
	asked := 0
	g := b.generator(onBranch("west"), func(c *generator.Config) {
		c.Repository = branching{c.Repository, func() { asked++ }}
	})
	for i, exists := range []bool{false, false, true, true} { // the third tick withdraws the copied dispatches
		if b.fleet.branches = []string{"west"}; exists {
			b.fleet.branches = append(b.fleet.branches, "east")
		}
		for _, o := range tick(t, g).Input.Overlays {
			if copied := o.Identity.CopiedFrom != ""; copied != exists || o.Name == "a" && (o.Identity.ID == id) == exists {
				t.Errorf("tick %d: the other branch exists: %t, and %s has the identity %+v", i, exists, o.Name, o.Identity)
			}
		}
		if asked != min(3, i+1) {
			t.Errorf("tick %d: %d requests", i, asked)
		}
		b.now = b.now.Add(10 * time.Second)
	}
}

// TestIdentityIsNotRead asserts that a tick fails if it cannot read what an identity depends on, and that
// the next tick finds the identity.
func TestIdentityIsNotRead(t *testing.T) {
	for what, want := range map[string]string{"file": "reading the commits since the last tick: order ", "branch": `looking up the branch "east": `} {
		b := newBench("a")
		b.jobs("a", 3)
		tick(t, b.generator(onBranch("east")))
		id := b.identity("a").ID
		name := "west"
		if what == "file" {
			name = "east"
			b.fleet.edit("a person", branch.Change{Path: stateOfA})
		}
		failing := true
		g := b.generator(onBranch(name), func(c *generator.Config) { c.Repository = unreadable{c.Repository, &failing} })
		for range 2 {
			r, err := g.Tick(t.Context())
			if err == nil || !strings.Contains(err.Error(), "fleet repository: "+want) || !errors.Is(err, errAway) || len(r.Operations) > 0 {
				t.Errorf("%s: %v, %s", what, err, kinds(r.Operations))
			}
		}
		failing = false
		r := tick(t, g)
		if got := r.Input.Overlays[0].Identity.ID; got != id || r.Decisions[0].Figures.Dispatch != 0 {
			t.Errorf("%s: afterwards the identifier is %q, and was %q; %s", what, got, id, kinds(r.Operations))
		}
	}
}

// TestNoIdentityIsRead asserts that an overlay that muster has repaired, and has never ordered for, costs no request
// for earlier commits, after a restart neither.
func TestNoIdentityIsRead(t *testing.T) {
	b := newBench("a")
	b.fleet.edit("a person", branch.Change{Path: "overlays/a/dispatches/kustomization.yaml"})
	failing := true // every request
	unread := func(c *generator.Config) { c.Repository = unreadable{c.Repository, &failing} }
	for range 2 {
		g := b.generator(unread)
		for range 2 {
			tick(t, g)
			b.now = b.now.Add(15 * time.Second)
		}
	}
	if got := b.fleet.head().message(); !strings.Contains(got, "repair dispatches/") {
		t.Errorf("the last commit is %q", got)
	}
}

var errAway = errors.New("the server is away")

// unreadable is a repository whose earlier files and branches cannot be read for a while.
type unreadable struct {
	generator.Repository
	failing *bool
}

// File implements [generator.Repository].
func (r unreadable) File(ctx context.Context, commit, name string) ([]byte, error) {
	if *r.failing {
		return nil, errAway
	}
	return r.Repository.File(ctx, commit, name)
}

// HasBranch implements [generator.Repository].
func (r unreadable) HasBranch(ctx context.Context, name string) (bool, error) {
	if *r.failing {
		return false, errAway
	}
	return r.Repository.HasBranch(ctx, name)
}

// branching is a repository that counts requests for branches.
type branching struct {
	generator.Repository
	asked func()
}

// HasBranch implements [generator.Repository].
func (r branching) HasBranch(ctx context.Context, name string) (bool, error) {
	r.asked()
	return r.Repository.HasBranch(ctx, name)
}

// TestCopiedOverlay: the original keeps its identifier and its agents. What the copy has in flight counts
// there too, until it registers; its agents do not.
func TestCopiedOverlay(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	g := b.generator(onBranch("main"))
	r := tick(t, g)
	d, id := r.Operations[0].Decision.Dispatch[0], b.identity("a").ID
	b.copyOverlay()
	b.jobs("z", 2)
	r = tick(t, g)
	if got := kinds(r.Operations); got != "z: dispatch 2; z: withdraw 1" {
		t.Fatalf("%s, want two agents, and the copied dispatch withdrawn", got)
	}
	a, z := r.Decisions[0], r.Decisions[1]
	if b.identity("a").ID != id || b.identity("z").ID == id || b.identity("z").CopiedFrom != id || a.Figures.InFlight != 3 || z.Figures.Stopping != 3 {
		t.Errorf("a has %+v and z %+v; %+v, %+v", b.identity("a"), b.identity("z"), a.Figures, z.Figures)
	}
	for i := range d.Agents {
		b.snapshot.Agents = append(b.snapshot.Agents, plan.Agent{ID: string(rune('0' + i)), State: plan.AgentBusy, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index="+string(rune('0'+i)))})
	}
	r = tick(t, g)
	if a, z := r.Decisions[0], r.Decisions[1]; a.Figures.Busy != 3 || a.Figures.InFlight != 0 || z.Figures.Stopping != 0 || z.Figures.Current != 2 {
		t.Errorf("once they have registered: %+v, %+v", a.Figures, z.Figures)
	}
}

// copyOverlay replaces the files of overlay z, except for its queue, by those of a.
func (b *bench) copyOverlay() {
	var all []branch.Change
	files := b.fleet.head().tree.files
	for name, text := range files {
		if rest, ok := strings.CutPrefix(name, "overlays/a/"); ok {
			all = append(all, branch.Change{Path: "overlays/z/" + rest, Content: bytes.ReplaceAll(text, []byte("queue: a"), []byte("queue: z"))})
		} else if rest, ok := strings.CutPrefix(name, "overlays/z/"); ok && files["overlays/a/"+rest] == nil {
			all = append(all, branch.Change{Path: name})
		}
	}
	b.fleet.edit("copies an overlay", all...)
}

// TestCopiedOverOverlay: an overlay whose files a copy has replaced keeps its identifier, also if the
// process has restarted.
func TestCopiedOverOverlay(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench("a", "z")
		b.jobs("a", 3)
		b.jobs("z", 2)
		g := b.generator(onBranch("main"))
		tick(t, g)
		former, id := b.identity("a").ID, b.identity("z").ID
		b.copyOverlay()
		if restarted {
			g = b.generator(onBranch("main"))
		}
		r := tick(t, g)
		if got := r.Input.Overlays[1].Identity; id == "" || got.ID != id || got.CopiedFrom != former {
			t.Errorf("restarted %t: the identity is %+v, want %q as before, copied from %q", restarted, got, id, former)
		}
	}
}

// TestCopiedState: if only state.yaml is another overlay's, the overlay keeps its own orders as they are.
// Those of the other count until their deadline, and no syncer gets them.
func TestCopiedState(t *testing.T) {
	b := newBench("a", "z")
	b.jobs("a", 3)
	b.jobs("z", 2)
	g := b.generator(onBranch("main"))
	tick(t, g)
	b.fleet.edit("a person", branch.Change{Path: fleet.StateFile("overlays/z"), Content: b.fleet.head().tree.files[stateOfA]})
	r := tick(t, g)
	if z := r.Decisions[1].Figures; z.InFlight != 2 || z.Stopping != 3 || z.Dispatch != 0 || kinds(r.Operations) != "z: repair" {
		t.Errorf("%+v, %s; want two agents in flight, and a repair", z, kinds(r.Operations))
	}
}

// TestRewrittenBranch: a branch that no longer has the head that was read is a condition for a while, with
// both heads. What the process has ordered counts.
func TestRewrittenBranch(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	g := b.generator(onBranch("main"))
	tick(t, g)
	from := b.fleet.head().id
	b.fleet.reset(0)
	b.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
	to := b.fleet.head().id
	rewritten := func(r generator.Result) string {
		for _, c := range r.Conditions(b.now) {
			if c.Reason == condition.BranchRewritten {
				return c.Message
			}
		}
		return ""
	}
	r := tick(t, g)
	if s := r.Decisions[0].Figures; s.InFlight != 3 || s.Dispatch != 0 || r.Input.Overlays[0].Identity.ID == "" {
		t.Errorf("%+v, want three in flight and none ordered", s)
	}
	if got := rewritten(r); !strings.Contains(got, from[:12]) || !strings.Contains(got, to[:12]) {
		t.Errorf("the condition is %q, want %.12s and %.12s", got, from, to)
	}
	b.now = b.now.Add(16 * time.Minute)
	if got := rewritten(tick(t, g)); got != "" {
		t.Errorf("after 16 minutes: %q", got)
	}
	if b.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("y")}); rewritten(tick(t, g)) != "" {
		t.Error("a push on top counts as rewritten")
	}
}

// busyBench returns a bench whose overlay a has an identifier, four busy agents of a retired order, and max 4.
func busyBench(t *testing.T) (b *bench, g *generator.Generator, id string) {
	t.Helper()
	b = newBench("a")
	b.limit(4)
	b.jobs("a", 4)
	g = b.generator(onBranch("main"))
	r := tick(t, g)
	id = b.identity("a").ID
	d := r.Operations[0].Decision.Dispatch[0]
	for i := range d.Agents {
		b.snapshot.Agents = append(b.snapshot.Agents, plan.Agent{
			ID: d.ID + string(rune('0'+i)), State: plan.AgentBusy, Connected: b.now.Add(time.Minute),
			Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index="+string(rune('0'+i))),
		})
	}
	b.now = b.now.Add(6 * time.Minute)
	tick(t, g)
	b.now = b.now.Add(6 * time.Minute)
	tick(t, g)
	return b, g, id
}

// TestIdentityLongAgo asserts that a restarted muster finds the identity of a deleted state.yaml as long as agents
// with it may be connected: reusable ones for a week.
func TestIdentityLongAgo(t *testing.T) {
	for _, age := range []time.Duration{10 * time.Hour, 30 * time.Hour, 7 * 24 * time.Hour} {
		b, _, id := busyBench(t)
		b.now = b.now.Add(age)
		b.fleet.edit("a person", branch.Change{Path: stateOfA})
		r := tick(t, b.generator(onBranch("main")))
		s := r.Decisions[0].Figures
		if got := r.Input.Overlays[0].Identity; got.ID != id || s.Current != 4 || s.Dispatch != 0 {
			t.Errorf("%s: %+v, want %s; %d current, %d dispatched", age, got, id, s.Current, s.Dispatch)
		}
	}
}

// TestMergedBranch asserts that a branch keeps its identity when another branch that has a muster of its own is merged
// into it, also if that branch is deleted then.
func TestMergedBranch(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		for _, exists := range []bool{true, false} {
			b, g, id := busyBench(t)
			text := b.fleet.head().tree.files[stateOfA]
			merged := bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(id), []byte("eeeeeeeeee")), []byte("branch: main"), []byte("branch: east"))
			b.fleet.edit("Merge branch east", branch.Change{Path: stateOfA, Content: merged})
			if b.fleet.branches = []string{"main"}; exists {
				b.fleet.branches = append(b.fleet.branches, "east")
			}
			if restarted {
				g = b.generator(onBranch("main"))
			}
			r := tick(t, g)
			s := r.Decisions[0].Figures
			if got := r.Input.Overlays[0].Identity; got.ID != id || s.Current != 4 || s.Dispatch != 0 {
				t.Errorf("restarted %t, east exists %t: %+v, want %s; %d current, %d dispatched", restarted, exists, got, id, s.Current, s.Dispatch)
			}
		}
	}
}

// TestUnknownOrders: the branch is set back while no muster runs, so that an order is lost. While others of
// its agents may follow those that are connected, nothing is ordered. A process that has seen the order
// counts it, and orders.
func TestUnknownOrders(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench("a")
		b.limit(20)
		b.jobs("a", 1)
		g := b.generator(onBranch("main"))
		tick(t, g)
		back := len(b.fleet.history()) - 1
		b.now = b.now.Add(time.Minute)
		b.jobs("a", 4)
		d := tick(t, g).Operations[0].Decision.Dispatch[0]
		b.fleet.reset(back)
		b.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
		b.now = b.now.Add(time.Minute)
		b.snapshot.Agents = []plan.Agent{{ID: "1", State: plan.AgentBusy, Connected: b.now, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index=0")}}
		b.jobs("a", 9)
		if restarted {
			g = b.generator(onBranch("main"))
		}
		r := tick(t, g)
		until := b.now.Add(10*time.Minute + plan.Grace)
		if !restarted {
			if len(r.Suspended) > 0 || r.Decisions[0].Figures.InFlight != d.Agents || ordered(r) == 0 {
				t.Errorf("%s, %d in flight, suspended %v", kinds(r.Operations), r.Decisions[0].Figures.InFlight, r.Suspended)
			}
			continue
		}
		if len(r.Suspended) != 1 || r.Suspended[0].Why.Code != plan.UnknownOrders || len(r.Operations) > 0 || !strings.Contains(r.Suspended[0].Why.Finding, until.Format(time.RFC3339)) {
			t.Errorf("%s, suspended %v, want nothing ordered until %s", kinds(r.Operations), r.Suspended, until)
		}
		b.now = until
		if r = tick(t, g); len(r.Suspended) > 0 || ordered(r) == 0 {
			t.Errorf("then %s, suspended %v, want agents ordered", kinds(r.Operations), r.Suspended)
		}
		verifyAll(t, b.fleet)
	}
}

// TestSwappedOverlays: two overlays exchange their names. Each keeps its orders.
func TestSwappedOverlays(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench("a", "z")
		b.jobs("a", 3)
		b.jobs("z", 2)
		g := b.generator(onBranch("main"))
		tick(t, g)
		var all []branch.Change
		for name, text := range b.fleet.head().tree.files {
			for from, to := range map[string]string{"overlays/a/": "overlays/z/", "overlays/z/": "overlays/a/"} {
				if rest, ok := strings.CutPrefix(name, from); ok {
					all = append(all, branch.Change{Path: to + rest, Content: text})
					if b.fleet.head().tree.files[to+rest] == nil {
						all = append(all, branch.Change{Path: name})
					}
				}
			}
		}
		b.fleet.edit("swaps two overlays", all...)
		if restarted {
			g = b.generator(onBranch("main"))
		}
		r := tick(t, g)
		if got := r.Decisions; kinds(r.Operations) != "" || len(r.Suspended) > 0 || got[0].Figures.InFlight != 2 || got[1].Figures.InFlight != 3 {
			t.Errorf("restarted %t: %s, suspended %v, in flight %d and %d", restarted, kinds(r.Operations), r.Suspended, got[0].Figures.InFlight, got[1].Figures.InFlight)
		}
	}
}

// TestCopiedAndRenamed: somebody copies an overlay and replaces its name in all files. The original keeps
// its identity and its orders.
func TestCopiedAndRenamed(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench("a")
		b.jobs("a", 3)
		g := b.generator(onBranch("main"))
		d := tick(t, g).Operations[0].Decision.Dispatch[0]
		id := b.identity("a").ID
		var all []branch.Change
		for name, text := range b.fleet.head().tree.files {
			if rest, ok := strings.CutPrefix(name, "overlays/a/"); ok {
				text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("overlays/a"), []byte("overlays/z")), []byte("overlay=a"), []byte("overlay=z"))
				text = bytes.ReplaceAll(text, []byte(d.ID), []byte("z"+d.ID[1:]))
				all = append(all, branch.Change{Path: "overlays/z/" + strings.Replace(rest, d.ID, "z"+d.ID[1:], 1), Content: bytes.ReplaceAll(text, []byte("queue: a"), []byte("queue: z"))})
			}
		}
		b.fleet.edit("copies and renames", all...)
		if restarted {
			g = b.generator(onBranch("main"))
		}
		r := tick(t, g)
		if a := r.Input.Overlays[0]; a.Identity.ID != id || a.Identity.CopiedFrom != "" || r.Decisions[0].Figures.InFlight != 3 || b.at(dispatches+"/"+d.ID+".yaml") == "" {
			t.Errorf("restarted %t: %+v, %d in flight, %s", restarted, a.Identity, r.Decisions[0].Figures.InFlight, kinds(r.Operations))
		}
		if z := r.Input.Overlays[1]; z.Identity.ID == id || z.Identity.CopiedFrom != id {
			t.Errorf("restarted %t: the copy is %+v", restarted, z.Identity)
		}
	}
}

// TestSetBackIsRestored: an order that the branch lost is restored although all its agents have registered:
// another process does not suspend the overlay for its agents.
func TestSetBackIsRestored(t *testing.T) {
	b := newBench("a")
	b.limit(20)
	b.jobs("a", 1)
	g := b.generator(onBranch("main"))
	tick(t, g)
	back := len(b.fleet.history()) - 1
	b.now = b.now.Add(time.Minute)
	b.jobs("a", 2)
	d := tick(t, g).Operations[0].Decision.Dispatch[0]
	b.now = b.now.Add(time.Minute)
	b.snapshot.Jobs = nil
	for i := range d.Agents {
		b.snapshot.Agents = append(b.snapshot.Agents, plan.Agent{ID: string(rune('0' + i)), State: plan.AgentBusy, Connected: b.now, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, "index="+string(rune('0'+i)))})
	}
	tick(t, g)
	b.fleet.reset(back)
	b.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("x")})
	if got := kinds(tick(t, g).Operations); got != "a: repair" {
		t.Errorf("%q, want the order restored", got)
	}
	for range 3 {
		b.now = b.now.Add(2 * time.Minute)
		if r := tick(t, b.generator(onBranch("main"))); len(r.Suspended) > 0 {
			t.Errorf("a new process suspends %v", r.Suspended)
		}
		tick(t, g)
	}
}
