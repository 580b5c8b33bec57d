package plan

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestAgentsOfUnknownDispatchesTakeLittleMemory starts agents with the tags of dispatches
// that nobody ordered, and with the highest index, as anybody with an agent token can.
func TestAgentsOfUnknownDispatchesTakeLittleMemory(t *testing.T) {
	now := time.Date(2026, time.November, 21, 2, 15, 0, 0, time.UTC)
	var s Snapshot
	for i := range 9000 {
		tags := []string{"queue=default", fmt.Sprintf("dispatch=default-%08d", i), fmt.Sprintf("index=%d", MaxIndex-1)}
		s.Agents = append(s.Agents, Agent{ID: fmt.Sprint(i), Tags: tags, State: AgentBusy, Connected: now})
	}
	s.At = now
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := &Registrations{}
	for range 3 {
		r.Note(s)
		r.Reconcile(nil, now)
	}
	r.Note(s)
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 32 {
		t.Errorf("%d agents take %d MiB", len(s.Agents), used)
	}
	// Agents may be seen before the commit that ordered them.
	d := Dispatch{ID: "default-00000007", Agents: MaxIndex, At: now}
	if seen := r.Observed(d.ID); seen.Registered.String() != "99999" || seen.HadJob == 0 {
		t.Errorf("before its commit: %v", seen)
	}
	r.Reconcile([]Overlay{{Dispatches: []Dispatch{d}}}, now)
	s.Agents = []Agent{{ID: "x", Tags: []string{"dispatch=" + d.ID, "index=3"}, Connected: now}}
	r.Note(s)
	if seen := r.Observed(d.ID); seen.Registered.String() != "3,99999" || seen.HadJob != 1 {
		t.Errorf("with its commit: %v", seen)
	}
}

// TestExitedUnused: an agent that is connected after a job is not counted twice, which would hide one that exited
// without a job.
func TestExitedUnused(t *testing.T) {
	agents := func(state AgentState, indexes ...int) (all []Agent) {
		for _, i := range indexes {
			all = append(all, Agent{Tags: []string{"dispatch=" + leased.ID, fmt.Sprintf("index=%d", i)}, State: state})
		}
		return all
	}
	var r Registrations
	r.Note(Snapshot{Agents: append(agents(AgentBusy, 0, 1), agents(AgentIdle, 2, 3)...)})
	for _, c := range []struct {
		connected []int
		want      int
	}{{nil, 2}, {[]int{0, 1, 2, 3}, 0}, {[]int{1, 2}, 1}, {[]int{0, 1}, 2}, {[]int{3, 3}, 1}} {
		r.Note(Snapshot{Agents: agents(AgentIdle, c.connected...)})
		if seen := r.Observed(leased.ID); seen.HadJob != 2 || seen.ExitedUnused != c.want {
			t.Errorf("connected %v: %+v", c.connected, seen)
		}
	}
}

// TestFirstAt: when the first agent of a dispatch came is known to a process that was
// there, to the look, and to no other.
func TestFirstAt(t *testing.T) {
	start := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	order := func(after time.Duration) []Overlay {
		return []Overlay{{Name: "default", Dispatches: []Dispatch{{ID: "default-0000000a", Agents: 2, At: start.Add(after)}}}}
	}
	look := func(r *Registrations, o []Overlay, after time.Duration, indexes ...string) {
		var s Snapshot
		for _, i := range indexes {
			s.Agents = append(s.Agents, Agent{Tags: []string{"dispatch=default-0000000a", "index=" + i}})
		}
		r.Note(s)
		r.Reconcile(o, start.Add(after))
	}
	for what, x := range map[string]struct {
		ordered time.Duration // after the first look
		first   bool          // the first look finds an agent
		want    time.Duration // below nothing: not known
	}{
		"ordered by this process":            {0, false, 30 * time.Second},
		"ordered by another since":           {10 * time.Second, false, 30 * time.Second},
		"met before anybody came":            {-time.Minute, false, 30 * time.Second},
		"met when the first one was there":   {-time.Minute, true, -1},
		"seen before the order's commit was": {0, true, 0},
	} {
		var r Registrations
		if x.ordered >= 0 && !x.first {
			look(&r, nil, 0)
		} else if x.first && x.ordered == 0 {
			look(&r, nil, -time.Second)
			look(&r, order(x.ordered), 0, "1")
		} else if x.first {
			look(&r, order(x.ordered), 0, "1")
		} else {
			look(&r, order(x.ordered), 0)
		}
		look(&r, order(x.ordered), 15*time.Second, map[bool][]string{true: {"1"}, false: {"7"}}[x.first]...) // 7 is not one of it
		look(&r, order(x.ordered), 30*time.Second, "1")
		look(&r, order(x.ordered), 45*time.Second, "0")
		switch got := r.Observed("default-0000000a").FirstAt; {
		case (got == nil) != (x.want < 0):
			t.Errorf("%s: %v", what, got)
		case got != nil && !got.Equal(start.Add(x.want)):
			t.Errorf("%s: after %s, want %s", what, got.Sub(start), x.want)
		}
	}
}

var (
	orderedAt = time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	leased    = Dispatch{ID: "a-00000001", Agents: 2, At: orderedAt, NotAfter: orderedAt.Add(lease)}
)

// registered is a snapshot in which agents of a dispatch are connected.
func registeredAt(id string, indexes ...string) Snapshot {
	var s Snapshot
	for _, i := range indexes {
		s.Agents = append(s.Agents, Agent{Tags: []string{"dispatch=" + id, "index=" + i}, State: AgentIdle})
	}
	return s
}

// TestRegistrations: what was seen of a dispatch is remembered while an overlay has it,
// and once more.
func TestRegistrations(t *testing.T) {
	with, without := []Overlay{{Name: "a", Dispatches: []Dispatch{leased}}}, []Overlay{{Name: "a"}}
	at := func(r *Registrations) time.Time {
		if seen := r.Observed(leased.ID).RegisteredAt; seen != nil {
			return *seen
		}
		return time.Time{}
	}
	later := orderedAt.Add(3*time.Minute + time.Millisecond)

	var met Registrations // after all have come, as after a restart
	met.Note(registeredAt(leased.ID, "0", "1", "none", ""))
	met.Reconcile(with, later)
	if got := at(&met); !got.Equal(orderedAt) {
		t.Errorf("met when all had come: settled at %s, want %s", got, orderedAt)
	}

	var known Registrations
	known.Reconcile(with, orderedAt)
	known.Note(registeredAt(leased.ID, "0"))
	known.Reconcile(with, orderedAt.Add(time.Minute))
	if got := at(&known); !got.IsZero() || known.All(leased) || !known.Missing(leased) {
		t.Errorf("one has come: settled at %s, all %t, missing %t", got, known.All(leased), known.Missing(leased))
	}
	known.Note(registeredAt(leased.ID, "1"))
	known.Reconcile(with, later)
	known.Reconcile(with, later.Add(time.Hour))
	if got := at(&known); !got.Equal(later.Truncate(time.Second)) || !known.All(leased) || !known.Missing(leased) {
		t.Errorf("both have come and none worked: settled at %s, all %t, missing %t", got, known.All(leased), known.Missing(leased))
	}
	known.Note(Snapshot{Sightings: []Sighting{{Name: leased.ID + "-1"}}})
	if known.Missing(leased) || known.Observed(leased.ID).HadJob == 0 {
		t.Error("one has worked, and something is missing")
	}
	half := leased
	half.Agents = 3
	if !known.Missing(half) || known.All(half) || !new(Registrations).Missing(leased) || new(Registrations).All(leased) {
		t.Error("a dispatch of which one has not come is not missing anything")
	}

	for _, step := range []struct {
		overlays []Overlay
		known    bool
	}{{without, true}, {with, true}, {without, true}, {without, false}} {
		known.Reconcile(step.overlays, later)
		if got := !known.Observed(leased.ID).Registered.IsZero(); got != step.known {
			t.Errorf("with %d dispatches: known %t", len(step.overlays[0].Dispatches), got)
		}
	}
	known.Note(Snapshot{Agents: []Agent{{Tags: []string{"index=1"}}}})
	if len(known.known) != 0 {
		t.Error("an agent of no dispatch is remembered")
	}
}

// TestLookback: finished builds are asked for from when the oldest dispatch was ordered
// of which something is missing, or since they were last asked for.
func TestLookback(t *testing.T) {
	older, stale := leased, leased
	older.ID, older.At = "a-00000002", orderedAt.Add(-time.Minute)
	stale.ID, stale.At, stale.NotAfter = "a-00000003", orderedAt.Add(-24*time.Hour), orderedAt.Add(-23*time.Hour)
	now := orderedAt.Add(10 * time.Minute)
	var seen Registrations
	seen.Note(Snapshot{Sightings: []Sighting{{Name: older.ID + "-0"}, {Name: older.ID + "-1"}}})
	for name, c := range map[string]struct {
		observed   []Dispatch // a minute ago; none: nothing was
		dispatches []Dispatch
		known      *Registrations
		want       time.Time
	}{
		"nothing":           {nil, nil, &Registrations{}, time.Time{}},
		"one":               {nil, []Dispatch{leased}, &Registrations{}, orderedAt.Add(-slack)},
		"the oldest first":  {nil, []Dispatch{older, leased}, &Registrations{}, older.At.Add(-slack)},
		"the oldest last":   {nil, []Dispatch{leased, older}, &Registrations{}, older.At.Add(-slack)},
		"all is known":      {nil, []Dispatch{older}, &seen, time.Time{}},
		"of one":            {nil, []Dispatch{older, leased}, &seen, orderedAt.Add(-slack)},
		"too long ago":      {nil, []Dispatch{stale, leased}, &Registrations{}, orderedAt.Add(-slack)},
		"asked before":      {[]Dispatch{leased}, []Dispatch{leased}, &Registrations{}, now.Add(-time.Minute - slack)},
		"asked for another": {[]Dispatch{older}, []Dispatch{leased}, &Registrations{}, orderedAt.Add(-slack)},
	} {
		var l Lookback
		if c.observed != nil {
			l.Observed(now.Add(-time.Hour), []Overlay{{Dispatches: []Dispatch{leased}}}) // and forgotten
			l.Observed(now.Add(-time.Minute), []Overlay{{Dispatches: c.observed}})
		}
		if got := l.Since(now, []Overlay{{Dispatches: c.dispatches}}, c.known); !got.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", name, got, c.want)
		}
	}
	var l Lookback // asked before it was ordered
	l.Observed(orderedAt.Add(-time.Hour), []Overlay{{Dispatches: []Dispatch{leased}}})
	if got := l.Since(now, []Overlay{{Dispatches: []Dispatch{leased}}}, &Registrations{}); !got.Equal(orderedAt.Add(-slack)) {
		t.Errorf("asked before it was ordered: since %s", got)
	}
}

// TestOwners: an agent is known by its overlay's identifier, by its name if it has none, or by its
// dispatch.
func TestOwners(t *testing.T) {
	owners := NewOwners([]Overlay{
		{Name: "Big/Linux", Identity: Identity{ID: "f"}, Dispatches: []Dispatch{leased}}, {Name: "b", Identity: Identity{ID: "g"}},
		{Name: "copy", Identity: Identity{ID: "h", CopiedFrom: "f"}, Dispatches: []Dispatch{{ID: leased.ID, Tags: []string{"muster=f"}}}},
	})
	slug := Slug("Big/Linux")
	for name, c := range map[string]struct {
		seen              Sighting
		overlay, dispatch string
	}{
		"its tag":           {Sighting{Tags: []string{"overlay=" + slug, "dispatch=x-1"}}, "Big/Linux", "x-1"},
		"a former name":     {Sighting{Tags: []string{"overlay=was", "muster=f", "dispatch=x-1"}}, "Big/Linux", "x-1"},
		"another's name":    {Sighting{Tags: []string{"overlay=b", "muster=f"}}, "Big/Linux", ""},
		"another muster":    {Sighting{Tags: []string{"overlay=b", "muster=x", "dispatch=x-1"}}, "", ""},
		"a former identity": {Sighting{Tags: []string{"overlay=b", "muster=x", "dispatch=" + leased.ID}}, "Big/Linux", leased.ID},
		"nobody's tag":      {Sighting{Tags: []string{"overlay=c", "dispatch=" + leased.ID}}, "", ""},
		"its name":          {Sighting{Name: leased.ID + "-7"}, "Big/Linux", leased.ID},
		"its name, unknown": {Sighting{Name: "x-1-7"}, "", ""},
		"tags and a name":   {Sighting{Name: leased.ID + "-7", Tags: []string{"queue=q"}}, "", ""},
		"a dash":            {Sighting{Name: "-7"}, "", ""},
		"nothing":           {Sighting{}, "", ""},
	} {
		if overlay, dispatch := owners.Of(c.seen); overlay != c.overlay || dispatch != c.dispatch {
			t.Errorf("%s: %q, %q, want %q, %q", name, overlay, dispatch, c.overlay, c.dispatch)
		}
	}
	if tags := (Sighting{Name: "-7"}).tags(); tags != nil {
		t.Errorf("a name that is a dash and a number has the tags %v", tags)
	}
}

// TestStateEqual: two states that say the same are equal, and no others.
func TestStateEqual(t *testing.T) {
	one := func() State {
		return State{Breaker: Breaker{Failures: 1}, LookedAhead: orderedAt, Ordered: []Ordered{{orderedAt, 1}, {orderedAt, 2}}, AheadOf: []AheadOf{{"s", 1, orderedAt}}}
	}
	for name, change := range map[string]func(*State){
		"breaker": func(s *State) { s.Breaker.Failures++ }, "look-ahead": func(s *State) { s.LookedAhead = orderedAt.Add(1) },
		"agents": func(s *State) { s.Ordered[1].Agents++ }, "time": func(s *State) { s.Ordered[1].At = orderedAt.Add(1) }, "in part": func(s *State) { s.Partial.Agents++ }, "until": func(s *State) { s.Partial.Until = orderedAt },
		"stage": func(s *State) { s.AheadOf[0].Agents++ },
		"fewer": func(s *State) { s.Ordered = s.Ordered[:1] },
	} {
		other := one()
		change(&other)
		if one().Equal(other) {
			t.Errorf("%s: they are equal", name)
		}
	}
	otherOverlays := one()
	otherOverlays.LookedAhead = orderedAt.In(time.FixedZone("", 3600))
	if !one().Equal(otherOverlays) {
		t.Error("the same in another zone is not equal")
	}
}

// TestSuspensions: somebody asked for a pause, and each reason says what is to be known.
func TestSuspensions(t *testing.T) {
	for _, c := range []struct {
		s      Suspension
		wanted bool
		says   string
	}{
		{Suspension{}, false, "not suspended"},
		{Suspension{Code: Paused}, true, "spec.paused is true"},
		{Suspension{Code: PausedInBuildkite, Queue: "q"}, true, `queue "q"`},
		{Suspension{Code: Invalid, Finding: "a\nb"}, false, "invalid: a | b"},
		{Suspension{Code: BreakerOpen}, false, "is unknown"},
		{Suspension{Code: BreakerOpen, NextTrial: new(orderedAt)}, false, "next trial at 2026-11-21T02:15:00Z"},
		{Suspension{Code: UnknownCluster, Cluster: "c"}, false, `no cluster "c"`},
		{Suspension{Code: UnknownQueue, Queue: "q"}, false, `no cluster has a queue "q"`},
		{Suspension{Code: UnknownQueue, Queue: "q", Cluster: "c"}, false, `cluster "c" has no queue "q"`},
		{Suspension{Code: AmbiguousQueue, Queue: "q", Cluster: "ci, other"}, false, `several clusters have a queue "q": "ci", "other"; set spec.cluster to one of them`},
		{Suspension{Code: AgentsCannotWork}, false, "agents cannot work: "},
	} {
		if got := c.s.String(); c.s.Wanted() != c.wanted || !strings.Contains(got, c.says) {
			t.Errorf("%+v: wanted %t: %s", c.s, c.s.Wanted(), got)
		}
	}
}
