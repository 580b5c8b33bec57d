package generator_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// TestUnreadIsAProblem: what cannot be read of Buildkite is among the problems for
// as long as that lasts, also while a tick fails, and is logged when it begins and
// when it is over.
func TestUnreadIsAProblem(t *testing.T) {
	const text = "clusters cannot be read: no scope"
	b := newBench("a")
	b.snapshot.Unread = text
	var shown []bool
	b.run(t, 15*time.Second, func(ticks int, _ generator.Result, _ error) bool { return ticks < 4 }, func(c *generator.Config) {
		c.Watch = reports(func(r generator.Report) {
			is := false
			for _, c := range r.Conditions {
				is = is || c.Type == condition.Degraded && c.Message == text && c.Reason == condition.ListUnread
			}
			shown = append(shown, is)
			switch len(shown) {
			case 2:
				b.err = context.DeadlineExceeded
			case 3:
				b.err, b.snapshot.Unread = nil, ""
			}
		})
	})
	if len(shown) != 4 || !shown[0] || !shown[1] || !shown[2] || shown[3] {
		t.Errorf("among the problems of each tick: %v", shown)
	}
	for _, want := range []string{
		`level=WARN msg="` + text + `" condition=Degraded reason=ListUnread`,
		`level=INFO msg="resolved: ` + text + `" condition=Degraded reason=ListUnread duration=45s`,
		`level=ERROR msg="tick failed"`, `level=INFO msg="resolved: tick failed"`,
	} {
		if n := strings.Count(b.log.String(), want); n != 1 {
			t.Errorf("%d lines %s, want one:\n%s", n, want, b.log.String())
		}
	}
}

// TestUnservedOfEachCluster: the log names each cluster in which jobs wait in a queue
// that no overlay is for, although an overlay serves a queue of that key elsewhere, and
// says of each when it is over.
func TestUnservedOfEachCluster(t *testing.T) {
	b := newBench("a")
	b.snapshot.Queues = []plan.Queue{{Cluster: "c1", ClusterName: "one", Key: "a"}}
	for _, cluster := range []string{"c1", "c2", "c3"} {
		b.snapshot.Jobs = append(b.snapshot.Jobs, plan.Job{ID: cluster, Cluster: cluster, Rules: []string{"queue=a"}, State: plan.JobPending})
	}
	b.run(t, 15*time.Second, func(ticks int, _ generator.Result, _ error) bool {
		if ticks == 2 {
			b.snapshot.Jobs = b.snapshot.Jobs[:2]
		}
		return ticks < 3
	})
	const text = `msg="jobs are pending in a queue that no overlay serves" queue=a cluster=`
	for line, want := range map[string]int{
		"level=WARN " + text + "c1": 0, "level=WARN " + text + "c2": 1, "level=WARN " + text + "c3": 1,
		strings.Replace("level=INFO "+text, `"jobs`, `"resolved: jobs`, 1) + "c3": 1, "resolved": 1,
	} {
		if n := strings.Count(b.log.String(), line); n != want {
			t.Errorf("%d lines have %s, want %d:\n%s", n, line, want, b.log.String())
		}
	}
}

// TestUnobservedConditions asserts the conditions of muster itself after ticks that did not poll or
// did not push: what an earlier tick observed to fail is unknown then, and is not logged as resolved.
func TestUnobservedConditions(t *testing.T) {
	const ok, notPolled = "True (AsExpected)", "Unknown (NoAnswer)"
	refused := &branch.Refused{Message: "protected branch"}
	a := newBench("a")
	var git error
	a.onHead = func() error { return git }
	valid := branch.Change{Path: "overlays/a/scaling.yaml", Content: a.overlays[0].policyText()}
	steps := []struct {
		name   string
		change func()
		// want are RepositoryAvailable, BuildkiteAvailable and PushAccepted.
		want     [3]string
		resolved int // lines of the log, so far
	}{
		{"nothing to push", func() {}, [3]string{ok, ok, ok}, 0},
		{"every try conflicts", func() {
			a.jobs("a", 2)
			a.onCommit = func([]ledger.Draft) error { return branch.ErrMoved }
		}, [3]string{ok, ok, "False (Conflict)"}, 0},
		{"git is down", func() { git = errors.New("no route to host") }, [3]string{"False (ReadFailed)", ok, "Unknown (Conflict)"}, 0},
		{"git is still down", func() {}, [3]string{"False (ReadFailed)", ok, "Unknown (Conflict)"}, 0},
		{"nothing to push after a conflict", func() { git, a.snapshot.Jobs = nil, nil }, [3]string{ok, ok, ok}, 2},
		{"the push is refused", func() {
			a.jobs("a", 2)
			a.onCommit = func([]ledger.Draft) error { return refused }
		}, [3]string{ok, ok, "False (PushRefused)"}, 2},
		{"Buildkite is down", func() { a.err = errors.New("503") }, [3]string{ok, "False (PollFailed)", "Unknown (PushRefused)"}, 2},
		{"git is down, too", func() { git = errors.New("no route to host") }, [3]string{"False (ReadFailed)", "Unknown (PollFailed)", "Unknown (PushRefused)"}, 2},
		{"no overlay is valid", func() {
			git, a.err = nil, nil
			a.fleet.edit("a person", branch.Change{Path: valid.Path, Content: []byte("spec: 7\n")})
		}, [3]string{ok, notPolled, "Unknown (PushRefused)"}, 2},
		{"nothing to push any more", func() {
			a.fleet.edit("a person", valid)
			a.snapshot.Jobs = nil
		}, [3]string{ok, ok, "Unknown (PushRefused)"}, 4},
		{"a push succeeds", func() {
			a.jobs("a", 2)
			a.onCommit = nil
		}, [3]string{ok, ok, ok}, 5},
	}
	var got [][3]string
	var resolved []int
	a.run(t, 15*time.Second, func(ticks int, _ generator.Result, _ error) bool {
		resolved = append(resolved, strings.Count(a.log.String(), "resolved: "))
		if ticks < len(steps) {
			steps[ticks].change()
		}
		return ticks < len(steps)
	}, func(c *generator.Config) {
		c.Watch = reports(func(r generator.Report) {
			var now [3]string
			for i, kind := range []condition.Type{condition.RepositoryAvailable, condition.BuildkiteAvailable, condition.PushAccepted} {
				c, _ := condition.Find(condition.Of(r.Conditions, ""), kind)
				now[i] = string(c.Status) + " (" + c.Reason + ")"
				if strings.Count(c.Message, "not tried again since") > 1 {
					t.Errorf("message %q", c.Message)
				}
			}
			got = append(got, now)
		})
	})
	for i, step := range steps {
		if got[i] != step.want {
			t.Errorf("%s: %q, want %q", step.name, got[i], step.want)
		}
		if resolved[i] != step.resolved {
			t.Errorf("%s: %d problems are resolved, want %d", step.name, resolved[i], step.resolved)
		}
	}
	if t.Failed() {
		t.Log(a.log.String())
	}
}

// TestSlowGit asserts that a tick in which the git server takes long has a condition, and that it ends
// with the next tick in which it does not.
func TestSlowGit(t *testing.T) {
	for name, c := range map[string]struct {
		head, push time.Duration
		message    string // empty: no condition
	}{
		"usual":     {2 * time.Second, 3 * time.Second, ""},
		"slow head": {20 * time.Second, 0, "reading and pushing the branch took 20 s: agents are ordered that much later"},
		"slow push": {0, 20 * time.Second, "reading and pushing the branch took 20 s: agents are ordered that much later"},
		"both":      {6 * time.Second, 6 * time.Second, "reading and pushing the branch took 12 s: agents are ordered that much later"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("a")
			b.jobs("a", 2)
			b.onHead = func() error { b.now = b.now.Add(c.head); return nil }
			b.onCommit = func([]ledger.Draft) error { b.now = b.now.Add(c.push); return nil }
			g := b.generator()
			slow := func() string {
				for _, found := range tick(t, g).Conditions(b.now) {
					if found.Reason == condition.GitSlow && found.Status == condition.True && found.Type == condition.Degraded && found.Remedy != "" {
						return found.Message
					}
				}
				return ""
			}
			if got := slow(); got != c.message {
				t.Errorf("the condition is %q, want %q", got, c.message)
			}
			b.onHead, b.onCommit = nil, nil
			if got := slow(); got != "" {
				t.Errorf("afterwards it is %q", got)
			}
		})
	}
}

// TestSlowLazyReads asserts that whatever a tick reads from git counts towards the condition GitSlow, also
// files that are fetched when they are read.
func TestSlowLazyReads(t *testing.T) {
	for _, what := range []string{"files", "directories", "history", "earlier file", "branch"} {
		t.Run(what, func(t *testing.T) {
			b := newBench("a")
			b.jobs("a", 2)
			first := tick(t, b.generator(onBranch("main")))
			if what == "earlier file" { // a deleted order is looked up
				b.fleet.edit("a person", branch.Change{Path: dispatches + "/" + first.Operations[0].Decision.Dispatch[0].ID + ".yaml"}, branch.Change{Path: dispatches + "/kustomization.yaml"})
			}
			slow := true
			g := b.generator(onBranch("east"), func(c *generator.Config) {
				c.Repository = slowRepository{c.Repository, func(reads string) {
					if slow && reads == what {
						b.now = b.now.Add(11 * time.Second)
					}
				}}
			})
			r := tick(t, g)
			found := slices.ContainsFunc(r.Conditions(b.now), func(c condition.Condition) bool { return c.Reason == condition.GitSlow })
			if !found {
				t.Errorf("git took %s, and the condition is missing", r.GitTook)
			}
			slow = false
			if r := tick(t, g); r.GitTook != 0 {
				t.Errorf("afterwards git took %s", r.GitTook)
			}
		})
	}
}

// slowRepository calls reads before each read.
type slowRepository struct {
	generator.Repository
	reads func(what string)
}

func (s slowRepository) Head(ctx context.Context) (branch.Head, error) {
	head, err := s.Repository.Head(ctx)
	head.Tree = slowTree{head.Tree, s.reads}
	return head, err
}

func (s slowRepository) HasBranch(ctx context.Context, name string) (bool, error) {
	s.reads("branch")
	return s.Repository.HasBranch(ctx, name)
}

func (s slowRepository) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		s.reads("history")
		s.Repository.Commits(ctx, from, limit)(yield)
	}
}

func (s slowRepository) File(ctx context.Context, commit, name string) ([]byte, error) {
	s.reads("earlier file")
	return s.Repository.File(ctx, commit, name)
}

// slowTree is the tree of a slowRepository.
type slowTree struct {
	fs.FS
	reads func(what string)
}

func (s slowTree) ReadFile(name string) ([]byte, error) {
	s.reads("files")
	return fs.ReadFile(s.FS, name)
}

func (s slowTree) ReadDir(name string) ([]fs.DirEntry, error) {
	s.reads("directories")
	return fs.ReadDir(s.FS, name)
}
