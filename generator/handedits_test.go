package generator_test

import (
	"cmp"
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
	"muster/generator/verification"
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
	g                     *generator.Generator
	d                     plan.Dispatch
	file, withdrawn, text string // its manifest, where a repair may move it, and what it says
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
	all := files(b.overlays)
	all["base/job.yaml"] = []byte(job)
	b.fleet = newFleet(b.Now, all)
	b.jobs("a", 5)
	a := &handed{archive: &archive{bench: b}}
	a.g = a.generator()
	ops := tick(t, a.g).Operations
	if got := kinds(ops); got != "a: dispatch 5" {
		t.Fatalf("began with %q", got)
	}
	a.d = ops[0].Decision.Dispatch[0]
	a.file, a.withdrawn = dispatches+"/"+a.d.ID+".yaml", dispatches+"/withdrawn/"+a.d.ID+".yaml"
	a.text = a.at(a.file)
	return a
}

// handEdit is what a person does to a dispatch.
type handEdit struct {
	name string
	// change makes the changes; file is the manifest's path and text what it says.
	change func(file, text string) []branch.Change
	want   string // what is done about it
	fault  string // and what the repair says
	moved  bool   // to where no syncer applies it
	agents int    // in flight from then on
	// suspended: the overlay is, until the person restores the file.
	suspended bool
	// unseen: a process that has just started cannot know.
	unseen bool
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
	other := strings.NewReplacer(".yaml", "x.yaml")
	return []handEdit{
		{name: "fewer agents", change: rewrite(lowered, "$1: 1"), want: "a: repair", fault: "was edited (agents 5 → 1)", agents: 5},
		{name: "more agents", change: rewrite(lowered, "$1: 50"), want: "a: repair", fault: "was edited (agents 5 → 50)", moved: true, agents: 50},
		{name: "only more in parallel", change: rewrite("parallelism: 5", "parallelism: 50"), want: "a: repair", fault: "was edited (it was not as muster wrote it)", agents: 5},
		{name: "only fewer in parallel", change: rewrite("parallelism: 5", "parallelism: 1"), want: "a: repair", fault: "was edited (it was not as muster wrote it)", agents: 5},
		{name: "a shorter lease", change: rewrite("T06:10:00Z", "T06:00:00Z"), want: "a: repair", fault: "was edited (lease 2026-01-05T06:10:00Z → 2026-01-05T06:00:00Z)", agents: 5},
		{name: "a longer lease", change: rewrite("T06:10:00Z", "T06:20:00Z"), want: "a: repair", fault: "was edited (lease 2026-01-05T06:10:00Z → 2026-01-05T06:20:00Z)", moved: true, agents: 5},
		{name: "other tags", change: rewrite("queue=a,", "queue=a,os=linux,"), want: "a: repair", fault: "was edited (other tags)", agents: 5},
		{name: "another queue", change: rewrite("queue=a,", "queue=b,"), want: "a: repair", fault: "was edited (other tags)", agents: 5},
		{name: "another overlay", change: rewrite("overlay=a,", "overlay=z,"), want: "a: repair", fault: "was edited (other tags)", agents: 5},
		{name: "a comment", change: rewrite("^", "# mine\n"), want: "a: repair", fault: "was edited (it was not as muster wrote it)", agents: 5},
		{name: "another format", change: func(file, text string) []branch.Change {
			content, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				panic(err)
			}
			return []branch.Change{{Path: file, Content: content}}
		}, agents: 5},
		{name: "another image", change: rewrite("agent:3", "agent:2"), want: "a: repair", fault: "was edited (it was not as muster wrote it)", agents: 5},
		{name: "fewer agents, no digest", change: func(file, text string) []branch.Change {
			return rewrite(lowered, "$1: 1")(file, regexp.MustCompile(`(?m)^ *muster.dev/digest.*\n`).ReplaceAllString(text, ""))
		}, want: "a: repair", fault: "was edited (agents 5 → 1)", agents: 5},
		{name: "fewer agents, no digest and no template", change: func(file, text string) []branch.Change {
			text = regexp.MustCompile(`(?m)^ *muster.dev/(digest|template).*\n`).ReplaceAllString(text, "")
			return rewrite(lowered, "$1: 1")(file, text)
		}, suspended: true, agents: 5},
		{name: "no cluster", change: rewrite(`(?m)^ *muster.dev/cluster.*\n`, ""), suspended: true, agents: 5},
		{name: "fewer agents and their digest", change: func(file, text string) []branch.Change {
			return []branch.Change{{Path: file, Content: []byte(sealed(setAgents(text, 1)))}}
		}, agents: 5, unseen: true},
		{name: "deleted", change: deleted, want: "a: repair", fault: "was deleted, and its agents may still come", moved: true, agents: 5},
		{name: "renamed", change: func(file, text string) []branch.Change {
			return []branch.Change{{Path: file}, {Path: other.Replace(file), Content: []byte(text)}}
		}, suspended: true, agents: 5},
		{name: "copied", change: func(file, text string) []branch.Change {
			return []branch.Change{{Path: other.Replace(file), Content: []byte(text)}}
		}, suspended: true, agents: 5},
		{name: "copied with its name", change: func(file, text string) []branch.Change {
			id := strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".yaml")
			return []branch.Change{{Path: other.Replace(file), Content: []byte(strings.ReplaceAll(text, id, id+"x"))}}
		}, suspended: true, agents: 10},
		{name: "unreadable", change: rewrite("(?s).*", "<<<<<<< HEAD\n"), suspended: true, agents: 5},
		{name: "unreadable, with more agents", change: rewrite("(?s)kind: Job(.*)completions: 5", "kind: CronJob${1}completions: 9"), suspended: true, agents: 9},
		{name: "another's", change: rewrite("muster.dev/overlay: a", "muster.dev/overlay: b"), suspended: true, agents: 5},
	}
}

// TestHandEdits: whatever a person does to a dispatch, its agents count as in
// flight until its lease is over, so that no overlay of the queue orders them
// again. An edit that can be read is undone, and what was deleted lies where it
// counts and no syncer applies it. A process that has just started does the same.
func TestHandEdits(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	for _, e := range handEdits() {
		for _, restarted := range []bool{false, true} {
			if restarted && e.unseen {
				continue
			}
			t.Run(fmt.Sprintf("%s/restarted %t", e.name, restarted), func(t *testing.T) {
				t.Parallel()
				a := twins(t)
				changes := e.change(a.file, a.text)
				if changes[0].Path == a.file && string(changes[0].Content) == a.text {
					t.Fatal("nothing was edited")
				}
				a.fleet.edit("a person", changes...)
				if restarted {
					a.g = a.generator()
				}
				r := tick(t, a.g)
				if got := kinds(r.Operations); got != e.want {
					t.Fatalf("%q, want %q; suspended %v", got, e.want, r.Suspended)
				}
				fault := ledger.Fault{File: a.d.ID + ".yaml", Problem: e.fault}
				if e.fault != "" && (len(r.Operations[0].Faults) == 0 || r.Operations[0].Faults[0] != fault) {
					t.Errorf("the repair says %q, want %q", r.Operations[0].Faults, e.fault)
				}
				if suspended := len(r.Suspended) > 0; suspended != e.suspended {
					t.Errorf("suspended %v, want %t", r.Suspended, e.suspended)
				}
				if got := r.Decisions[0].Figures.InFlight; got != e.agents {
					t.Errorf("%d in flight, want %d", got, e.agents)
				}
				if e.want != "" {
					restored := a.at(a.file)
					if e.moved == (restored == a.text) || e.moved == (a.at(a.withdrawn) == "") || e.moved && restored != "" {
						t.Errorf("moved %t; the file is\n%s", !e.moved, restored)
					}
				}
				a.reusable(t, a.g, e.agents)
			})
		}
	}
}

// TestRepairAndOrderVerify asserts that an order verifies if the same tick has repaired a dispatch with
// fewer agents, which counted as it was ordered.
func TestRepairAndOrderVerify(t *testing.T) {
	a := twins(t)
	a.fleet.edit("a person", rewrite(lowered, "$1: 1")(a.file, a.text)...)
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

// TestRaisedOrderFails: a person raises the number of agents or the lease of an order, and no agent
// registers. The order fails with the agents that muster ordered if the syncer had time to create its
// Job before the edit, and its outcome is unknown otherwise. Either follows from what is in git.
func TestRaisedOrderFails(t *testing.T) {
	more, later := rewrite(lowered, "$1: 50"), rewrite("T06:10:00Z", "T06:12:00Z")
	keeps := "(?m)^ *kustomize.toolkit.fluxcd.io/prune: .*\n"
	for name, c := range map[string]struct {
		changes []func(file, text string) []branch.Change // the first after some time, others at once
		after   time.Duration
		fails   bool
	}{
		"more agents":         {[]func(file, text string) []branch.Change{more}, 5 * time.Minute, true},
		"a later lease":       {[]func(file, text string) []branch.Change{later}, 5 * time.Minute, true},
		"more agents at once": {[]func(file, text string) []branch.Change{more}, time.Minute, false},
		"more agents and no prune": {[]func(file, text string) []branch.Change{func(file, text string) []branch.Change {
			return more(file, string(rewrite(keeps, "")(file, text)[0].Content))
		}}, 5 * time.Minute, false},
		"deleted":                   {[]func(file, text string) []branch.Change{deleted}, 5 * time.Minute, false},
		"more agents, then deleted": {[]func(file, text string) []branch.Change{more, deleted}, 5 * time.Minute, false},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restarted %t", name, restarted), func(t *testing.T) {
				t.Parallel()
				a := twins(t)
				next := func() {
					if restarted {
						a.g = a.generator()
					}
				}
				a.now = a.now.Add(c.after)
				for _, change := range c.changes {
					a.fleet.edit("a person", change(a.file, a.text)...)
				}
				next()
				if got := kinds(tick(t, a.g).Operations); got != "a: repair" {
					t.Fatalf("%q, want a repair", got)
				}
				a.now = scenarioStart().Add(15 * time.Minute)
				next()
				ops := tick(t, a.g).Operations
				at := slices.IndexFunc(ops, func(op ledger.Draft) bool { return op.Kind == ledger.Retire })
				if at < 0 {
					t.Fatalf("%q, want a retirement", kinds(ops))
				}
				r, breaker := ops[at].Decision.Retire[0], ops[at].Decision.State.Breaker
				if c.fails != (r.Failure == plan.NeverRegistered) || c.fails == r.Unknown || r.Agents != 5 || r.Registered != 0 {
					t.Errorf("retired: %+v, want fails %t", r, c.fails)
				}
				if want := map[bool]int{true: 1}[c.fails]; breaker.Failures != want || breaker.Agents != 5*want {
					t.Errorf("the circuit breaker is %+v, want %d failed orders", breaker, want)
				}
				if text := strings.Join(strings.Fields(ledger.Text(ops[at])), " "); !strings.Contains(text, "none of its 5 agents registered") || c.fails != strings.Contains(text, "After 3 failed orders in a row, the circuit breaker opens") {
					t.Errorf("the message says %s", text)
				}
				_, count := logOf(t, a.fleet).verify(t, nil)
				if count.Failed > 0 || count.Verdicts[verification.Reproduced] != count.Muster {
					t.Errorf("not all commits verify: %+v", count)
				}
			})
		}
	}
}

// TestRaisedAgainDoesNotFail: a person puts back a raised order that was withdrawn soon after it was
// made. It was not in place in between, so its outcome is unknown.
func TestRaisedAgainDoesNotFail(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := twins(t)
		raised := rewrite(lowered, "$1: 50")(a.file, a.text)[0]
		for _, after := range []time.Duration{10 * time.Second, 9 * time.Minute} {
			a.now = scenarioStart().Add(after)
			a.fleet.edit("a person", raised, branch.Change{Path: a.withdrawn})
			if restarted {
				a.g = a.generator()
			}
			if got := kinds(tick(t, a.g).Operations); got != "a: repair" {
				t.Fatalf("restarted %t, after %s: %q, want a repair", restarted, after, got)
			}
		}
		a.now = scenarioStart().Add(15 * time.Minute)
		ops := tick(t, a.g).Operations
		if at := slices.IndexFunc(ops, func(op ledger.Draft) bool { return op.Kind == ledger.Retire }); at < 0 || !ops[at].Decision.Retire[0].Unknown {
			t.Errorf("restarted %t: %q, want a retirement without an outcome", restarted, kinds(ops))
		}
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

// TestWithdrawnDispatchDeleted: agents of a deleted withdrawn dispatch no longer count.
func TestWithdrawnDispatchDeleted(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := twins(t)
		a.fleet.edit("a person", branch.Change{Path: a.file})
		tick(t, a.g)
		a.fleet.edit("a person", branch.Change{Path: a.withdrawn})
		if restarted {
			a.g = a.generator()
		}
		if got := kinds(tick(t, a.g).Operations); got != "a: dispatch 5" {
			t.Errorf("restarted %t: %q, want the agents ordered again", restarted, got)
		}
	}
}

// TestLostHistory asserts that ticks fail, with an error that names the remedy, while the
// original of an edited or deleted dispatch cannot be read, however long that lasts. Then
// the dispatch is restored. An edit that was undone meanwhile still counts: a syncer may have
// created the larger Job.
func TestLostHistory(t *testing.T) {
	for name, test := range map[string]struct {
		change func(file, text string) []branch.Change
		undone bool
		agents int
	}{
		"edited":            {rewrite(lowered, "$1: 1"), false, 5},
		"deleted":           {deleted, false, 5},
		"raised and undone": {rewrite(lowered, "$1: 50"), true, 50},
	} {
		a := twins(t)
		a.fleet.edit("a person", test.change(a.file, a.text)...)
		a.lost = errors.New("no answer")
		for range 11 {
			r, err := a.g.Tick(t.Context())
			if !errors.Is(err, a.lost) || len(r.Operations) > 0 || !strings.Contains(err.Error(), "nothing is ordered until") {
				t.Fatalf("%s: %q and %v, want a tick that fails", name, kinds(r.Operations), err)
			}
			a.now = a.now.Add(time.Minute)
		}
		a.lost = nil
		if test.undone {
			a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(a.text)})
		}
		r := tick(t, a.g)
		if repairs := kinds(r.Operations) == "a: repair"; repairs == test.undone || len(r.Suspended) != 0 || ordered(r) > 0 ||
			r.Decisions[0].Figures.InFlight != test.agents {
			t.Errorf("%s: then %q, %+v, suspended %v", name, kinds(r.Operations), r.Decisions[0].Figures, r.Suspended)
		}
	}
}

// TestLostOriginal asserts that an overlay is suspended while the log can be read but not
// the commit that ordered an edited or deleted dispatch, and that no other overlay orders
// agents for its jobs. Then the dispatch is restored.
func TestLostOriginal(t *testing.T) {
	for _, test := range []struct {
		change func(file, text string) []branch.Change
		says   string
	}{
		{rewrite(lowered, "$1: 1"), "was edited, and cannot be restored from the log: commit "},
		{deleted, "is missing, and the reason cannot be determined: commit "},
	} {
		a := twins(t)
		a.fleet.edit("a person", test.change(a.file, a.text)...)
		a.lost, a.onlyFiles, a.edits = errors.New("no answer"), true, true
		for range 3 {
			r := tick(t, a.g)
			if len(r.Operations) != 0 || len(r.Suspended) != 1 || !strings.Contains(r.Suspended[0].Why.Finding, test.says) || r.Decisions[0].Figures.InFlight != 5 {
				t.Fatalf("%q, suspended %v, in flight %d", kinds(r.Operations), r.Suspended, r.Decisions[0].Figures.InFlight)
			}
		}
		a.lost = nil
		a.now = a.now.Add(time.Minute)
		if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || len(r.Suspended) != 0 {
			t.Errorf("once it can be read: %q, suspended %v", kinds(r.Operations), r.Suspended)
		}
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
		a.fleet.edit("a person", rewrite(lowered, "$1: 1")(a.file, a.text)...)
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

// TestRetirementReverted: a person reverts the retirement of a dispatch. Its agents remain registered,
// and it is retired again.
func TestRetirementReverted(t *testing.T) {
	a := twins(t)
	a.snapshot.Sightings, a.snapshot.Jobs = sightings(a.d, "a"), nil
	a.now = a.now.Add(time.Minute)
	tick(t, a.g)
	a.now = a.now.Add(6 * time.Minute)
	if got := kinds(tick(t, a.g).Operations); got != "a: retire 1" {
		t.Fatalf("%q, want it retired", got)
	}
	a.fleet.edit("a person", branch.Change{Path: a.file, Content: []byte(a.text)})
	if got := kinds(tick(t, a.g).Operations); got != "a: repair; a: retire 1" {
		t.Errorf("%q, want it retired again", got)
	}
	a.now = a.now.Add(time.Minute)
	if got := kinds(tick(t, a.g).Operations); got != "" {
		t.Errorf("%q after that", got)
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
		a.fleet.edit("a person", branch.Change{Path: dispatches + "/" + d.ID + ".yaml"}, branch.Change{Path: dispatches + "/kustomization.yaml"})
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
	const agents = 5 * plan.JobAgents
	b.overlays[0].spec.max = agents
	b.fleet = newFleet(b.Now, files(b.overlays))
	a := &archive{bench: b, onlyFiles: true}
	g := a.generator()
	tick(t, g)
	a.jobs("a", agents)
	var changes []branch.Change
	for _, op := range tick(t, a.generator()).Operations {
		for _, c := range op.Changes {
			changes = append(changes, branch.Change{Path: c.Path})
		}
	}
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

// TestWithdrawalReverted: a person reverts their own edit, or deletion, after muster has withdrawn the
// dispatch, or reverts the withdrawal. The version that may start more agents stays.
func TestWithdrawalReverted(t *testing.T) {
	for name, test := range map[string]struct {
		agents   string // written first; empty: deleted
		again    string // written then; empty: as it was
		revert   bool   // the withdrawn file is deleted then
		inFlight int
		moved    bool // at the end
	}{
		"deleted":             {"", "", false, 5, false},
		"raised":              {"50", "", false, 50, true},
		"raised twice":        {"50", "60", false, 60, true},
		"raised, then less":   {"50", "20", false, 50, true},
		"deleted and lowered": {"", "1", false, 5, true},
		"deleted and raised":  {"", "20", false, 20, true},
		"repair reverted":     {"50", "50", true, 50, true},
	} {
		for _, restarted := range []bool{false, true} {
			a := twins(t)
			change := branch.Change{Path: a.file}
			if test.agents != "" {
				change = rewrite(lowered, "$1: "+test.agents)(a.file, a.text)[0]
			}
			a.fleet.edit("a person", change)
			tick(t, a.g)
			tick(t, a.g) // sees it there
			changes := rewrite(lowered, "$1: "+cmp.Or(test.again, "5"))(a.file, a.text)
			if test.revert {
				changes = append(changes, branch.Change{Path: a.withdrawn})
			}
			a.fleet.edit("a person", changes...)
			if restarted {
				a.g = a.generator()
			}
			r := tick(t, a.g)
			if got := kinds(r.Operations); got != "a: repair" || r.Decisions[0].Figures.InFlight != test.inFlight {
				t.Errorf("%s, restarted %t: %q, %d in flight", name, restarted, got, r.Decisions[0].Figures.InFlight)
			}
			if moved := a.at(a.file) == ""; moved != test.moved || moved == (a.at(a.withdrawn) == "") {
				t.Errorf("%s, restarted %t: moved %t, want %t", name, restarted, moved, test.moved)
			}
		}
	}
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

// TestEditsBetweenPolls: each version of an edited or deleted dispatch that others have committed
// since the last tick counts: a syncer may have created a Job from any.
func TestEditsBetweenPolls(t *testing.T) {
	raised, longer := rewrite(lowered, "$1: 50"), rewrite("T06:10:00Z", "T06:20:00Z")
	for _, test := range []struct {
		name   string
		first  func(file, text string) []branch.Change
		then   func(file, text string) []branch.Change
		agents int
		until  time.Duration // of the lease
		look   time.Duration // the first after that
	}{
		{"raised and deleted", raised, deleted, 50, 10 * time.Minute, 0},
		{"raised and raised less", raised, rewrite(lowered, "$1: 9"), 50, 10 * time.Minute, 0},
		{"raised and another lease", raised, longer, 50, 20 * time.Minute, 0},
		{"longer and deleted", longer, deleted, 5, 20 * time.Minute, 0},
		{"longer and deleted, seen late", longer, deleted, 5, 20 * time.Minute, 15 * time.Minute},
		{"unreadable and deleted", rewrite("(?s).*", "<<<<<<< HEAD\n"), deleted, 5, 10 * time.Minute, 0},
		{"deleted and edited", deleted, rewrite(lowered, "$1: 1"), 5, 10 * time.Minute, 0},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restarted %t", test.name, restarted), func(t *testing.T) {
				a := twins(t)
				a.fleet.edit("a person", test.first(a.file, a.text)...)
				a.fleet.edit("a person", branch.Change{Path: "README.md", Content: []byte("Else.\n")})
				a.fleet.edit("a person", test.then(a.file, a.text)...)
				if restarted {
					a.g = a.generator()
				}
				for _, after := range []time.Duration{test.look, test.until + time.Minute} {
					a.now = scenarioStart().Add(after)
					if r := tick(t, a.g); r.Decisions[0].Figures.InFlight != test.agents || ordered(r) > 0 {
						t.Errorf("after %s: %q with %d in flight, want %d and nothing ordered", after, kinds(r.Operations), r.Decisions[0].Figures.InFlight, test.agents)
					}
				}
			})
		}
	}
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
	if b.at(path.Join(dispatches, d.ID+".yaml")) != "" || b.at(path.Join(dispatches, "withdrawn", d.ID+".yaml")) == "" {
		t.Error("the dispatch was not moved")
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
	if got, want := kinds(r.Operations), "a: dispatch 3; a: retire 1"; got != want {
		t.Fatalf("when its lease is over: %q, want %q", got, want)
	}
	if failures := r.Operations[0].Decision.State.Breaker.Failures; failures != 0 {
		t.Errorf("%d failures: what was withdrawn is none", failures)
	}
}

// correct is a person's edit of the base.
func (b *bench) correct() {
	text := strings.Replace(agentJob, "agent:3", "agent:4", 1)
	b.fleet.edit("a person", branch.Change{Path: "base/job.yaml", Content: []byte(text)})
}

// at returns the text of a file at the head; empty if it is missing.
func (b *bench) at(name string) string {
	data, _ := fs.ReadFile(b.fleet.head().head().Tree, name)
	return string(data)
}
