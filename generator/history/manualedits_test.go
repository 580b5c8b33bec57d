package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/policy"
	"muster/generator/simulation"
	"muster/gitops/branch"
)

// TestChanges: returns every changed field of a policy, and schedules by name.
func TestChanges(t *testing.T) {
	parse := func(spec string) []byte {
		return []byte("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ") + "\n")
	}
	before, err := policy.Parse("x", parse("queue: a\nmax: 1\nschedules:\n- {name: day, days: [Mon, Tue], from: \"08:00\", to: \"18:00\", timeZone: Europe/Berlin, max: 9}\n- {name: gone, days: [Sun], from: \"00:00\", to: \"24:00\", timeZone: UTC, min: 1}"))
	check(t, err)
	after, err := policy.Parse("x", parse("queue: b\ncluster: ci\ntags: {os: linux}\nmin: 2\nmax: 30\nbuffer: 3\nlookahead: 0.5\nlease: 1h\nidleTimeout: 90s\nwarmIdleTimeout: 1h30m\nreuse: {idle: 1m, uptime: 30m}\npriority: 4\nmaxPerHour: 5\npaused: true\nschedules:\n- {name: day, days: [Mon], from: \"08:00\", to: \"19:30\", timeZone: Europe/Berlin, max: 9, buffer: 1}\n- {name: new, days: [Sat], from: \"10:00\", to: \"11:00\", timeZone: UTC, max: 30}\noverrides:\n- {until: \"2026-11-21T18:00:00+01:00\", max: 40, paused: true}\n- {until: \"2026-11-21T17:00:00Z\", maxPerHour: 3}"))
	check(t, err)
	var got []string
	for _, c := range history.Changes(before, after) {
		got = append(got, c.String())
	}
	want := []string{
		"queue a -> b", "cluster none -> ci", "tags none -> os=linux", "min 0 -> 2", "max 1 -> 30", "buffer 0 -> 3", "lookahead 0 -> 0.5",
		"lease 15m -> 1h", "idleTimeout 5m -> 1m30s", "warmIdleTimeout 1h -> 1h30m", "reuse none -> idle 1m uptime 30m", "priority 0 -> 4", "maxPerHour 0 -> 5", "paused false -> true",
		`schedule "day" days Mon Tue -> Mon`, `schedule "day" to 18:00 -> 19:30`, `schedule "day" buffer none -> 1`,
		`schedule "gone" Sun 00:00-24:00 UTC min 1 -> none`, `schedule "new" none -> Sat 10:00-11:00 UTC max 30`,
		"override until 2026-11-21T17:00:00Z none -> max 40 paused true", "override until 2026-11-21T17:00:00Z (2) none -> maxPerHour 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the changes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(want)-7 != len(policy.Fields())-2 { // every field but schedules and overrides
		t.Errorf("a policy has %d fields: this test changes %d of them", len(policy.Fields()), len(want)-5)
	}
	auto := before
	auto.LeaseAuto = true
	if got := history.Changes(before, auto); len(got) != 1 || got[0].String() != "lease 15m -> auto" {
		t.Errorf("a lease that goes by boots: %v", got)
	}
	if again := history.Changes(after, after); len(again) > 0 {
		t.Errorf("a policy differs from itself: %v", again)
	}
}

// TestPeople: classifies a commit by the kinds of changed files.
func TestPeople(t *testing.T) {
	policy := func(max int) []byte { return fmt.Appendf(nil, policyText, max, 0, false) }
	c := branch.Commit{ID: strings.Repeat("a", 40), Author: "Ada", At: simulation.Start(), Message: "x", Parents: []string{strings.Repeat("b", 40)}}
	file := func(path string) branch.Edit { return branch.Edit{Path: path} }
	overridden := func(before, after string) branch.Edits {
		with := func(overrides string) []byte { return fmt.Appendf(policy(1), "  overrides: [%s]\n", overrides) }
		return branch.Edits{Files: []branch.Edit{{Path: "overlays/a/scaling.yaml", Before: with(before), After: with(after)}}}
	}
	for what, x := range map[string]struct {
		edits   branch.Edits
		message string
		parents int
		want    string
	}{
		"a policy and its template": {edits: branch.Edits{Files: []branch.Edit{{Path: "overlays/a/b/scaling.yaml", Before: policy(1), After: policy(2)}, file("overlays/a/b/template/x.yaml")}},
			want: "a/b policy max 1 -> 2; a/b template changes template/x.yaml"},
		"a comment":           {edits: branch.Edits{Files: []branch.Edit{{Path: "overlays/a/scaling.yaml", Before: policy(1), After: append(policy(1), "# x\n"...)}}}, want: "a policy no setting changes"},
		"a policy that broke": {edits: branch.Edits{Files: []branch.Edit{{Path: "overlays/a/scaling.yaml", Before: policy(1), After: []byte("spec: [")}}}, want: "a policy is invalid now: *"},
		"a policy corrected":  {edits: branch.Edits{Files: []branch.Edit{{Path: "overlays/a/scaling.yaml", Before: []byte("{"), After: policy(3)}}}, want: "a policy is valid again: queue default, max 3"},
		"an overlay gone":     {edits: branch.Edits{Files: []branch.Edit{{Path: "overlays/a/scaling.yaml", Removed: true, Before: policy(1)}, {Path: "overlays/a/dispatches/x.yaml", Removed: true}}}, want: "a delete the overlay is removed"},
		"dispatches": {edits: branch.Edits{Files: []branch.Edit{{Path: "overlays/a/dispatches/withdrawn/1.yaml", Removed: true}, {Path: "overlays/a/dispatches/2.yaml", Added: true}, file("overlays/a/dispatches/state.yaml"), file("overlays/a/dispatches/x.yaml")}},
			want: "a edit deletes withdrawn/1.yaml, adds dispatches/2.yaml, changes dispatches/state.yaml, and 1 more"},
		"more than is listed": {edits: branch.Edits{Files: []branch.Edit{file("base/job.yaml")}, More: true}, want: " template changes base/job.yaml, and many more"},
		"a merge": {edits: branch.Edits{Files: []branch.Edit{{Path: "overlays/a/scaling.yaml", Before: policy(1), After: policy(2)}, file("overlays/a/dispatches/x.yaml")}}, parents: 2,
			want: "a merge brings in: max 1 -> 2"},
		"a merge of muster's alone": {edits: branch.Edits{Files: []branch.Edit{file("overlays/a/dispatches/x.yaml")}}, parents: 2},
		"nothing of the fleet":      {},
		"a timed pause": {edits: overridden(``, `{until: "2026-11-21T18:00:00Z", paused: true}`),
			want: "a pause override until 2026-11-21T18:00:00Z none -> paused true"},
		"a timed pause beside an override, and without one that is over": {
			edits: overridden(`{until: "2026-01-01T00:00:00Z", max: 3}, {until: "2026-11-21T18:00:00Z", max: 3}`, `{until: "2026-11-21T18:00:00Z", max: 3}, {until: "2026-11-21T19:00:00Z", paused: true}`),
			want:  "a pause override until 2026-01-01T00:00:00Z max 3 -> none, override until 2026-11-21T19:00:00Z none -> paused true"},
		"a shorter pause": {edits: overridden(`{until: "2026-11-21T18:00:00Z", paused: true}`, `{until: "2026-11-21T17:00:00Z", paused: true}`),
			want: "a pause *"},
		"the end of a timed pause": {edits: overridden(`{until: "2026-11-21T18:00:00Z", paused: true}`, ``),
			want: "a resume override until 2026-11-21T18:00:00Z paused true -> none"},
		"a pause and more": {edits: overridden(``, `{until: "2026-11-21T18:00:00Z", max: 3, paused: true}`),
			want: "a policy override until 2026-11-21T18:00:00Z none -> max 3 paused true"},
		"unknown": {edits: branch.Edits{Unknown: errors.New("why")}, want: " unknown cannot be said: why"},
		"a revert": {edits: branch.Edits{Files: []branch.Edit{file("overlays/a/kustomization.yaml")}}, message: "Revert \"y\"\n\nThis reverts commit " + strings.Repeat("c", 40) + ".\n",
			want: "a revert reverts ccccccc: changes a/kustomization.yaml"},
	} {
		c := c
		if x.message != "" {
			c.Message = x.message
		}
		if x.parents == 2 {
			c.Parents = append(slices.Clone(c.Parents), strings.Repeat("d", 40))
		}
		var count history.Count
		config := history.Config{Overlays: "overlays", Count: &count, Edits: func([]branch.Commit, map[string]string) ([]branch.Edits, error) { return []branch.Edits{x.edits}, nil }}
		var got []string
		for r, err := range config.Rows(ledger.Read("overlays", newestFirst([]branch.Commit{c}))) {
			check(t, err)
			got = append(got, fmt.Sprintf("%s %s %s", r.Overlay, r.Kind, r.Why))
		}
		text := strings.Join(got, "; ")
		if prefix, open := strings.CutSuffix(x.want, "*"); text != x.want && (!open || !strings.HasPrefix(text, prefix)) {
			t.Errorf("%s: %q, want %q", what, text, x.want)
		}
		if (count.Unrelated == 1) != (x.want == "") || (count.Unknown == 1) != (what == "unknown") || count.Cut != c.ID {
			t.Errorf("%s: counted %+v", what, count)
		}
	}
}

// TestRowsOfCommands: the rows of muster cancel and muster close-breaker are of their trailers. They need
// no files, and concern people.
func TestRowsOfCommands(t *testing.T) {
	const begin = "a: cancel\n\nOverlay: overlays/a\nOperation: "
	const end = "Muster: v1\nReason: wrong image\n"
	base := "\nBased-on: " + strings.Repeat("b", 40) + "\n"
	var five string
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		five += "Dispatch: " + id + " agents=2\n"
	}
	var commits []branch.Commit
	for i, message := range []string{
		begin + "cancel" + base + "Dispatch: x agents=4\n" + end, begin + "cancel" + base + five + end,
		begin + "close-breaker" + base + "Failures: 3\n" + end, begin + "cancel" + base + end,
	} {
		commits = append(commits, branch.Commit{ID: fmt.Sprint(i), Author: "Bob", At: simulation.Start(), Message: message, Parents: []string{fmt.Sprint(i - 1)}})
	}
	var count history.Count
	var digest history.Digest
	var got []string
	config := history.Config{Overlays: "overlays", Count: &count}
	for r, err := range config.Rows(ledger.Read("overlays", newestFirst(commits))) {
		check(t, err)
		digest.Add(r)
		got = append(got, fmt.Sprintf("%s %s %d: %s, by %s: %s", r.Overlay, r.Kind, r.Agents(), r.Why, r.Author, r.Reason))
	}
	want := []string{
		"a damaged 0: cannot be read: Dispatch: there is no such trailer, by Bob: ",
		"a close-breaker 0: closes the circuit breaker after 3 failed orders, by Bob: wrong image",
		"a cancel 10: cancels a, b, c, and 2 more, by Bob: wrong image",
		"a cancel 4: cancels x, by Bob: wrong image",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if x := digest.Totals()[0]; count.Others != 3 || count.Malformed != 1 || count.Muster != 0 || x.Edits != 3 || x.Malformed != 1 {
		t.Errorf("counted %+v, %+v", count, x)
	}
	for _, kinds := range [][]ledger.Kind{{ledger.Cancel, ledger.CloseBreaker}, {ledger.Dispatch}} {
		if (history.Filter{Operations: kinds}).People() {
			t.Errorf("%v need files", kinds)
		}
	}
}
