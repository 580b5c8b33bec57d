package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/testdata/e2e/kube"
)

const (
	manyDispatches = 200
	manyAgents     = 10 // of each
)

// TestCrowd: 200 live dispatches of 2,000 agents in one overlay. The agents are inside
// of the simulated Buildkite.
func TestCrowd(t *testing.T) {
	w := shared.world
	for _, name := range syncers() {
		t.Run(name, func(t *testing.T) {
			const promise = "200 dispatches, 2,000 pods in one overlay: each is one Job, no agent is killed"
			defer func() { results.note(t, promise, name) }()
			many(t, w, w.syncers[name])
		})
	}
}

func many(t *testing.T, w *world, s syncer) {
	v := w.addOverlay(t, "many", s, options{
		policy: map[string]string{"max": "2100"}, patch: lightPatch,
	})
	release := w.agents.hold(t, v.name)
	for n := range manyDispatches {
		v.build(manyAgents)
		v.until("the build's dispatch is in git", func() error {
			if live := v.git.live(v.name); len(live) <= n {
				return fmt.Errorf("%d are in git", len(live))
			}
			return nil
		})
	}
	v.hasJobs(manyDispatches)
	first, last := v.jobTimes(nil)
	results.measured(fmt.Sprintf("%d dispatches: to the first Job, to the last", manyDispatches), s.name(), fmt.Sprintf("%.1f s, %.1f s", first.Seconds(), last.Seconds()))
	before := map[string]bool{}
	for name := range v.events.jobsOf(v.name) {
		before[name] = true
	}
	results.measured("then: unrelated commit to sync", s.name(), fmt.Sprintf("%.1f s", v.applies().Seconds()))
	v.build(1)
	v.hasJobs(manyDispatches + 1)
	_, one := v.jobTimes(before)
	results.measured("then: dispatch, commit to Job", s.name(), fmt.Sprintf("%.1f s", one.Seconds()))
	results.measured("then: memory", s.name(), v.memory())
	v.open()
	began := time.Now()
	release()
	v.passes(manyDispatches*manyAgents + 1)
	v.complete()
	results.measured("2,001 pods of light agents: until 201 Jobs are complete", s.name(), fmt.Sprintf("%.0f s", time.Since(began).Seconds()))
	v.leavesGit()
	results.measured("unrelated commit to sync, all Jobs retired but present", s.name(), fmt.Sprintf("%.1f s", v.applies().Seconds()))
	v.isWell()
	v.synced()
	v.expire()
	v.account()
}

// hasJobs waits until the cluster has had so many Jobs of the overlay.
func (v *overlay) hasJobs(want int) {
	v.t.Helper()
	v.reaches(want, "Jobs were there", func() int { return len(v.events.jobsOf(v.name)) })
}

// jobTimes are the shortest and the longest time from the push of a dispatch to its
// Job, but for those that were there before.
func (v *overlay) jobTimes(before map[string]bool) (first, last time.Duration) {
	v.t.Helper()
	for name, lives := range v.events.jobsOf(v.name) {
		pushed, known := v.git.pushedAt(name)
		if before[name] || !known {
			continue
		}
		took := lives[0].Added.Sub(pushed)
		if first == 0 || took < first {
			first = took
		}
		last = max(last, took)
	}
	return first, last
}

// applies commits something beside and waits until the syncer has applied that commit,
// of which it is told.
func (v *overlay) applies() time.Duration {
	v.t.Helper()
	mark := fmt.Sprint(time.Now().UnixNano())
	v.must(v.git.edit("an unrelated commit for "+v.name, func(dir string) error {
		path := filepath.Join(dir, "overlays", v.name, "configmap.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = []byte(strings.TrimRight(string(text), "\n") + "\n  mark-" + mark + ": \"\"\n")
		return os.WriteFile(path, text, 0o644)
	}))
	began := time.Now()
	v.must(v.syncer.refresh(v.ctx, v.name))
	v.until("the commit is applied", func() error {
		var object struct {
			Data map[string]string `json:"data"`
		}
		if err := v.cluster.Get(v.ctx, kube.Path("v1", "configmaps", "buildkite", "muster-"+v.name), &object); err != nil {
			return err
		}
		if _, there := object.Data["mark-"+mark]; !there {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	return time.Since(began)
}

// memory is what the syncer's processes have resident.
func (v *overlay) memory() string {
	var parts []string
	for name, p := range v.syncer.parts() {
		if m := p.Memory(); m > 100<<20 {
			parts = append(parts, fmt.Sprintf("%s %d MiB", strings.TrimPrefix(name, "argocd-"), m>>20))
		}
	}
	return strings.Join(parts, ", ")
}
