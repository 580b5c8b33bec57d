package history_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// messages returns messages of every kind, also of earlier versions.
func messages(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../../generator/ledger/testdata/*.txtar")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	var all []string
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		check(t, err)
		all = append(all, string(a.Files[len(a.Files)-1].Data))
	}
	return all
}

// TestStaleOutcomeIsUnknown asserts that the outcome of an order is unknown if its retirement did not
// ask Buildkite about the agents.
func TestStaleOutcomeIsUnknown(t *testing.T) {
	a, err := txtar.ParseFile("../../generator/ledger/testdata/stale.txtar")
	check(t, err)
	retired := string(a.Files[len(a.Files)-1].Data)
	_, trailers, _ := strings.Cut(retired, "\n\nOverlay: ")
	ordered := "linux-eu: dispatch 5 agents\n\nOverlay: " + strings.Replace(trailers, "Operation: retire", "Operation: dispatch", 1)
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	commits := []branch.Commit{{ID: "1", At: at, Message: ordered}, {ID: "2", At: at, Message: retired}}
	for row, err := range (history.Config{Overlays: "overlays", Now: at}).Rows(ledger.Read("overlays", newestFirst(commits))) {
		check(t, err)
		if row.Kind == ledger.Dispatch && (row.Outcome.State != ledger.OutcomeUnknown || row.Lost() != 0) {
			t.Errorf("the outcome is %+v, %d lost; want unknown", row.Outcome, row.Lost())
		}
	}
}

// TestOutcomeBeforeRetirement: an order whose retirement waits has its outcome as soon as all its agents have
// registered, or a poll after its lease shows how many have.
func TestOutcomeBeforeRetirement(t *testing.T) {
	message := func(id string, at time.Time, seen string) string {
		return fmt.Sprintf("a: dispatch 5 agents\n\nOverlay: overlays/a\nOperation: dispatch\nBased-on: %s\nDispatch: %s agents=5 purpose=demand not-after=%s\n"+
			"Observation: {\"version\":2,\"at\":%q,\"queue\":\"a\",\"overlays\":[{\"overlay\":\"a\",\"dispatches\":{%s}}]}\nMuster: v1\n",
			strings.Repeat("a", 40), id, at.Add(15*time.Minute).Format(time.RFC3339), at.Format(time.RFC3339), seen)
	}
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	for _, c := range []struct {
		after      time.Duration
		registered string
		want       ledger.OrderState
		lost       int
	}{
		{10 * time.Minute, "0-1", ledger.InFlight, 0},
		{10 * time.Minute, "0-4", ledger.Retired, 0},
		{17 * time.Minute, "0-1", ledger.InFlight, 0},
		{18 * time.Minute, "0-1", ledger.Retired, 3},
	} {
		later := at.Add(c.after)
		commits := []branch.Commit{{ID: "1", At: at, Message: message("a-1", at, "")}, {ID: "2", At: later, Message: message("a-2", later, fmt.Sprintf(`"a-1":{"registered":%q}`, c.registered))}}
		for row, err := range (history.Config{Overlays: "overlays", Now: later}).Rows(ledger.Read("overlays", newestFirst(commits))) {
			check(t, err)
			if row.ID == "1" && (row.Outcome.State != c.want || row.Lost() != c.lost) {
				t.Errorf("%s after the order, %s: %+v, %d lost; want %s, %d", c.after, c.registered, row.Outcome, row.Lost(), c.want, c.lost)
			}
		}
	}
}

// FuzzRows reads arbitrary commits: nothing panics, every commit is counted once, and no figure exceeds
// its total.
func FuzzRows(f *testing.F) {
	for i, m := range messages(f) {
		f.Add(m, fmt.Sprintf(policyText, 10, 2, false), "overlays/default/scaling.yaml", i%4)
	}
	f.Add("Revert \"x\"\n\nThis reverts commit "+strings.Repeat("a", 40)+".\n", "a: [", "base/job.yaml", 1)
	f.Add("x", "", "overlays/a/dispatches/withdrawn/x.yaml", 2)
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, message, policy, path string, parents int) {
		var commits []branch.Commit
		for i, m := range []string{message, strings.ReplaceAll(message, ": retire ", ": dispatch "), strings.ReplaceAll(message, "dispatch", "retire"), message} {
			c := branch.Commit{ID: fmt.Sprintf("%040x", i), Author: "A", At: at.Add(time.Duration(i) * time.Minute), Message: m}
			for j := range parents & 3 {
				c.Parents = append(c.Parents, fmt.Sprintf("%040x", i-j-1))
			}
			commits = append(commits, c)
		}
		var count history.Count
		c := history.Config{Overlays: "overlays", Now: at, Count: &count, Edits: func(foreign []branch.Commit, trees map[string]string) ([]branch.Edits, error) {
			var all []branch.Edits
			for i := range foreign {
				e := branch.Edits{Files: []branch.Edit{{Path: path, Before: []byte(policy), After: []byte(message), Added: i%3 == 1, Removed: i%3 == 2}}, More: parents > 2}
				if parents < 0 {
					e.Unknown = errors.New("it is not here")
				}
				all = append(all, e)
			}
			return all, nil
		}}
		var digest history.Digest
		orders := map[string]bool{}
		for row, err := range c.Rows(ledger.Read("overlays", newestFirst(commits))) {
			check(t, err)
			digest.Add(row)
			if len(row.ID) != 40 || row.At.IsZero() || row.Kind == "" || (row.Outcome != nil) != (row.Kind == ledger.Dispatch) {
				t.Errorf("an incomplete row: %+v", row)
			}
			if o := row.Outcome; o != nil && (o.Registered > row.Agents() || o.Registered < 0 || row.Lost() < 0) {
				t.Errorf("%d of %d registered, %d lost", o.Registered, row.Agents(), row.Lost())
			}
			if row.Kind.Own() {
				orders[row.ID] = true
			}
		}
		if count.Commits != len(commits) || count.Muster+count.Malformed+count.Others != len(commits) || len(orders) != count.Muster+count.Malformed {
			t.Errorf("counted %+v, with %d rows of muster's own", count, len(orders))
		}
		for _, x := range digest.Totals() {
			if x.Registered+x.Lost+x.InFlight+x.Unknown != x.Agents {
				t.Errorf("agents without a state: %+v", x)
			}
		}
	})
}
