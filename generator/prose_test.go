package generator_test

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/cmd/output"
	"muster/generator/explanation"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/report"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// withNoise returns a log in which the text of muster's messages is noise.
func withNoise(log iter.Seq2[branch.Commit, error]) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		n := 0
		for c, err := range log {
			if e, wrong := ledger.Parse(c.Message); wrong == nil {
				n++
				c.Message = fmt.Sprintf("noise %d: retire 7 dispatches as a trial, their leases expired long ago\n\nOverlay: x\n", n) + strings.TrimPrefix(c.Message, e.Text)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// noisy is a repository with such a log.
type noisy struct{ remote }

// Commits implements explanation.Repository.
func (n noisy) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return withNoise(n.remote.Commits(ctx, from, limit))
}

// TestProseIsNotRead asserts that the text of commit messages changes nothing of what is read from a log,
// except that text itself.
func TestProseIsNotRead(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	kinds := map[ledger.Kind]int{}
	trials := 0
	for _, seed := range []uint64{3, 6} { // of the themes "people" and "everything"
		w := newScenario(drawShape(seed), func(string) {})
		w.play(time.Hour, nil)
		w.cancelOne(t)
		plain := remote{fleet: w.fleet}
		commits := plain.Commits(t.Context(), "", branch.Limit{})
		for r := range ledger.Read("overlays", commits) {
			kinds[r.Kind]++
			if r.Trial() {
				trials++
			}
		}
		now := w.server.Now()
		compare := func(what string, before, after any, text ...cmp.Option) {
			t.Helper()
			options := append(text, cmpopts.EquateEmpty(), cmp.Comparer(sameIndexes), cmp.Exporter(func(reflect.Type) bool { return true }))
			if diff := cmp.Diff(before, after, options...); diff != "" {
				t.Errorf("seed %d: %s (-prose +noise)\n%s", seed, what, diff)
			}
		}
		prose := cmp.Options{cmpopts.IgnoreFields(ledger.Operation{}, "Text"), cmpopts.IgnoreFields(branch.Commit{}, "Message")}
		rows := func(log iter.Seq2[branch.Commit, error]) (all []ledger.Operation) {
			for row, err := range (history.Config{Overlays: "overlays", Now: now}).Rows(ledger.Read("overlays", log)) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, row)
			}
			return all
		}
		compare("history", rows(commits), rows(withNoise(commits)), prose)
		reported := func(log iter.Seq2[branch.Commit, error]) report.Report {
			r, err := report.Config{Overlays: "overlays", From: scenarioStart(), Now: now}.Read(ledger.Read("overlays", log))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		compare("report", reported(commits), reported(withNoise(commits)), prose)
		loaded := fleet.NewLoader("overlays")
		overlays, err := loaded.LoadContext(t.Context(), w.fleet.head().tree)
		if err != nil {
			t.Fatal(err)
		}
		status := func(log iter.Seq2[branch.Commit, error]) output.FleetStatus {
			s, err := output.ReadStatus(overlays, w.fleet.head().id, now, ledger.Read("overlays", log))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		compare("status", status(commits), status(withNoise(commits)), prose)
		l := logOf(t, w.fleet)
		noise := l
		noise.commits = nil
		for c := range withNoise(commits) {
			noise.commits = append(noise.commits, c)
		}
		found, count := l.verify(t, nil)
		again, counted := noise.verify(t, nil)
		compare("verify", found, again)
		compare("verify", count, counted)
		explain := func(r explanation.Repository, name string) []explanation.Explanation {
			c := explanation.Config{Repository: r, Overlays: "overlays", Loader: loaded, Now: now}
			all, err := c.Explain(t.Context(), explanation.Question{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		for n, c := range l.commits {
			if e, err := ledger.Parse(c.Message); err == nil && (n%16 == 0 || e.Kind.Command()) {
				ignored := cmpopts.IgnoreFields(explanation.Explanation{}, "Subject")
				if e.Kind != ledger.Dispatch { // the reasons are the text
					ignored = cmpopts.IgnoreFields(explanation.Explanation{}, "Subject", "Why")
				}
				compare("explain "+c.ID, explain(plain, c.ID), explain(noisy{plain}, c.ID), ignored, prose)
			}
		}
	}
	if kinds[ledger.Dispatch] == 0 || kinds[ledger.Retire] == 0 || kinds[ledger.Repair] == 0 || kinds[ledger.Cancel] == 0 || trials == 0 {
		t.Errorf("the logs have %v, %d trials", kinds, trials)
	}
}

func sameIndexes(a, b plan.IndexSet) bool { return a.String() == b.String() }
