package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// upcomingJobs are jobs of one stage.
func upcomingJobs(n int, stage string, created, due time.Time) []Job {
	var all []Job
	for i := range n {
		all = append(all, Job{ID: fmt.Sprintf("%s-%d", stage, i), Rules: []string{"queue=q"}, State: JobUpcoming, Created: created, Due: due, Stage: stage})
	}
	return all
}

// decideOn observes and decides at a moment.
func decideOn(now time.Time, jobs []Job, overlays ...Overlay) []Decision {
	s := Snapshot{At: now, Jobs: jobs}
	return Decide("c0ffee", overlays, Observe(overlays, s, &Registrations{})[0])
}

// TestDue: jobs that are due later than agents take to come are no demand, and those that
// are due by then are; what is not known is due now. Without look-ahead nothing differs.
func TestDue(t *testing.T) {
	created := *before(time.Minute)
	for name, c := range map[string]struct {
		due           time.Time
		later, orders int
	}{
		"now":          {lookaheadAt, 0, 3},
		"past":         {lookaheadAt.Add(-time.Hour), 0, 3},
		"in time":      {lookaheadAt.Add(startupAndTransport), 0, 3},
		"a bit later":  {lookaheadAt.Add(startupAndTransport + 1), 3, 0},
		"not known":    {time.Time{}, 0, 3},
		"in two hours": {lookaheadAt.Add(2 * time.Hour), 3, 0},
	} {
		jobs := upcomingJobs(3, "s", created, c.due)
		d := decideOn(lookaheadAt, jobs, looking("a", nil))[0]
		group := d.Observation.Jobs[0]
		if group.Later != c.later || d.Sum.Dispatch != c.orders || group.Upcoming != 3-c.later {
			t.Errorf("%s: %d are later, %d upcoming, and %d dispatched", name, group.Later, group.Upcoming, d.Sum.Dispatch)
		}
		if c.later > 0 && (group.Earliest == nil || !group.Earliest.Equal(c.due.Truncate(time.Second)) || group.Within != 75) {
			t.Errorf("%s: %+v", name, group)
		}
		off := looking("a", func(o *Overlay) { o.Policy.Lookahead = 0 })
		if o := decideOn(lookaheadAt, jobs, off)[0].Observation.Jobs[0]; o.Upcoming != 3 || o.Later+len(o.Stages)+o.Within > 0 {
			t.Errorf("%s: without look-ahead it is observed %+v", name, o)
		}
	}
	unknown := upcomingJobs(3, "s", created, time.Time{})
	plain := upcomingJobs(3, "", created, time.Time{})
	a, b := decideOn(lookaheadAt, unknown, looking("a", nil))[0], decideOn(lookaheadAt, plain, looking("a", nil))[0]
	if fmt.Sprintf("%+v %+v %+v", a.Observation, a.Sum, a.State) != fmt.Sprintf("%+v %+v %+v", b.Observation, b.Sum, b.State) {
		t.Errorf("a stage of which nothing is known is decided on as\n%+v, want\n%+v", a, b)
	}
}

// TestOnceForEachJob: whatever the order in which jobs were made, become due, are put off
// and can run, an agent is dispatched once for each that comes to be due, whether all
// have room or few, also when the agents idle out each time.
func TestOnceForEachJob(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 13))
		o := looking("a", func(o *Overlay) { o.Policy.Max = 1 + random.IntN(20) })
		minutes := func(n int) time.Duration { return time.Duration(random.IntN(n)) * time.Minute }
		type stage struct {
			name         string
			jobs         int
			created, due time.Time
		}
		var stages []*stage
		jobs := 0
		for i := range 1 + random.IntN(12) {
			s := &stage{name: fmt.Sprintf("s%d", i), jobs: 1 + random.IntN(6), created: lookaheadAt.Add(-minutes(60)), due: lookaheadAt.Add(minutes(120))}
			stages, jobs = append(stages, s), jobs+s.jobs
		}
		ordered := map[string]int{}
		for now := lookaheadAt; now.Before(lookaheadAt.Add(24 * time.Hour)); now = now.Add(6 * time.Minute) {
			var all []Job
			for _, s := range stages {
				if random.IntN(4) == 0 { // the prediction changes
					s.due = s.due.Add(minutes(60) - 30*time.Minute)
				}
				known := s.due
				if ordered[s.name] > 0 && random.IntN(5) == 0 { // by a process that knows nothing
					known = time.Time{}
				}
				all = append(all, upcomingJobs(s.jobs, s.name, s.created, known)...)
			}
			d := decideOn(now, all, o)[0]
			before := o.State.AheadOf
			o.State = d.State // its agents idle out before the next look
			due := 0
			for _, s := range stages {
				name := (&class{rules: []string{"queue=q"}}).stageName(s.name)
				n := agentsOf(o.State.AheadOf, name) - agentsOf(before, name)
				ordered[s.name] += n
				due += n
				if ordered[s.name] > s.jobs || n > 0 && ordered[s.name] == n && s.due.After(now.Add(startupAndTransport)) {
					t.Fatalf("seed %d: at %s %d of %d are ordered of a stage that is due at %s", seed, now, ordered[s.name], s.jobs, s.due)
				}
			}
			if due != d.Sum.Dispatch || d.State.LookedAhead.IsZero() == false {
				t.Fatalf("seed %d: %d are ordered, %d remembered, looked ahead to %s", seed, d.Sum.Dispatch, due, d.State.LookedAhead)
			}
		}
		for _, s := range stages {
			if ordered[s.name] != s.jobs {
				t.Fatalf("seed %d: %d are ordered for the %d jobs of %s", seed, ordered[s.name], s.jobs, s.name)
			}
		}
	}
}

func agentsOf(all []AheadOf, stage string) (agents int) {
	for _, a := range all {
		if a.Stage == stage {
			agents += a.Agents
		}
	}
	return agents
}

// TestAgentTaken: while the agent that was dispatched for a job cannot have idled out, one
// that another job took is dispatched again; afterwards none is.
func TestAgentTaken(t *testing.T) {
	o := looking("a", nil)
	jobs := upcomingJobs(1, "s", *before(time.Hour), lookaheadAt)
	first := decideOn(lookaheadAt, jobs, o)[0]
	o.State = first.State
	for after, want := range map[time.Duration]int{time.Minute: 1, 5*time.Minute - 1: 1, 5 * time.Minute: 0, time.Hour: 0} {
		again := decideOn(lookaheadAt.Add(after), jobs, o)[0]
		if again.Sum.Dispatch != want || len(again.State.AheadOf) != 1 || again.State.AheadOf[0] != first.State.AheadOf[0] {
			t.Errorf("%s after the order %d are dispatched, want %d, and %v is remembered", after, again.Sum.Dispatch, want, again.State.AheadOf)
		}
	}
	o.Dispatches = first.Dispatch
	if again := decideOn(lookaheadAt.Add(time.Minute), jobs, o)[0]; again.Sum.Dispatch != 0 {
		t.Errorf("%d are dispatched while one is in flight", again.Sum.Dispatch)
	}
	pending := append(slices.Clone(jobs), Job{ID: "p", Rules: []string{"queue=q"}, State: JobPending, Created: *before(time.Hour), Since: lookaheadAt})
	if again := decideOn(lookaheadAt.Add(time.Minute), pending, o)[0]; again.Sum.Dispatch != 1 {
		t.Errorf("%d are dispatched when another job will take it", again.Sum.Dispatch)
	}
}

// TestStagesOfOthers: what an overlay remembers of a stage counts for the others that could
// take its jobs, and is kept while the jobs are upcoming, also where they count for another
// queue.
func TestStagesOfOthers(t *testing.T) {
	jobs := upcomingJobs(3, "s", *before(time.Hour), lookaheadAt)
	a, b := looking("a", nil), looking("b", nil)
	first := decideOn(lookaheadAt, jobs, a, b)
	a.State, b.State = first[0].State, first[1].State
	a.Policy.Paused = true
	for i, d := range decideOn(lookaheadAt.Add(time.Hour), jobs, a, b) {
		if d.Sum.Dispatch != 0 || len(d.State.AheadOf) != 1-i {
			t.Errorf("%s dispatches %d and remembers %v", d.Overlay, d.Sum.Dispatch, d.State.AheadOf)
		}
	}
	for i, d := range decideOn(lookaheadAt.Add(time.Hour), nil, a, b) {
		if len(d.State.AheadOf) != 0 {
			t.Errorf("%d: %v is remembered of jobs that can run", i, d.State.AheadOf)
		}
	}
	any := upcomingJobs(3, "s", *before(time.Hour), lookaheadAt)
	for i := range any {
		any[i].Rules = []string{"queue=*"}
	}
	x, y := looking("x", func(o *Overlay) { o.Policy.Queue = "x" }), looking("y", func(o *Overlay) { o.Policy.Queue = "y" })
	total := 0
	for hour := range 4 {
		x.Policy.Paused = hour%2 == 1
		s := Snapshot{At: lookaheadAt.Add(time.Duration(hour) * time.Hour), Jobs: any}
		for _, o := range Observe([]Overlay{x, y}, s, &Registrations{}) {
			for _, d := range Decide("c0ffee", []Overlay{x, y}, o) {
				total += d.Sum.Dispatch
				if d.Overlay == "x" {
					x.State = d.State
				} else {
					y.State = d.State
				}
			}
		}
	}
	if total != 3 || len(x.State.AheadOf) != 1 {
		t.Errorf("%d are dispatched for 3 jobs of any queue; %v and %v are remembered", total, x.State.AheadOf, y.State.AheadOf)
	}
}

// TestShareOfAStage: a share of jobs that come one by one is that share of them.
func TestShareOfAStage(t *testing.T) {
	for _, share := range []float64{0.25, 0.5, 1} {
		o := looking("a", func(o *Overlay) { o.Policy.Lookahead = share })
		sum := 0
		for n := range 1000 {
			d := decideOn(lookaheadAt, upcomingJobs(1, fmt.Sprint(n), *before(time.Hour), lookaheadAt), o)[0]
			sum += d.Sum.Dispatch
		}
		if want := int(1000 * share); sum < want*9/10 || sum > want*11/10 {
			t.Errorf("of 1000 jobs %d are looked ahead to, want %d", sum, want)
		}
		if n := decideOn(lookaheadAt, upcomingJobs(40, "s", *before(time.Hour), lookaheadAt), o)[0].Sum.Dispatch; n < int(40*share) || n > int(40*share)+1 {
			t.Errorf("of 40 jobs %d are looked ahead to", n)
		}
	}
}

// TestManyStages: an observation and what is remembered are bounded, and those that are due
// first come first.
func TestManyStages(t *testing.T) {
	o := looking("a", func(o *Overlay) { o.Policy.Max = 100_000 })
	var jobs []Job
	for n := range 1000 {
		jobs = append(jobs, upcomingJobs(2, fmt.Sprint(n), *before(time.Hour), lookaheadAt.Add(-time.Duration(n)*time.Second))...)
	}
	d := decideOn(lookaheadAt, jobs, o)[0]
	group := d.Observation.Jobs[0]
	if len(group.Stages) != maxStages || len(d.State.AheadOf) != maxStages || d.Sum.Dispatch != 2*maxStages || group.Later != 2*(1000-maxStages) {
		t.Errorf("%d stages, %d remembered, %d dispatched, %d later", len(group.Stages), len(d.State.AheadOf), d.Sum.Dispatch, group.Later)
	}
	if first := (&class{rules: []string{"queue=q"}}).stageName("999"); group.Stages[0].Name != first {
		t.Errorf("the first is %v, want %s", group.Stages[0], first)
	}
	o.State = d.State
	if again := decideOn(lookaheadAt.Add(time.Hour), jobs, o)[0]; again.Sum.Dispatch != 0 || len(again.State.AheadOf) != maxStages {
		t.Errorf("an hour later %d are dispatched, %d remembered", again.Sum.Dispatch, len(again.State.AheadOf))
	}
}
