package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCameAndHadAJob: an agent that came while a long look went on, and has had its job
// by its end, is connected for a while, and counts against max.
func TestCameAndHadAJob(t *testing.T) {
	tags := []string{"queue=default", "dispatch=a-1", "index=4"}
	for _, c := range []struct {
		name    string
		tags    []string
		started time.Duration // after the agents were read
		took    time.Duration // the whole look
		counts  bool
	}{
		{"in between", tags, 10 * time.Second, time.Minute, true},
		{"before the agents were read", tags, 0, time.Minute, false},
		{"long before the end", tags, time.Second, longestLinger + time.Second, false},
		{"nobody's", tags[:1], 10 * time.Second, time.Minute, false},
	} {
		s := Snapshot{At: orderedAt, Until: orderedAt.Add(c.took), Sightings: []Sighting{{Agent: "x", Tags: c.tags, Started: orderedAt.Add(c.started)}}}
		all := asOfJobs(s, nil)
		if counts := len(all) == 1 && all[0].State == AgentStopping; counts != c.counts || len(all) > 1 {
			t.Errorf("%s: %+v, want %t", c.name, all, c.counts)
		}
	}
}

// TestCameAndStays: an agent that came while a long look went on, and has had a job by
// its end, waits for another for as long as nobody sees that it has left.
func TestCameAndStays(t *testing.T) {
	tags := []string{"queue=default", "dispatch=a-1", "index=4", "muster-uptime=1800"}
	for _, c := range []struct {
		name    string
		g       Sighting
		staying bool // of a dispatch in git whose agents stay
		want    AgentState
	}{
		{"idle", Sighting{Tags: tags}, true, AgentIdle},
		{"idle, and its dispatch has gone", Sighting{Tags: tags}, false, AgentIdle},
		{"known by its name", Sighting{Name: "a-1-4"}, true, AgentStopping},
		{"known by its name, for one job", Sighting{Name: "a-1-4"}, false, ""},
		{"running", Sighting{Name: "a-1-4", Running: true}, true, AgentBusy},
	} {
		c.g.Agent, c.g.Started = "x", orderedAt.Add(time.Second)
		s := Snapshot{At: orderedAt, Until: orderedAt.Add(10 * time.Minute), Sightings: []Sighting{c.g}}
		var got AgentState
		for _, a := range asOfJobs(s, map[string]bool{"a-1": c.staying}) {
			got = a.State
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	overlays := []Overlay{{Dispatches: []Dispatch{{ID: "a-1", Uptime: time.Minute}, {ID: "a-2"}}}}
	if got := reusableDispatches(overlays); !got["a-1"] || got["a-2"] {
		t.Errorf("staying are %v", got)
	}
}

// TestAsOfJobs: agents are what they were when the jobs were read.
func TestAsOfJobs(t *testing.T) {
	dispatched := []string{"dispatch=a-1", "index=0"}
	s := Snapshot{At: orderedAt,
		Agents: []Agent{
			{ID: "idle", State: AgentIdle}, {ID: "took a job", State: AgentIdle}, {ID: "had a job", State: AgentIdle}, {ID: "stopping", State: AgentStopping},
			{ID: "leaves", State: AgentIdle, Tags: dispatched, LastJobFinished: orderedAt.Add(-longestLinger + time.Second)},
			{ID: "stayed", State: AgentIdle, Tags: dispatched, LastJobFinished: orderedAt.Add(-longestLinger)},
			{ID: "new", State: AgentIdle, Tags: dispatched},
			{ID: "nobody's", State: AgentIdle, LastJobFinished: orderedAt.Add(-time.Second)},
		},
		Sightings: []Sighting{
			{Agent: "took a job", Running: true}, {Agent: "stopping", Running: true}, {Agent: "had a job"}, {Agent: "came", Name: "a-1-3", Running: true},
			{Agent: "came", Name: "a-1-3", Running: true}, {Agent: "came and left", Name: "a-1-4"},
		}}
	list := func(s Snapshot) (all []string) {
		for _, a := range asOfJobs(s, nil) {
			all = append(all, fmt.Sprintf("%s: %v %s", a.ID, a.State, a.Cluster))
		}
		return all
	}
	want := []string{
		fmt.Sprintf("idle: %v -", AgentIdle), fmt.Sprintf("took a job: %v -", AgentBusy), fmt.Sprintf("had a job: %v -", AgentIdle), fmt.Sprintf("stopping: %v -", AgentStopping),
		fmt.Sprintf("leaves: %v -", AgentStopping), fmt.Sprintf("stayed: %v -", AgentIdle), fmt.Sprintf("new: %v -", AgentIdle), fmt.Sprintf("nobody's: %v -", AgentIdle), fmt.Sprintf("came: %v ", AgentBusy),
	}
	if diff := cmp.Diff(want, list(s)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	clustered := Snapshot{At: orderedAt, Agents: []Agent{{ID: "a", State: AgentIdle, Cluster: "x"}, {ID: "b", State: AgentIdle}}}
	if diff := cmp.Diff([]string{fmt.Sprintf("a: %v x", AgentIdle), fmt.Sprintf("b: %v -", AgentIdle)}, list(clustered)); diff != "" {
		t.Errorf("in clusters (-want +got)\n%s", diff)
	}
}
