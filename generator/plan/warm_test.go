package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"muster/generator/forecast"
)

// noon is a Monday's, in the week after the one that was learned.
func noon() time.Time { return time.Date(2026, time.January, 12, 12, 0, 0, 0, time.UTC) }

// learnedWeek is five workdays with forty jobs on the hour and one each minute.
func learnedWeek() forecast.Profile {
	c := forecast.Count{From: noon().Truncate(24*time.Hour).AddDate(0, 0, -7)}
	for i := range 5 * 24 * 60 {
		n := 1
		if i%60 == 0 {
			n = 40
		}
		c.Jobs = append(c.Jobs, n)
	}
	return forecast.Profile{}.After(c, c.From.AddDate(0, 0, 5))
}

func warmOverlay(name string) Overlay {
	return Overlay{Name: name, Policy: Policy{
		Queue: "default", Max: 100, MaxDispatch: 100, Lease: 15 * time.Minute, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour,
		Warm: Warm{Wait: 10 * time.Second, Share: 0.95, IdleHours: 200},
	}, State: State{Warm: learnedWeek()}}
}

func decideAt(o Overlay, at time.Time) Decision {
	return Decide("tip", []Overlay{o}, Observation{At: at, Queue: "default", Overlays: []Supply{{Overlay: o.Name}}})[0]
}

// TestForecastIsBuffer: the forecast raises the buffer, and what bounds orders bounds it.
func TestForecastIsBuffer(t *testing.T) {
	before := noon().Add(-75 * time.Second)
	d := decideAt(warmOverlay("a"), before)
	if keep := d.Forecast.Keep; keep < 30 || d.Sum.Buffer != keep || d.Sum.WarmPool != keep || len(d.Dispatch) != 1 {
		t.Fatalf("before the pulse: %+v, %+v", d.Forecast, d.Sum)
	}
	if idle := d.Dispatch[0].IdleTimeout; idle < shortestWarmIdle || idle > 5*time.Minute {
		t.Errorf("agents for a pulse have an idle time-out of %s", idle)
	}
	if d.State.Warm.IsZero() {
		t.Error("what was learned is forgotten")
	}
	for name, c := range map[string]struct {
		change func(o *Overlay)
		want   int
	}{
		"max":         {func(o *Overlay) { o.Policy.Max = 7 }, 7},
		"maxPerHour":  {func(o *Overlay) { o.Policy.MaxPerHour = 5 }, 5},
		"paused":      {func(o *Overlay) { o.Policy.Paused = true }, 0},
		"an override": {func(o *Overlay) { n := 2; o.Policy.Overrides = []Override{{Until: noon(), Buffer: &n}} }, 2},
		"its own":     {func(o *Overlay) { o.Policy.Buffer = 90 }, 90},
		"none":        {func(o *Overlay) { o.Policy.Warm = Warm{} }, 0},
		"a breaker":   {func(o *Overlay) { o.State.Breaker = Breaker{Failures: 3, At: before, Cause: NeverRegistered} }, 0},
	} {
		o := warmOverlay("a")
		c.change(&o)
		if got := decideAt(o, before); got.Sum.Dispatch != c.want {
			t.Errorf("%s: %d agents are dispatched, want %d", name, got.Sum.Dispatch, c.want)
		}
	}
	o := warmOverlay("a")
	o.Policy.Warm = Warm{}
	if got := decideAt(o, before); !got.State.Equal(State{}) || got.Forecast != nil {
		t.Errorf("without a forecast %+v is remembered", got.State)
	}
}

// TestForecastBesideBuffer: agents of the policy's own buffer stay for its idle time-out.
func TestForecastBesideBuffer(t *testing.T) {
	o := warmOverlay("a")
	o.Policy.Buffer = 3
	d := decideAt(o, noon().Add(-75*time.Second))
	if len(d.Dispatch) != 2 || d.Dispatch[0].Agents != 3 || d.Dispatch[0].IdleTimeout != time.Hour || d.Dispatch[1].IdleTimeout >= time.Hour {
		t.Errorf("dispatched: %+v", d.Dispatch)
	}
}

// looker is a process that looks at Buildkite.
type looker struct {
	register Registrations
	overlays []Overlay
}

func (l *looker) look(at time.Time, jobs, taken []Job, agents ...Agent) map[string]forecast.Count {
	s := Snapshot{At: at, Jobs: jobs, Taken: taken, Agents: agents}
	l.register.Note(s)
	l.register.Reconcile(l.overlays, at)
	l.register.Arrived(l.overlays, s)
	counts := map[string]forecast.Count{}
	for _, o := range Observe(l.overlays, s, &l.register) {
		for _, x := range o.Overlays {
			counts[x.Overlay] = x.Arrivals
		}
	}
	return counts
}

func pendingJob(id int, since time.Time, rules ...string) Job {
	return Job{ID: fmt.Sprint(id), State: JobPending, Since: since, Rules: append([]string{"queue=default"}, rules...)}
}

// TestArrivals: each job counts once, in its minute, for the first overlay that could take
// it: whether it is seen while it waits, while it runs, or only with its agent.
func TestArrivals(t *testing.T) {
	large, small := warmOverlay("large"), warmOverlay("small")
	large.Policy.Tags, large.Policy.Priority = []string{"size=large"}, 1
	large.State, small.State = State{}, State{}
	off := warmOverlay("off")
	off.Policy.Warm, off.Policy.Priority = Warm{}, 9
	l := &looker{overlays: []Overlay{small, large, off}}
	start := noon()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l.look(at(0), []Job{pendingJob(1, at(-300))}, nil) // was there before
	agent := Agent{ID: "x", Tags: append(small.AgentTags(), "dispatch=small-1", "index=0"), State: AgentBusy, Job: "7"}
	l.look(at(70), []Job{pendingJob(1, at(-300)), pendingJob(2, at(10), "size=large"), pendingJob(3, at(65))}, []Job{pendingJob(4, at(61))})
	l.look(at(130), []Job{pendingJob(3, at(65)), pendingJob(5, at(20))}, []Job{pendingJob(2, at(10)), pendingJob(4, at(61)), pendingJob(6, at(-3000))}, agent)
	counts := l.look(at(185), nil, nil)
	// Job 5 was listed late and counts from the look before; 7 is known by its agent.
	for name, want := range map[string]string{"large": "1 3", "small": "0*2 1", "off": ""} {
		if got := counts[name].Jobs.String(); got != want {
			t.Errorf("%s: %q jobs a minute were counted from %s on, want %q", name, got, counts[name].From, want)
		}
	}
}

// TestArrivalsOfState: what the state in git has is not told again, and a process that
// starts anew comes to the same state but for what came since the last commit.
func TestArrivalsOfState(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 3))
		o := warmOverlay("a")
		o.State = State{}
		steady, restarted := &looker{overlays: []Overlay{o}}, &looker{overlays: []Overlay{o}}
		var jobs []Job
		came := 0
		for second := 0; second < 4*3600; second += 15 {
			at := noon().Add(time.Duration(second) * time.Second)
			for range r.IntN(3) {
				came++
				jobs = append(jobs, pendingJob(came, at.Add(-time.Duration(r.IntN(15))*time.Second)))
			}
			if len(jobs) > 20 {
				jobs = jobs[len(jobs)-20:]
			}
			commit := second%60 == 0 && r.IntN(5) == 0
			for _, l := range []*looker{steady, restarted} {
				count := l.look(at, jobs, nil)["a"]
				if commit {
					l.overlays[0].State.Warm = l.overlays[0].State.Warm.After(count, at)
				}
			}
			if commit { // killed right after it, and looks again in the same second
				restarted = &looker{overlays: restarted.overlays}
				restarted.look(at, jobs, nil)
			}
		}
		if a, b := steady.overlays[0].State, restarted.overlays[0].State; !a.Equal(b) {
			t.Errorf("seed %d: %+v\nafter restarts %+v", seed, a.Warm, b.Warm)
		}
	}
}

// TestWaitingIsCounted: agents of an overlay that wait for a job count in each minute, those
// of other overlays and those at work do not.
func TestWaitingIsCounted(t *testing.T) {
	o, other := warmOverlay("a"), warmOverlay("b")
	o.State, other.State = State{}, State{}
	other.Policy.Queue = "other"
	l := &looker{overlays: []Overlay{o, other}}
	agent := func(of Overlay, id string, state AgentState) Agent {
		x := Agent{ID: id, Tags: append(of.AgentTags(), "dispatch="+of.Name+"-1", "index=0"), State: state}
		if state == AgentBusy {
			x.Job = id
		}
		return x
	}
	start := noon()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l.look(at(0), nil, nil)
	l.look(at(65), nil, nil, agent(o, "1", AgentIdle), agent(o, "2", AgentIdle), agent(o, "3", AgentBusy), agent(other, "4", AgentIdle))
	l.look(at(125), nil, nil, agent(o, "1", AgentBusy), agent(o, "2", AgentIdle))
	counts := l.look(at(185), nil, nil)
	for name, want := range map[string]string{"a": "0 2 1", "b": "0 1"} {
		if got := counts[name].Idle.String(); got != want {
			t.Errorf("%s: %q agents waited in the minutes from %s on, want %q", name, got, counts[name].From, want)
		}
	}
}
