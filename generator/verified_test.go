package generator_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/verification"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// anyLog is a log in which anybody may have written anything, the newest first.
type anyLog struct {
	commits []branch.Commit
	trees   map[string]*tree
}

// logOf returns the log of a fleet repository.
func logOf(t testing.TB, loaded *fleetRepository) anyLog {
	t.Helper()
	l := anyLog{trees: map[string]*tree{}}
	for c, err := range loaded.commits(loaded.head().id, branch.Limit{}) {
		if err != nil {
			t.Fatal(err)
		}
		l.commits = append(l.commits, c)
	}
	for _, c := range loaded.history() {
		l.trees[c.id] = c.tree
	}
	return l
}

// then is the log with one more commit, on its newest.
func (l anyLog) then(c branch.Commit, changes ...branch.Change) anyLog {
	next := anyLog{commits: slices.Clone(l.commits), trees: maps.Clone(l.trees)}
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v %+v", c, changes))
	c.ID, c.Parents = hex.EncodeToString(sum[:20]), []string{l.commits[0].ID}
	next.trees[c.ID] = l.trees[l.commits[0].ID].with(changes)
	next.commits = slices.Insert(next.commits, 0, c)
	return next
}

// Ahead implements verification.Files.
func (anyLog) Ahead(context.Context, []branch.Commit, []string) error { return nil }

// Tree implements verification.Files.
func (l anyLog) Tree(_ context.Context, id string) (fs.FS, error) {
	if found := l.trees[id]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("commit %s: %w", id, branch.ErrMissing)
}

// Differences implements verification.Files.
func (l anyLog) Differences(_ context.Context, before, after, top string) ([]branch.Difference, error) {
	from, to := l.trees[before], l.trees[after]
	if from == nil || to == nil {
		return nil, branch.ErrMissing
	}
	var all []branch.Difference
	blob := func(t *tree, name string) branch.Blob {
		if text, there := t.files[name]; there {
			return branch.Blob{ID: l.ID(text), Mode: branch.PlainFile}
		}
		return branch.Blob{}
	}
	for _, name := range slices.Sorted(maps.Keys(union(from.files, to.files))) {
		a, b := blob(from, name), blob(to, name)
		if a != b && (top == "" || strings.HasPrefix(name, top+"/")) {
			all = append(all, branch.Difference{Path: name, Before: a, After: b})
		}
	}
	return all, nil
}

// ID implements verification.Files.
func (anyLog) ID(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// Close implements verification.Files.
func (anyLog) Close() {}

// each calls f with what is found.
func (l anyLog) each(t testing.TB, change func(*verification.Config), count *verification.Count, f func(verification.Finding)) {
	t.Helper()
	c := verification.Config{
		Overlays: "overlays", Version: "v0", Workers: 3, Together: 5, Count: count,
		Loader: func() *fleet.Loader { return fleet.NewLoader("overlays") },
		Files:  func(context.Context) (verification.Files, error) { return l, nil },
	}
	if change != nil {
		change(&c)
	}
	log := func(yield func(branch.Commit, error) bool) {
		for _, x := range l.commits {
			if !yield(x, nil) {
				return
			}
		}
	}
	for found, err := range c.Verify(t.Context(), ledger.Read("overlays", log)) {
		if err != nil {
			t.Fatal(err)
		}
		f(found)
	}
}

// verify returns what is found of each commit, by its identifier.
func (l anyLog) verify(t testing.TB, change func(*verification.Config)) (map[string]verification.Finding, verification.Count) {
	t.Helper()
	var count verification.Count
	found := map[string]verification.Finding{}
	l.each(t, change, &count, func(f verification.Finding) {
		if _, twice := found[f.Commit]; twice {
			t.Errorf("%s is found twice: %+v", f.Commit, f)
		}
		found[f.Commit] = f
	})
	return found, count
}

// verifies reports whether a finding on a commit of muster is without objection.
func verifies(f verification.Finding) bool {
	return f.Verdict == verification.Reproduced
}

// verifyAll asserts that every commit of muster in a fleet's log verifies, and returns their number.
func verifyAll(t *testing.T, f *fleetRepository) int {
	t.Helper()
	found, count := logOf(t, f).verify(t, nil)
	for _, c := range f.history() {
		if x := found[c.id]; c.operation != nil && !verifies(x) {
			t.Errorf("%s %s %s: %s %v", c.at.Format(time.RFC3339), c.operation.Path, c.operation.Kind, x.Verdict, x.Why)
		}
	}
	return count.Muster
}

// TestVerified: every commit of simulations without faults is recomputed byte for byte. With all faults,
// all but the few that depended on state outside of git.
func TestVerified(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	eachReplay(t, func(t *testing.T, w *scenario) {
		l := logOf(t, w.fleet)
		found, count := l.verify(t, nil)
		muster, other := 0, 0
		for _, c := range w.fleet.history() {
			f, there := found[c.id]
			switch {
			case c.operation == nil && there && f.Verdict != verification.NotMuster:
				t.Errorf("%s is a person's, and is %+v", c.id, f)
			case c.operation == nil:
			case verifies(f):
				muster++
			case w.theme == "plain":
				t.Errorf("%s %s %s: %+v", c.at, c.operation.Decision.Overlay, c.operation.Kind, f)
			default:
				other++
				t.Logf("%s %s %s: %s %v", c.at, c.operation.Decision.Overlay, c.operation.Kind, f.Verdict, f.Why)
			}
		}
		t.Logf("%s: %d of %d commits verify: %+v", w.theme, muster, muster+other, count)
		if other > muster/10 || count.Muster != muster+other || count.Commits != len(l.commits) {
			t.Errorf("%d of %d commits do not verify, and counted were %+v", other, muster+other, count)
		}
	})
}
