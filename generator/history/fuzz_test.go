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
