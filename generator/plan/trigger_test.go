package plan

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMore: jobs have come where more are scheduled in a queue of an overlay than before.
func TestMore(t *testing.T) {
	type queues = map[string]QueueCounts
	overlays := []Overlay{{Policy: Policy{Queue: "a"}}, {Policy: Policy{Queue: "b"}}}
	counts := func(cluster string, q queues) Counts {
		return Counts{Clusters: []ClusterCounts{{Cluster: cluster, Queues: q}}}
	}
	before := counts("ci", queues{"a": {Scheduled: 2}})
	for name, c := range map[string]struct {
		now  Counts
		want bool
	}{
		"the same":             {before, false},
		"more":                 {counts("ci", queues{"a": {Scheduled: 3}}), true},
		"fewer":                {counts("ci", queues{"a": {Scheduled: 1}}), false},
		"in the other":         {counts("ci", queues{"a": {Scheduled: 2}, "b": {Scheduled: 1}}), true},
		"in nobody's":          {counts("ci", queues{"a": {Scheduled: 2}, "c": {Scheduled: 1}}), false},
		"agents":               {counts("ci", queues{"a": {Scheduled: 2, Agents: 3, Idle: 1}}), false},
		"of another cluster":   {counts("gpu", queues{"a": {Scheduled: 9}}), false},
		"of no cluster at all": {Counts{}, false},
	} {
		if got := c.now.More(overlays, before); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// begin lets n begin, each called for as soon as the one before has begun, and returns
// when they did.
func begin(p *Pace, from time.Time, n int) (at []time.Duration) {
	last, now := from.Add(-time.Hour), from
	for range n {
		now = now.Add(p.Wait(now, last))
		p.Began(now)
		last = now
		at = append(at, now.Sub(from))
	}
	return at
}

// TestPulse: after a rest a few begin a second apart, and then one each three seconds; the
// same after another rest. A mean below a second is the least time too.
func TestPulse(t *testing.T) {
	const s = time.Second
	for every, want := range map[time.Duration][]time.Duration{
		3 * s: {0, s, 2 * s, 3 * s, 4 * s, 6 * s, 9 * s}, s / 5: {0, s / 5, 2 * s / 5, 3 * s / 5, 4 * s / 5, s},
	} {
		p := &Pace{Every: every}
		from := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
		for range 2 {
			if got := begin(p, from, len(want)); !slices.Equal(got, want) {
				t.Errorf("%s: they begin after %v, not %v", every, got, want)
			}
			from = from.Add(time.Minute)
		}
	}
}

// TestPace: whenever it is called, no two begin closer than a second, and in no time begin
// more than the mean allows and the few of a burst.
func TestPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.IntRange(1000, 60_000).Draw(t, "every")) * time.Millisecond
		p := &Pace{Every: every}
		now := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
		began := []time.Time{now}
		for _, rest := range rapid.SliceOfN(rapid.IntRange(0, 200_000), 1, 60).Draw(t, "rests") {
			now = now.Add(time.Duration(rest) * time.Millisecond)
			now = now.Add(p.Wait(now, began[len(began)-1]))
			p.Began(now)
			began = append(began, now)
		}
		for i := range began {
			for j := i + 1; j < len(began); j++ {
				between := began[j].Sub(began[i])
				if between < MinTickSpacing {
					t.Fatalf("%s between two", between)
				}
				if least := time.Duration(j-i-4) * every; between < least {
					t.Fatalf("%d in %s", j-i, between)
				}
			}
		}
	})
}
