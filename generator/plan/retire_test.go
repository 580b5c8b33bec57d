package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWorstFailure: of several failures the one that most needs a person is said.
func TestWorstFailure(t *testing.T) {
	all := []Retirement{{Reason: Expired, Failure: NeverRegistered}, {Reason: AllRegistered}, {Reason: AllRegistered, Failure: NoJobTaken}}
	for n, want := range []Failure{"", NeverRegistered, NeverRegistered, NoJobTaken} {
		if got := WorstFailure(all[:n]); got != want {
			t.Errorf("of %d: %q, want %q", n, got, want)
		}
	}
	for i, want := range []string{"never-registered", "registered", "no-job-taken"} {
		if got := all[i].Outcome(); got != want {
			t.Errorf("%v: %q, want %q", all[i], got, want)
		}
	}
}

// retired is what becomes of a dispatch of two agents that was ordered half an hour ago.
type retired struct {
	overlay  Overlay
	dispatch Dispatch
	seen     Observed
	jobs     []Demand
	supply   Capacity
}

// TestRetirement: when a dispatch leaves git, and what became of it.
func TestRetirement(t *testing.T) {
	now := orderedAt.Add(12 * time.Minute)
	registered := func(ago time.Duration) *time.Time { return new(now.Add(-ago)) }
	waits := func(r *retired) { // a job that could have been taken
		r.jobs = []Demand{{Overlays: []string{"a"}, Pending: 1, Oldest: new(orderedAt)}}
	}
	warm := func(r *retired) { r.dispatch.Purpose, r.dispatch.IdleTimeout = ForWarmPool, time.Hour }
	breaker := func(cause Failure, failures int) func(*retired) {
		return func(r *retired) {
			r.overlay.State.Breaker = Breaker{Failures: failures, Cause: cause, At: orderedAt.Add(-time.Hour)}
		}
	}
	gone := func(r *retired) { r.seen.Connected = 0 }
	worked := func(r *retired) { r.seen.HadJob = 1 }
	lost := func(r *retired) {
		r.seen.Registered, r.seen.Connected, r.seen.RegisteredAt, r.dispatch.NotAfter = IndexSet{}, 0, nil, orderedAt
	}
	part := func(r *retired) { // one of two has not come, and its lease is over
		r.seen = Observed{Registered: indexes(1), Connected: 1}
		r.dispatch.NotAfter = now.Add(-Grace - time.Second)
	}
	back := func(r *retired) { r.dispatch.Withdrawn, r.dispatch.PutBack = true, true }
	edited := func(r *retired) { r.dispatch.Edited = true }
	soon := func(r *retired) { r.seen.RegisteredAt = registered(time.Minute) }
	watched := func(r *retired) { r.seen.RegisteredAt = registered(earlyExit) }
	const stays = "stays"
	for name, c := range map[string]struct {
		changes []func(*retired)
		want    string // the outcome; with a ? the breaker learns nothing
	}{
		"registered":                      {nil, "registered"},
		"registered, of a breaker":        {[]func(*retired){breaker(NeverRegistered, 1)}, "registered"},
		"a job waits":                     {[]func(*retired){waits}, stays},
		"a job waits, and they left":      {[]func(*retired){waits, gone}, "no-job-taken"},
		"a job waits, and they worked":    {[]func(*retired){waits, gone, worked}, "registered"},
		"a job waits, and tags are lost":  {[]func(*retired){waits, func(r *retired) { r.seen.WrongTags = 1 }}, "no-job-taken"},
		"a job waits for another":         {[]func(*retired){waits, gone, func(r *retired) { r.jobs[0].Overlays = []string{"b"} }}, "registered"},
		"no job waits any more":           {[]func(*retired){waits, gone, func(r *retired) { r.jobs[0].Pending = 0 }}, "registered"},
		"a job waits, nobody knows since": {[]func(*retired){waits, gone, func(r *retired) { r.jobs[0].Oldest = nil }}, "registered"},
		"a job came later":                {[]func(*retired){waits, gone, func(r *retired) { since := now; r.jobs[0].Oldest = &since }}, "registered"},
		"a job waits, queue paused":       {[]func(*retired){waits, gone, func(r *retired) { r.supply.Suspended = Suspension{Code: PausedInBuildkite} }}, "registered"},
		"a job waits for newer tags":      {[]func(*retired){waits, gone, func(r *retired) { r.overlay.Policy.Tags = []string{"x=y"} }}, "registered"},
		"nobody came":                     {[]func(*retired){lost, func(r *retired) { r.dispatch.NotAfter = now.Add(-Grace) }}, stays},
		"nobody came within the lease":    {[]func(*retired){lost}, "never-registered"},
		"nobody came of a withdrawn one":  {[]func(*retired){lost, func(r *retired) { r.dispatch.Withdrawn = true }}, "expired?"},
		"one came of a withdrawn one":     {[]func(*retired){waits, gone, func(r *retired) { r.dispatch.Withdrawn = true }}, "no-job-taken"},
		"put back":                        {[]func(*retired){back}, "registered?"},
		"put back, and nobody came":       {[]func(*retired){lost, back}, "expired?"},
		"edited":                          {[]func(*retired){edited}, stays},
		"edited, and its lease is over":   {[]func(*retired){edited, func(r *retired) { r.dispatch.NotAfter = now.Add(-Grace - time.Second) }}, stays},
		"edited, and all have left":       {[]func(*retired){edited, gone, worked, func(r *retired) { r.dispatch.NotAfter = now.Add(-Grace - time.Second) }}, "registered"},
		"long ago":                        {[]func(*retired){lost, func(r *retired) { r.dispatch.NotAfter = now.Add(-61 * time.Minute) }}, "expired?"},
		"of the warm pool, soon":          {[]func(*retired){warm, soon}, stays},
		"of the warm pool, later":         {[]func(*retired){warm, func(r *retired) { r.seen.RegisteredAt = registered(earlyExit) }}, "registered"},
		"of a short warm pool":            {[]func(*retired){warm, soon, func(r *retired) { r.dispatch.IdleTimeout = time.Minute }}, "registered"},
		"of the warm pool, worked":        {[]func(*retired){warm, soon, worked}, "registered"},
		"of the warm pool, tags lost":     {[]func(*retired){warm, soon, func(r *retired) { r.seen.WrongTags = 1 }}, "no-job-taken"},
		"of the warm pool, no time":       {[]func(*retired){warm, func(r *retired) { r.seen.RegisteredAt = nil }}, "registered"},
		"left early":                      {[]func(*retired){warm, soon, gone}, "no-job-taken"},
		"left later":                      {[]func(*retired){warm, gone, func(r *retired) { r.seen.RegisteredAt = registered(earlyExit) }}, "registered"},
		"left late, and early enough":     {[]func(*retired){warm, gone, func(r *retired) { r.seen.RegisteredAt = registered(29 * time.Minute) }}, "no-job-taken"},
		"half of a short time-out":        {[]func(*retired){warm, soon, gone, func(r *retired) { r.dispatch.IdleTimeout = 2 * time.Minute }}, "registered"},
		"left, and the lease is over":     {[]func(*retired){warm, gone, func(r *retired) { r.dispatch.NotAfter = now.Add(-shortWatch - Grace) }}, "registered"},
		"left, and it was over just now":  {[]func(*retired){warm, gone, func(r *retired) { r.dispatch.NotAfter = now.Add(-shortWatch - Grace + time.Second) }}, "no-job-taken"},
		"left soon after a late coming":   {[]func(*retired){warm, soon, gone, func(r *retired) { r.dispatch.NotAfter = now.Add(-shortWatch - Grace) }}, "no-job-taken"},
		"a trial of another cause":        {[]func(*retired){warm, soon, breaker(NeverRegistered, Tolerance)}, "registered"},
		"one never came":                  {[]func(*retired){warm, part}, stays},
		"one never came, one left":        {[]func(*retired){warm, part, gone}, "no-job-taken"},
		"one never came, one worked":      {[]func(*retired){warm, part, worked}, "expired"},
		"one never came, idled out":       {[]func(*retired){warm, part, gone, func(r *retired) { r.dispatch.IdleTimeout = 12 * time.Minute }}, "expired"},
		"one never came, watched":         {[]func(*retired){warm, part, func(r *retired) { r.dispatch.NotAfter = now.Add(-shortWatch - Grace) }}, "expired"},
		"one may come":                    {[]func(*retired){warm, part, gone, func(r *retired) { r.dispatch.NotAfter = now }}, stays},
		"one never came, for demand":      {[]func(*retired){part, gone}, "expired"},
		"a trial that lives long enough":  {[]func(*retired){warm, breaker(NoJobTaken, Tolerance), watched}, "registered"},
		"a trial that does not yet":       {[]func(*retired){warm, breaker(NoJobTaken, Tolerance)}, stays},
		"a trial that worked":             {[]func(*retired){warm, worked, breaker(NoJobTaken, Tolerance)}, "registered"},
		"a trial that left early":         {[]func(*retired){warm, soon, gone, breaker(NoJobTaken, Tolerance)}, "no-job-taken"},
		"an order after one failure":      {[]func(*retired){warm, breaker(NoJobTaken, 1)}, stays},
		"left early, worked":              {[]func(*retired){warm, soon, gone, worked}, "registered"},
		"left, nobody knows when":         {[]func(*retired){warm, gone, func(r *retired) { r.seen.RegisteredAt = nil }}, "registered"},
		"left, for demand":                {[]func(*retired){soon, gone}, "registered"},
		"a trial for jobs":                {[]func(*retired){watched, breaker(NoJobTaken, Tolerance)}, stays},
		"untried":                         {[]func(*retired){breaker(NoJobTaken, Tolerance)}, stays},
		"untried, breaker closed":         {[]func(*retired){breaker(NoJobTaken, 1)}, "registered?"},
		"untried, gone":                   {[]func(*retired){breaker(NoJobTaken, Tolerance), gone}, "registered?"},
		"tried":                           {[]func(*retired){breaker(NoJobTaken, Tolerance), worked}, "registered"},
		"untried, tags lost":              {[]func(*retired){breaker(NoJobTaken, Tolerance), func(r *retired) { r.seen.WrongTags = 1 }}, "no-job-taken"},
		"untried, of another cause":       {[]func(*retired){breaker(NeverRegistered, Tolerance)}, "registered"},
		"early leavers stay":              {[]func(*retired){warm, watched, breaker(NoJobTaken, 1)}, "registered"},
		"early leavers work":              {[]func(*retired){breaker(NoJobTaken, 1), gone, worked}, "registered"},
		"early leavers left late":         {[]func(*retired){warm, watched, breaker(NoJobTaken, 1), gone}, "registered?"},
	} {
		d := leased
		d.Purpose, d.IdleTimeout, d.Tags = ForDemand, 20*time.Minute, []string{"queue=q", "overlay=a"}
		r := retired{overlay: Overlay{Name: "a", Policy: Policy{Queue: "q"}}, dispatch: d, seen: Observed{Connected: 2, RegisteredAt: registered(10 * time.Minute)}}
		r.seen.Registered = indexes(2)
		for _, change := range c.changes {
			change(&r)
		}
		r.overlay.Dispatches = []Dispatch{r.dispatch}
		r.supply.Dispatches = map[string]Observed{r.dispatch.ID: r.seen}
		s := &allocation{overlay: r.overlay, policy: r.overlay.Policy, capacity: r.supply, oldest: oldestPending(r.jobs)["a"]}
		got := stays
		if retirement, ok := s.retirement(r.dispatch, Observation{At: now, Jobs: r.jobs}); ok {
			if got = retirement.Outcome(); retirement.Unknown {
				got += "?"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestRetiredInOneCommit: orders go together as far as one commit takes them, the oldest
// first; one that is larger goes in parts.
func TestRetiredInOneCommit(t *testing.T) {
	start := time.Date(2026, 1, 5, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		orders string // a digit for each dispatch: the minute of its order; w: to be withdrawn
		most   int
		want   string // the dispatches that go, by number
	}{
		{"0011", 0, "0123"},
		{"0011", 4, "0123"},
		{"0011", 3, "01"},
		{"1100", 3, "23"},
		{"00012", 4, "0123"},
		{"0000", 3, "012"},
		{"00001", 3, "012"},
		{"1w0w", 3, "01"},
	} {
		s := allocation{capacity: Capacity{MaxJobs: c.most}}
		var all []Retirement
		for _, r := range c.orders {
			if r == 'w' {
				all[len(all)-1].Reason = Withdrawn
				continue
			}
			minute := start.Add(time.Duration(r-'0') * time.Minute)
			id := fmt.Sprint(len(all))
			s.overlay.Dispatches = append(s.overlay.Dispatches, Dispatch{ID: id, At: minute})
			all = append(all, Retirement{ID: id, Reason: Expired})
		}
		before := slices.Clone(all)
		var got strings.Builder
		for _, r := range s.inOneCommit(all) {
			got.WriteString(r.ID)
		}
		if got.String() != c.want || !slices.Equal(all, before) {
			t.Errorf("of %s one commit of %d takes %s, want %s", c.orders, c.most, got.String(), c.want)
		}
	}
}

// TestOutcomes asserts that the circuit breaker counts neither withdrawn dispatches nor those that the
// poll did not cover.
func TestOutcomes(t *testing.T) {
	now := orderedAt.Add(2 * time.Hour)
	stale, newJobs := leased, leased
	newJobs.ID, newJobs.NotAfter = "a-00000002", now
	s := &allocation{overlay: Overlay{Dispatches: []Dispatch{stale, newJobs}}}
	for _, c := range []struct {
		r    Retirement
		want int
	}{{Retirement{ID: newJobs.ID, Reason: AllRegistered}, 1}, {Retirement{ID: newJobs.ID, Reason: Withdrawn}, 0}, {Retirement{ID: stale.ID, Reason: Expired}, 0}} {
		s.retire = []Retirement{c.r}
		if got := s.outcomes(now); len(got) != c.want {
			t.Errorf("%+v: %d outcomes", c.r, len(got))
		}
	}
}

// TestOrderedInOneCommit: an order has no more Jobs than one commit takes, and says what
// it leaves.
func TestOrderedInOneCommit(t *testing.T) {
	o := Overlay{Name: "a", Policy: Policy{Queue: "a", Max: 3000, Buffer: 700, Lease: time.Minute, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour}}
	look := Observation{At: time.Date(2026, 1, 5, 6, 0, 0, 0, time.UTC), Queue: "a", Jobs: []Demand{{Overlays: []string{"a"}, Pending: 1000}}, Overlays: []Capacity{{Overlay: "a"}}}
	free := Decide("tip", []Overlay{o}, look)[0]
	if free.Figures.Dispatch != 1700 || len(free.Limits()) > 0 {
		t.Fatalf("without a bound: %d, %v", free.Figures.Dispatch, free.Limits())
	}
	look.Overlays[0].MaxJobs = 10
	d := Decide("tip", []Overlay{o}, look)[0]
	most, _ := d.Figures.Left("maxAtOnce")
	if len(d.Dispatch) > 10 || d.Figures.Dispatch != 900 || most != 900 || d.Figures.Room != 3000 {
		t.Errorf("%d Jobs for %d agents, at most %d, room for %d", len(d.Dispatch), d.Figures.Dispatch, most, d.Figures.Room)
	}
	if limits := d.Limits(); len(limits) != 1 || limits[0] != (Limit{Name: "commit", Agents: 800, Why: "one commit orders at most 900"}) {
		t.Errorf("the limits are %v", limits)
	}
	if s := d.Steps()[StepDispatch]; s.ActiveBounds()[0].Name != "maxAtOnce" || s.Value != 900 {
		t.Errorf("the step is %+v", s)
	}
}

// TestRetireNow: which retirements are pushed, and which wait for others.
func TestRetireNow(t *testing.T) {
	now := orderedAt.Add(time.Hour)
	going := func(n int, ago time.Duration) (all []Retirement) {
		for range n {
			all = append(all, Retirement{Reason: AllRegistered, Since: now.Add(-ago)})
		}
		return all
	}
	// observed sets what is observed of an order whose two agents have registered.
	observed := func(seen Observed) func(*allocation, *Observation) {
		seen.Registered.Add(0)
		seen.Registered.Add(1)
		return func(s *allocation, _ *Observation) {
			s.retire[0].ID, s.retire[0].Agents, s.retire[0].Registered = "a", 2, 2
			s.capacity.Dispatches = map[string]Observed{"a": seen}
		}
	}
	for name, c := range map[string]struct {
		retire []Retirement
		change func(*allocation, *Observation)
		want   bool
	}{
		"nothing":                        {},
		"one registered":                 {retire: going(1, time.Minute)},
		"29 minutes ago":                 {retire: going(1, 29*time.Minute)},
		"half an hour ago":               {retire: going(1, 30*time.Minute), want: true},
		"with a shorter TTL":             {retire: going(1, 10*time.Minute), change: func(s *allocation, _ *Observation) { s.overlay.JobTTL = 20 * time.Minute }, want: true},
		"within a shorter TTL":           {retire: going(1, 9*time.Minute), change: func(s *allocation, _ *Observation) { s.overlay.JobTTL = 20 * time.Minute }},
		"with a longer TTL":              {retire: going(1, 30*time.Minute), change: func(s *allocation, _ *Observation) { s.overlay.JobTTL = 48 * time.Hour }, want: true},
		"six":                            {retire: going(6, time.Minute)},
		"seven":                          {retire: going(7, time.Minute), want: true},
		"as many as one commit may have": {retire: going(4, time.Minute), change: func(s *allocation, _ *Observation) { s.capacity.MaxJobs = 4 }, want: true},
		"one of them failed":             {retire: append(going(2, 0), Retirement{Reason: Expired, Since: now, Failure: NeverRegistered}), want: true},
		"expired after its withdrawal":   {retire: []Retirement{{Reason: Expired, Since: now, Withdrawn: true, Unknown: true}}, want: true},
		"a withdrawal":                   {retire: []Retirement{{Reason: Withdrawn, Since: now}}},
		"a withdrawal, the breaker is open": {retire: []Retirement{{Reason: Withdrawn, Since: now}}, change: func(s *allocation, _ *Observation) {
			s.overlay.State.Breaker.Failures = Tolerance
			s.breaker.Failures = Tolerance
		}},
		"the breaker is open": {retire: going(1, 0), change: func(s *allocation, _ *Observation) {
			s.overlay.State.Breaker.Failures = Tolerance
			s.breaker.Failures = Tolerance
		}, want: true},
		"the breaker changes":               {retire: going(1, 0), change: func(s *allocation, _ *Observation) { s.overlay.State.Breaker.Failures = 1 }, want: true},
		"agents are inferred":               {retire: going(1, 5*time.Minute), change: func(_ *allocation, o *Observation) { o.Inferred = true }, want: true},
		"agents exited without a job":       {retire: going(1, 5*time.Minute), change: observed(Observed{HadJob: 1, ExitedUnused: 1}), want: true},
		"agents just exited without a job":  {retire: going(1, 4*time.Minute), change: observed(Observed{HadJob: 1, ExitedUnused: 1})},
		"agents are connected or had a job": {retire: going(1, 5*time.Minute), change: observed(Observed{HadJob: 1, Connected: 2})},
	} {
		s, o := &allocation{retire: c.retire}, Observation{At: now}
		if c.change != nil {
			c.change(s, &o)
		}
		if got := s.retireNow(o); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
