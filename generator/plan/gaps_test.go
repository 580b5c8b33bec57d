package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// gapsOf counts gaps of these lengths.
func gapsOf(lengths ...time.Duration) (g Gaps) {
	for _, l := range lengths {
		g.add(l, 1)
	}
	return g
}

// TestGapsText: a text form is read again, and others are refused.
func TestGapsText(t *testing.T) {
	for _, g := range []Gaps{{}, gapsOf(time.Second, 15*time.Second, 16*time.Second, time.Minute, time.Hour)} {
		var read Gaps
		text, _ := g.MarshalText()
		if err := read.UnmarshalText(text); err != nil || !read.Equal(g) {
			t.Errorf("%q is read as %q: %v", text, read, err)
		}
	}
	if text := gapsOf(time.Second, 15*time.Second, 16*time.Second, time.Minute, time.Hour).String(); text != "2 1 1 0 0 1" {
		t.Errorf("five gaps are %q", text)
	}
	for _, text := range []string{"1", "1 2 3 4 5", "1 2 3 4 5 6 7", "1 2 3 4 5 -1", "1 2 3 4 5 x", "1 2 3 4 5 100001"} {
		var g Gaps
		if err := g.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %q", text, g)
		}
	}
}

// TestIdleAuto: an idle time that most gaps are shorter than is worth it if they save more than they cost.
func TestIdleAuto(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		gaps            []time.Duration
		startup, uptime time.Duration
		want            time.Duration
	}{
		{nil, 45 * s, time.Hour, 15 * s},
		{slices.Repeat([]time.Duration{2 * s}, 20), 45 * s, time.Hour, 15 * s},
		{slices.Repeat([]time.Duration{22 * s}, 20), 45 * s, time.Hour, 30 * s},
		{slices.Repeat([]time.Duration{50 * s}, 20), 45 * s, time.Hour, time.Minute},
		{slices.Repeat([]time.Duration{50 * s}, 20), 45 * s, time.Minute, 15 * s},
		{slices.Repeat([]time.Duration{50 * s}, 20), 20 * s, time.Hour, 15 * s}, // costs more than it saves
		{slices.Repeat([]time.Duration{4 * time.Minute}, 20), 4 * time.Minute, time.Hour, 5 * time.Minute},
		{slices.Repeat([]time.Duration{time.Hour}, 20), 4 * time.Minute, 2 * time.Hour, 15 * s},
		{append(slices.Repeat([]time.Duration{time.Hour}, 100), 22*s), 45 * s, time.Hour, 15 * s}, // one of a hundred
	} {
		if got := gapsOf(c.gaps...).idle(c.startup, c.uptime); got != c.want {
			t.Errorf("%d gaps of %v, start-up %s, uptime %s: idle for %s, want %s", len(c.gaps), slices.Compact(c.gaps), c.startup, c.uptime, got, c.want)
		}
	}
}

// TestIdleAutoIsWorthMost compares the idle time with the value of each, added up gap by gap.
func TestIdleAutoIsWorthMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.SliceOfN(rapid.IntRange(0, 400), 0, 50).Draw(t, "gaps")
		startup := rapid.IntRange(1, 600).Draw(t, "startup")
		var g Gaps
		for _, s := range seconds {
			g.add(time.Duration(s)*time.Second, 1)
		}
		best, most := 0, 0.0
		choices := []int{15, 30, 60, 120, 300}
		for _, idle := range choices {
			value := 0.0
			for _, s := range seconds {
				i := slices.IndexFunc(choices, func(c int) bool { return s <= c })
				if s > idle {
					value -= float64(idle)
				} else if i >= 0 {
					value += float64(int(1.5*float64(startup)) - choices[i])
				}
			}
			if best == 0 || value > most {
				best, most = idle, value
			}
		}
		if got := g.idle(time.Duration(startup)*time.Second, time.Hour); got != time.Duration(best)*time.Second {
			t.Fatalf("idle for %s, want %d s", got, best)
		}
	})
}

// TestGapsOfDemand: gaps follow from the agents that jobs need at each tick.
func TestGapsOfDemand(t *testing.T) {
	var r Registrations
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	o := Overlay{Name: "default", Policy: Policy{Reuse: Reuse{Auto: true}}}
	note := func(i, agents int) {
		r.NoteDemand([]Overlay{o}, []Decision{{Overlay: "default", Figures: Figures{Max: 8, Busy: agents, Pending: i, OtherOverlays: i}, Observation: Observation{At: at}}})
	}
	for i, step := range []struct {
		after  int // seconds
		agents int
		want   string // since the start
	}{
		{0, 3, ""},              // what was before is unknown
		{15, 1, ""},             // two end after 0
		{15, 1, ""},             //
		{10, 2, ""},             // one is needed again, 40 s later
		{5, 2, "0 0 1 0 0 0"},   // and known at the next tick
		{15, 0, "0 0 1 0 0 0"},  // two end after 45
		{5, 2, "0 0 1 0 0 0"},   // both are needed again, 20 s later
		{15, 3, "0 2 1 0 0 0"},  // and one of the first two, 80 s later
		{15, 40, "0 2 1 1 0 0"}, // more than max
		{15, 9, "0 2 1 1 0 0"},  // are no agents that could wait
		{15, 7, "0 2 1 1 0 0"},  // one ends after 110
		{200, 7, "0 2 1 1 0 0"}, // nothing needs it
		{200, 7, "0 2 1 1 0 0"},
		{15, 5, "0 2 1 1 0 1"},  // two end
		{600, 1, "0 2 1 1 0 1"}, // after ten minutes without a tick: no gap is known
		{15, 8, "0 2 1 1 0 1"},
		{15, 8, "0 2 1 1 0 1"},
	} {
		at = at.Add(time.Duration(step.after) * time.Second)
		for _, when := range []string{"before", "after"} { // a tick that a conflict repeats decides on the same
			if got := r.gapsUntil(o, at).String(); got != step.want {
				t.Errorf("%s, %d agents: %q %s it, want %q", at.Format(time.TimeOnly), step.agents, got, when, step.want)
			}
			note(i, step.agents)
		}
	}
	o.State.GapsUntil = at.Add(-15 * time.Minute)
	if got := r.gapsUntil(o, at.Add(time.Second)).Len(); got != 1 {
		t.Errorf("%d gaps since then, want 1", got)
	}
	if note(0, 8); len(r.traces["default"].gaps) != 1 {
		t.Errorf("%+v is remembered, want what no commit contains", r.traces["default"].gaps)
	}
	for range 2 * maxGaps {
		at = at.Add(15 * time.Second)
		note(0, 2)
		at = at.Add(15 * time.Second)
		note(0, 8)
	}
	if got := r.gapsUntil(o, at.Add(time.Second)).Len(); got > maxGaps || len(r.traces["default"].gaps) > maxGaps {
		t.Errorf("%d gaps, %d remembered, want at most %d", got, len(r.traces["default"].gaps), maxGaps)
	}
	o.Policy.Reuse.Auto = false
	if got := r.gapsUntil(o, at); !got.IsZero() {
		t.Errorf("without auto: %q", got)
	}
	if note(0, 8); len(r.traces) != 0 {
		t.Errorf("%d overlays are remembered without auto", len(r.traces))
	}
}

// TestOrdersIdleAuto: orders have the idle time of the gaps once enough are known, and each gap is learned once.
func TestOrdersIdleAuto(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	o := Overlay{Name: "default", Policy: Policy{Queue: "default", Max: 10, Lease: FirstLease, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour,
		Reuse: Reuse{Idle: FirstIdle, Uptime: time.Hour, Auto: true}}}
	order := func(gaps Gaps) Decision {
		d := Decide("head", []Overlay{o}, Observation{At: at, Until: at.Add(time.Minute), Queue: "default", Jobs: []Demand{{Overlays: []string{"default"}, Pending: 1}},
			Overlays: []Capacity{{Overlay: "default", Gaps: gaps}}})[0]
		if len(d.Dispatch) != 1 {
			t.Fatalf("%d orders", len(d.Dispatch))
		}
		return d
	}
	ten := gapsOf(slices.Repeat([]time.Duration{50 * time.Second}, 10)...)
	idle := func(d Decision) string {
		return fmt.Sprintf("%s, %d gaps", d.Dispatch[0].IdleTimeout, d.State.Gaps.Len())
	}
	var nine Gaps
	nine.add(50*time.Second, 9)
	if got := idle(order(ten)); got != "15s, 10 gaps" {
		t.Error("no start-up times are known: ", got)
	}
	o.State.StartupTimes.Add(45*time.Second, MinStartupTimes-1)
	o.State.StartupTimes.Add(5*time.Minute, 1) // not the median
	d := order(nine)
	if got := idle(d); got != "15s, 9 gaps" || !d.State.GapsUntil.Equal(at) {
		t.Errorf("nine gaps: %s until %s", got, d.State.GapsUntil)
	}
	o.State = d.State
	if got := idle(order(Gaps{})); got != "15s, 9 gaps" {
		t.Error("nine gaps in the state: ", got)
	}
	if got := idle(order(gapsOf(50*time.Second, 4*time.Minute))); got != "1m0s, 11 gaps" {
		t.Error("eleven gaps: ", got)
	}
	var many Gaps
	many.add(time.Second, maxGaps)
	if got := idle(order(many)); got != "1m0s, 204 gaps" {
		t.Error("409 gaps: ", got)
	}
	o.Policy.Reuse.Auto = false
	if got := idle(order(many)); got != "15s, 0 gaps" {
		t.Error("without auto: ", got)
	}
}

// TestIdleAutoWithAFixedLease: start-up times are learned for the idle time, and no agent is overdue.
func TestIdleAutoWithAFixedLease(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	order := func(id string, age time.Duration) Dispatch {
		return Dispatch{ID: id, Purpose: ForDemand, Agents: 1, At: at.Add(-age), NotAfter: at.Add(-age).Add(FirstLease)}
	}
	o := Overlay{Name: "default", Dispatches: []Dispatch{order("default-1", 4*time.Minute), order("default-2", 3*time.Minute)},
		Policy: Policy{Queue: "default", Max: 10, Lease: FirstLease, Reuse: Reuse{Idle: FirstIdle, Uptime: time.Hour, Auto: true}}}
	o.State.StartupTimes.Add(20*time.Second, MinStartupTimes)
	seen := Observed{HadJob: 1}
	seen.Registered.Add(0)
	seen.StartupTimes.Add(20*time.Second, 1)
	s := newAllocations([]Overlay{o}, Observation{At: at, Queue: "default", Overlays: []Capacity{{Overlay: "default", Dispatches: map[string]Observed{"default-2": seen}}}})[0]
	if s.startupTimes.Agents() != MinStartupTimes+1 || s.figures.Overdue != 0 {
		t.Errorf("%d start-up times, want %d; %d agents overdue, want none", s.startupTimes.Agents(), MinStartupTimes+1, s.figures.Overdue)
	}
}
