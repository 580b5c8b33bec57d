package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/testdata/e2e/kube"
)

// leavesGit waits until no dispatch of the overlay is in git. A retirement rides on
// others' pushes or waits for minutes: a dispatch elsewhere has it come soon.
func (v *overlay) leavesGit() {
	v.t.Helper()
	v.until("its dispatches have left git", func() error {
		if live := v.git.live(v.name); len(live) > 0 {
			v.pulse.beat()
			return fmt.Errorf("%v are in git", live)
		}
		return nil
	})
}

// pulse is an overlay with a short job now and then: muster pushes for it.
type pulse struct {
	*overlay
	mu   sync.Mutex
	last time.Time
}

// beat adds a job, if the last one was a while ago.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) > 10*time.Second {
		p.last = time.Now()
		p.build(1)
	}
}

// starting is held while the pulse is made: tests begin side by side.
var starting sync.Mutex

// startPulse makes the pulse's overlay.
func (w *world) startPulse(t *testing.T) {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	if w.pulse != nil {
		return
	}
	s := w.syncers[syncers()[0]]
	w.pulse = &pulse{overlay: w.addOverlay(t, "pulse", s, options{patch: lightPatch})}
	w.pulse.open()
}

// lightPatch has an overlay's agents be inside of the simulated Buildkite.
const lightPatch = `
- op: add
  path: /spec/template/metadata/labels/e2e.muster.dev~1light
  value: "yes"
`

// synced waits until the syncer has applied what is newest in git, or what came after
// it.
func (v *overlay) synced() {
	v.t.Helper()
	head, err := v.git.Head()
	v.must(err)
	v.must(v.syncer.refresh(v.ctx, v.name))
	v.until("the syncer has applied "+head, func() error {
		applied, err := v.syncer.applied(v.ctx, v.name)
		if err != nil {
			return err
		}
		if _, err := v.git.Git("merge-base", "--is-ancestor", head, applied); err != nil {
			return fmt.Errorf("it has applied %q", applied)
		}
		return nil
	})
}

// expire has the Jobs of the overlay's finished dispatches deleted by their TTL now
// and not in an hour, and waits for that. An hour is longer than a syncer takes to
// see that a dispatch has left git; this is not, so what is in git has to be synced.
func (v *overlay) expire() {
	v.t.Helper()
	v.until("its finished Jobs have gone by their TTL", func() error {
		left := 0
		for name, lives := range v.events.jobsOf(v.name) {
			for _, j := range lives {
				if !j.Deleted.IsZero() {
					continue
				}
				left++
				if j.Finished.IsZero() {
					continue
				}
				patch := map[string]any{"spec": map[string]any{"ttlSecondsAfterFinished": 1}}
				if err := v.cluster.Merge(v.ctx, kube.Path("batch/v1", "jobs", v.namespace, name), patch); err != nil && !kube.Missing(err) {
					return err
				}
			}
		}
		if left > 0 {
			return fmt.Errorf("%d Jobs are there", left)
		}
		return nil
	})
}
