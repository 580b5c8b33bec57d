package e2e

import (
	"testing"
	"time"
)

// TestNotified: muster notifies the syncer of each push, with Flux's Receiver and the webhook of Argo
// CD's API server. Measures the time from the commit to the Job and its pod.
func TestNotified(t *testing.T) {
	for _, name := range syncers() {
		t.Run(name, func(t *testing.T) {
			w := shared.world
			const promise = "Notification of each push: the Job exists within seconds"
			defer func() { results.note(t, promise, name) }()
			v := w.addOverlay(t, "told", w.syncers[name], options{})
			var toJob, toRunning []time.Duration
			for i := range 7 {
				v.build(1)
				v.runs(i + 1)
			}
			for dispatch, lives := range v.events.jobsOf(v.name) {
				pushed, known := w.git.pushedAt(dispatch)
				if !known || len(lives) != 1 {
					t.Fatalf("%s was pushed: %v; its Jobs are %+v", dispatch, known, lives)
				}
				toJob = append(toJob, lives[0].Added.Sub(pushed))
				toRunning = append(toRunning, lives[0].Running.Sub(pushed))
			}
			results.measured("commit to Job, with notifications", name, spread(toJob))
			results.measured("commit to running pod, image present", name, spread(toRunning))
			v.finish(7)
			v.account()
		})
	}
}
