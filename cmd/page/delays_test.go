package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
)

// TestDelays asserts the page's entries on limits, from a week of commits, and on polls.
func TestDelays(t *testing.T) {
	limited := plan.Figures{Pending: 5, Missing: 5, Max: 3, Room: 3, Dispatch: 3}
	var git log
	for i := range 4 {
		d := dispatch(decided("default", begin().Add(-time.Duration(6-i)*24*time.Hour), limited))
		d.Decision.Dispatch[0].ID = fmt.Sprintf("a-%08d", i)
		git = append(log{{ID: fmt.Sprint("c", i), Parents: []string{fmt.Sprint("c", i-1)}, At: d.Decision.At(), Message: ledger.Message(d, "v1")}}, git...)
	}
	w := newScenario(t, git)
	var times plan.StartupTimes
	times.Add(30*time.Second, 4)
	times.Add(66*time.Second, 16)
	max := 3
	tick := func(f plan.Figures) {
		d := decided("default", w.now, f)
		d.State.StartupTimes = times
		w.tick(func(r *generator.Report) { r.Result.Input.Overlays[0].Policy.Max = max }, d)
		w.load.wait()
		<-w.load.busy
	}
	const (
		syncer = "half of the latest 20 agents took at least 30 s longer to register than the fastest tenth"
		poll   = "a job waits 7.5 s on average for muster&#39;s next poll"
	)
	check := func(when string, has, lacks []string) {
		t.Helper()
		for _, path := range []string{"/", "/?overlay=default"} {
			page := text(t, w.ask("GET", path))
			wellFormed(t, page)
			for _, word := range has {
				if !strings.Contains(page, word) {
					t.Errorf("%s: %s: no %q in\n%s", when, path, word, page)
				}
			}
			for _, word := range lacks {
				if strings.Contains(page, word) {
					t.Errorf("%s: %s: %q", when, path, word)
				}
			}
		}
	}
	tick(plan.Figures{})
	check("from git", []string{"max limited 4 of 4 orders since 2025-12-30 08:00 UTC, in 4 different hours; raise it if the nodes hold more agents: ", syncer, poll}, nil)
	w.now = w.now.Add(time.Minute)
	tick(limited)
	check("an order of this process", []string{"max limited 5 of 5 orders"}, nil)
	w.now = w.now.Add(48 * time.Hour)
	tick(plan.Figures{})
	check("two days later", []string{"max limited 3 of 3 orders of the last 7 days"}, nil)
	max = 4
	w.now = w.now.Add(time.Minute)
	tick(plan.Figures{})
	check("max raised", []string{syncer, poll}, []string{"orders since", "orders of the last"})
	w.status = status.NewRecorder(status.Config{
		Muster: status.Muster{Triggered: true}, Interval: 15 * time.Second, Longest: time.Hour, Receivers: func() []status.Receiver { return []status.Receiver{{Name: "flux"}} },
	})
	w.cfg.Status = w.status.Snapshot
	tick(plan.Figures{})
	check("notified", nil, []string{syncer, poll, "What makes jobs wait"})
}
