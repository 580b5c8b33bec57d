package plan

import (
	"testing"
	"time"
)

func TestOverrides(t *testing.T) {
	number := func(n int) *int { return &n }
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	every := [7]bool{true, true, true, true, true, true, true}
	night := []Schedule{{Name: "always", Days: every, To: 24 * 60, Zone: time.UTC, Max: number(30)}}
	in := func(d time.Duration, o Override) Override { o.Until = now.Add(d); return o }
	for _, c := range []struct {
		name      string
		overrides []Override
		schedules []Schedule
		want      Policy // Min, Max, Buffer, MaxPerHour and Paused
		until     time.Duration
	}{
		{"none", nil, nil, Policy{Min: 2, Max: 20, Buffer: 1}, 0},
		{"in force", []Override{in(time.Second, Override{Max: number(40)})}, nil, Policy{Min: 2, Max: 40, Buffer: 1}, time.Second},
		{"over", []Override{in(0, Override{Max: number(40)})}, nil, Policy{Min: 2, Max: 20, Buffer: 1}, 0},
		{"above a schedule", []Override{in(time.Hour, Override{Max: number(5)})}, night, Policy{Min: 2, Max: 5, Buffer: 1}, time.Hour},
		{"beside a schedule", []Override{in(time.Hour, Override{Buffer: number(4)})}, night, Policy{Min: 2, Max: 30, Buffer: 4}, time.Hour},
		{"the later on top, the first end", []Override{in(time.Hour, Override{Max: number(40), MaxPerHour: number(9)}), in(time.Minute, Override{Max: number(50), Paused: true})},
			nil, Policy{Min: 2, Max: 50, Buffer: 1, MaxPerHour: 9, Paused: true}, time.Minute},
		{"max below min", []Override{in(time.Hour, Override{Max: number(1)})}, nil, Policy{Min: 1, Max: 1, Buffer: 1}, time.Hour},
		{"min to nothing", []Override{in(time.Hour, Override{Min: number(0), Buffer: number(0)})}, nil, Policy{Max: 20}, time.Hour},
	} {
		p := Policy{Min: 2, Max: 20, Buffer: 1, Schedules: c.schedules, Overrides: c.overrides}
		got, _ := p.During(now)
		if got.Min != c.want.Min || got.Max != c.want.Max || got.Buffer != c.want.Buffer || got.MaxPerHour != c.want.MaxPerHour || got.Paused != c.want.Paused {
			t.Errorf("%s: the policy is %+v, want %+v", c.name, got, c.want)
		}
		switch until := p.OverriddenUntil(now); {
		case until == nil && c.until != 0, until != nil && !until.Equal(now.Add(c.until)):
			t.Errorf("%s: overridden until %v, want %s from now", c.name, until, c.until)
		}
	}
}
