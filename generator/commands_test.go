package generator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/generator/explanation"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/manual"
	"muster/generator/verification"
	"muster/gitops/branch"
)

// commandOn returns a command's commit on the head of a log.
func (l anyLog) commandOn(t testing.TB, dir string, run func(*fleet.Overlay) (manual.Edit, error)) (message string, changes []branch.Change) {
	t.Helper()
	head := l.commits[0].ID
	overlays, err := fleet.NewLoader("overlays").LoadContext(t.Context(), l.trees[head])
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(overlays, func(o fleet.Overlay) bool { return o.Path == dir })
	e, err := run(&overlays[at])
	if err != nil || len(e.Changes) == 0 {
		t.Fatalf("nothing is changed: %v %v", e.Notes, err)
	}
	return e.Message(head, "v0", "not now"), e.Changes
}

// cancel is muster cancel.
func cancel(ids ...string) func(*fleet.Overlay) (manual.Edit, error) {
	return func(o *fleet.Overlay) (manual.Edit, error) { return manual.Cancel(o, ids, false) }
}

// neverCreated is muster cancel --never-created.
func neverCreated(ids ...string) func(*fleet.Overlay) (manual.Edit, error) {
	return func(o *fleet.Overlay) (manual.Edit, error) { return manual.Cancel(o, ids, true) }
}

// commandAt commits a command on an overlay.
func (b *bench) commandAt(t testing.TB, dir string, run func(*fleet.Overlay) (manual.Edit, error)) {
	t.Helper()
	message, changes := logOf(t, b.fleet).commandOn(t, dir, run)
	b.fleet.edit(message, changes...)
}

// cancelOne cancels a dispatch that is in git, if there is one.
func (w *scenario) cancelOne(t *testing.T) {
	t.Helper()
	overlays, err := fleet.NewLoader("overlays").LoadContext(t.Context(), w.fleet.head().tree)
	if err != nil {
		t.Fatal(err)
	}
	for i := range overlays {
		for _, d := range overlays[i].Dispatches {
			if e, err := manual.Cancel(&overlays[i], []string{d.ID}, false); err == nil && len(e.Changes) > 0 {
				w.fleet.edit(e.Message(w.fleet.head().id, "v0", ""), e.Changes...)
				return
			}
		}
	}
}

// unsigned are the signatures of commits that have none.
func unsigned(_ context.Context, commits []string) (map[string]verification.Signature, error) {
	all := map[string]verification.Signature{}
	for _, c := range commits {
		all[c] = verification.Unsigned
	}
	return all, nil
}

// brokenState is a state.yaml with a circuit breaker.
const brokenState = "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nbreaker: {failures: 3, at: 2026-11-21T02:00:00Z, dispatch: a-1, cause: never-registered}\n"

// TestCommandsAreRead asserts that the commits of commands verify, that history and explain show them
// as of the person who made them, and that muster treats a cancelled dispatch as withdrawn.
func TestCommandsAreRead(t *testing.T) {
	a := twins(t)
	a.commandAt(t, "overlays/a", cancel(a.d.ID))
	cancelled := a.fleet.head().id
	for range 2 {
		if r := tick(t, a.g); len(r.Operations) > 0 || r.Decisions[0].Figures.InFlight != 5 {
			t.Errorf("%q, %d in flight", kinds(r.Operations), r.Decisions[0].Figures.InFlight)
		}
	}
	a.fleet.edit("break it", branch.Change{Path: "overlays/b/dispatches/state.yaml", Content: []byte(brokenState)})
	a.commandAt(t, "overlays/b", manual.CloseBreaker)
	closed := a.fleet.head().id
	l := logOf(t, a.fleet)
	found, count := l.verify(t, nil)
	for id, kind := range map[string]ledger.Kind{cancelled: ledger.Cancel, closed: ledger.CloseBreaker} {
		if f := found[id]; f.Verdict != verification.Reproduced || f.Operation != kind || f.Version != "v0" || len(f.Why) > 0 {
			t.Errorf("%s: %+v", kind, f)
		}
	}
	if count.Failed > 0 || count.Muster != 3 || count.Verdicts[verification.NotMuster] != 1 {
		t.Errorf("counted %+v", count)
	}
	// People need not sign their commits.
	_, count = l.verify(t, func(c *verification.Config) { c.Signatures = unsigned })
	if count.Failed != 1 || count.Unproven != 1 {
		t.Errorf("without signatures, counted %+v", count)
	}
	rows := map[string]string{}
	config := history.Config{Overlays: "overlays", Now: a.now}
	for r, err := range config.Rows(ledger.Read("overlays", a.fleet.commits("", branch.Limit{}))) {
		if err != nil {
			t.Fatal(err)
		}
		rows[r.ID] = fmt.Sprintf("%s %s %v %s: %s", r.Overlay, r.Kind, r.Dispatches(), r.Why, r.Reason)
	}
	if got, want := rows[cancelled], fmt.Sprintf("a cancel [%s] cancels %s: not now", a.d.ID, a.d.ID); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := rows[closed], "b close-breaker [] closes the circuit breaker after 3 failed orders: not now"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c := explanation.Config{Repository: a.remote, Overlays: "overlays", Loader: fleet.NewLoader("overlays"), Now: a.now}
	for id, want := range map[string]string{
		cancelled: "ran muster cancel, which cancels " + a.d.ID + ". The reason: not now",
		closed:    "ran muster close-breaker, which closes the circuit breaker after 3 failed orders. The reason: not now",
	} {
		all, err := c.Explain(t.Context(), explanation.Question{Name: id})
		if err != nil || len(all) != 1 || len(all[0].Why) != 1 || !strings.HasSuffix(all[0].Why[0], want) {
			t.Errorf("explained as %+v, %v, want %q", all, err, want)
		}
	}
}

// TestForgedCommands changes the message, the files and the place of commits of commands, and asserts the
// findings.
func TestForgedCommands(t *testing.T) {
	a := twins(t)
	b := twins(t)
	a.fleet.edit("break it", branch.Change{Path: "overlays/b/dispatches/state.yaml", Content: []byte(brokenState)})
	l := logOf(t, a.fleet)
	from, list, state := a.file, dispatches+"/kustomization.yaml", "overlays/b/dispatches/state.yaml"
	cancelling, moved := l.commandOn(t, "overlays/a", cancel(a.d.ID))
	forgetting, forgotten := l.commandOn(t, "overlays/a", neverCreated(a.d.ID))
	closing, cleared := l.commandOn(t, "overlays/b", manual.CloseBreaker)
	write := func(name, content string) branch.Change { return branch.Change{Path: name, Content: []byte(content)} }
	more := write(moved[2].Path, strings.Replace(string(moved[2].Content), `"agents":5`, `"agents":4`, 1))
	person := branch.Commit{Message: "Read me\n", At: a.now}
	based := func(message string, on anyLog) string {
		return strings.Replace(message, "Based-on: "+l.commits[0].ID, "Based-on: "+on.commits[0].ID, 1)
	}
	cancelled := l.then(branch.Commit{Message: cancelling, At: a.now}, moved...)
	missing := logOf(t, b.fleet)
	missing.commits = slices.Clone(missing.commits)
	type edit = [2]string
	for name, c := range map[string]struct {
		log     anyLog
		message string
		edit    edit // of the message
		changes []branch.Change
		want    verification.Verdict
		why     string
	}{
		"as it was":                  {l, cancelling, edit{}, moved, verification.Reproduced, ""},
		"another reason":             {l, cancelling, edit{"Reason: not now", "Reason: never"}, moved, verification.Reproduced, ""},
		"other prose":                {l, cancelling, edit{"a: withdraw", "a: retire"}, moved, verification.Reproduced, ""},
		"another dispatch":           {l, cancelling, edit{"Dispatch: " + a.d.ID, "Dispatch: a-other"}, moved, verification.Differs, `a has no dispatch "a-other"`},
		"another number":             {l, cancelling, edit{"agents=5", "agents=4"}, moved, verification.Differs, "it has other trailers: Dispatch"},
		"an outcome":                 {l, cancelling, edit{"agents=5", "agents=5 registered=5 reason=registered"}, moved, verification.Differs, "it has other trailers: Dispatch"},
		"an observation":             {l, cancelling, edit{"Muster: ", "Observation: {}\nMuster: "}, moved, verification.Differs, "it has other trailers: Observation"},
		"another identity":           {l, cancelling, edit{"Identity: ", "Identity: x"}, moved, verification.Differs, "it has other trailers: Identity"},
		"another overlay":            {l, cancelling, edit{"Overlay: overlays/a", "Overlay: overlays/b"}, moved, verification.Differs, "outside of overlays/b/dispatches/"},
		"no such overlay":            {l, cancelling, edit{"Overlay: overlays/a", "Overlay: overlays/c"}, nil, verification.Differs, `has no overlay "c"`},
		"another operation":          {l, cancelling, edit{"Operation: cancel", "Operation: withdraw"}, moved, verification.Differs, "Observation: there is no such trailer"},
		"no trailers":                {l, "Not now\n", edit{}, moved, verification.NotMuster, "changes " + from},
		"no trailers, a breaker":     {l, "Not now\n", edit{}, cleared, verification.NotMuster, "changes " + state},
		"more of it":                 {l, cancelling, edit{}, []branch.Change{moved[0], moved[1], more}, verification.Differs, "its files are not those"},
		"deleted":                    {l, cancelling, edit{}, moved[:2], verification.Differs, "its files are not those"},
		"never created":              {l, forgetting, edit{}, forgotten, verification.Reproduced, ""},
		"cancelled as never created": {l, cancelling, edit{}, forgotten, verification.Differs, "its files are not those"},
		"never created, but counts":  {l, forgetting, edit{}, moved, verification.Differs, "its files are not those"},
		"nothing":                    {l, cancelling, edit{}, nil, verification.Differs, "its files are not those"},
		"another list":               {l, cancelling, edit{}, []branch.Change{moved[0], write(list, "a: 1\n"), moved[2]}, verification.Differs, "its files are not those"},
		"and a policy":               {l, cancelling, edit{}, append(slices.Clone(moved), write("overlays/a/scaling.yaml", "a: 1\n")), verification.Differs, "it changes overlays/a/scaling.yaml, outside"},
		"of another version":         {l, cancelling, edit{"Muster: v0", "Muster: v9"}, []branch.Change{moved[0], moved[1], more}, verification.Unknown, "it was made by v9"},
		"no version's":               {l, cancelling, edit{"Muster: v0", "Muster: v9"}, append(slices.Clone(moved), write(dispatches+"/mine.yaml", a.text)), verification.Differs, "which its trailers do not name"},
		"cancelled again":            {cancelled, based(cancelling, cancelled), edit{}, nil, verification.Differs, "the command changes nothing"},
		"rebased":                    {l.then(person, write("README.md", "x")), cancelling, edit{}, moved, verification.Differs, "it is not where it was pushed"},
		"one base for two":           {cancelled, closing, edit{}, cleared, verification.Differs, "it is not where it was pushed"},
		"based on what is not here":  {missing, cancelling, edit{}, moved, verification.Differs, "it is not where it was pushed"},
		"the breaker":                {l, closing, edit{}, cleared, verification.Reproduced, ""},
		"after fewer failures":       {l, closing, edit{"Failures: 3", "Failures: 2"}, cleared, verification.Differs, "it has other trailers: Failures"},
		"after none":                 {l, closing, edit{"Failures: 3\n", ""}, cleared, verification.Differs, "it has other trailers: Failures"},
		"another state":              {l, closing, edit{}, []branch.Change{write(state, brokenState+"servedAt: 2026-11-21T02:00:00Z\n")}, verification.Differs, "its files are not those"},
		"a closed breaker":           {l, closing, edit{"overlays/b", "overlays/a"}, nil, verification.Differs, "the command changes nothing"},
		"of both overlays":           {l, closing, edit{}, append(slices.Clone(moved), cleared...), verification.Differs, "outside of overlays/b/dispatches/"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(c.message, c.edit[0]) {
				t.Fatalf("the message has no %q:\n%s", c.edit[0], c.message)
			}
			log := c.log.then(branch.Commit{Message: strings.Replace(c.message, c.edit[0], c.edit[1], 1), At: a.now}, c.changes...)
			found, count := log.verify(t, nil)
			got := found[log.commits[0].ID]
			if got.Verdict != c.want || !strings.Contains(strings.Join(got.Why, "; "), c.why) || got.Verdict == verification.NotMuster && got.Operation != "" {
				t.Errorf("got %+v, want %s: %s", got, c.want, c.why)
			}
			if want := map[bool]int{true: 1}[c.want == verification.Differs]; count.Failed != want {
				t.Errorf("%d failed, want %d: %+v", count.Failed, want, count)
			}
		})
	}
	// A shallow clone lacks the commit that it was made on.
	cut := anyLog{commits: cancelled.commits[:1], trees: map[string]*tree{cancelled.commits[0].ID: cancelled.trees[cancelled.commits[0].ID]}}
	if found, count := cut.verify(t, nil); count.Failed > 0 || found[cut.commits[0].ID].Verdict != verification.Unknown {
		t.Errorf("cut: %+v, %+v", found, count)
	}
	// An order that was decided before the command is not in place after it.
	order := l.commits[slices.IndexFunc(l.commits, func(c branch.Commit) bool { return strings.Contains(c.Message, "Operation: dispatch") })]
	before := l.of(order)
	before.commits = before.commits[1:]
	before = before.then(branch.Commit{Message: "break it\n", At: a.now}, write(state, brokenState))
	again := based(closing, before)
	log := before.then(branch.Commit{Message: again, At: a.now}, cleared...)
	after := order
	after.Message = strings.Replace(order.Message, "Based-on: "+order.Parents[0], "Based-on: "+before.commits[0].ID, 1)
	log = log.then(after, l.changes(t, order)...)
	if found, _ := log.verify(t, nil); found[log.commits[0].ID].Verdict != verification.Differs || found[log.commits[1].ID].Verdict != verification.Reproduced {
		t.Errorf("an order after a command: %+v", found)
	}
}

// TestNeverCreated: agents of an order no longer count once a person says that its Job was never created,
// also if it was cancelled before, and if muster reads both commits at once. A revert of that makes it count
// again.
func TestNeverCreated(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			a := twins(t)
			before := a.fleet.head()
			if cancelled {
				a.commandAt(t, "overlays/a", cancel(a.d.ID))
			}
			a.commandAt(t, "overlays/a", neverCreated(a.d.ID))
			if restarted {
				a.g = a.generator()
			}
			if got := kinds(tick(t, a.g).Operations); got != "a: dispatch 5" {
				t.Errorf("cancelled %t, restarted %t: %q, want the agents ordered again", cancelled, restarted, got)
			}
			verifyAll(t, a.fleet)
			a.fleet.edit("put back", branch.Change{Path: stateOfA, Content: before.tree.files[stateOfA]})
			if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || r.Decisions[0].Figures.InFlight != 10 || a.at(a.file) != "" {
				t.Errorf("cancelled %t, restarted %t, put back: %q, %d in flight", cancelled, restarted, kinds(r.Operations), r.Decisions[0].Figures.InFlight)
			}
		}
	}
}

// TestCancelReverted: an order that was cancelled stays withdrawn if a person reverts that, in a process
// that has seen the command and in a new one.
func TestCancelReverted(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := twins(t)
		before := a.fleet.head()
		a.commandAt(t, "overlays/a", cancel(a.d.ID))
		tick(t, a.g)
		a.fleet.revertTo(before)
		if restarted {
			a.g = a.generator()
		}
		if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || r.Decisions[0].Figures.InFlight != 5 || a.at(a.file) != "" {
			t.Errorf("restarted %t: %q, %d in flight", restarted, kinds(r.Operations), r.Decisions[0].Figures.InFlight)
		}
	}
}

// TestCommandAfterRevert: a person reverts an order, and before the next tick another one runs a command,
// whose commit has the state without the order. It counts nevertheless.
func TestCommandAfterRevert(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		a := twins(t)
		first := a.d
		a.jobs("a", 7)
		second := tick(t, a.g).Operations[0].Decision.Dispatch[0]
		state := string(a.fleet.head().tree.files[stateOfA])
		lines := slices.DeleteFunc(slices.Collect(strings.Lines(state)), func(line string) bool { return strings.HasPrefix(line, "  "+first.ID) })
		a.fleet.edit("reverts", branch.Change{Path: a.file}, branch.Change{Path: stateOfA, Content: []byte(strings.Join(lines, ""))},
			branch.Change{Path: dispatches + "/kustomization.yaml", Content: []byte(strings.Replace(a.at(dispatches+"/kustomization.yaml"), "- "+first.ID+".yaml\n", "", 1))})
		a.commandAt(t, "overlays/a", cancel(second.ID))
		if restarted {
			a.g = a.generator()
		}
		if r := tick(t, a.g); kinds(r.Operations) != "a: repair" || r.Decisions[0].Figures.InFlight != first.Agents+second.Agents {
			t.Errorf("restarted %t: %q, %d in flight, want %d", restarted, kinds(r.Operations), r.Decisions[0].Figures.InFlight, first.Agents+second.Agents)
		}
	}
}
