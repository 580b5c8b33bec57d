package prometheus_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/testdata/prometheus/deployed"
)

var errTrouble = errors.New("trouble")

// wellFor is how long all is well before a trouble, and how long it may take after
// it until no alert is raised: a window of the slowest rule and its hold.
const wellFor = 70 * time.Minute

// well reports a tick in which a dispatch was written and another, whose agents
// had all registered, was retired; one job started.
func (s *site) well() generator.Report {
	const overlay, queue = "linux", "default"
	turn := s.now.Unix() / int64(step.Seconds())
	of := func(n int64) plan.Dispatch {
		return plan.Dispatch{ID: fmt.Sprintf("linux-%d", n), Purpose: plan.ForDemand, Agents: 1, At: time.Unix(n*int64(step.Seconds()), 0)}
	}
	r := generator.Report{
		Began: s.now, Ended: s.now.Add(time.Second), Next: s.now.Add(step), Outcome: generator.Committed, Git: s.now, Buildkite: s.now,
		Steps: map[generator.Step]time.Duration{generator.StepHead: time.Second},
	}
	look := &r.Result.Looked
	look.Snapshot.At = s.now
	look.Snapshot.Sightings = []plan.Sighting{{
		Agent: fmt.Sprint("agent-", turn), Tags: []string{"overlay=" + overlay}, Running: true, Started: s.now.Add(-time.Second), Waited: time.Minute,
	}}
	look.Overlays = []plan.Overlay{{Name: overlay, Policy: plan.Policy{Queue: queue}, Dispatches: []plan.Dispatch{of(turn - 1), of(turn - 2)}}}
	var registered plan.Seen
	registered.Registered.Add(0)
	d := plan.Decision{
		Overlay: overlay, Queue: queue, Sum: plan.Sum{Busy: 1, Current: 2, Desired: 2, Max: 5},
		Observation: plan.Observation{At: s.now, Queue: queue, Overlays: []plan.Supply{{Overlay: overlay, Dispatches: map[string]plan.Seen{of(turn - 2).ID: registered}}}},
		Dispatch:    []plan.Dispatch{of(turn)}, Retire: []plan.Retirement{{ID: of(turn - 3).ID, Agents: 1, Registered: 1, Reason: plan.AllRegistered}},
	}
	r.Result.Decisions = []plan.Decision{d}
	for _, kind := range []ledger.Kind{ledger.Dispatch, ledger.Retire} {
		r.Result.Operations = append(r.Result.Operations, ledger.Operation{Kind: kind, Path: "overlays/linux", Decision: d})
	}
	return r
}

// failed is what is left of a report whose tick failed.
func failed(r *generator.Report, outcome generator.Outcome, at generator.Step) {
	r.Result, r.Err, r.Outcome, r.Failed = generator.Result{}, errTrouble, outcome, at
}

func suspended(code plan.SuspensionCode) func(*site, *generator.Report) {
	return func(_ *site, r *generator.Report) {
		r.Result.Operations = nil
		r.Result.Suspended = []generator.Suspended{{Overlay: "linux", Why: plan.Suspension{Code: code}}}
	}
}

// pending is a report of jobs that wait since long ago.
func pending(s *site, r *generator.Report) {
	oldest := s.now.Add(-time.Hour)
	d := &r.Result.Decisions[0]
	d.Sum.Pending, d.Observation.Jobs = 1, []plan.Demand{{Overlays: []string{"linux"}, Pending: 1, Oldest: &oldest}}
}

// troubles are what is wrong, for how long, and which alerts that raises: the ones
// named, and no other.
var troubles = []struct {
	name   string
	lasts  time.Duration
	change func(*site, *generator.Report)
	raises []string
}{
	{"no scrape", 30 * time.Minute, func(s *site, _ *generator.Report) { s.down = true }, []string{"MusterDown"}},
	{"every tick fails", time.Hour, func(_ *site, r *generator.Report) { failed(r, generator.Failed, generator.StepLoad) }, []string{"MusterNotTicking"}},
	{"git is away for a day", 24 * time.Hour, func(_ *site, r *generator.Report) {
		failed(r, generator.Failed, generator.StepHead)
		r.Git, r.Buildkite = time.Time{}, time.Time{} // which is asked after git
	}, []string{"MusterNoAnswer git", "MusterNotTicking"}},
	{"Buildkite is away for a day", 24 * time.Hour, func(_ *site, r *generator.Report) {
		failed(r, generator.Failed, generator.StepPoll)
		r.Buildkite = time.Time{}
	}, []string{"MusterNoAnswer buildkite", "MusterNotTicking"}},
	{"the push is refused", time.Hour, func(_ *site, r *generator.Report) { failed(r, generator.Failed, generator.StepCommit) }, []string{"MusterNotTicking", "MusterPushFails"}},
	{"another writer is always first", 20 * time.Minute, func(_ *site, r *generator.Report) {
		failed(r, generator.Conflict, generator.StepCommit)
		r.Result.Conflicts = 5
	}, []string{"MusterPushFails"}},
	{"the limit is nearly used", time.Hour, func(s *site, _ *generator.Report) { s.left = 50 }, []string{"MusterRequestLimitNearlyUsed buildkite"}},
	{"the token ends", 2 * time.Hour, func(s *site, _ *generator.Report) { s.expires = s.now.Add(6 * 24 * time.Hour) }, []string{"MusterTokenExpires"}},
	{"the token has ended", 2 * time.Hour, func(s *site, _ *generator.Report) { s.expires = s.now.Add(-time.Hour) }, []string{"MusterTokenExpires"}},
	{"unknown queue", time.Hour, suspended(plan.UnknownQueue), []string{"MusterOverlaySuspended"}},
	{"jobs of an overlay that cannot be served", time.Hour, func(s *site, r *generator.Report) {
		suspended(plan.Invalid)(s, r)
		pending(s, r)
	}, []string{"MusterOverlaySuspended"}},
	{"paused", 25 * time.Hour, suspended(plan.Paused), []string{"MusterOverlayPaused"}},
	{"paused in Buildkite", 25 * time.Hour, suspended(plan.PausedInBuildkite), []string{"MusterOverlayPaused"}},
	{"the breaker is open", time.Hour, func(s *site, r *generator.Report) {
		pending(s, r)
		r.Result.Decisions[0].State.Breaker.Failures = plan.Tolerance
		if s.now.Minute() < 10 { // probes go in between
			suspended(plan.BreakerOpen)(s, r)
		}
	}, []string{"MusterBreakerOpen"}},
	{"jobs wait", time.Hour, pending, []string{"MusterJobsPending"}},
	{"jobs wait, and the overlay is full", time.Hour, func(s *site, r *generator.Report) {
		pending(s, r)
		r.Result.Decisions[0].Sum.Current, r.Result.Decisions[0].Sum.Stopping = 3, 2
	}, nil},
	{"jobs of no overlay", time.Hour, func(_ *site, r *generator.Report) { r.Result.Unserved = []plan.Unserved{{Queue: "gpu", Jobs: 2}} }, []string{"MusterJobsUnserved"}},
	{"agents do not come", time.Hour, func(_ *site, r *generator.Report) { r.Result.Operations[1].Decision.Retire[0].Registered = 0 }, []string{"MusterAgentsNotRegistered"}},
	{"one agent in ten does not come", time.Hour, func(s *site, r *generator.Report) {
		if s.now.Minute()%10 == 0 {
			r.Result.Operations[1].Decision.Retire[0].Registered = 0
		}
	}, nil},
}

// TestAlerts: while all is well no alert is raised; each trouble raises its alerts
// before it ends, and no others; and after it all are resolved.
func TestAlerts(t *testing.T) {
	for _, test := range troubles {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			start := s.now
			var ever, last []string
			for s.now.Before(start.Add(2*wellFor + test.lasts)) {
				since, r := s.now.Sub(start), s.well()
				wrong := since >= wellFor && since < wellFor+test.lasts
				s.down, s.left, s.expires = false, 900, s.now.AddDate(0, 1, 0)
				if wrong {
					test.change(s, &r)
				}
				at := s.now
				raised := s.turn(t, r)
				switch {
				case wrong:
					ever, last = append(ever, raised...), raised
				case since < wellFor && len(raised) > 0:
					t.Fatalf("%s: %q are raised while all is well", at, raised)
				}
				if !s.now.Before(start.Add(2*wellFor+test.lasts)) && len(raised) > 0 {
					t.Errorf("%q are still raised %s after it", raised, wellFor)
				}
			}
			slices.Sort(ever)
			if ever = slices.Compact(ever); !slices.Equal(ever, test.raises) || !slices.Equal(last, test.raises) {
				t.Errorf("it raised %q, %q of them at its end, want %q", ever, last, test.raises)
			}
		})
	}
}

// TestEveryAlertIsTried: there is a trouble for each.
func TestEveryAlertIsTried(t *testing.T) {
	groups, _, err := deployed.Rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			tried := false
			for _, test := range troubles {
				tried = tried || slices.ContainsFunc(test.raises, func(s string) bool { return s == r.Alert || strings.HasPrefix(s, r.Alert+" ") })
			}
			if !tried {
				t.Errorf("nothing raises %s", r.Alert)
			}
		}
	}
}

// TestEveryQueryIsAnswered: each query of the dashboard has an answer in numbers,
// once muster has run for an hour.
func TestEveryQueryIsAnswered(t *testing.T) {
	s := newSite(t)
	for start := s.now; s.now.Before(start.Add(time.Hour)); {
		s.turn(t, s.well())
	}
	queries, err := deployed.Queries()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		if len(s.answers(t, q.Expr)) == 0 {
			t.Errorf("%s: no answer to %s", q.Panel, q.Expr)
		}
	}
	if got := s.answers(t, "muster_no_such_metric"); len(got) > 0 {
		t.Errorf("there is an answer to what nobody serves: %s", got)
	}
}
