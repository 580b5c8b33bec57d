package generator_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"

	"sigs.k8s.io/yaml"
)

// archive is a bench whose repository has a history.
type archive struct {
	*bench
	asked     int
	read      int   // commits
	files     int   // that were asked for, or edits of them
	lost      error // of every reading of the past
	onlyFiles bool  // the list of commits is not lost
	edits     bool  // nor are the edits
	// everyThird of the readings of files is lost.
	everyThird bool
	movedAt    int // the reading, by asked, that finds the branch moved
}

// reading counts a reading of the past, and returns its error.
func (a *archive) reading(lost bool) error {
	a.asked++
	switch {
	case a.asked == a.movedAt:
		return branch.ErrMoved
	case lost:
		return a.lost
	}
	return nil
}

func (a *archive) Commits(_ context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	err := a.reading(!a.onlyFiles)
	return func(yield func(branch.Commit, error) bool) {
		if err != nil {
			yield(branch.Commit{}, err)
			return
		}
		for c, err := range a.fleet.commits(from, limit) {
			if a.read++; !yield(c, err) {
				return
			}
		}
	}
}

func (a *archive) File(_ context.Context, commit, name string) ([]byte, error) {
	a.files++
	if err := a.reading(!a.everyThird || a.files%3 == 0); err != nil {
		return nil, err
	}
	return a.fleet.file(commit, name)
}

func (a *archive) Edits(_ context.Context, commits []branch.Commit, _ map[string]string, look branch.Selection) ([]branch.Edits, error) {
	a.files++
	if err := a.reading(!a.edits && (!a.everyThird || a.files%3 == 0)); err != nil {
		return nil, err
	}
	return a.fleet.edits(commits, look)
}

func (a *archive) generator() *generator.Generator {
	return a.bench.generator(func(c *generator.Config) { c.Repository = a })
}

// handed is an archive with a dispatch that a person edits.
type handed struct {
	*archive
	g          *generator.Generator
	d          plan.Dispatch
	file, text string // its manifest, and what it says
}

// twins are two overlays of one queue, the first of which has five agents in
// flight for five jobs.
func twins(t *testing.T) *handed {
	t.Helper()
	return twinsOf(t, agentJob)
}

// twinsOf is [twins] with agents of a template.
func twinsOf(t *testing.T, job string) *handed {
	t.Helper()
	b := newBench("a", "b")
	b.overlays[1].spec.queue = "a"
	b.overlays[0].spec.priority = 1
	all := retiringFiles(b.overlays)
	if job != agentJob {
		all["base/job.yaml"] = []byte(job)
	}
	b.fleet = newFleet(b.Now, all)
	b.jobs("a", 5)
	a := &handed{archive: &archive{bench: b}}
	a.g = a.generator()
	ops := tick(t, a.g).Operations
	if got := kinds(ops); got != "a: dispatch 5" {
		t.Fatalf("began with %q", got)
	}
	a.d = ops[0].Decision.Dispatch[0]
	a.file = dispatches + "/" + a.d.ID + ".yaml"
	a.text = a.at(a.file)
	return a
}

// handEdit is what a person does to a manifest.
type handEdit struct {
	name string
	// change makes the changes; file is the manifest's path and text what it says.
	change func(file, text string) []branch.Change
	fault  string // what the repair says; empty without a repair
	// suspended is the reason, if the overlay is.
	suspended plan.SuspensionCode
}

// deleted is the edit that deletes the dispatch.
func deleted(file, _ string) []branch.Change { return []branch.Change{{Path: file}} }

func rewrite(old, new string) func(file, text string) []branch.Change {
	return func(file, text string) []branch.Change {
		return []branch.Change{{Path: file, Content: []byte(regexp.MustCompile(old).ReplaceAllString(text, new))}}
	}
}

const lowered = "(?m)(completions|parallelism): 5$"

func handEdits() []handEdit {
	edited := func(name, old, new string) handEdit {
		return handEdit{name: name, change: rewrite(old, new), suspended: plan.Drifted}
	}
	return []handEdit{
		edited("fewer agents", lowered, "$1: 1"),
		edited("more agents", lowered, "$1: 50"),
		edited("only more in parallel", "parallelism: 5", "parallelism: 50"),
		edited("a shorter lease", "T06:10:00Z", "T06:00:00Z"),
		edited("a longer lease", "T06:10:00Z", "T06:20:00Z"),
		edited("other tags", "queue=a,", "queue=a,os=linux,"),
		edited("another queue", "queue=a,", "queue=b,"),
		edited("another overlay", "overlay=a,", "overlay=z,"),
		edited("another image", "agent:3", "agent:2"),
		edited("no cluster", `(?m)^ *muster.dev/cluster.*\n`, ""),
		edited("another's", "muster.dev/overlay: a", "muster.dev/overlay: b"),
		{name: "a comment", change: rewrite("^", "# mine\n")},
		{name: "another format", change: func(file, text string) []branch.Change {
			content, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				panic(err)
			}
			return []branch.Change{{Path: file, Content: content}}
		}},
		{name: "deleted", change: deleted, fault: "was deleted, and its agents may still come"},
		{name: "unreadable", change: rewrite("(?s)^", "<<<<<<< HEAD\n"), fault: "was put back or could not be read, and its agents may still come"},
		{name: "not a Job", change: rewrite("kind: Job", "kind: CronJob"), fault: "was put back or could not be read, and its agents may still come"},
		{name: "another name", change: rewrite("name: a-", "name: b-"), fault: "was put back or could not be read, and its agents may still come"},
		{name: "renamed", change: func(file, text string) []branch.Change {
			return []branch.Change{{Path: file}, {Path: other(file), Content: []byte(text)}}
		}, suspended: plan.Invalid},
		{name: "copied", change: func(file, text string) []branch.Change {
			return []branch.Change{{Path: other(file), Content: []byte(text)}}
		}, suspended: plan.Invalid},
		{name: "copied with its name", change: func(file, text string) []branch.Change {
			id := strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".yaml")
			return []branch.Change{{Path: other(file), Content: []byte(strings.ReplaceAll(text, id, id+"x"))}}
		}, suspended: plan.Invalid},
	}
}

// TestHandEdits: whatever a person does to a manifest, the agents of its order count as in flight until
// its lease is over, so that no overlay of the queue orders them again. muster rewrites no manifest: one
// that is missing or no Job is withdrawn, and an edited one suspends the overlay. A process that has just
// started does the same.
func TestHandEdits(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, e := range handEdits() {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restarted %t", e.name, restarted), func(t *testing.T) {
				t.Parallel()
				a := twins(t)
				changes := e.change(a.file, a.text)
				if changes[0].Path == a.file && string(changes[0].Content) == a.text {
					t.Fatal("nothing was edited")
				}
				a.fleet.edit("a person", changes...)
				edited := a.at(a.file)
				if restarted {
					a.g = a.generator()
				}
				r := tick(t, a.g)
				want := map[bool]string{true: "a: repair"}[e.fault != ""]
				if got := kinds(r.Operations); got != want {
					t.Fatalf("%q, want %q; suspended %v", got, want, r.Suspended)
				}
				fault := ledger.Fault{File: a.d.ID + ".yaml", Problem: e.fault, Withdrawn: true}
				if e.fault != "" && (r.Operations[0].Faults[0] != fault || a.at(a.file) != "") {
					t.Errorf("the repair says %+v, want %q", r.Operations[0].Faults, e.fault)
				}
				var suspended plan.SuspensionCode
				if len(r.Suspended) > 0 {
					suspended = r.Suspended[0].Why.Code
				}
				if suspended != e.suspended {
					t.Errorf("suspended %v, want %q", r.Suspended, e.suspended)
				}
				if by := fmt.Sprintf("by commit %.7s of %q", a.fleet.head().id, "a person"); e.suspended == plan.Drifted && !strings.Contains(r.Suspended[0].Why.Finding, by) {
					t.Errorf("suspended %v, want it to say %s", r.Suspended, by)
				}
				if got := r.Decisions[0].Figures.InFlight; got != 5 {
					t.Errorf("%d in flight, want 5", got)
				}
				if e.fault == "" && a.at(a.file) != edited {
					t.Errorf("the manifest was rewritten:\n%s", a.at(a.file))
				}
				if e.suspended == plan.Invalid { // until the person corrects it
					a.fleet.edit("a person", branch.Change{Path: other(a.file)})
					tick(t, a.g)
				}
				a.reusable(t, a.g, 5)
			})
		}
	}
}

func other(file string) string { return strings.TrimSuffix(file, ".yaml") + "x.yaml" }

// TestRestoredManifest: once a person restores an edited manifest, muster orders again.
func TestRestoredManifest(t *testing.T) {
	a := twins(t)
	a.fleet.edit("a person", rewrite(lowered, "$1: 50")(a.file, a.text)...)
	a.jobs("a", 3)
	a.overlays[1].spec.max = 0
	a.fleet.edit("a person", branch.Change{Path: "overlays/b/scaling.yaml", Content: a.overlays[1].policyText()})
	if got := kinds(tick(t, a.g).Operations); got != "" {
		t.Fatalf("%q, want nothing ordered while the manifest is edited", got)
	}
	a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(a.text)})
	if got := kinds(tick(t, a.g).Operations); got != "a: dispatch 3" {
		t.Errorf("%q, want 3 ordered", got)
	}
	verifyAll(t, a.fleet)
}

// TestEditedManifestStays: an edited manifest leaves git only when its lease is over and none of its
// agents is connected, because the edit may have removed what keeps its Job.
func TestEditedManifestStays(t *testing.T) {
	a := twins(t)
	a.snapshot.Jobs = nil
	for i := range a.d.Agents {
		a.snapshot.Agents = append(a.snapshot.Agents, plan.Agent{ID: fmt.Sprint(i), State: plan.AgentBusy, Tags: append(slices.Clone(a.d.Tags), "dispatch="+a.d.ID, fmt.Sprintf("index=%d", i))})
	}
	tick(t, a.g)
	a.fleet.edit("a person", rewrite("(?m)^ *kustomize.toolkit.fluxcd.io/prune: .*\n", "")(a.file, a.text)...)
	for range 10 {
		a.now = a.now.Add(5 * time.Minute)
		if r := tick(t, a.g); kinds(r.Operations) != "" || len(r.Suspended) > 0 {
			t.Fatalf("after %s: %q, suspended %v", a.now.Sub(scenarioStart()), kinds(r.Operations), r.Suspended)
		}
	}
	a.snapshot.Agents = nil
	a.now = a.now.Add(5 * time.Minute)
	if got := kinds(tick(t, a.g).Operations); got != "a: retire 1" {
		t.Errorf("once they have left: %q", got)
	}
}

// TestRepairAndOrderVerify asserts that an order verifies if the same tick has repaired the overlay
// before.
func TestRepairAndOrderVerify(t *testing.T) {
	a := twins(t)
	a.fleet.edit("a person", deleted(a.file, "")...)
	a.jobs("a", 3)
	if got := kinds(tick(t, a.g).Operations); got != "a: repair; a: dispatch 3" {
		t.Fatalf("%q", got)
	}
	verifyAll(t, a.fleet)
}

// reusable demands that nothing more is done and nothing ordered until the lease is
// over, and that the jobs are ordered for then.
func (a *archive) reusable(t *testing.T, g *generator.Generator, agents int) {
	t.Helper()
	for range 11 {
		a.now = a.now.Add(time.Minute)
		r := tick(t, g)
		if len(r.Operations) > 0 || r.Decisions[0].Figures.InFlight != agents {
			t.Fatalf("after %s: %q, %d in flight, want %d", a.now.Sub(scenarioStart()), kinds(r.Operations), r.Decisions[0].Figures.InFlight, agents)
		}
	}
	a.now = a.now.Add(15 * time.Minute)
	ordered := 0
	for range 2 { // a withdrawn one first leaves git
		for _, op := range tick(t, g).Operations {
			if op.Kind == ledger.Dispatch {
				ordered += op.Decision.Figures.Dispatch
			}
		}
	}
	if ordered != 5 {
		t.Errorf("%d are ordered when the lease is over, want 5", ordered)
	}
}

// TestDeletedAtTheEnd: the decision's second determines whether a lease has expired. A dispatch that is
// deleted in the last second counts as any other.
func TestDeletedAtTheEnd(t *testing.T) {
	a := twins(t)
	a.now = a.d.NotAfter.Add(plan.Grace + time.Second/2)
	a.fleet.edit("a person", branch.Change{Path: a.file})
	if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || r.Decisions[0].Figures.InFlight != 5 {
		t.Errorf("%q, %d in flight", kinds(r.Operations), r.Decisions[0].Figures.InFlight)
	}
}

// TestOrderDeleted: a person deletes an order from state.yaml, with its manifest or without. It counts
// nevertheless: only a command cancels an order.
func TestOrderDeleted(t *testing.T) {
	for _, withManifest := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			a := twins(t)
			state := dispatches + "/state.yaml"
			lines := slices.DeleteFunc(slices.Collect(strings.Lines(a.at(state))), func(line string) bool { return strings.HasPrefix(line, "  "+a.d.ID) })
			changes := []branch.Change{{Path: state, Content: []byte(strings.Join(lines, ""))}}
			if withManifest {
				changes = append(changes, branch.Change{Path: a.file})
			}
			before := a.at(state)
			a.fleet.edit("a person", changes...)
			if restarted {
				a.g = a.generator()
			}
			r := tick(t, a.g)
			if got := kinds(r.Operations); got != "a: repair" || r.Decisions[0].Figures.InFlight != 5 {
				t.Errorf("manifest %t, restarted %t: %q, %d in flight", withManifest, restarted, got, r.Decisions[0].Figures.InFlight)
			}
			if same := a.at(state) == before; same == withManifest {
				t.Errorf("manifest %t, restarted %t: the state is\n%s", withManifest, restarted, a.at(state))
			}
			verifyAll(t, a.fleet)
		}
	}
}

// TestExpiredOrderDeleted: of an order whose lease is over, a person deletes the line, damages the manifest
// and restores it. The manifest is removed, and nothing is suspended, also by a process that never saw the
// order.
func TestExpiredOrderDeleted(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		for _, damaged := range []bool{false, true} {
			a := twins(t)
			a.now = a.d.NotAfter.Add(plan.Grace + time.Second)
			text := a.text
			if damaged {
				text = "<<<<<<< HEAD\n"
			}
			state := regexp.MustCompile(`(?m)^  a-.*\n`).ReplaceAllString(a.at(stateOfA), "")
			a.fleet.edit("a person", branch.Change{Path: stateOfA, Content: []byte(state)}, branch.Change{Path: a.file, Content: []byte(text)})
			a.snapshot.Jobs = nil
			for range 2 {
				if restarted {
					a.g = a.generator()
				}
				if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || len(r.Suspended) > 0 || a.at(a.file) != "" {
					t.Errorf("restarted %t, damaged %t: %q, suspended %v", restarted, damaged, kinds(r.Operations), r.Suspended)
				}
				a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(a.text)})
			}
		}
	}
}

// TestExpiredOrderBack: a person deletes line and manifest of an order whose lease is over, muster starts, and the
// person restores the manifest. The log explains it: it is removed, and nothing is suspended.
func TestExpiredOrderBack(t *testing.T) {
	a := twins(t)
	a.now = a.d.NotAfter.Add(plan.Grace + time.Second)
	state := regexp.MustCompile(`(?m)^  a-.*\n`).ReplaceAllString(a.at(stateOfA), "")
	a.fleet.edit("a person", append(deleted(a.file, ""), branch.Change{Path: stateOfA, Content: []byte(state)})...)
	a.snapshot.Jobs = nil
	a.g = a.generator()
	tick(t, a.g)
	a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(a.text)})
	if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || len(r.Suspended) > 0 || a.at(a.file) != "" {
		t.Errorf("%q, suspended %v", kinds(r.Operations), r.Suspended)
	}
}

// TestExpiredOrderUnread: an order whose lease is over fails, also if muster starts while its overlay cannot be read.
func TestExpiredOrderUnread(t *testing.T) {
	a := twins(t)
	a.now = a.d.NotAfter.Add(plan.Grace + time.Second)
	policy := "overlays/a/scaling.yaml"
	text := a.at(policy)
	a.fleet.edit("a person", branch.Change{Path: policy}, branch.Change{Path: "overlays/a/scaling.yml", Content: []byte(text)})
	a.g = a.generator()
	tick(t, a.g)
	a.fleet.edit("a person", branch.Change{Path: policy, Content: []byte(text)}, branch.Change{Path: "overlays/a/scaling.yml"})
	r := tick(t, a.g)
	if len(r.Decisions) == 0 || len(r.Decisions[0].Retire) != 1 || r.Decisions[0].Retire[0].Failure == "" {
		t.Errorf("%q, %+v", kinds(r.Operations), r.Decisions)
	}
}

// TestLostHistory asserts that ticks fail, with an error that names the remedy, while the log cannot be
// read after somebody pushed, however long that lasts. Then the order is restored.
func TestLostHistory(t *testing.T) {
	a := twins(t)
	a.fleet.edit("a person", deleted(a.file, "")...)
	a.lost = errors.New("no answer")
	for range 11 {
		r, err := a.g.Tick(t.Context())
		if !errors.Is(err, a.lost) || len(r.Operations) > 0 || !strings.Contains(err.Error(), "nothing is ordered until") {
			t.Fatalf("%q and %v, want a tick that fails", kinds(r.Operations), err)
		}
		a.now = a.now.Add(time.Minute)
	}
	a.lost = nil
	if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || len(r.Suspended) != 0 || r.Decisions[0].Figures.InFlight != 5 {
		t.Errorf("then %q, %+v, suspended %v", kinds(r.Operations), r.Decisions[0].Figures, r.Suspended)
	}
}

// TestLogIsReadOnceWithoutOtherPushes: while nobody else pushes, the log is read once.
func TestLogIsReadOnceWithoutOtherPushes(t *testing.T) {
	a := twins(t)
	a.snapshot.Sightings, a.snapshot.Jobs = sightings(a.d, "a"), nil
	for range 10 {
		a.now = a.now.Add(time.Minute)
		tick(t, a.g)
	}
	if got := len(a.fleet.history()); got != 3 || a.asked != 1 {
		t.Errorf("%d commits, and the past was read %d times, want once", got, a.asked)
	}
}

// TestTheLogOfABranchThatMoves: if somebody pushes while the log is read, whichever request that is, it
// is a conflict, and nothing is wrong with the overlay.
func TestTheLogOfABranchThatMoves(t *testing.T) {
	conflicts := 0
	for n, moved := 1, true; moved; n++ {
		a := twins(t)
		a.jobs("a", 2)
		tick(t, a.generator()) // another muster's
		a.fleet.edit("a person", branch.Change{Path: a.file}, branch.Change{Path: dispatches + "/state.yaml"})
		a.movedAt = a.asked + n
		r := tick(t, a.g)
		log := a.log.String()
		if kinds(r.Operations) != "a: repair" || len(r.Suspended) > 0 || strings.Contains(log, "level=ERROR") {
			t.Errorf("request %d: %q, suspended %v, and the log says\n%s", n, kinds(r.Operations), r.Suspended, log)
		}
		conflicts += r.Conflicts
		moved = a.asked >= a.movedAt
	}
	if conflicts < 2 {
		t.Errorf("%d conflicts, want one for the list of commits and one for their files", conflicts)
	}
}

// TestUnknownManifestsAreSearchedOnce: the log is read once for all manifests that no commit by muster
// has ordered.
func TestUnknownManifestsAreSearchedOnce(t *testing.T) {
	a := twins(t)
	var changes []branch.Change
	for i := range 30 {
		id := fmt.Sprintf("a-strange%c", 'a'+i%26)
		if i >= 26 {
			id = fmt.Sprintf("a-foreign%c", 'a'+i%26)
		}
		content := strings.ReplaceAll(a.text, a.d.ID, id)
		changes = append(changes, branch.Change{Path: dispatches + "/" + id + ".yaml", Content: []byte(strings.ReplaceAll(content, ": 5\n", ": 4\n"))})
	}
	a.fleet.edit("a person", changes...)
	before := a.asked
	if r := tick(t, a.g); len(r.Suspended) != 1 {
		t.Fatalf("suspended %v", r.Suspended)
	}
	if asked := a.asked - before; asked > 3 { // what is new in it, what was ordered, who may have edited
		t.Errorf("the past was read %d times", asked)
	}
}

// TestRetirementReverted: a person reverts the retirement of an order, or puts its manifest back. With its
// line, the order counts until its lease is over, and no syncer gets it; without, the manifest is removed.
func TestRetirementReverted(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			a := twins(t)
			a.snapshot.Sightings, a.snapshot.Jobs = sightings(a.d, "a"), nil
			a.now = a.now.Add(time.Minute)
			tick(t, a.g)
			before := a.fleet.head()
			a.now = a.now.Add(6 * time.Minute)
			if got := kinds(tick(t, a.g).Operations); got != "a: retire 1" {
				t.Fatalf("%q, want it retired", got)
			}
			if whole {
				a.fleet.revertTo(before)
			} else {
				a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(a.text)})
			}
			a.snapshot.Sightings = nil
			if restarted {
				a.g = a.generator()
			}
			var all []string
			for range 14 {
				r := tick(t, a.g)
				for _, op := range r.Operations {
					all = append(all, kinds([]ledger.Draft{op}))
					if op.Kind == ledger.Retire && (!op.Decision.Retire[0].Unknown || op.Decision.State.Breaker.Failures > 0) {
						t.Errorf("whole %t, restarted %t: its outcome counts again: %+v", whole, restarted, op.Decision.Retire[0])
					}
				}
				if a.at(a.file) != "" {
					t.Error("the syncer gets it again")
				}
				a.now = a.now.Add(time.Minute)
			}
			want := map[bool]string{false: "a: repair", true: "a: repair; a: retire 1"}[whole]
			if got := strings.Join(all, "; "); got != want {
				t.Errorf("whole %t, restarted %t: %q, want %q", whole, restarted, got, want)
			}
			verifyAll(t, a.fleet)
		}
	}
}

// TestUnreadLog: another muster's order is reverted before this one has read it, and the log or its
// commits cannot be read. muster orders nothing until they can.
func TestUnreadLog(t *testing.T) {
	for _, only := range []bool{false, true} {
		a := &archive{bench: newBench("a"), onlyFiles: only}
		g := a.generator()
		tick(t, g)
		a.jobs("a", 5)
		d := tick(t, a.generator()).Operations[0].Decision.Dispatch[0]
		a.fleet.edit("a person", branch.Change{Path: dispatches + "/" + d.ID + ".yaml"}, branch.Change{Path: dispatches + "/state.yaml"})
		a.lost = errors.New("no answer")
		for range 9 {
			if r, err := g.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the commits since the last tick: ") || len(r.Operations) > 0 {
				t.Fatalf("%q and %v, want a tick that fails", kinds(r.Operations), err)
			}
			a.now = a.now.Add(time.Minute)
		}
		if r, err := a.generator().Tick(t.Context()); err == nil {
			t.Errorf("a new process does %q, want a tick that fails", kinds(r.Operations))
		}
		a.lost = nil
		if r := tick(t, g); kinds(r.Operations) != "a: repair" || r.Decisions[0].Figures.InFlight != 5 {
			t.Errorf("once it can be read: %q, want a repair and nothing ordered", kinds(r.Operations))
		}
	}
}

// TestLogReadContinues: if every third read of the log fails, each try continues where the previous
// one ended.
func TestLogReadContinues(t *testing.T) {
	b := newBench("a")
	const agents = 9
	a := &archive{bench: b, onlyFiles: true}
	g := a.generator()
	tick(t, g)
	for range agents {
		a.jobs("a", 1)
		tick(t, a.generator())
	}
	changes, _ := a.below(t, dispatches, "")
	a.fleet.edit("a person", changes...)
	a.everyThird, a.lost = true, errors.New("no answer")
	for failed := 0; ; failed++ {
		r, err := g.Tick(t.Context())
		if err == nil {
			if failed == 0 || r.Decisions[0].Figures.InFlight != agents {
				t.Errorf("after %d tries that failed %d agents are in flight, want %d", failed, r.Decisions[0].Figures.InFlight, agents)
			}
			return
		}
		if failed == 8 {
			t.Fatalf("it is not read: %v", err)
		}
		a.now = a.now.Add(30 * time.Second)
	}
}

// TestWithdrawalReverted: a person restores a deleted manifest after muster has withdrawn the order, or
// reverts the repair. The order stays withdrawn: no syncer gets it again.
func TestWithdrawalReverted(t *testing.T) {
	for _, repair := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			a := twins(t)
			a.fleet.edit("a person", deleted(a.file, "")...)
			before := a.fleet.head()
			tick(t, a.g)
			tick(t, a.g) // sees it there
			if repair {
				a.fleet.revertTo(before)
			} else {
				a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(a.text)})
			}
			if restarted {
				a.g = a.generator()
			}
			r := tick(t, a.g)
			if got := kinds(r.Operations); got != "a: repair" || r.Decisions[0].Figures.InFlight != 5 || a.at(a.file) != "" {
				t.Errorf("repair %t, restarted %t: %q, %d in flight, the manifest is %q", repair, restarted, got, r.Decisions[0].Figures.InFlight, a.at(a.file))
			}
		}
	}
}

// revertTo is a person's commit after which all files are as in an earlier one.
func (f *fleetRepository) revertTo(c *commit) {
	var changes []branch.Change
	for name := range f.head().tree.files {
		if _, there := c.tree.files[name]; !there {
			changes = append(changes, branch.Change{Path: name})
		}
	}
	for name, text := range c.tree.files {
		changes = append(changes, branch.Change{Path: name, Content: text})
	}
	f.edit("reverts", changes...)
}

// TestLeaseOfAnotherPolicy: how far back a new process searches for deleted orders does not depend on
// the current policies.
func TestLeaseOfAnotherPolicy(t *testing.T) {
	for name, change := range map[string]func(o *overlay) []byte{
		"broken":        func(*overlay) []byte { return []byte("spec: {queue: [") },
		"shorter lease": func(o *overlay) []byte { o.spec.lease = time.Minute; return o.policyText() },
	} {
		a := twins(t)
		a.now = a.now.Add(5 * time.Minute)
		changes := []branch.Change{{Path: a.file}}
		for _, o := range a.overlays {
			changes = append(changes, branch.Change{Path: o.path() + "/scaling.yaml", Content: change(o)})
		}
		a.fleet.edit("a person", changes...)
		a.g = a.generator()
		first := tick(t, a.g)
		for i, o := range a.overlays {
			changes[i] = branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()}
		}
		a.fleet.edit("a person", changes[:2]...)
		r := tick(t, a.g)
		if got := r.Decisions[0].Figures.InFlight; got != 5 || ordered(first)+ordered(r) > 0 {
			t.Errorf("%s: %q and %q with %d in flight, want 5 and nothing ordered", name, kinds(first.Operations), kinds(r.Operations), got)
		}
	}
}

func ordered(r generator.Result) int {
	n := 0
	for _, a := range r.Operations {
		if a.Kind == ledger.Dispatch {
			n += a.Decision.Figures.Dispatch
		}
	}
	return n
}

const dispatches = "overlays/a/dispatches"

// TestRefusedDispatchIsWithdrawn: the syncer refuses a dispatch, and a person
// corrects the template. The dispatch leaves the syncer's list, so that what is
// ordered next is not stopped by it; its agents are not ordered again while one
// of them may still come, and are once none can.
func TestRefusedDispatchIsWithdrawn(t *testing.T) {
	b := newBench("a")
	b.jobs("a", 3)
	g := b.generator()
	d := tick(t, g).Operations[0].Decision.Dispatch[0] // lease 10m
	b.correct()
	b.now = b.now.Add(3 * time.Minute)
	if r := tick(t, g); len(r.Operations) != 0 {
		t.Errorf("after 3 minutes: %q, want nothing yet", kinds(r.Operations))
	}
	b.now = b.now.Add(time.Minute)
	b.snapshot.Jobs = nil
	b.jobs("a", 5) // two of them are new
	if got, want := kinds(tick(t, g).Operations), "a: dispatch 2; a: withdraw 1"; got != want {
		t.Fatalf("after 4 minutes: %q, want %q", got, want)
	}
	if b.at(path.Join(dispatches, d.ID+".yaml")) != "" || !strings.Contains(b.at(path.Join(dispatches, "state.yaml")), `"withdrawn":true`) {
		t.Error("the dispatch was not withdrawn")
	}
	if list := b.at(path.Join(dispatches, "kustomization.yaml")); strings.Contains(list, d.ID) {
		t.Errorf("the syncer still applies it:\n%s", list)
	}
	for range 7 { // its lease, and the grace
		b.now = b.now.Add(time.Minute)
		if r := tick(t, b.generator()); len(r.Operations) != 0 { // a new one each time: nothing is remembered but in git
			t.Fatalf("%s after the order: %q, want nothing", b.now.Sub(d.At), kinds(r.Operations))
		}
	}
	b.now = d.NotAfter.Add(2*time.Minute + time.Second)
	r := tick(t, g)
	if got, want := kinds(r.Operations), "a: dispatch 3; a: retire 1"; got != want || r.Decisions[0].Retire[0].Failure != "" {
		t.Fatalf("when its lease is over: %q, want %q, and a retirement without a failure: %+v", got, want, r.Decisions[0].Retire)
	}
	if failures := r.Operations[0].Decision.State.Breaker.Failures; failures != 0 {
		t.Errorf("%d failures: what was withdrawn is none", failures)
	}
}

// correct is a person's edit of the base.
func (b *bench) correct() {
	text := strings.Replace(b.at("base/job.yaml"), "agent:3", "agent:4", 1)
	b.fleet.edit("a person", branch.Change{Path: "base/job.yaml", Content: []byte(text)})
}

// at returns the text of a file at the head; empty if it is missing.
func (b *bench) at(name string) string {
	data, _ := fs.ReadFile(b.fleet.head().head().Tree, name)
	return string(data)
}
