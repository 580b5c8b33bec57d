package e2e

import (
	"fmt"

	"muster/testdata/e2e/kube"
)

// leavesGit waits until no dispatch of the overlay is in git. A retirement waits for
// half of the TTL that init of this suite writes.
func (v *overlay) leavesGit() {
	v.t.Helper()
	v.until("its dispatches have left git", func() error {
		if live := v.git.live(v.name); len(live) > 0 {
			return fmt.Errorf("%v are in git", live)
		}
		return nil
	})
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
// and not later, and waits for that. The TTL is longer than a syncer takes to see that a
// dispatch has left git; this is not, so what is in git has to be synced.
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
