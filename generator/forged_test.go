package generator_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/generator/verification"
	"muster/gitops/branch"
)

// order is the newest order of a world's log, and the log down to the commit before it.
func (l anyLog) order(t testing.TB) (commit branch.Commit, before anyLog) {
	t.Helper()
	for i, c := range l.commits {
		if e, err := ledger.Parse(c.Message); err == nil && e.Kind == ledger.Dispatch {
			return c, anyLog{commits: l.commits[i+1:], trees: l.trees}
		}
	}
	t.Fatal("nothing was ordered")
	return branch.Commit{}, anyLog{}
}

// changes are the files of a commit that its parent has otherwise.
func (l anyLog) changes(t testing.TB, c branch.Commit) []branch.Change {
	t.Helper()
	all, err := l.Differences(t.Context(), c.Parents[0], c.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	var changes []branch.Change
	for _, d := range all {
		changes = append(changes, branch.Change{Path: d.Path, Content: l.trees[c.ID].files[d.Path]})
	}
	return changes
}

// playPlainFleet returns the fleet repository of a scenario without faults.
var playPlainFleet = sync.OnceValue(func() *fleetRepository {
	w := newScenario(drawShape(uint64(len(themes))), func(string) {}) // of the theme "plain"
	w.play(30*time.Minute, nil)
	return w.fleet
})

// plainLog returns the log of a scenario without faults.
func plainLog(t testing.TB) anyLog { return logOf(t, playPlainFleet()) }

// TestForged changes the message and the files of one order in every way, and asserts the findings.
func TestForged(t *testing.T) {
	t.Parallel()
	l := plainLog(t)
	order, before := l.order(t)
	n := 5 // the rest is verified elsewhere; a tick is not cut in two
	for before.commits[n-1].At.Equal(before.commits[n].At) {
		n++
	}
	before.commits = before.commits[:n:n]
	changes := l.changes(t, order)
	dir := "overlays/"
	manifest := slices.IndexFunc(changes, func(c branch.Change) bool {
		return !strings.HasSuffix(c.Path, "kustomization.yaml") && !strings.HasSuffix(c.Path, "state.yaml")
	})
	with := func(content string) []branch.Change {
		changed := slices.Clone(changes)
		changed[manifest].Content = []byte(content)
		return changed
	}
	more := func(name, content string) []branch.Change {
		return append(slices.Clone(changes), branch.Change{Path: name, Content: []byte(content)})
	}
	text := string(changes[manifest].Content)
	edit := func(old, by string) string {
		if !strings.Contains(order.Message, old) {
			t.Fatalf("the message has no %q", old)
		}
		return strings.Replace(order.Message, old, by, 1)
	}
	e, err := ledger.Parse(order.Message)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		message string
		changes []branch.Change
		want    verification.Verdict
	}{
		"as it was":                 {order.Message, changes, verification.Reproduced},
		"signed off":                {order.Message + "Signed-off-by: A <a@example.com>\n", changes, verification.Reproduced},
		"other CI":                  {edit("CI: [skip ci]\n", ""), changes, verification.Reproduced},
		"another dispatch":          {edit("\nDispatch: "+e.Orders[0].ID, "\nDispatch: other-7f3k9c2b"), changes, verification.Differs},
		"another overlay":           {edit("Overlay: overlays/", "Overlay: elsewhere/"), changes, verification.Differs},
		"another observation":       {edit(`"queue":"`, `"queue":"other-`), changes, verification.Differs},
		"fields that nobody writes": {edit(`{"version":2,`, `{"version":2,"more":1,`), changes, verification.Differs},
		"a manifest edited":         {order.Message, with(strings.Replace(text, "agent:3", "agent:4", 1)), verification.Differs},
		"a manifest with a comment": {order.Message, with("# more\n" + text), verification.Differs},
		"a manifest left out":       {order.Message, slices.Delete(slices.Clone(changes), manifest, manifest+1), verification.Differs},
		"one more manifest":         {order.Message, more(e.Path+"/dispatches/mine.yaml", text), verification.Differs},
		"a policy":                  {order.Message, more(e.Path+"/scaling.yaml", "a: 1\n"), verification.Differs},
		"a neighbour":               {order.Message, more(dir+"other/dispatches/x.yaml", text), verification.Differs},
		"a name that begins alike":  {order.Message, more(e.Path+"/dispatches.yaml", text), verification.Differs},
		"nothing":                   {order.Message, nil, verification.Differs},
		"another version's files":   {edit("\nMuster: v0\n", "\nMuster: v9\n"), with("# more\n" + text), verification.Unknown},
		"no version's directory":    {edit("\nMuster: v0\n", "\nMuster: v9\n"), more("base/job.yaml", "a: 1\n"), verification.Differs},
		"a person's":                {"I was here\n", changes, verification.NotMuster},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commit := order
			commit.Message = c.message
			log := before.then(commit, c.changes...)
			found, count := log.verify(t, nil)
			got := found[log.commits[0].ID]
			if got.Verdict != c.want || got.Verdict != verification.Reproduced && len(got.Why) == 0 {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if want := map[bool]int{true: 1}[c.want == verification.Differs]; count.Failed != want {
				t.Errorf("%d failed, want %d: %+v", count.Failed, want, count)
			}
		})
	}
	t.Run("by another version", func(t *testing.T) {
		_, count := l.verify(t, func(c *verification.Config) { c.Version = "v1" })
		if count.Muster == 0 || count.Verdicts[verification.Reproduced] != count.Muster {
			t.Errorf("got %+v", count)
		}
	})
}

// TestMovedCommits: a commit of muster that is elsewhere than it was pushed differs, although its
// message and its files are those of its decision.
func TestMovedCommits(t *testing.T) {
	t.Parallel()
	l := plainLog(t)
	order, before := l.order(t)
	e, err := ledger.Parse(order.Message)
	if err != nil {
		t.Fatal(err)
	}
	changes := l.changes(t, order)
	back := make([]branch.Change, len(changes)) // reverts the order
	for i, c := range changes {
		back[i] = branch.Change{Path: c.Path, Content: l.trees[order.Parents[0]].files[c.Path]}
	}
	person := branch.Commit{Message: "Read me\n", At: order.At}
	readme := branch.Change{Path: "README.md", Content: []byte("x")}
	base := strings.Replace(order.Message, "Based-on: "+e.Base, "Based-on: "+before.commits[len(before.commits)/2].ID, 1)
	original := l.of(order)
	for name, log := range map[string]anyLog{
		"rebased on another commit":          before.then(person, readme).then(order, changes...),
		"cherry-picked after its revert":     original.then(person, back...).then(order, changes...),
		"cherry-picked directly after it":    original.then(order),
		"a base that is not its parent":      before.then(withMessage(order, base), changes...),
		"a revert that quotes the trailers":  original.then(withMessage(person, "Revert\n\n"+order.Message), back...),
		"a squash that keeps one message":    before.then(order, append(slices.Clone(changes), readme)...),
		"a squash with a commit of a person": before.then(withMessage(order, "Squashed\n\n"+order.Message), append(slices.Clone(changes), readme)...),
	} {
		found, count := log.verify(t, nil)
		if got := found[log.commits[0].ID]; got.Verdict != verification.Differs || count.Failed != 1 {
			t.Errorf("%s: %+v, %d failed", name, got, count.Failed)
		}
	}
}

// TestCopyReadAfterItsParent: the log of merged lines is in the order of time, so that a commit can come
// after its parent. A copy differs nevertheless.
func TestCopyReadAfterItsParent(t *testing.T) {
	t.Parallel()
	l := plainLog(t)
	order, _ := l.order(t)
	changes := l.changes(t, order)
	back := make([]branch.Change, len(changes))
	for i, c := range changes {
		back[i] = branch.Change{Path: c.Path, Content: l.trees[order.Parents[0]].files[c.Path]}
	}
	reverted := l.of(order).then(branch.Commit{Message: "Read me\n", At: order.At}, back...)
	log := reverted.then(order, changes...)
	copied, revert := log.commits[0], log.commits[1]
	merge := branch.Commit{ID: strings.Repeat("a", 40), Parents: []string{revert.ID, copied.ID}, Message: "Merge\n", At: order.At.Add(time.Minute)}
	log.trees[merge.ID] = log.trees[copied.ID]
	rest := log.commits[2:]
	for _, first := range [][]branch.Commit{{merge, copied, revert}, {merge, revert, copied}} {
		log.commits = append(first, rest...)
		found, count := log.verify(t, nil)
		if got := found[copied.ID]; got.Verdict != verification.Differs || count.Failed != 1 {
			t.Errorf("%s read before %s: %+v, %d failed", first[1].ID[:7], first[2].ID[:7], got, count.Failed)
		}
	}
}

// withMessage returns a commit with another message.
func withMessage(c branch.Commit, message string) branch.Commit {
	c.Message = message
	return c
}

// TestVerifyRange: a range that begins or ends inside a push has what is in it, and each
// follows as it does alone.
func TestVerifyRange(t *testing.T) {
	t.Parallel()
	l := plainLog(t)
	for first := 0; first < len(l.commits); first += 5 {
		for last := first; last < len(l.commits); last += 9 {
			log := anyLog{commits: l.commits[first:], trees: l.trees}
			found, count := log.verify(t, func(c *verification.Config) { c.Until = l.commits[last].ID })
			if count.Commits != last-first || count.Failed > 0 || !count.Reached || len(found) != count.Verdicts[verification.Reproduced] {
				t.Errorf("from %d to %d: %d found, %+v", first, last, len(found), count)
			}
			for _, c := range log.commits[:last-first] {
				if _, there := found[c.ID]; !there && strings.Contains(c.Message, "\nMuster: ") {
					t.Errorf("from %d to %d: %s is not there", first, last, c.ID)
				}
			}
		}
	}
	cut := anyLog{commits: l.commits[:9], trees: map[string]*tree{}}
	for _, c := range cut.commits {
		cut.trees[c.ID] = l.trees[c.ID]
	}
	_, count := cut.verify(t, nil)
	if count.Cut != cut.commits[8].ID || count.Failed > 0 || count.Verdicts[verification.Unknown] == 0 {
		t.Errorf("a shallow clone: %+v", count)
	}
}

// FuzzVerify verifies one commit whose message is anything. Only what has the trailers of
// the order follows.
func FuzzVerify(f *testing.F) {
	l := plainLog(f)
	order, before := l.order(f)
	changes := l.changes(f, order)
	f.Add(order.Message)
	for _, key := range []string{"Identity: ", "Based-on: ", "Dispatch: ", "Observation: ", "Muster: ", "Overlay: ", "Operation: "} {
		f.Add(strings.Replace(order.Message, key, key+"1", 1))
		f.Add(strings.Replace(order.Message, key, "", 1))
	}
	before.commits = before.commits[:1:1] // what comes before is verified elsewhere
	e, err := ledger.Parse(order.Message)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, message string) {
		commit := order
		commit.Message = message
		log := before.then(commit, changes...)
		found, _ := log.verify(t, nil)
		got, there := found[log.commits[0].ID]
		if !there {
			t.Fatalf("nothing is found of %q", message)
		}
		if got.Verdict != verification.Reproduced {
			return
		}
		x, err := ledger.Parse(message)
		if err != nil || x.Path != e.Path || x.Kind != e.Kind || !slices.Equal(x.Orders, e.Orders) {
			t.Errorf("it follows: %q", message)
		}
	})
}

// takenLog is a log in which a person takes a dispatch away that was ordered just before.
type takenLog struct {
	anyLog
	own, id string // own is muster's directory
	// text is the order's manifest, and list what names it; without does not. state contains the order.
	text, list, without, state string
	message                    string // a repair's
	ordered                    anyLog // without the person's commit
}

// withdrawn is the state in which the order is withdrawn.
func (x takenLog) withdrawn(t *testing.T) string {
	t.Helper()
	line := x.line(t, x.state)
	return strings.Replace(x.state, line, strings.Replace(line, `,"manifest"`, `,"withdrawn":true,"manifest"`, 1), 1)
}

// line is the line of the order in a state.
func (x takenLog) line(t *testing.T, state string) string {
	t.Helper()
	for line := range strings.Lines(state) {
		if strings.HasPrefix(line, "  "+x.id+": ") {
			return line
		}
	}
	t.Fatalf("no line of %s in\n%s", x.id, state)
	return ""
}

func takenAway(t *testing.T) takenLog {
	t.Helper()
	l := plainLog(t)
	order, before := l.order(t)
	before.commits = append([]branch.Commit{order}, before.commits...)
	e, err := ledger.Parse(order.Message)
	if err != nil {
		t.Fatal(err)
	}
	x := takenLog{own: path.Join(e.Path, "dispatches"), id: e.Orders[0].ID}
	files := l.trees[order.ID].files
	file, list := x.own+"/"+x.id+".yaml", x.own+"/kustomization.yaml"
	if x.text, x.list = string(files[file]), string(files[list]); x.text == "" || !strings.Contains(x.list, x.id) {
		t.Fatalf("the order has %q and the list %q", x.text, x.list)
	}
	x.state = string(files[x.own+"/state.yaml"])
	x.without = strings.Replace(x.list, "- "+x.id+".yaml\n", "", 1)
	if !strings.Contains(x.without, "- ") {
		x.without = strings.Replace(x.without, "resources:\n", "resources: []\n", 1)
	}
	x.anyLog = before.then(branch.Commit{Message: "Less\n", At: order.At}, branch.Change{Path: file}, branch.Change{Path: list, Content: []byte(x.without)})
	x.ordered = before
	x.message = fmt.Sprintf("%s: repair dispatches/\n\nOverlay: %s\nOperation: repair\nBased-on: BASE\n%s", path.Base(e.Path), e.Path, order.Message[strings.Index(order.Message, "Observation: "):])
	return x
}

// repaired is what is found of a repair that writes files; nothing: it deletes one.
func (x takenLog) repaired(t *testing.T, files map[string]string) (last verification.Finding, count verification.Count) {
	t.Helper()
	log := x.repair(files)
	log.each(t, nil, &count, func(f verification.Finding) {
		if f.Commit == log.commits[0].ID {
			last = f
		}
	})
	return last, count
}

// repair is the log with a repair that writes files, and with is the one with any commit.
func (x takenLog) repair(files map[string]string) anyLog {
	return x.with(strings.Replace(x.message, "BASE", x.commits[0].ID, 1), files)
}

func (x takenLog) with(message string, files map[string]string) anyLog {
	var changes []branch.Change
	for file, content := range files {
		change := branch.Change{Path: file}
		if content != "" {
			change.Content = []byte(content)
		}
		changes = append(changes, change)
	}
	return x.then(branch.Commit{Message: message, At: x.commits[0].At}, changes...)
}

// TestUnexplainedRepair: that an order is withdrawn, or what the first document of state.yaml contains, follows
// from the files before a repair, or from an earlier commit.
func TestUnexplainedRepair(t *testing.T) {
	t.Parallel()
	x := takenAway(t)
	manifest, named, state := x.own+"/"+x.id+".yaml", x.own+"/kustomization.yaml", x.own+"/state.yaml"
	withdraw := map[string]string{manifest: "", named: x.without, state: x.withdrawn(t)}
	putBack := map[string]string{manifest: x.text, named: x.list, state: x.state}
	breaker := strings.Replace(x.state, "identity:", "breaker: {failures: 3, at: 2026-01-05T06:00:00Z}\nidentity:", 1)
	const person, repair = "Change files\n", ""
	type commit struct {
		message string
		files   map[string]string
	}
	for name, c := range map[string]struct {
		commits []commit // after the order
		want    verification.Verdict
		why     string
	}{
		"a live order is withdrawn": {[]commit{{repair, withdraw}}, verification.Unknown, x.id + " as withdrawn, which neither"},
		"as a person did":           {[]commit{{person, withdraw}, {person, putBack}, {repair, withdraw}}, verification.Unknown, x.id + " as withdrawn, which neither"},
		"as an earlier repair did": {[]commit{{person, map[string]string{manifest: ""}}, {repair, map[string]string{named: x.without, state: x.withdrawn(t)}}, {person, putBack}, {repair, withdraw}},
			verification.Reproduced, ""},
		"state.yaml was deleted":            {[]commit{{person, map[string]string{state: ""}}, {repair, map[string]string{state: x.state}}}, verification.Reproduced, ""},
		"it is written otherwise":           {[]commit{{person, map[string]string{state: ""}}, {repair, map[string]string{state: breaker}}}, verification.Unknown, "another first document of state.yaml than commit"},
		"it was damaged, written otherwise": {[]commit{{person, map[string]string{state: "<<<<<<< HEAD\n" + x.state}}, {repair, map[string]string{state: breaker}}}, verification.Unknown, "another first document of state.yaml than commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := x
			x.anyLog = x.ordered
			for _, c := range c.commits {
				if c.message == repair {
					x.anyLog = x.repair(c.files)
				} else {
					x.anyLog = x.with(c.message, c.files)
				}
			}
			var last verification.Finding
			var count verification.Count
			x.each(t, nil, &count, func(f verification.Finding) {
				if f.Commit == x.commits[0].ID {
					last = f
				}
			})
			if last.Verdict != c.want || !strings.Contains(strings.Join(last.Why, "; "), c.why) || count.Failed != 0 {
				t.Errorf("got %s, %q, %+v; want %s, %q", last.Verdict, last.Why, count, c.want, c.why)
			}
		})
	}
}

// TestForgedRepair: a repair writes orders as they were made, and leaves a directory as muster
// leaves it. What a person did before it is not looked at.
func TestForgedRepair(t *testing.T) {
	t.Parallel()
	x := takenAway(t)
	id, list, without := x.id, x.list, x.without
	mine := id + "0" // in the list it stands where the other does
	named, state := x.own+"/kustomization.yaml", x.own+"/state.yaml"
	lineOf := func(text string) string { return x.line(t, text) }
	withdrawn := x.withdrawn(t)
	more := strings.Replace(withdrawn, lineOf(withdrawn), strings.Replace(lineOf(withdrawn), `"agents":`, `"agents":1`, 1), 1)
	for name, c := range map[string]struct {
		changes map[string]string // nothing: the file is deleted
		want    verification.Verdict
		why     string
	}{
		"withdrawn":                   {map[string]string{state: withdrawn}, verification.Reproduced, ""},
		"withdrawn with more, forged": {map[string]string{state: more}, verification.Differs, "it writes " + id + " otherwise than commit"},
		"what nobody ordered": {map[string]string{state: strings.Replace(withdrawn, lineOf(withdrawn), lineOf(withdrawn)+strings.ReplaceAll(lineOf(withdrawn), id, mine), 1)},
			verification.Unknown, "it writes " + mine + ", which no commit before it has ordered: was the branch set back?"},
		"cancelled":                {map[string]string{state: strings.Replace(x.state, lineOf(x.state), "", 1)}, verification.Differs, "it cancels " + id},
		"put back":                 {map[string]string{x.own + "/" + id + ".yaml": x.text, named: list}, verification.Differs, "which a repair only deletes"},
		"a list with patches":      {map[string]string{state: withdrawn, named: without + "patches: []\n"}, verification.Differs, "it leaves kustomization.yaml in another state than muster does"},
		"a list with it":           {map[string]string{state: withdrawn, named: list}, verification.Differs, "it leaves kustomization.yaml in another state than muster does: it listed"},
		"withdrawn in another way": {map[string]string{state: withdrawn, named: without}, verification.Reproduced, ""},
		"put back, never retired": {map[string]string{state: strings.Replace(withdrawn, `"withdrawn":true`, `"withdrawn":true,"putBack":true`, 1)},
			verification.Unknown, "it writes " + id + " as put back, which no commit before it has retired: was the branch set back?"},
		"not withdrawn": {map[string]string{named: without + "# none\n"}, verification.Differs, "it leaves " + id + ".yaml in another state than muster does"},
		"the circuit breaker": {map[string]string{state: strings.Replace(withdrawn, "identity:", "breaker: {failures: 3, at: 2026-01-05T06:00:00Z}\nidentity:", 1)},
			verification.Differs, "it changes the first document of state.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last, count := x.repaired(t, c.changes)
			failed, others := 0, 0
			if c.want == verification.Differs {
				failed = 1
			}
			if c.want != verification.Reproduced {
				others = 1
			}
			if last.Verdict != c.want || !strings.Contains(strings.Join(last.Why, "; "), c.why) || count.Failed != failed || count.Verdicts[verification.Reproduced] != count.Muster-others {
				t.Errorf("got %s, %q, %+v; want %s, %q", last.Verdict, last.Why, count, c.want, c.why)
			}
		})
	}
}

// of returns the log up to a commit.
func (l anyLog) of(last branch.Commit) anyLog {
	l.commits = l.commits[slices.IndexFunc(l.commits, func(c branch.Commit) bool { return c.ID == last.ID }):]
	return l
}
