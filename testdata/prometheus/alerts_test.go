package prometheus_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/testdata/prometheus/deployed"
)

// healthyFor is how long the fleet is healthy before an incident.
const healthyFor = 15 * time.Minute

// Tests save time: coarse is the interval of scrapes while nothing changes, so that Prometheus sees
// no gap, and sleep the interval while nothing is wrong either.
const (
	coarse = 4 * time.Minute
	sleep  = 10 * time.Minute
)

// incident is something that goes wrong.
type incident struct {
	name  string
	lasts time.Duration
	// begin changes the fleet when the incident begins, and each tick, if not nil, before every
	// tick of the incident. What they change of the fleet and the site ends with the incident.
	begin func(*site, *fleet)
	tick  func(*site, *fleet)
	// firstDay reports that the overlay has had no job and no agent before.
	firstDay bool
	// raises is the one alert; empty: none.
	raises string
	// condition is the one that muster reports; empty: the delay is that from the beginning.
	condition condition.Type
	// delay is the documented time from the condition to the alert, in addition to two scrapes.
	delay time.Duration
	// text is part of the alert.
	text string
}

// waiting adds jobs that wait for an agent.
func waiting(jobs int, change func(*fleet)) func(*site, *fleet) {
	return func(s *site, f *fleet) {
		f.add(s.now, jobs, 3*time.Minute)
		change(f)
	}
}

// broken lets no agent register.
func broken(f *fleet) { f.broken = true }

func suspend(code plan.SuspensionCode) func(*site, *fleet) {
	return waiting(2, func(f *fleet) { f.overlay.Suspended = plan.Suspension{Code: code, Queue: queue, Cluster: "ci"} })
}

// incidents are those of which muster's metrics show anything. What muster cannot tell apart is
// one: an image that cannot be pulled, a missing Secret, a suspended syncer, a full quota, an empty
// node pool and an expired agent token.
func incidents() []incident {
	all := []incident{
		{name: "muster is down", lasts: 30 * time.Minute, begin: func(s *site, _ *fleet) { s.down = true }, raises: "MusterDown", delay: 5 * time.Minute},
		{
			name: "one of two musters is down", lasts: 30 * time.Minute, raises: "MusterDown", delay: 5 * time.Minute, text: "kubectl -n muster get pods",
			begin: func(s *site, _ *fleet) {
				s.down = true
				s.more = func(each func(labels.Labels, float64)) {
					each(labels.FromStrings("__name__", "muster_build_info", "namespace", "other"), 1)
				}
			},
		},
		{
			name: "muster restarts, and its first polls are spread over ticks", lasts: 30 * time.Minute,
			begin: func(s *site, f *fleet) { s.restart(f) },
			tick:  func(s *site, f *fleet) { f.spread = s.now.Minute() < 30 }, // incidents begin at 08:15
		},
		{
			name: "muster restarts, and no poll ends", lasts: time.Hour, raises: "MusterNotTicking", delay: 20 * time.Minute, text: "The last successful tick was 21m",
			begin: func(s *site, f *fleet) {
				s.restart(f)
				f.spread = true
			},
		},
		{
			name: "muster restarts every three minutes before a poll ends", lasts: time.Hour, raises: "MusterNotTicking", delay: 20 * time.Minute,
			begin: func(_ *site, f *fleet) { f.spread = true },
			tick: func(s *site, f *fleet) {
				if s.now.Minute()%3 == 0 && s.now.Second() < 30 {
					s.restart(f)
				}
				s.down = s.now.Minute()%3 == 2 && s.now.Second() >= 30
			},
		},
		{name: "overlays cannot be read", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.failsAt = generator.StepLoad }, raises: "MusterUnavailable", condition: condition.RepositoryAvailable, delay: 2*time.Minute + 30*time.Second},
		{
			name: "defect of muster", lasts: 30 * time.Minute, begin: func(_ *site, f *fleet) { f.failsAt = generator.StepDecide },
			raises: "MusterNotTicking", condition: condition.Ready, text: "muster reports InternalError",
		},
		{
			name: "Buildkite is down", lasts: 2 * time.Hour, begin: func(_ *site, f *fleet) { f.failsAt = generator.StepPoll },
			raises: "MusterUnavailable", condition: condition.BuildkiteAvailable, delay: 2 * time.Minute, text: "Buildkite cannot be used",
		},
		{
			name: "the API token has expired", lasts: 40 * time.Minute, begin: func(s *site, f *fleet) { s.expires, f.failsAt = s.now, generator.StepPoll },
			raises: "MusterUnavailable", condition: condition.BuildkiteAvailable, delay: 2 * time.Minute,
		},
		{
			name: "the repository is gone", lasts: 2 * time.Hour, begin: func(_ *site, f *fleet) { f.failsAt = generator.StepHead },
			raises: "MusterUnavailable", condition: condition.RepositoryAvailable, delay: 2 * time.Minute, text: "the git server cannot be used",
		},
		{
			name: "the git server fails at pushes", lasts: 40 * time.Minute, begin: waiting(5, func(f *fleet) { f.failsAt = generator.StepCommit }),
			raises: "MusterUnavailable", condition: condition.PushAccepted, delay: 2 * time.Minute, text: "PushFailed",
		},
		{
			name: "pushes are refused", lasts: 40 * time.Minute, begin: waiting(5, func(f *fleet) { f.refused = true }),
			raises: "MusterPushRefused", condition: condition.PushAccepted, text: "5 jobs are pending",
		},
		{
			name: "the push of one overlay is refused", lasts: 40 * time.Minute, begin: suspend(plan.PushRefused),
			raises: "MusterPushRefused", condition: condition.PushAccepted, text: "overlay linux (PushRefused): The git server refuses muster's commits of overlay linux",
		},
		{
			name: "another writer pushes all the time", lasts: 40 * time.Minute, begin: waiting(5, func(f *fleet) { f.conflict = true }),
			raises: "MusterPushRefused", condition: condition.PushAccepted, delay: 15 * time.Minute, text: "Another writer",
		},
		{name: "the request limit is nearly used up", lasts: 40 * time.Minute, begin: func(s *site, _ *fleet) { s.left = 50 }, raises: "MusterRequestLimitNearlyUsed", delay: 15 * time.Minute, text: "5% of the requests"},
		{
			name: "Buildkite answers with 429", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.limited = true },
			raises: "MusterRequestLimitNearlyUsed", condition: condition.BuildkiteAvailable, delay: 15 * time.Minute,
		},
		{
			name: "the API token expires soon", lasts: 90 * time.Minute, begin: func(s *site, _ *fleet) { s.expires = s.now.AddDate(0, 0, 6) },
			raises: "MusterTokenExpires", delay: time.Hour, text: "expires in 5d",
		},
		{
			name: "the git server is slow", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.gitSlow = true },
			raises: "MusterGitSlow", delay: 15 * time.Minute, text: "git server",
		},
		{
			name: "requests to Buildkite fail", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.requestsFail = true },
			raises: "MusterRequestsFail", delay: 15 * time.Minute, text: "Buildkite's status page",
		},
		{
			name: "another muster serves the queue", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.otherMuster = true },
			raises: "MusterOtherMuster", delay: 15 * time.Minute, text: "another muster",
		},
		{
			name: "the branch was rewritten", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.rewritten = true },
			raises: "MusterBranchRewritten", text: "--force",
		},
		{
			name: "webhooks are refused", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.webhooksRefused = true },
			raises: "MusterWebhooksRefused", delay: 5 * time.Minute, text: "muster-webhooks",
		},
		{
			name: "the overlay is invalid", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.invalid = true },
			raises: "MusterOverlaySuspended", condition: condition.Suspended, text: "muster check",
		},
		{
			name: "the queue is unknown", lasts: 40 * time.Minute, begin: suspend(plan.UnknownQueue),
			raises: "MusterOverlaySuspended", condition: condition.Suspended, text: "suspended: UnknownQueue",
		},
		{
			name: "the overlay is paused", lasts: 24*time.Hour + 30*time.Minute, begin: waiting(3, func(f *fleet) { f.overlay.Policy.Paused = true }),
			raises: "MusterOverlayPaused", condition: condition.Suspended, delay: 24 * time.Hour, text: "3 jobs are pending",
		},
		{
			name: "the overlay is paused, and muster restarts", lasts: 24*time.Hour + 30*time.Minute, begin: waiting(3, func(f *fleet) { f.overlay.Policy.Paused = true }),
			tick:   func(s *site, _ *fleet) { s.down = s.now.Minute() == 30 && s.now.Hour()%6 == 0 },
			raises: "MusterOverlayPaused", condition: condition.Suspended, delay: 24 * time.Hour,
		},
		{
			name: "the queue is paused in Buildkite", lasts: 24*time.Hour + 30*time.Minute, begin: waiting(3, func(f *fleet) { f.queuePaused = true }),
			raises: "MusterOverlayPaused", condition: condition.Suspended, delay: 24 * time.Hour, text: "resume it there",
		},
		{
			name: "max is too small", lasts: time.Hour, begin: waiting(60, func(f *fleet) { f.overlay.Policy.Max = 2 }),
			raises: "MusterScalingLimited", condition: condition.ScalingLimited, delay: 20 * time.Minute, text: "max is 2",
		},
		{
			name: "the hourly limit is used up", lasts: time.Hour, begin: waiting(60, func(f *fleet) { f.overlay.Policy.MaxPerHour = 4 }),
			raises: "MusterScalingLimited", condition: condition.ScalingLimited, delay: 20 * time.Minute, text: "hourly limit is used up",
		},
		{
			name: "agents register in another queue", lasts: time.Hour, begin: waiting(60, func(f *fleet) { f.misplaced = f.overlay.Policy.Max }),
			raises: "MusterAgentsInOtherQueue", delay: 10 * time.Minute, text: "base/job.yaml",
		},
		{
			name: "idle agents take no job", lasts: time.Hour, begin: waiting(2, func(f *fleet) { f.stuck, f.overlay.Policy.IdleTimeout = true, 24*time.Hour }),
			raises: "MusterJobsPending", delay: 20 * time.Minute, text: "agents are idle",
		},
		{name: "jobs in an unknown queue", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.unserved = 2 }, raises: "MusterJobsUnserved", condition: condition.JobsServed, delay: 15 * time.Minute, text: "2 jobs of queue gpu"},
		{name: "jobs match no overlay", lasts: 40 * time.Minute, begin: func(_ *site, f *fleet) { f.unmatched = 2 }, raises: "MusterJobsUnserved", condition: condition.JobsServed, delay: 15 * time.Minute, text: "2 jobs of queue default"},
		{
			// muster replaces it once the agent of a newer job registers; incidents begin at 08:15
			name: "the first agent of a single job is lost", lasts: 10 * time.Minute, begin: waiting(1, broken), condition: condition.AgentsArriving,
			tick: func(s *site, f *fleet) {
				f.broken = s.now.Minute() < 17
				if s.now.Minute() == 18 && s.now.Second() == 0 {
					f.add(s.now, 1, 3*time.Minute)
				}
			},
		},
		{
			name: "an agent of the warm pool exits early", lasts: 30 * time.Minute, begin: func(_ *site, f *fleet) { f.overlay.Policy.Min, f.overlay.Policy.IdleTimeout = 1, time.Hour }, condition: condition.AgentsArriving,
			tick: func(s *site, f *fleet) { f.leaving = s.now.Minute() < 17 },
		},
		{name: "a single failed poll", lasts: step, begin: func(_ *site, f *fleet) { f.failsAt = generator.StepPoll }},
		{name: "a single failed push", lasts: step, begin: waiting(5, func(f *fleet) { f.failsAt = generator.StepCommit })},
		{name: "a conflict now and then", lasts: 40 * time.Minute, begin: waiting(5, func(*fleet) {}), tick: func(s *site, f *fleet) { f.conflict = s.now.Minute()%5 > 0 }},
		{name: "max is reached for ten minutes", lasts: 10 * time.Minute, begin: waiting(40, func(*fleet) {})},
	}
	for _, i := range agentIncidents() {
		i.raises, i.condition = "MusterAgentsNotArriving", condition.AgentsArriving
		all = append(all, i)
	}
	return all
}

// agentIncidents are those in which agents do not arrive.
func agentIncidents() []incident {
	return []incident{
		{
			name: "agents do not register", lasts: 2 * time.Hour, begin: waiting(10, broken),
			text: "10 agents of linux are ordered and have not registered; 10 jobs are pending. muster plan linux prints the cause and the remedy",
		},
		{name: "two agents do not register", lasts: time.Hour, begin: waiting(2, broken), delay: 17 * time.Minute},
		// as one lost agent until the job has waited for 20 minutes
		{name: "the agent of a single job does not register", lasts: 40 * time.Minute,
			begin: waiting(1, broken), delay: 17 * time.Minute},
		{
			name: "the agent of a single job does not register, and another agent is busy", lasts: time.Hour,
			begin: func(s *site, f *fleet) {
				f.agents = append(f.agents, &agent{connected: true, until: s.now.Add(time.Hour)})
				waiting(1, broken)(s, f)
			},
			delay: 17 * time.Minute,
		},
		{ // the lease is as long as the incident, so that nothing replaces the agent
			name: "the agent of a single job does not register, and max is 1", lasts: time.Hour,
			begin: waiting(1, func(f *fleet) {
				f.broken, f.overlay.Policy.Max, f.overlay.Policy.LeaseAuto, f.overlay.Policy.Lease = true, 1, false, 2*time.Hour
			}),
			delay: 16 * time.Minute,
		},
		{
			name: "the agent of a single job does not register, and the others are busy", lasts: time.Hour,
			begin: func(s *site, f *fleet) {
				f.agents = append(f.agents, &agent{connected: true, until: s.now.Add(2 * time.Hour)})
				f.overlay.Policy.Max, f.overlay.Policy.LeaseAuto, f.overlay.Policy.Lease = 2, false, 2*time.Hour
				waiting(1, broken)(s, f)
			},
			delay: 16 * time.Minute,
		},
		{name: "agents do not register on the first day", lasts: 2 * time.Hour, begin: waiting(10, broken), firstDay: true},
		{name: "two agents do not register on the first day", lasts: time.Hour, begin: waiting(2, broken), firstDay: true},
		{name: "the agent of a single job does not register on the first day", lasts: time.Hour,
			begin: waiting(1, broken), firstDay: true},
		{name: "the warm pool does not register", lasts: 2 * time.Hour,
			begin: func(_ *site, f *fleet) { f.overlay.Policy.Min, f.broken = 5, true }, delay: time.Minute},
		{name: "the warm pool exits early", lasts: time.Hour,
			begin: func(_ *site, f *fleet) { f.overlay.Policy.Min, f.leaving = 5, true }},
		{ // the alert fires when the second one has exited
			name: "the only agent of the warm pool exits early", lasts: 4 * time.Hour, begin: func(_ *site, f *fleet) { f.overlay.Policy.Min, f.leaving = 1, true },
			delay: 2 * time.Minute,
		},
		{name: "agents exit without a job", lasts: time.Hour, begin: waiting(10, func(f *fleet) { f.leaving = true })},
		{name: "the agent of a single job exits without it", lasts: time.Hour,
			begin: waiting(1, func(f *fleet) { f.leaving = true })},
		{name: "agents have the wrong tags", lasts: 2 * time.Hour,
			begin: waiting(10, func(f *fleet) { f.tagless = true }), text: "10 jobs are pending"},
		{ // the condition begins when an agent registers, and lasts until it exits
			name: "agents have the wrong tags, and others do not register", lasts: 6 * time.Minute, begin: waiting(10, func(f *fleet) { f.tagless, f.lost = true, 0.5 }),
			text: "10 jobs are pending",
		},
	}
}

// TestAlerts asserts which alert an incident raises, when it is raised, and that it is resolved.
func TestAlerts(t *testing.T) {
	for _, test := range incidents() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.play(t)
		})
	}
}

func (test incident) play(t *testing.T) {
	s, f := newSite(t), newFleet(1)
	start := s.now.Add(healthyFor)
	if test.firstDay {
		f.overlay.State = plan.State{}
	}
	end := start.Add(test.lasts)
	var since, first time.Time // the condition, the alert
	var before fleet
	var expires time.Time
	quiet := 0
	for quiet < 10 {
		now := s.now
		if now.After(end.Add(3 * time.Hour)) {
			t.Fatalf("3 h after the incident, alerts still fire")
		}
		wrong := !now.Before(start) && now.Before(end)
		if !wrong && now.Unix()%240 == 0 && (now.Before(start) && !test.firstDay || now.After(end.Add(15*time.Minute))) {
			f.add(now, 1+f.random.IntN(3), 3*time.Minute)
		}
		if now.Equal(start) {
			before, expires = *f, s.expires
			test.begin(s, f)
		}
		if wrong && test.tick != nil {
			test.tick(s, f)
		}
		if now.Equal(end) {
			f.recover(before)
			s.down, s.left, s.expires = false, 900, expires
		}
		r := f.tick(now)
		if into := now.Sub(start); wrong && into > 10*time.Minute && into+10*time.Minute < test.delay {
			r.Next = now.Add(coarse)
		}
		raised := s.turn(t, r)
		if wrong && since.IsZero() && s.shows(test.condition) {
			since = now
		}
		others := slices.DeleteFunc(slices.Clone(raised), func(name string) bool { return name == test.raises && !now.Before(start) })
		if len(others) > 0 {
			t.Fatalf("%s after the beginning: %q fire: %s", now.Sub(start), raised, s.texts[others[0]])
		}
		switch {
		case len(raised) > 1:
			t.Fatalf("%s after the beginning: %q fire", now.Sub(start), raised)
		case len(raised) == 1 && first.IsZero():
			first = now
		case len(raised) == 0 && wrong && !first.IsZero():
			t.Errorf("%s after the beginning: %s is resolved before the end", now.Sub(start), test.raises)
		}
		if quiet++; wrong || now.Before(end) || len(raised) > 0 || now.Before(end.Add(20*time.Minute)) {
			quiet = 0
		}
	}
	if test.raises == "" {
		if since.IsZero() {
			t.Errorf("muster does not report %s", test.condition)
		}
		return
	}
	if first.IsZero() || since.IsZero() {
		t.Fatalf("the condition begins at %s, and the alert at %s", since, first)
	}
	t.Logf("condition after %s, alert after %s", since.Sub(start), first.Sub(start))
	if took := first.Sub(since); took > test.delay+2*step || took < test.delay-2*step {
		t.Errorf("the alert fires %s after the condition, want %s and at most two scrapes", took, test.delay)
	}
	if !strings.Contains(s.texts[test.raises], test.text) {
		t.Errorf("the alert contains no %q: %s", test.text, s.texts[test.raises])
	}
}

// recover ends an incident: the policy and the faults are those before. Pending jobs are
// cancelled.
func (f *fleet) recover(before fleet) {
	before.overlay.Dispatches, before.overlay.State = f.overlay.Dispatches, f.overlay.State
	before.jobs, before.agents, before.seen, before.conditions, before.runs = nil, f.agents, f.seen, f.conditions, f.runs
	*f = before
}

// shows reports whether muster or an overlay reports an abnormal condition of a type; empty: true.
func (s *site) shows(c condition.Type) bool {
	return c == "" || slices.ContainsFunc(s.recorder.Snapshot().At(s.now).Problems(), func(p condition.Condition) bool { return p.Type == c })
}

// TestHealthyMonth asserts that a fleet raises no alert in a month in which jobs come and go, max
// is reached for minutes, single polls fail, some pushes conflict, muster restarts every day, and one
// agent in fifty never registers.
func TestHealthyMonth(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} { // ten days each
		t.Run("", func(t *testing.T) {
			t.Parallel()
			healthy(t, newSite(t), newFleet(seed), 10)
		})
	}
}

func healthy(t *testing.T, s *site, f *fleet, days int) {
	t.Helper()
	f.lost = 0.02
	end := s.now.AddDate(0, 0, days)
	s.expires = end.AddDate(0, 1, 0)
	ordered, lost, pause := 0, 0, step
	started := s.now
	for s.now.Before(end) {
		now := s.now
		if now.Sub(started) >= 24*time.Hour {
			s.start(t)
			started = now
		}
		chance := f.random.Float64() < pause.Minutes()/20
		switch hour := now.Hour(); {
		case !chance || now.Weekday() == time.Saturday || now.Weekday() == time.Sunday:
		case hour == 14 && f.random.IntN(4) == 0:
			f.add(now, 40, 4*time.Minute) // max is 20
		case hour >= 8 && hour < 18:
			f.add(now, 1+f.random.IntN(4), time.Duration(1+f.random.IntN(8))*time.Minute)
		case f.random.IntN(5) == 0:
			f.add(now, 1, 5*time.Minute)
		}
		f.failsAt, f.conflict = "", f.random.IntN(30) == 0
		if f.random.IntN(200) == 0 {
			f.failsAt = []generator.Step{generator.StepHead, generator.StepPoll, generator.StepCommit}[f.random.IntN(3)]
		}
		r := f.tick(now)
		for _, a := range r.Result.Operations {
			for _, x := range a.Decision.Retire {
				if a.Kind == ledger.Retire {
					ordered, lost = ordered+x.Agents, lost+x.Agents-x.Registered
				}
			}
		}
		if pause = step; r.Err == nil && f.quiet() && len(r.Result.Operations) == 0 {
			pause = coarse
		}
		if pause == coarse && len(condition.Problems(r.Conditions)) == 0 {
			pause = sleep
		}
		r.Next = now.Add(pause)
		if raised := s.turn(t, r); len(raised) > 0 {
			t.Fatalf("%s: %q fire: %s", now, raised, s.texts[raised[0]])
		}
	}
	t.Logf("%d of %d agents did not register", lost, ordered)
	if lost < 5 || ordered < 300 {
		t.Errorf("only %d of %d agents did not register", lost, ordered)
	}
}

// TestFirstTicks asserts when an alert is raised if no tick has succeeded since muster started.
func TestFirstTicks(t *testing.T) {
	s, f := newSite(t), newFleet(1)
	f.spread = true
	started := s.now
	for {
		raised := s.turn(t, f.tick(s.now))
		if len(raised) == 0 && s.now.Sub(started) < 25*time.Minute {
			continue
		}
		if took := s.now.Sub(started); !slices.Equal(raised, []string{"MusterNotTicking"}) || took < 20*time.Minute || took > 22*time.Minute {
			t.Errorf("%s after the start, %q fire, want MusterNotTicking after 20 minutes", took, raised)
		}
		if text := s.texts["MusterNotTicking"]; !strings.Contains(text, "No tick has succeeded in the last day.") {
			t.Errorf("the alert is %q", text)
		}
		return
	}
}

// TestNoDemand asserts that the alert for failed orders ends with the demand. They have failed until
// muster orders again, which may be after a weekend.
func TestNoDemand(t *testing.T) {
	for name, test := range map[string]struct {
		broken func(*fleet)
		least  int // min of the policy
	}{
		"agents do not register":                                   {broken: func(f *fleet) { f.broken = true }},
		"agents exit without a job":                                {broken: func(f *fleet) { f.leaving = true }},
		"agents exit without a job, and the warm pool is complete": {broken: func(f *fleet) { f.leaving = true }, least: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := newSite(t), newFleet(1)
			for range test.least {
				f.agents = append(f.agents, &agent{connected: true, until: s.now.AddDate(0, 0, 7)})
			}
			test.broken(f)
			f.add(s.now, 3, time.Minute)
			var raised []string
			for end := s.now.Add(time.Hour); s.now.Before(end); {
				raised = s.turn(t, f.tick(s.now))
			}
			if !slices.Equal(raised, []string{"MusterAgentsNotArriving"}) {
				t.Fatalf("%q fire while jobs are pending", raised)
			}
			f.overlay.Policy.Min, f.jobs = test.least, nil
			cancelled := s.now
			for s.now.Before(cancelled.Add(24 * time.Hour)) {
				r := f.tick(s.now)
				if s.now.After(cancelled.Add(time.Hour)) {
					r.Next = s.now.Add(coarse)
				}
				if raised = s.turn(t, r); len(raised) > 0 && s.now.After(cancelled.Add(time.Hour)) {
					t.Fatalf("%s after the jobs were cancelled, %q fire", s.now.Sub(cancelled), raised)
				}
			}
			if !s.shows(condition.AgentsArriving) {
				t.Error("muster does not report failed orders any more")
			}
		})
	}
}

// TestRefusedOverlay asserts that the refusal of one overlay's commits leaves the alerts of other
// overlays, and that a refusal of all leaves none.
func TestRefusedOverlay(t *testing.T) {
	for name, test := range map[string]struct {
		begin func(*fleet)
		want  []string
	}{
		"one overlay": {
			begin: func(f *fleet) {
				f.overlay.Suspended = plan.Suspension{Code: plan.PushRefused, Queue: queue, Cluster: "ci"}
			},
			want: []string{"MusterJobsPending", "MusterPushRefused", "MusterScalingLimited"},
		},
		"muster": {begin: func(f *fleet) { f.refused = true }, want: []string{"MusterPushRefused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := newSite(t), newFleet(1)
			// Jobs of the overlays large and small wait too: max is reached in the first, and the second has room.
			s.more = func(each func(labels.Labels, float64)) {
				for _, name := range []string{"large", "small"} {
					put := func(metric string, value float64, more ...string) {
						each(labels.FromStrings(append([]string{"__name__", metric, "overlay", name}, more...)...), value)
					}
					put("muster_oldest_pending_seconds", 1200)
					put("muster_idle_agents", 0)
					put("muster_busy_agents", 0)
					put("muster_max_agents", 5)
					put("muster_condition", 1, "type", "AgentsArriving", "reason", condition.AsExpected)
					put("muster_condition", 1, "type", "PushAccepted", "reason", condition.AsExpected)
					if name == "large" {
						put("muster_condition", 1, "type", "ScalingLimited", "reason", condition.MaxReached)
					}
				}
			}
			f.add(s.now, 2, 3*time.Minute)
			test.begin(f)
			var raised []string
			for end := s.now.Add(40 * time.Minute); s.now.Before(end); {
				raised = s.turn(t, f.tick(s.now))
			}
			if !slices.Equal(raised, test.want) {
				t.Errorf("%q fire, want %q", raised, test.want)
			}
		})
	}
}

// TestEveryAlertIsTried asserts that an incident raises each alert.
func TestEveryAlertIsTried(t *testing.T) {
	groups, _, err := deployed.Rules()
	must(t, err)
	for _, g := range groups {
		for _, r := range g.Rules {
			if !slices.ContainsFunc(incidents(), func(i incident) bool { return i.raises == r.Alert }) {
				t.Errorf("no incident raises %s", r.Alert)
			}
		}
	}
}

// TestEveryQueryIsAnswered asserts that each query of the dashboard has a number as its result
// once muster has run for an hour and another overlay has problems. It asserts which problems the
// dashboard lists.
func TestEveryQueryIsAnswered(t *testing.T) {
	s, f := newSite(t), newFleet(1)
	s.only = ""
	s.more = func(each func(labels.Labels, float64)) {
		put := func(kind condition.Type, reason string, value float64) {
			each(labels.FromStrings("__name__", "muster_condition", "overlay", "large", "type", string(kind), "reason", reason), value)
		}
		put(condition.Ready, condition.Overdue, 0)
		put(condition.AgentsArriving, condition.Overdue, 0)
		put(condition.ScalingLimited, condition.MaxReached, 1)
		put(condition.PushAccepted, condition.AsExpected, 1)
		put(condition.Drifted, condition.AsExpected, 0)
	}
	for start := s.now; s.now.Before(start.Add(time.Hour)); {
		if s.now.Unix()%240 == 0 {
			f.add(s.now, 1, 3*time.Minute)
		}
		s.turn(t, f.tick(s.now))
	}
	queries, err := deployed.Queries()
	must(t, err)
	for _, q := range queries {
		if len(s.answers(t, q.Expr)) == 0 {
			t.Errorf("%s: %s has no result", q.Panel, q.Expr)
		}
	}
	var why []string
	for _, q := range queries {
		if q.Panel == "Which overlay, and why" {
			for _, row := range s.answers(t, q.Expr) {
				why = append(why, row.Metric.Get("overlay")+" "+row.Metric.Get("type")+" "+row.Metric.Get("reason"))
			}
		}
	}
	slices.Sort(why)
	if want := []string{"large AgentsArriving Overdue", "large ScalingLimited MaxReached"}; !slices.Equal(why, want) {
		t.Errorf("the dashboard lists the problems %q, want %q", why, want)
	}
	if got := s.answers(t, "muster_no_such_metric"); len(got) > 0 {
		t.Errorf("a metric that nobody serves has the result %s", got)
	}
}
