package plan

import (
	"testing"
	"time"
)

func TestOverrides(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	every := [7]bool{true, true, true, true, true, true, true}
	night := []Schedule{{Name: "always", Days: every, To: 24 * 60, Zone: time.UTC, Max: new(30)}}
	in := func(d time.Duration, o Override) Override { o.Until = now.Add(d); return o }
	for _, c := range []struct {
		name      string
		overrides []Override
		schedules []Schedule
		want      Policy // Min, Max, Buffer, MaxPerHour and Paused
		until     time.Duration
	}{
		{"none", nil, nil, Policy{Min: 2, Max: 20, Buffer: 1}, 0},
		{"in force", []Override{in(time.Second, Override{Max: new(40)})}, nil, Policy{Min: 2, Max: 40, Buffer: 1}, time.Second},
		{"over", []Override{in(0, Override{Max: new(40)})}, nil, Policy{Min: 2, Max: 20, Buffer: 1}, 0},
		{"above a schedule", []Override{in(time.Hour, Override{Max: new(5)})}, night, Policy{Min: 2, Max: 5, Buffer: 1}, time.Hour},
		{"beside a schedule", []Override{in(time.Hour, Override{Buffer: new(4)})}, night, Policy{Min: 2, Max: 30, Buffer: 4}, time.Hour},
		{"the later on top, the first end", []Override{in(time.Hour, Override{Max: new(40), MaxPerHour: new(9)}), in(time.Minute, Override{Max: new(50), Paused: true})},
			nil, Policy{Min: 2, Max: 50, Buffer: 1, MaxPerHour: 9, Paused: true}, time.Minute},
		{"max below min", []Override{in(time.Hour, Override{Max: new(1)})}, nil, Policy{Min: 1, Max: 1, Buffer: 1}, time.Hour},
		{"min to nothing", []Override{in(time.Hour, Override{Min: new(0), Buffer: new(0)})}, nil, Policy{Max: 20}, time.Hour},
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

func TestScheduleHolds(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	every := [7]bool{true, true, true, true, true, true, true}
	at := func(day, clock string) time.Time {
		x, err := time.ParseInLocation("2006-01-02 15:04", day+" "+clock, berlin)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, c := range []struct {
		name     string
		schedule Schedule
		from, to time.Time
		minutes  int
	}{
		{"an ordinary day", Schedule{Days: every, From: 8 * 60, To: 18 * 60}, at("2026-11-23", "00:00"), at("2026-11-24", "00:00"), 600},
		{"a whole day", Schedule{Days: every, From: 0, To: 24 * 60}, at("2026-11-23", "00:00"), at("2026-11-24", "00:00"), 1440},
		{"over midnight, begins on Friday only", Schedule{Days: [7]bool{time.Friday: true}, From: 22 * 60, To: 6 * 60}, at("2026-11-20", "00:00"), at("2026-11-23", "00:00"), 480},
		{"its Saturday part", Schedule{Days: [7]bool{time.Friday: true}, From: 22 * 60, To: 6 * 60}, at("2026-11-21", "00:00"), at("2026-11-22", "00:00"), 360},
		{"not from Thursday's evening", Schedule{Days: [7]bool{time.Friday: true}, From: 22 * 60, To: 6 * 60}, at("2026-11-20", "00:00"), at("2026-11-20", "22:00"), 0},
		{"within Friday only", Schedule{Days: [7]bool{time.Friday: true}, From: 8 * 60, To: 18 * 60},
			at("2026-11-20", "00:00"), at("2026-11-22", "00:00"), 600},
		// On 2026-03-29 the clock goes from 02:00 to 03:00.
		{"spring, the night is an hour shorter", Schedule{Days: every, From: 22 * 60, To: 6 * 60}, at("2026-03-28", "12:00"), at("2026-03-29", "12:00"), 420},
		{"spring, half of the window is left out", Schedule{Days: every, From: 2*60 + 30, To: 3*60 + 30}, at("2026-03-29", "00:00"), at("2026-03-29", "12:00"), 30},
		{"spring, all of it is left out", Schedule{Days: every, From: 2 * 60, To: 3 * 60}, at("2026-03-29", "00:00"), at("2026-03-29", "12:00"), 0},
		// On 2026-10-25 the clock goes from 03:00 back to 02:00.
		{"autumn, the night is an hour longer", Schedule{Days: every, From: 22 * 60, To: 6 * 60}, at("2026-10-24", "12:00"), at("2026-10-25", "12:00"), 540},
		{"autumn, the hour comes twice", Schedule{Days: every, From: 2 * 60, To: 3 * 60}, at("2026-10-25", "00:00"), at("2026-10-25", "12:00"), 120},
	} {
		c.schedule.Zone = berlin
		got := 0
		for now := c.from; now.Before(c.to); now = now.Add(time.Minute) {
			if c.schedule.active(now) {
				got++
			}
		}
		if got != c.minutes {
			t.Errorf("%s: held for %d minutes, want %d", c.name, got, c.minutes)
		}
	}
}

func TestLargestScheduleWins(t *testing.T) {
	every := [7]bool{true, true, true, true, true, true, true}
	window := func(name string, low, high, buffer *int) Schedule {
		return Schedule{Name: name, Days: every, From: 0, To: 24 * 60, Zone: time.UTC, Min: low, Max: high, Buffer: buffer}
	}
	for _, c := range []struct {
		name      string
		schedules []Schedule
		want      string
		policy    [3]int
	}{
		{"none", nil, "", [3]int{2, 20, 1}},
		{"smaller than the policy, and alone", []Schedule{window("night", new(0), new(5), nil)}, "night", [3]int{0, 5, 1}},
		{"all to nothing", []Schedule{window("off", new(0), new(0), new(0))}, "off", [3]int{0, 0, 0}},
		{"by max", []Schedule{window("a", new(9), nil, nil), window("b", nil, new(30), nil)}, "b", [3]int{2, 30, 1}},
		{"then by min", []Schedule{window("a", new(3), nil, new(9)), window("b", new(4), nil, nil)}, "b", [3]int{4, 20, 1}},
		{"then by buffer", []Schedule{window("a", nil, nil, new(2)), window("b", nil, nil, new(3))}, "b", [3]int{2, 20, 3}},
		{"then the first", []Schedule{window("a", nil, nil, new(3)), window("b", nil, nil, new(3))}, "a", [3]int{2, 20, 3}},
	} {
		p, name := Policy{Min: 2, Max: 20, Buffer: 1, Schedules: c.schedules}.During(time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC))
		if got := [3]int{p.Min, p.Max, p.Buffer}; name != c.want || got != c.policy {
			t.Errorf("%s: %q makes it %v, want %q and %v", c.name, name, got, c.want, c.policy)
		}
	}
}

// TestPausedByOverrides asserts that the last override that pauses the overlay is named.
func TestPausedByOverrides(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	p := Policy{Overrides: []Override{{Until: now.Add(time.Hour), Paused: true}, {Until: now.Add(2 * time.Hour), Paused: true}, {Until: now.Add(3 * time.Hour)}}}
	want := Suspension{Code: Paused, Finding: "an override is in force until " + now.Add(2*time.Hour).UTC().Format(time.RFC3339)}
	if got := p.Suspension(now); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := p.Suspension(now.Add(2 * time.Hour)); got.Active() {
		t.Errorf("after both: %v", got)
	}
}
