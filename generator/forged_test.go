package generator_test

import (
	"fmt"
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

// TestForged changes one order in every way that its message and its files can be
// changed, and says what must be found of it.
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
		"as it was":                 {order.Message, changes, verification.Follows},
		"signed off":                {order.Message + "Signed-off-by: A <a@example.com>\n", changes, verification.Follows},
		"other words":               {edit("\n\n", "\n\nIn other words.\n\n"), changes, verification.Follows},
		"other CI":                  {edit("CI: [skip ci]\n", ""), changes, verification.Follows},
		"more agents":               {edit(fmt.Sprintf("\nAgents: %d\n", e.Agents), fmt.Sprintf("\nAgents: %d\n", e.Agents+1)), changes, verification.Forged},
		"another dispatch":          {edit("\nDispatch: "+e.Dispatches[0], "\nDispatch: other-7f3k9c2b"), changes, verification.Forged},
		"another overlay":           {edit("Overlay: overlays/", "Overlay: elsewhere/"), changes, verification.Forged},
		"another observation":       {edit(`"queue":"`, `"queue":"other-`), changes, verification.Forged},
		"fields that nobody writes": {edit(`{"version":2,`, `{"version":2,"more":1,`), changes, verification.Forged},
		"a manifest edited":         {order.Message, with(strings.Replace(text, "agent:3", "agent:4", 1)), verification.ByHand},
		"a manifest with a comment": {order.Message, with("# more\n" + text), verification.ByHand},
		"a manifest left out":       {order.Message, slices.Delete(slices.Clone(changes), manifest, manifest+1), verification.ByHand},
		"one more manifest":         {order.Message, more(e.Overlay+"/dispatches/mine.yaml", text), verification.ByHand},
		"a policy":                  {order.Message, more(e.Overlay+"/scaling.yaml", "a: 1\n"), verification.Forged},
		"the base":                  {order.Message, more("base/job.yaml", "a: 1\n"), verification.Forged},
		"a neighbour":               {order.Message, more(dir+"other/dispatches/x.yaml", text), verification.Forged},
		"a name that begins alike":  {order.Message, more(e.Overlay+"/dispatches.yaml", text), verification.Forged},
		"nothing":                   {order.Message, nil, verification.ByHand},
		"no number":                 {edit(fmt.Sprintf("\nAgents: %d\n", e.Agents), "\nAgents: many\n"), changes, verification.Malformed},
		"another version's files":   {edit("\nMuster: v0\n", "\nMuster: v9\n"), with("# more\n" + text), verification.OtherVersion},
		"no version's files":        {edit("\nMuster: v0\n", "\nMuster: v9\n"), more(e.Overlay+"/dispatches/mine.yaml", text), verification.Forged},
		"no version's directory":    {edit("\nMuster: v0\n", "\nMuster: v9\n"), more("base/job.yaml", "a: 1\n"), verification.Forged},
		"a person's":                {"I was here\n", changes, verification.People},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commit := order
			commit.Message = c.message
			log := before.then(commit, c.changes...)
			found, count := log.verify(t, nil)
			got := found[log.commits[0].ID]
			if got.Verdict != c.want || got.Verdict != verification.Follows && len(got.Why) == 0 {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if want := map[bool]int{true: 1}[c.want.Failed()]; count.Failed != want {
				t.Errorf("%d failed, want %d: %+v", count.Failed, want, count)
			}
		})
	}
	t.Run("on another commit", func(t *testing.T) {
		log := before.then(branch.Commit{Message: "Something\n", At: order.At}, branch.Change{Path: "README.md", Content: []byte("more\n")})
		log = log.then(order, changes...)
		found, _ := log.verify(t, nil)
		if got := found[log.commits[0].ID]; got.Verdict != verification.Forged {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("by another version", func(t *testing.T) {
		_, count := l.verify(t, func(c *verification.Config) { c.Version = "v1" })
		if count.Muster == 0 || count.Verdicts[verification.Follows] != count.Muster {
			t.Errorf("got %+v", count)
		}
	})
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
			if count.Commits != last-first || count.Failed > 0 || !count.Reached || len(found) != count.Verdicts[verification.Follows] {
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
	for _, key := range []string{"Agents: ", "Dispatch: ", "Observation: ", "Muster: ", "Overlay: ", "Operation: "} {
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
		if got.Verdict != verification.Follows {
			return
		}
		x, err := ledger.Parse(message)
		if err != nil || x.Overlay != e.Overlay || x.Kind != e.Kind || x.Agents != e.Agents || !slices.Equal(x.Dispatches, e.Dispatches) {
			t.Errorf("it follows: %q", message)
		}
	})
}
