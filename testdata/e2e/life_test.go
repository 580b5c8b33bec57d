package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// both runs a test with each syncer, side by side with all others.
func both(t *testing.T, promise string, f func(t *testing.T, w *world, s syncer)) {
	t.Helper()
	for _, name := range syncers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() { results.note(t, promise, name) }()
			f(t, shared.world, shared.world.syncers[name])
		})
	}
}

// isWell waits until the syncer says that all is as it should be.
func (v *overlay) isWell() {
	v.t.Helper()
	v.until("the syncer is content", func() error {
		ok, words, err := v.syncer.status(v.ctx, v.name)
		if err != nil || !ok {
			return errors.Join(errors.New(words), err)
		}
		return nil
	})
}

// complete waits until all Jobs of the overlay have ended, none of them as failed.
func (v *overlay) complete() {
	v.t.Helper()
	v.until("its Jobs are complete", func() error {
		for name, lives := range v.events.jobsOf(v.name) {
			for _, j := range lives {
				if j.Finished.IsZero() {
					return fmt.Errorf("%s has not ended", name)
				}
				if j.Failed {
					v.t.Fatalf("the Job %s has failed", name)
				}
			}
		}
		return nil
	})
}

// TestAll are the tests that go on side by side, each with overlays of its own. They go
// on beside those of the real node, too.
func TestAll(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"Life", testLife}, {"Edits", testEdits}, {"Failures", testFailures}, {"Deleted", testDeleted}, {"LeftInGit", testLeftInGit},
		{"Eviction", testEviction}, {"Refused", testRefused}, {"Corrected", testCorrected}, {"Namespace", testNamespace}, {"OldWays", testOldWays},
		{"NodeLost", testNodeLost}, {"Twice", testTwice}, {"Preemption", testPreemption}, {"Reuse", testReuse}, {"Clock", testClock}, {"ApplicationSet", testApplicationSet},
		{"Rights", testRights}, {"Rewritten", testRewritten}, {"Transformed", testTransformed}, {"Unstarted", testUnstarted},
		{"PodQuota", testPodQuota}, {"LimitRange", testLimitRange}, {"DisruptionBudget", testDisruptionBudget},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

func testLife(t *testing.T) {
	both(t, "Job lifecycle from order to TTL: git, cluster events and Buildkite agree", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "life", s, options{})
		v.build(3)
		v.runs(3)
		v.leavesGit()
		v.isWell()
		v.nobodyKilled()
		// The syncer applies a later commit, in which the running Job is not.
		v.build(1)
		v.runs(4)
		v.nobodyKilled()
		v.finish(4)
		v.leavesGit()
		v.synced()
		v.expire()
		v.isWell()
		// And another one, in which there are no Jobs of before.
		v.build(2)
		v.passes(6)
		v.complete()
		v.account()
	})
}

func testEdits(t *testing.T) {
	both(t, "Base or template edited: only later dispatches change", func(t *testing.T, w *world, s syncer) {
		// A base of its own, or all that others have ordered would be withdrawn.
		base := "base-" + s.name()
		must(t, w.git.edit("copy the base", func(dir string) error {
			return os.CopyFS(filepath.Join(dir, base), os.DirFS(filepath.Join(dir, "base")))
		}))
		v := w.addOverlay(t, "edits", s, options{base: base})
		v.build(1)
		v.runs(1)
		v.must(w.git.edit("edit base and template of "+v.name, func(dir string) error {
			label := "\n    app.kubernetes.io/managed-by: muster\n"
			return errors.Join(
				replaceIn(filepath.Join(dir, base, "job.yaml"), label, label+"    e2e.muster.dev/edited: \"yes\"\n"),
				v.setTemplate(dir, options{base: base, patch: `
- op: add
  path: /spec/template/spec/containers/0/env/-
  value: {name: EDITED, value: "yes"}
`}))
		}))
		v.build(1)
		v.runs(2)
		v.isWell()
		v.nobodyKilled()
		var edited []bool
		for name := range v.events.jobsOf(v.name) {
			var raw json.RawMessage
			v.must(w.cluster.Get(w.ctx, kube.Path("batch/v1", "jobs", v.namespace, name), &raw))
			edited = append(edited, strings.Contains(string(raw), `"EDITED"`) && strings.Contains(string(raw), `"e2e.muster.dev/edited"`))
		}
		if len(edited) != 2 || edited[0] == edited[1] {
			t.Errorf("of two Jobs one has the edited template: got %v", edited)
		}
		v.finish(2)
		v.leavesGit()
		v.isWell()
		v.account()
	})
}

func testFailures(t *testing.T) {
	both(t, "Two of four agents fail: the others continue, the lost are ordered after the lease", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "failures", s, options{policy: map[string]string{"lease": "1m"}})
		w.agents.failIndexes(v.name, 1, 3)
		v.build(4)
		v.runs(2)
		v.reaches(2, "pods have failed", func() int { return v.podsIn("Failed") })
		w.agents.failIndexes(v.name)
		v.isWell()
		v.runs(4)
		v.isWell()
		v.open()
		v.passes(4)
		v.leavesGit()
		v.account()
	})
}

func testDeleted(t *testing.T) {
	both(t, "Application or Kustomization deleted: running Jobs stay", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "deleted", s, options{})
		v.build(1)
		v.runs(1)
		v.leavesGit()
		v.build(1)
		v.runs(2)
		if s.name() == "argocd" {
			v.must(w.cluster.Merge(w.ctx, s.object(v.name), map[string]any{"metadata": map[string]any{"finalizers": []string{"resources-finalizer.argocd.argoproj.io"}}}))
		}
		v.must(w.cluster.Delete(w.ctx, s.object(v.name), nil))
		v.gone(s.object(v.name))
		v.nobodyKilled()
		v.finish(2)
		v.account()
	})
}

func testLeftInGit(t *testing.T) {
	both(t, "Job recreated by the syncer after its TTL: its pods exit", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "left", s, options{policy: map[string]string{"lease": "3m"}})
		release := w.agents.hold(t, v.name)
		v.build(2)
		v.until("it is dispatched", func() error {
			if len(w.git.live(v.name)) == 0 {
				return errors.New("nothing is in git")
			}
			return nil
		})
		// An invalid policy suspends its overlay: nothing is retired.
		policy := filepath.Join("overlays", v.name, "scaling.yaml")
		v.must(w.git.edit("break the policy of "+v.name, func(dir string) error {
			return replaceIn(filepath.Join(dir, policy), "kind: ScalingPolicy\n", "kind: ScalingPolicy\n"+nonsense)
		}))
		release()
		v.runs(2)
		v.finish(2)
		orders := v.dispatches()
		agents := len(v.buildkite.agentsOf(orders[0].Dispatches[0]))
		v.until("the lease is over", func() error { return over(orders[0].At, 185) })
		v.expire()
		v.must(w.git.edit("an unrelated commit for "+v.name, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "note-"+v.name), []byte("x"), 0o644)
		}))
		v.until("the Job is there again and has ended", func() error {
			lives := v.events.jobsOf(v.name)[orders[0].Dispatches[0]]
			for _, j := range lives {
				if j.Finished.IsZero() {
					return fmt.Errorf("not ended: %+v", j)
				}
			}
			if len(lives) < 2 {
				return fmt.Errorf("it has lived %d times", len(lives))
			}
			return nil
		})
		if now := len(v.buildkite.agentsOf(orders[0].Dispatches[0])); now != agents {
			t.Errorf("%d agents had registered before, %d after the Job was made again", agents, now)
		}
		for _, j := range v.events.jobsOf(v.name)[orders[0].Dispatches[0]] {
			if j.Failed {
				t.Errorf("the Job has failed: %+v", j)
			}
		}
		v.nobodyKilled()
		v.must(w.git.edit("correct the policy of "+v.name, func(dir string) error {
			return replaceIn(filepath.Join(dir, policy), nonsense, "")
		}))
		v.leavesGit()
		v.isWell()
	})
}

// nonsense makes a policy invalid.
const nonsense = "nonsense: true\n"

func testEviction(t *testing.T) {
	both(t, "Eviction: a busy agent finishes its job; one that its node kills is replaced", func(t *testing.T, w *world, s syncer) {
		v := w.addOverlay(t, "eviction", s, options{})
		v.expectKills = func(k node.Killed) bool { return k.Disrupted }
		v.build(2)
		v.runs(2)
		pods := v.events.podsOf(v.name)
		// The first with the grace that its template says, the second with none.
		v.must(w.cluster.evict(w.ctx, v.namespace, pods[0].Name, nil))
		v.must(w.cluster.evict(w.ctx, v.namespace, pods[1].Name, map[string]any{"gracePeriodSeconds": 1}))
		v.until("the second pod is replaced", func() error {
			if all, running := len(v.events.podsOf(v.name)), v.podsIn("Running"); all != 3 || running != 2 {
				return fmt.Errorf("%d pods, %d run", all, running)
			}
			return nil
		})
		v.open()
		v.until("the first job has passed", func() error {
			if c := v.counts(); c["passed"] < 1 {
				return fmt.Errorf("jobs are %v", c)
			}
			return nil
		})
		v.noFailure()
		if killed := v.events.killedOf(v.name); len(killed) != 2 {
			t.Errorf("%d pods were ended, want the two that were evicted", len(killed))
		}
		v.nobodyKilled()
		v.isWell()
	})
}
