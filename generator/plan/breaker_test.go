package plan

import (
	"testing"
	"time"
)

func TestTrialsComeAtGrowingIntervals(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	for failures, want := range map[int]time.Duration{3: time.Minute, 4: 2 * time.Minute, 5: 4 * time.Minute, 7: 16 * time.Minute, 8: 30 * time.Minute, 9: 30 * time.Minute, 1000: 30 * time.Minute} {
		if got := (Breaker{Failures: failures, At: at}).NextTrial().Sub(at); got != want {
			t.Errorf("after %d failures the next trial comes after %v, want %v", failures, got, want)
		}
	}
}

func TestBreakerAfter(t *testing.T) {
	t0 := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	now := t0.Add(time.Hour)
	order := func(minute int, failure Failure) outcome {
		return outcome{dispatch: Dispatch{ID: "d", At: t0.Add(time.Duration(minute) * time.Minute)}, failure: failure, success: failure == ""}
	}
	wrong := func(minute int) outcome {
		o := order(minute, NoJobTaken)
		o.opens = true
		return o
	}
	for _, c := range []struct {
		name    string
		before  int
		retired []outcome
		want    int
	}{
		{"nothing retired", 2, nil, 2},
		{"dispatches of one moment are one order", 0, []outcome{order(1, NeverRegistered), order(1, NeverRegistered), order(1, NeverRegistered)}, 1},
		{"three orders", 0, []outcome{order(3, NeverRegistered), order(1, NoJobTaken), order(2, NeverRegistered)}, 3},
		{"one of an order is enough", 2, []outcome{order(1, NeverRegistered), order(1, "")}, 0},
		{"wrong tags count beside a success", 0, []outcome{order(1, ""), wrong(1)}, 3},
		{"wrong tags count before a success", 0, []outcome{wrong(1), order(1, "")}, 3},
		{"a trial with wrong tags", 4, []outcome{wrong(1)}, 5},
		{"the later order counts", 2, []outcome{order(2, NeverRegistered), order(1, "")}, 1},
		{"a success ends it", 5, []outcome{order(1, NeverRegistered), order(2, "")}, 0},
	} {
		b := Breaker{Failures: c.before, At: t0}
		if c.before == 0 {
			b = Breaker{}
		}
		if got := b.after(c.retired, now); got.Failures != c.want {
			t.Errorf("%s: %d failures, want %d", c.name, got.Failures, c.want)
		}
	}
}

func TestBreakersThatSayTheSame(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	b := Breaker{Failures: 1, At: at, Dispatch: "d", Cause: NoJobTaken}
	for other, same := range map[Breaker]bool{
		b: true, {1, 0, at.In(time.FixedZone("", 3600)), "d", NoJobTaken}: true,
		{2, 0, at, "d", NoJobTaken}: false, {1, 0, at.Add(time.Second), "d", NoJobTaken}: false, {1, 0, at, "e", NoJobTaken}: false, {1, 0, at, "d", NeverRegistered}: false,
		{1, 2, at, "d", NoJobTaken}: false,
	} {
		if b.Equal(other) != same {
			t.Errorf("%+v and %+v are the same: %t", b, other, !same)
		}
	}
}

// TestBreakerSaysWhy: the cause is that of the order's failure, wrong tags before
// all, and what was in flight when the breaker opened is nothing new.
func TestBreakerSaysWhy(t *testing.T) {
	t0 := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	now := t0.Add(time.Hour)
	opened := Breaker{Failures: Tolerance, At: t0, Dispatch: "c", Cause: NoJobTaken}
	const wrongTags = "wrong tags"
	order := func(after time.Duration, failures ...Failure) (all []outcome) {
		for i, f := range failures {
			o := outcome{dispatch: Dispatch{ID: string(rune('m' + i)), Agents: 2, At: t0.Add(after)}, failure: f}
			if f == wrongTags {
				o.failure, o.opens = NoJobTaken, true
			}
			all = append(all, o)
		}
		return all
	}
	for name, c := range map[string]struct {
		before, want Breaker
		retired      []outcome
	}{
		"a failure behind what is not known":   {Breaker{}, Breaker{Failures: 1, Agents: 6, At: now, Dispatch: "n", Cause: NoJobTaken}, order(0, "", NoJobTaken, NeverRegistered)},
		"wrong tags first":                     {Breaker{}, Breaker{Failures: Tolerance, Agents: 4, At: now, Dispatch: "m", Cause: NoJobTaken}, order(0, wrongTags, NoJobTaken)},
		"wrong tags behind another failure":    {Breaker{}, Breaker{Failures: Tolerance, Agents: 4, At: now, Dispatch: "n", Cause: NoJobTaken}, order(0, NoJobTaken, wrongTags)},
		"in flight when the breaker opened":    {opened, opened, order(-time.Second, NeverRegistered)},
		"ordered at the moment when it opened": {opened, Breaker{Failures: Tolerance + 1, Agents: 2, At: now, Dispatch: "m", Cause: NeverRegistered}, order(0, NeverRegistered)},
		"closed, and ordered before":           {Breaker{Failures: 1, Agents: 3, At: t0, Cause: NeverRegistered}, Breaker{Failures: 2, Agents: 5, At: now, Dispatch: "m", Cause: NeverRegistered}, order(-time.Second, NeverRegistered)},
		"another cause":                        {Breaker{Failures: 1, Agents: 3, At: t0, Cause: NoJobTaken}, Breaker{Failures: 2, Agents: 2, At: now, Dispatch: "m", Cause: NeverRegistered}, order(0, NeverRegistered)},
		"nothing known":                        {opened, opened, order(time.Second, "")},
	} {
		if got := c.before.after(c.retired, now); !got.Equal(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestTrial: a trial goes when it is its time, all that was ordered before has come
// to an end, and there is something to send it for.
func TestTrial(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	due := Breaker{Failures: Tolerance, At: now.Add(-firstTrial)}
	early := due
	early.At = now
	one := Overlay{Dispatches: []Dispatch{{ID: "d"}}}
	for name, c := range map[string]struct {
		share  allocation
		why    SuspensionCode
		next   bool // the reason says when
		demand int
		warm   int
	}{
		"for jobs":           {allocation{breaker: due, figures: Figures{Missing: 3, Room: 5}}, "", false, 1, 0},
		"for min":            {allocation{breaker: due, figures: Figures{Min: 1, Room: 1}}, "", false, 0, 1},
		"for the buffer":     {allocation{breaker: due, policy: Policy{Buffer: 2}, spare: 1, figures: Figures{Room: 1}}, "", false, 0, 1},
		"for one that goes":  {allocation{breaker: due, policy: Policy{Buffer: 2}, spare: 2, figures: Figures{Current: 2, Replacing: 1, Room: 1}}, "", false, 0, 1},
		"for nothing":        {allocation{breaker: due, policy: Policy{Buffer: 2}, spare: 2, figures: Figures{Room: 5}}, "", false, 0, 0},
		"no room":            {allocation{breaker: due, figures: Figures{Missing: 3}}, "", false, 0, 0},
		"too early":          {allocation{breaker: early, figures: Figures{Missing: 3, Room: 5}}, BreakerOpen, true, 0, 0},
		"another is there":   {allocation{breaker: due, overlay: one, figures: Figures{Missing: 3, Room: 5}}, BreakerOpen, false, 0, 0},
		"the other is over":  {allocation{breaker: due, overlay: one, retire: []Retirement{{Reason: Expired}}, figures: Figures{Missing: 3, Room: 5}}, "", false, 1, 0},
		"one is withdrawn":   {allocation{breaker: due, overlay: one, retire: []Retirement{{Reason: Withdrawn}}, figures: Figures{Missing: 3, Room: 5}}, BreakerOpen, false, 0, 0},
		"early, and another": {allocation{breaker: early, overlay: one, figures: Figures{Missing: 3, Room: 5}}, BreakerOpen, false, 0, 0},
	} {
		why, trial := c.share.trial(now)
		sum := c.share.figures
		if why.Code != c.why || (why.NextTrial != nil) != c.next || trial != (c.demand+c.warm > 0) || sum.Demand != c.demand || sum.WarmPool != c.warm || sum.Dispatch != c.demand+c.warm {
			t.Errorf("%s: %+v, %t, %d for jobs and %d warm of %d", name, why, trial, sum.Demand, sum.WarmPool, sum.Dispatch)
		}
	}
}

// TestTrialsOfSeveralOverlays: with n open circuit breakers and one job, repeated decisions send one
// trial of each overlay, then order one agent of another overlay, and then nothing.
func TestTrialsOfSeveralOverlays(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	for n := range 4 {
		d := drawn{snapshot: Snapshot{At: now, Jobs: []Job{{ID: "1", Rules: []string{"queue=q"}, State: JobPending, Since: now.Add(-time.Minute)}}}}
		for i := range n + 1 {
			o := Overlay{Name: string(rune('a' + i)), Policy: Policy{Queue: "q", Max: 10, Lease: lease, Priority: n - i, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour}}
			if i < n {
				o.State.Breaker = Breaker{Failures: Tolerance, At: now.Add(-firstTrial), Cause: NeverRegistered}
			}
			d.overlays = append(d.overlays, o)
		}
		for decision := range n + 3 {
			decisions := d.decide()
			trials, want := 0, 0
			for _, x := range decisions {
				if x.Trial {
					trials++
				}
			}
			if decision <= n {
				want = 1
			}
			if got := ordered(decisions); got != want || trials != min(want, max(0, n-decision)) {
				t.Errorf("%d open circuit breakers, decision %d: %d agents, %d trials; want %d agents", n, decision+1, got, trials, want)
			}
			d.apply(decisions)
		}
	}
}
