package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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

// TestAgentsThatStay: an agent that takes more than one job is idle at once when it has
// had one, until its uptime is over; its own, whatever the policy says by now.
func TestAgentsThatStay(t *testing.T) {
	const uptime = 30 * time.Minute
	stays := []string{"queue=default", "dispatch=a-1", "index=0", "muster-uptime=1800"}
	for _, c := range []struct {
		name      string
		tags      []string
		state     AgentState
		connected time.Duration // before the look; zero: not known
		want      AgentState
	}{
		{"had a job", stays, AgentIdle, time.Minute, AgentIdle},
		{"its uptime is over", stays, AgentIdle, uptime, AgentStopping},
		{"a second less", stays, AgentIdle, uptime - time.Second, AgentIdle},
		{"it works beyond its uptime", stays, AgentBusy, uptime, AgentBusy},
		{"nobody knows since when it is there", stays, AgentIdle, 0, AgentIdle},
		{"told nonsense", []string{"dispatch=a-1", "muster-uptime=soon"}, AgentIdle, time.Minute, AgentStopping},
		{"told nothing", stays[:3], AgentIdle, uptime, AgentStopping},
	} {
		a := Agent{ID: "x", Tags: c.tags, State: c.state, LastJobFinished: orderedAt.Add(-time.Second)}
		if c.connected > 0 {
			a.Connected = orderedAt.Add(-c.connected)
		}
		if got := asOfJobs(Snapshot{At: orderedAt, Agents: []Agent{a}}, nil); len(got) != 1 || got[0].State != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
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
	if got := reusable(overlays); !got["a-1"] || got["a-2"] {
		t.Errorf("staying are %v", got)
	}
}

// TestFindUnserved: the queues with pending jobs that no overlay serves, with how many
// and the first of them.
func TestFindUnserved(t *testing.T) {
	job := func(queue, url string, state JobState, more ...string) Job {
		return Job{ID: url, Rules: append([]string{"queue=" + queue}, more...), State: state, URL: url, Since: orderedAt}
	}
	s := Snapshot{At: orderedAt, Jobs: []Job{
		job("served", "s1", JobPending), job("served", "s2", JobPending, "os=none"), job("z", "z2", JobPending), job("z", "z1", JobPending, "os=linux"), job("z", "z3", JobUpcoming),
		job("b", "b1", JobPending), job("later", "l1", JobUpcoming), job("*", "any", JobPending), job("*", "none", JobPending, "os=none"),
	}}
	got := FindUnserved([]Overlay{{Name: "a", Policy: Policy{Queue: "served"}}}, s)
	want := []Unserved{{Queue: "*", Jobs: 1, Example: "none"}, {Queue: "b", Jobs: 1, Example: "b1"}, {Queue: "z", Jobs: 2, Example: "z1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestJobsOfAClusterWithoutTheQueueAreUnserved asserts that jobs of a cluster get no
// agent, and are reported, if only agents in no cluster have the queue that they ask for.
func TestJobsOfAClusterWithoutTheQueueAreUnserved(t *testing.T) {
	overlays := []Overlay{{Name: "a", Policy: Policy{Queue: "default", Max: 5}}}
	rules := []string{"queue=default"}
	s := Snapshot{At: orderedAt, Queues: []Queue{{Cluster: "c1", ClusterName: "ci", Key: "other"}},
		Agents: []Agent{{ID: "x", Tags: rules, State: AgentBusy}},
		Jobs:   []Job{{ID: "1", Rules: rules, Cluster: "c1", State: JobPending, URL: "u1", Since: orderedAt}, {ID: "2", Rules: rules, State: JobPending, Since: orderedAt}}}
	if pending, _ := Observe(overlays, s, &Registrations{})[0].Count("a"); pending != 1 {
		t.Errorf("%d jobs are pending, want that in no cluster", pending)
	}
	want := []Unserved{{Queue: "default", Cluster: "ci", Jobs: 1, Example: "u1"}}
	if diff := cmp.Diff(want, FindUnserved(overlays, s)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
