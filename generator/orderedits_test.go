package generator_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/fleet"
	"muster/generator/manual"
	"muster/generator/plan"
	"muster/generator/verification"
	"muster/gitops/branch"
)

// TestNeverCreatedInACopy: the command, in a copy of an overlay, concerns the copied order. The original keeps
// its own.
func TestNeverCreatedInACopy(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench("a")
		b.limit(3)
		b.jobs("a", 3)
		g := b.generator(onBranch("main"))
		d := tick(t, g).Operations[0].Decision.Dispatch[0]
		b.copyOverlay()
		if got := kinds(tick(t, g).Operations); got != "z: withdraw 1" {
			t.Fatal(got)
		}
		b.commandAt(t, "overlays/z", neverCreated(d.ID))
		if restarted {
			g = b.generator(onBranch("main"))
		}
		r := tick(t, g)
		if b.at("overlays/a/dispatches/"+d.ID+".yaml") == "" || kinds(r.Operations) != "" {
			t.Errorf("restarted %t: original's manifest gone: %q %s", restarted, kinds(r.Operations), b.at(stateOfA))
		}
	}
}

// TestCancelInACopy: the same for a copied order that muster has not withdrawn yet.
func TestCancelInACopy(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench("a")
		b.limit(3)
		b.jobs("a", 3)
		g := b.generator(onBranch("main"))
		d := tick(t, g).Operations[0].Decision.Dispatch[0]
		b.copyOverlay()
		b.commandAt(t, "overlays/z", cancel(d.ID))
		if restarted {
			g = b.generator(onBranch("main"))
		}
		r := tick(t, g)
		if b.at("overlays/a/dispatches/"+d.ID+".yaml") == "" {
			t.Errorf("restarted %t: original's manifest gone: %q", restarted, kinds(r.Operations))
		}
	}
}

// TestCancelOnDamagedState: a command writes nothing over a damaged state.yaml, whose identity would be lost.
func TestCancelOnDamagedState(t *testing.T) {
	a := twins(t)
	a.fleet.edit("a merge", branch.Change{Path: stateOfA, Content: []byte(strings.Replace(a.at(stateOfA), "identity:", "<<<<<<< HEAD\nidentity:", 1))})
	loaded, err := fleet.NewLoader("overlays").Load(a.fleet.head().tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []func(*fleet.Overlay) (manual.Edit, error){cancel(a.d.ID), neverCreated(a.d.ID), manual.CloseBreaker} {
		if e, err := run(&loaded[0]); err == nil && len(e.Changes) > 0 {
			t.Errorf("it writes %d files", len(e.Changes))
		}
	}
}

// TestUnclearOverlayAndVerify: the orders of an overlay with a manifest that no order explains are restored in
// state.yaml, because decisions on other overlays of the queue count them.
func TestUnclearOverlayAndVerify(t *testing.T) {
	for _, how := range []string{"line deleted", "both deleted"} {
		a := twins(t)
		a.jobs("a", 2)
		changes := []branch.Change{{Path: dispatches + "/mine.yaml", Content: []byte("kind: ConfigMap\n")}}
		state := regexp.MustCompile(`(?m)^  a-.*\n`).ReplaceAllString(a.at(stateOfA), "")
		changes = append(changes, branch.Change{Path: stateOfA, Content: []byte(state)})
		if how == "both deleted" {
			changes = append(changes, branch.Change{Path: a.file})
		}
		a.fleet.edit("a person", changes...)
		if got := kinds(tick(t, a.g).Operations); got != "a: repair; b: dispatch 2" {
			t.Errorf("%s: %q", how, got)
		}
		verifyAll(t, a.fleet)
	}
}

// TestWithdrawnRetirementReverted: a person reverts the retirement of a withdrawn order. That it was put back
// is in git before it is judged again.
func TestWithdrawnRetirementReverted(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := twins(t)
		a.fleet.edit("a person", deleted(a.file, "")...)
		a.snapshot.Sightings, a.snapshot.Jobs = sightings(a.d, "a")[:2], nil
		tick(t, a.g)
		a.fleet.edit("one failure", branch.Change{Path: stateOfA, Content: []byte(strings.Replace(a.at(stateOfA), "identity:", "breaker: {failures: 1, at: 2026-01-05T05:00:00Z, dispatch: a-1, cause: never-registered}\nidentity:", 1))})
		before := a.fleet.head()
		a.now = a.d.NotAfter.Add(plan.Grace + time.Second)
		if got := kinds(tick(t, a.g).Operations); got != "a: retire 1" {
			t.Fatal(got)
		}
		a.fleet.revertTo(before)
		if restarted {
			a.g = a.generator()
		}
		for range 3 {
			tick(t, a.g)
			a.now = a.now.Add(6 * time.Minute)
		}
		verifyAll(t, a.fleet)
	}
}

// TestRepairedThenRestored: an order that a repair has withdrawn stays withdrawn if a person restores all files
// as they were before, also for a process that has not seen the repair.
func TestRepairedThenRestored(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := twins(t)
		before := a.fleet.head()
		a.fleet.edit("a person", deleted(a.file, "")...)
		tick(t, a.g)
		a.fleet.revertTo(before)
		if restarted {
			a.g = a.generator()
		}
		r := tick(t, a.g)
		if kinds(r.Operations) != "a: repair" || a.at(a.file) != "" {
			t.Errorf("restarted %t: %q, the syncer gets a withdrawn order again", restarted, kinds(r.Operations))
		}
	}
}

// TestLineEdited: values in a line of state.yaml that somebody edits are restored, also by a process that did
// not read them before.
func TestLineEdited(t *testing.T) {
	for _, c := range [][2]string{{"queue=a", "queue=old"}, {`"idleTimeout":"5m0s"`, `"idleTimeout":"500h0m0s"`}, {`"template":"`, `"cluster":"x","template":"`}, {`"overlay=a`, `"overlay=q`}} {
		for _, restarted := range []bool{false, true} {
			a := twins(t)
			before := a.at(stateOfA)
			after := strings.Replace(before, c[0], c[1], 1)
			if after == before {
				t.Fatal(c[0], before)
			}
			a.fleet.edit("a person", branch.Change{Path: stateOfA, Content: []byte(after)})
			if restarted {
				a.g = a.generator()
			}
			r := tick(t, a.g)
			if a.at(stateOfA) != before || kinds(r.Operations) != "a: repair" {
				t.Errorf("%s restarted %t: %q %+v suspended %v", c, restarted, kinds(r.Operations), r.Decisions[0].Figures, r.Suspended)
			}
		}
	}
}

// TestRefusedRepairWaits: a repair that the server refuses is pushed again after five minutes, like any other
// change.
func TestRefusedRepairWaits(t *testing.T) {
	a := twins(t)
	a.fleet.edit("a person", deleted(a.file, "")...)
	a.refuse(refuse("a", &branch.Refused{Message: "a is frozen"}))
	before := a.commits
	for range 6 {
		tick(t, a.g)
		a.now = a.now.Add(10 * time.Second)
	}
	if n := a.commits - before; n > 2 { // together, and alone
		t.Errorf("%d pushes in a minute", n)
	}
}

// TestEditedSibling: of an order of two Jobs, one manifest is edited. The other leaves git when its agents have
// left.
func TestEditedSibling(t *testing.T) {
	b := newBench("a")
	b.overlays[0].spec.max = 300
	b.fleet = newFleet(b.Now, files(b.overlays))
	b.jobs("a", 150)
	g := b.generator()
	ds := tick(t, g).Operations[0].Decision.Dispatch
	if len(ds) != 2 {
		t.Fatal(len(ds))
	}
	b.snapshot.Jobs = nil
	for _, d := range ds {
		for i := range d.Agents {
			b.snapshot.Agents = append(b.snapshot.Agents, plan.Agent{ID: fmt.Sprint(d.ID, i), State: plan.AgentBusy, Tags: append(slices.Clone(d.Tags), "dispatch="+d.ID, fmt.Sprintf("index=%d", i))})
		}
	}
	tick(t, g)
	file := dispatches + "/" + ds[0].ID + ".yaml"
	b.fleet.edit("a person", rewrite("agent:3", "agent:2")(file, b.at(file))...)
	tick(t, g)
	n := ds[0].Agents
	b.snapshot.Agents = b.snapshot.Agents[:n] // those of the other one have exited
	for range 50 {
		b.now = b.now.Add(10 * time.Minute)
		tick(t, g)
	}
	if b.at(dispatches+"/"+ds[1].ID+".yaml") != "" {
		t.Errorf("%s after the lease, the manifest of the unedited %s is in git, though all its agents have left", b.now.Sub(ds[1].NotAfter), ds[1].ID)
	}
}

// TestSetBackVerifies: a repair that restores an order which the branch lost is unknown to verify, because no
// commit of the log has made it. It is no failure.
func TestSetBackVerifies(t *testing.T) {
	a := twins(t)
	a.fleet.reset(len(a.fleet.history()) - 2)
	a.fleet.edit("another", branch.Change{Path: "README.md", Content: []byte("x")})
	if got := kinds(tick(t, a.g).Operations); got != "a: repair" {
		t.Fatal(got)
	}
	var last verification.Finding
	var count verification.Count
	logOf(t, a.fleet).each(t, nil, &count, func(f verification.Finding) { last = f }) // the repair is found again at the end
	if got := last; got.Verdict != verification.Unknown || count.Failed > 0 || !strings.Contains(strings.Join(got.Why, ""), "was the branch set back?") {
		t.Errorf("%+v, %+v", got, count)
	}
}

// TestLagAfterNeverCreated: a mirror shows an older head after an order was cancelled as never created. It does
// not count again.
func TestLagAfterNeverCreated(t *testing.T) {
	a := twins(t)
	l := &lagging{archive: a.archive}
	g := a.bench.generator(func(c *generator.Config) { c.Repository = l })
	tick(t, g)
	a.commandAt(t, "overlays/a", neverCreated(a.d.ID))
	a.snapshot.Jobs = nil
	tick(t, g) // has seen it
	h, _ := a.fleet.commit(a.fleet.head().parent.id)
	hh := h.head()
	l.shown, l.lags = &hh, true
	tick(t, g)
	r := tick(t, g)
	if r.Decisions[0].Figures.InFlight != 0 || strings.Contains(a.at(stateOfA), a.d.ID) {
		t.Errorf("%q %d in flight", kinds(r.Operations), r.Decisions[0].Figures.InFlight)
	}
}

// TestNeverCreatedAgain: the command is reverted and run again.
func TestNeverCreatedAgain(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := twins(t)
		before := a.fleet.head()
		a.commandAt(t, "overlays/a", neverCreated(a.d.ID))
		a.snapshot.Jobs = nil
		tick(t, a.g)
		a.fleet.edit("put back", branch.Change{Path: stateOfA, Content: before.tree.files[stateOfA]})
		tick(t, a.g)
		a.commandAt(t, "overlays/a", neverCreated(a.d.ID))
		if restarted {
			a.g = a.generator()
		}
		r := tick(t, a.g)
		if r.Decisions[0].Figures.InFlight != 0 || kinds(r.Operations) != "" {
			t.Errorf("restarted %t: %q %d", restarted, kinds(r.Operations), r.Decisions[0].Figures.InFlight)
		}
		verifyAll(t, a.fleet)
	}
}

// TestUnreadableForOneTick: an overlay cannot be read for one tick, while all agents of an order run. Its order is
// not retired for that.
func TestUnreadableForOneTick(t *testing.T) {
	for _, how := range []string{"misnamed", "damaged orders", "both"} {
		a := twins(t)
		a.snapshot.Jobs = nil
		for i := range a.d.Agents {
			a.snapshot.Agents = append(a.snapshot.Agents, plan.Agent{ID: fmt.Sprint(i), State: plan.AgentBusy, Tags: append(slices.Clone(a.d.Tags), "dispatch="+a.d.ID, fmt.Sprintf("index=%d", i))})
		}
		tick(t, a.g)
		before := a.fleet.head()
		policy := "overlays/a/scaling.yaml"
		var changes []branch.Change
		if how != "damaged orders" {
			changes = append(changes, branch.Change{Path: policy}, branch.Change{Path: "overlays/a/scaling.yml", Content: []byte(a.at(policy))})
		} else {
			changes = append(changes, branch.Change{Path: dispatches + "/x.yml", Content: []byte("x")}, branch.Change{Path: stateOfA, Content: []byte(strings.Replace(a.at(stateOfA), "\norders:\n", "\norders:\n<<<<<<< HEAD\n", 1))})
		}
		a.fleet.edit("a person", changes...)
		tick(t, a.g)
		a.fleet.revertTo(before)
		r := tick(t, a.g)
		if kinds(r.Operations) != "" || a.at(a.file) == "" {
			t.Errorf("%s: once it is readable again: %q, manifest %t, %s", how, kinds(r.Operations), a.at(a.file) != "", a.at(stateOfA))
		}
	}
}

// TestReplacedByAnotherBranch: the branch is replaced by one with a muster of its own, and the server no longer
// has the former commits. The overlay keeps its identity.
func TestReplacedByAnotherBranch(t *testing.T) {
	b := newBench("a")
	b.limit(4)
	b.jobs("a", 4)
	g := b.generator(onBranch("main"))
	tick(t, g)
	id := b.identity("a").ID
	b.fleet.branches = []string{"main", "east"}
	b.fleet.reset(0)
	b.now = b.now.Add(time.Second)
	tick(t, b.generator(onBranch("east")))
	for range 3 {
		r, err := g.Tick(t.Context())
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if got := r.Input.Overlays[0].Identity; got.ID != id {
			t.Errorf("%+v, want %s", got, id)
		}
		b.now = b.now.Add(time.Minute)
	}
}

// TestEditedManifestWithoutToken: without an API token it is unknown which agents are those of an edited
// manifest. It stays while there are any.
func TestEditedManifestWithoutToken(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench("a")
		a := &archive{bench: b}
		b.jobs("a", 5)
		b.snapshot.Counted = &plan.Counted{At: b.now, Queues: []plan.CountedQueue{{Queue: "a"}}}
		g := a.generator()
		ops := tick(t, g).Operations
		d := ops[0].Decision.Dispatch[0]
		file := dispatches + "/" + d.ID + ".yaml"
		b.now = b.now.Add(time.Minute)
		b.fleet.edit("a person", rewrite("(?m)^ *kustomize.toolkit.fluxcd.io/prune: .*\n", "")(file, b.at(file))...)
		var runs []plan.Run
		for i := range 5 {
			runs = append(runs, plan.Run{ID: fmt.Sprintf("a-%d", i), Queue: "a", Rules: []string{"queue=a"}})
		}
		b.snapshot.Jobs = nil
		b.snapshot.Counted = &plan.Counted{At: b.now, Queues: []plan.CountedQueue{{Queue: "a", Agents: 5}}, Runs: runs}
		tick(t, g)
		for i := range 5 {
			b.now = b.now.Add(4 * time.Minute)
			b.snapshot.Counted.At = b.now
			if restarted {
				g = a.generator()
				b.snapshot.Counted.Runs = nil
			}
			r := tick(t, g)
			if b.at(file) == "" {
				t.Errorf("restarted %t: %d: %q the manifest is gone though 5 agents run jobs: %+v", restarted, i, kinds(r.Operations), r.Decisions[0].Figures)
				break
			}
		}
	}
}

// TestEditedQueue: agents of a manifest in which somebody edited the queue are busy in that other queue. The
// manifest stays.
func TestEditedQueue(t *testing.T) {
	a := twins(t)
	a.snapshot.Jobs = nil
	for i := range a.d.Agents {
		a.snapshot.Agents = append(a.snapshot.Agents, plan.Agent{ID: fmt.Sprint(i), State: plan.AgentBusy, Tags: []string{"queue=zz", "overlay=a", "dispatch=" + a.d.ID, fmt.Sprintf("index=%d", i)}})
	}
	tick(t, a.g)
	a.fleet.edit("a person", rewrite("queue=a", "queue=zz")(a.file, a.text)...)
	for range 10 {
		a.now = a.now.Add(5 * time.Minute)
		if r := tick(t, a.g); kinds(r.Operations) != "" {
			t.Fatalf("after %s: %q, suspended %v", a.now.Sub(scenarioStart()), kinds(r.Operations), r.Suspended)
		}
	}
}

// TestOddTemplates: whatever values a template has, a comment or other line ends are no edit of a manifest.
func TestOddTemplates(t *testing.T) {
	for _, v := range []string{`"1e3"`, `'0777'`, `"on"`, `"2021-01-01"`, `"1_000"`, `"~"`, `"a\tb\n  c \n"`, `"\u00e9\U0001F600"`, `"0x1F"`, `"` + strings.Repeat("long words ", 30) + `"`, `"x: y # z"`, `"- a"`, `" lead"`, `"trail "`, `"\r\n"`, `"\n\n"`, `"=" `, `"1:30:00"`, `"\x85 "`, `"\u2028x"`, `"!!str"`, `"\"'"`, `"<<"`, `"y"`, `"NO"`, `".5"`, `"1."`, `"+1"`, `"0b1"`, `"0o7"`, `".inf"`, `"line1\n\n  indented\nend"`, `"\tx\n\ty\n"`} {
		job := strings.Replace(agentJob, "          env:\n", "          env:\n            - {name: ODD, value: "+v+"}\n", 1)
		if job == agentJob {
			t.Fatal("the template has no env")
		}
		a := twinsOf(t, job)
		for name, text := range map[string]string{"comment": "# mine\n" + a.text, "crlf": strings.ReplaceAll(a.text, "\n", "\r\n")} {
			a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(text)})
			if r := tick(t, a.g); len(r.Suspended) > 0 || kinds(r.Operations) != "" {
				t.Errorf("%s %s: %q %v", v, name, kinds(r.Operations), r.Suspended)
			}
		}
	}
}

// TestMergedBusyBranch: a branch with a muster of its own, which has committed often, is merged. The overlay
// keeps its identity.
func TestMergedBusyBranch(t *testing.T) {
	b := newBench("a")
	b.limit(4000)
	b.jobs("a", 4)
	g := b.generator(onBranch("main"))
	tick(t, g)
	id := b.identity("a").ID
	b.fleet.branches = []string{"main", "east"}
	east := b.generator(onBranch("east"))
	for i := range 9 {
		b.jobs("a", 4+4*(i+1))
		b.now = b.now.Add(time.Second)
		tick(t, east)
	}
	if b.identity("a").ID == id {
		t.Fatal("no copy")
	}
	r := tick(t, g)
	if got := r.Input.Overlays[0].Identity; got.ID != id {
		t.Errorf("%+v, want %s", got, id)
	}
}
