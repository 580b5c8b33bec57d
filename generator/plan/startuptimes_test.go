package plan

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// startupTimesOf reads boots as they are written.
func startupTimesOf(t *testing.T, text string) (b StartupTimes) {
	t.Helper()
	if err := b.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBoots: a time is rounded up by a tenth or a second at most, and what is written is
// read again.
func TestBoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b, back StartupTimes
		var longest time.Duration
		for _, seconds := range rapid.SliceOf(rapid.IntRange(-60, 100_000)).Draw(t, "seconds") {
			took := time.Duration(seconds)*time.Second + time.Duration(rapid.IntRange(0, 999).Draw(t, "milliseconds"))*time.Millisecond
			b.Add(took, rapid.IntRange(1, 3).Draw(t, "agents"))
			longest = max(longest, min(took, longestStartup*time.Second))
			if got := b.Within(100); got < longest || got > longest+max(2*time.Second, longest/10+time.Second) {
				t.Fatalf("%s is the longest, %s is counted", longest, got)
			}
		}
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &back); err != nil || !back.Equal(b) {
			t.Fatalf("%s is read as %q: %v", text, back, err)
		}
	})
	for _, wrong := range []string{"45", "46:0", "46:-1", "46:x", "x:1", "46:1 46:1", "46:1 33:2", "45:1", "0:1", "-1:1", "86401:1", "46:100001", "30:60000 46:60000", "46:1,50:1"} {
		var b StartupTimes
		if err := b.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q is read as %q", wrong, b)
		}
	}
}

// TestWithin: the percentile is the smallest time that so many did not exceed.
func TestWithin(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "46:1": 46, "30:98 60:1 124:1": 60, "30:99 124:1": 30, "30:98 60:1 124:2": 124, "30:198 124:2": 30, "30:19 60:1": 60,
	} {
		if got := startupTimesOf(t, text).Within(99); got != want*time.Second {
			t.Errorf("%q: 99 of 100 within %s, want %ds", text, got, want)
		}
	}
}

// TestSpread asserts that the spread never exceeds the true one: the median is above the bound below its own.
func TestSpread(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "30:20": 0, "30:10 33:10": 0, "30:9 33:10": 0, "30:2 60:18": 25, "30:2 46:7 60:11": 25, "30:1 46:9 60:10": 0, "1:10 2:90": 0, "1:10 3:90": 1,
	} {
		if got := startupTimesOf(t, text).Spread(); got != want*time.Second {
			t.Errorf("%q: the spread is %s, want %ds", text, got, want)
		}
	}
}

// TestLearnHalves: above 500 the counts are halved, the long ones with the others, so that
// what has changed shows after as many again.
func TestLearnHalves(t *testing.T) {
	b := startupTimesOf(t, "30:400 60:90 124:10").learn(startupTimesOf(t, "30:1"))
	if got := b.String(); got != "30:200 60:45 124:5" {
		t.Errorf("501 boots are halved to %q", got)
	}
	before := startupTimesOf(t, "30:300")
	if after := before.learn(startupTimesOf(t, "60:5")); before.String() != "30:300" || after.String() != "30:300 60:5" {
		t.Errorf("learning changes %q into %q", before, after)
	}
	slow := startupTimesOf(t, "30:500")
	for n := 0; slow.Within(99) < time.Minute; n++ {
		if n > 20 {
			t.Fatal("boots that take twice as long from now on are never noticed")
		}
		slow = slow.learn(startupTimesOf(t, "60:1"))
	}
	one := startupTimesOf(t, "30:490 972:10")
	for n := 0; one.Within(99) > time.Minute; n++ {
		if n > 100 {
			t.Fatalf("ten slow ones are never forgotten: %q", one)
		}
		one = one.learn(startupTimesOf(t, "30:10"))
	}
	if huge := (StartupTimes{}).learn(startupTimesOf(t, "30:90000 60:9000")); huge.Agents() > maxStartupTimes || huge.Within(50) != 30*time.Second {
		t.Errorf("a large order is learned as %q", huge)
	}
}

// TestAutoLease: the lease is four times the 99th percentile in whole minutes, from 15 to 30, and 15
// until twenty are known. Agents are overdue after twice that percentile, from a minute to 15.
func TestAutoLease(t *testing.T) {
	for text, want := range map[string][2]time.Duration{
		"":         {15 * time.Minute, 0},
		"30:19":    {15 * time.Minute, 0},
		"10:20":    {15 * time.Minute, time.Minute},
		"46:20":    {15 * time.Minute, 92 * time.Second},
		"312:20":   {21 * time.Minute, 624 * time.Second},
		"972:2000": {30 * time.Minute, 15 * time.Minute},
	} {
		b := startupTimesOf(t, text)
		if b.AutoLease() != want[0] || b.OverdueAfter() != want[1] {
			t.Errorf("%q: the lease is %s, overdue after %s; want %s, %s", text, b.AutoLease(), b.OverdueAfter(), want[0], want[1])
		}
	}
}

// TestCameAt: an agent came when Buildkite says, but not before the last look, which did
// not show it, nor after this one; where Buildkite does not say, by this look, unless there
// was none before.
func TestCameAt(t *testing.T) {
	d := Dispatch{ID: "a-00000001", Agents: 9, At: orderedAt, NotAfter: orderedAt.Add(lease)}
	with := []Overlay{{Name: "a", Dispatches: []Dispatch{d}}}
	at := func(seconds int) time.Time { return orderedAt.Add(time.Duration(seconds) * time.Second) }
	look := func(r *Registrations, seconds int, agents ...Agent) string {
		s := Snapshot{At: at(seconds), Agents: agents}
		r.Note(s)
		r.Reconcile(with, s.At)
		return r.StartupTimes(d).String()
	}
	agent := func(index string, connected time.Time) Agent {
		return Agent{ID: index, Tags: []string{"dispatch=" + d.ID, "index=" + index}, State: AgentIdle, Connected: connected}
	}
	var r Registrations
	for _, step := range []struct {
		seconds int
		agents  []Agent
		want    string
	}{
		{10, nil, ""},
		{30, []Agent{agent("0", at(18))}, "18:1"},
		{60, []Agent{agent("0", at(18)), agent("1", at(33))}, "18:1 33:1"},
		{66, []Agent{agent("1", at(66)), agent("2", at(-600))}, "18:1 33:1 60:1"}, // run again; a clock that is behind
		{72, []Agent{agent("3", at(3600))}, "18:1 33:1 60:1 72:1"},                // one that is ahead
		{79, []Agent{agent("4", time.Time{})}, "18:1 33:1 60:1 72:1 79:1"},
		{86, []Agent{agent("9", at(80)), agent("-1", at(80))}, "18:1 33:1 60:1 72:1 79:1"}, // no index of it
	} {
		if got := look(&r, step.seconds, step.agents...); got != step.want {
			t.Errorf("after %d s: %q, want %q", step.seconds, got, step.want)
		}
	}
	job := Snapshot{At: at(103), Sightings: []Sighting{{Name: d.ID + "-5", Started: at(94)}, {Name: d.ID + "-6"}}}
	r.Note(job)
	if got := r.StartupTimes(d).String(); got != "18:1 33:1 60:1 72:1 79:1 94:1 103:1" {
		t.Errorf("known by their jobs: %q", got)
	}
	for range 3 { // it has been retired, and is put back
		r.Reconcile(nil, at(600))
		r.Note(Snapshot{At: at(600), Agents: []Agent{agent("0", at(18))}})
	}
	r.Reconcile(with, at(630))
	if got := r.StartupTimes(d).String(); got != "18:1" {
		t.Errorf("after it was put back: %q", got)
	}
	var restarted Registrations
	if got := look(&restarted, 3600, agent("0", at(18)), agent("1", time.Time{})); got != "18:1" {
		t.Errorf("after a restart: %q", got)
	}
}
