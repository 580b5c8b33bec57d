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
	for _, g := range []Gaps{{}, gapsOf(time.Second, 20*time.Second, 21*time.Second, time.Minute, time.Hour)} {
		var read Gaps
		text, _ := g.MarshalText()
		if err := read.UnmarshalText(text); err != nil || !read.Equal(g) {
			t.Errorf("%q is read as %q: %v", text, read, err)
		}
	}
	if text := gapsOf(time.Second, 20*time.Second, 21*time.Second, time.Minute, time.Hour).String(); text != "2 1 1 0 0 1" {
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
		{nil, 45 * s, time.Hour, 20 * s},
		{slices.Repeat([]time.Duration{2 * s}, 20), 45 * s, time.Hour, 20 * s},
		{slices.Repeat([]time.Duration{22 * s}, 20), 45 * s, time.Hour, 30 * s},
		{slices.Repeat([]time.Duration{50 * s}, 20), 45 * s, time.Hour, time.Minute},
		{slices.Repeat([]time.Duration{50 * s}, 20), 45 * s, time.Minute, 20 * s},
		{slices.Repeat([]time.Duration{50 * s}, 20), 20 * s, time.Hour, 20 * s}, // costs more than it saves
		{slices.Repeat([]time.Duration{4 * time.Minute}, 20), 4 * time.Minute, time.Hour, 5 * time.Minute},
		{slices.Repeat([]time.Duration{time.Hour}, 20), 4 * time.Minute, 2 * time.Hour, 20 * s},
		{append(slices.Repeat([]time.Duration{time.Hour}, 100), 22*s), 45 * s, time.Hour, 20 * s}, // one of a hundred
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
		choices := []int{20, 30, 60, 120, 300}
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
	for _, step := range []struct {
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
		{15, 3, "2 0 1 0 0 0"},  // and one of the first two, 80 s later
		{15, 8, "2 0 1 1 0 0"},  // more than ever
		{15, 7, "2 0 1 1 0 0"},  // one ends after 95
		{600, 7, "2 0 1 1 0 0"}, // nothing needs it
		{15, 7, "2 0 1 1 0 1"},
	} {
		at = at.Add(time.Duration(step.after) * time.Second)
		if got := r.gapsUntil(o, at).String(); got != step.want {
			t.Errorf("%s, %d agents: %q, want %q", at.Format(time.TimeOnly), step.agents, got, step.want)
		}
		r.NoteDemand([]Decision{{Overlay: "default", Figures: Figures{Busy: step.agents}, Observation: Observation{At: at}}})
	}
	o.State.GapsUntil = at.Add(-time.Minute)
	if got := r.gapsUntil(o, at.Add(time.Second)).Len(); got != 1 {
		t.Errorf("%d gaps since a minute, want 1", got)
	}
	o.Policy.Reuse.Auto = false
	if got := r.gapsUntil(o, at); !got.IsZero() {
		t.Errorf("without auto: %q", got)
	}
	r.NoteDemand(nil)
	if len(r.traces) != 0 {
		t.Errorf("%d overlays are remembered that no decision is about", len(r.traces))
	}
}

// TestOrdersIdleAuto: orders have the idle time of the gaps once enough are known, and each gap is learned once.
func TestOrdersIdleAuto(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	o := Overlay{Name: "default", Policy: Policy{Queue: "default", Max: 10, Lease: FirstLease, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour,
		Reuse: Reuse{Idle: FirstIdle, Uptime: time.Hour, Auto: true}}}
	order := func(gaps Gaps) Decision {
		d := Decide("head", []Overlay{o}, Observation{At: at, Queue: "default", Jobs: []Demand{{Overlays: []string{"default"}, Pending: 1}},
			Overlays: []Capacity{{Overlay: "default", Gaps: gaps}}})[0]
		if len(d.Dispatch) != 1 {
			t.Fatalf("%d orders", len(d.Dispatch))
		}
		return d
	}
	idle := func(d Decision) string {
		return fmt.Sprintf("%s, %d gaps", d.Dispatch[0].IdleTimeout, d.State.Gaps.Len())
	}
	var nine Gaps
	nine.add(50*time.Second, 9)
	if got := idle(order(nine)); got != "20s, 9 gaps" {
		t.Error("no start-up times are known: ", got)
	}
	o.State.StartupTimes.Add(45*time.Second, MinStartupTimes)
	d := order(nine)
	if got := idle(d); got != "20s, 9 gaps" || !d.State.GapsUntil.Equal(at) {
		t.Errorf("nine gaps: %s until %s", got, d.State.GapsUntil)
	}
	o.State = d.State
	if got := idle(order(Gaps{})); got != "20s, 9 gaps" {
		t.Error("nine gaps in the state: ", got)
	}
	if got := idle(order(gapsOf(50 * time.Second))); got != "1m0s, 10 gaps" {
		t.Error("ten gaps: ", got)
	}
	var many Gaps
	many.add(time.Second, maxGaps)
	if got := idle(order(many)); got != "1m0s, 204 gaps" {
		t.Error("409 gaps: ", got)
	}
	o.Policy.Reuse.Auto = false
	if got := idle(order(many)); got != "20s, 0 gaps" {
		t.Error("without auto: ", got)
	}
}
