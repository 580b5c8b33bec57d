package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAgentKnownByItsName: an agent that came between the reading of agents and
// that of jobs, and whose tags the job does not tell, is known by its name. It
// counts against max like any other.
func TestAgentKnownByItsName(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	overlays := []Overlay{{Name: "default", Policy: Policy{Queue: "default", Max: 1, Lease: lease},
		Dispatches: []Dispatch{{ID: "default-0000000a", Agents: 1, At: now.Add(-time.Minute), NotAfter: now.Add(lease)}}}}
	s := Snapshot{At: now, Sightings: []Sighting{{Agent: "a", Name: "default-0000000a-0", Running: true}},
		Jobs: []Job{{ID: "j", Rules: []string{"queue=default"}, State: JobPending, Since: now}}}
	d := drawn{overlays: overlays, snapshot: s}.decide()[0]
	if d.Figures.Current != 1 || d.Figures.Busy != 1 || d.Figures.InFlight != 0 || d.Figures.Dispatch != 0 {
		t.Errorf("%+v, want one busy agent and no room", d.Figures)
	}
}

// TestNothingIsJudgedUnread: the orders of an overlay that cannot be read are not
// retired, so they do not open its circuit breaker either: what it has in flight
// counts on, as it does after them.
func TestNothingIsJudgedUnread(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		suspended Suspension
		sent      int
	}{
		"read":           {Suspension{}, 7},
		"cannot be read": {Suspension{Code: Invalid}, 2},
	} {
		policy := Policy{Queue: "default", Max: 10, Lease: lease}
		a, b := Overlay{Name: "a", Policy: policy, Suspended: c.suspended}, Overlay{Name: "b", Policy: policy}
		for i, id := range []string{"a-0000000a", "a-0000000b", "a-0000000c"} { // nobody came
			at := now.Add(time.Duration(i)*time.Minute - time.Hour)
			a.Dispatches = append(a.Dispatches, Dispatch{ID: id, Agents: 1, At: at, NotAfter: at.Add(lease)})
		}
		a.Dispatches = append(a.Dispatches, Dispatch{ID: "a-0000000d", Agents: 5, At: now.Add(-time.Minute), NotAfter: now.Add(lease)})
		s := Snapshot{At: now}
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			s.Jobs = append(s.Jobs, Job{ID: id, Rules: []string{"queue=default"}, State: JobPending, Since: now})
		}
		overlays := []Overlay{a, b}
		if got := Decide("c0ffee", overlays, Observe(overlays, s, &Registrations{})[0]); got[1].Figures.Dispatch != c.sent {
			t.Errorf("%s: the other overlay orders %d, want %d", name, got[1].Figures.Dispatch, c.sent)
		}
	}
}

// TestUnservedByCluster: a queue of the same key in another cluster is another
// queue. What waits in it, and no overlay is there for, is listed with the cluster;
// what an overlay is there for, or what its queue lists as unmatched, is not.
func TestUnservedByCluster(t *testing.T) {
	queues := []Queue{{Cluster: "c1", ClusterName: "one", Key: "default"}, {Cluster: "c2", ClusterName: "two", Key: "default"},
		{Cluster: "c3", ClusterName: "three", Key: "other"}}
	in := func(cluster, queue string) Job {
		return Job{Cluster: cluster, Rules: []string{"queue=" + queue}, State: JobPending, URL: cluster + "/" + queue}
	}
	two := Unserved{Queue: "default", Cluster: "two", Jobs: 1, Example: "c2/default"}
	for name, c := range map[string]struct {
		clusters []string // one overlay of the queue default for each
		queues   []Queue
		jobs     []Job
		want     []Unserved
	}{
		"of the overlay's cluster":    {[]string{"one"}, queues, []Job{in("c1", "default")}, nil},
		"of another":                  {[]string{"one"}, queues, []Job{in("c1", "default"), in("c2", "default")}, []Unserved{two}},
		"by identifier":               {[]string{"c1"}, queues, []Job{in("c2", "default")}, []Unserved{two}},
		"of the other overlay's":      {[]string{"one", "two"}, queues, []Job{in("c1", "default"), in("c2", "default")}, nil},
		"the overlay names none":      {[]string{""}, queues[:1], []Job{in("c1", "default"), in("c2", "default")}, []Unserved{{Queue: "default", Cluster: "c2", Jobs: 1, Example: "c2/default"}}},
		"nobody knows which":          {[]string{""}, queues, []Job{in("c1", "default"), in("c2", "default")}, nil}, // it is suspended as ambiguous
		"no clusters":                 {[]string{""}, nil, []Job{in("", "default"), in("c2", "default")}, nil},
		"in none, which is unmatched": {[]string{"one"}, queues, []Job{in("", "default")}, nil},
		"of a queue that nobody is for": {
			[]string{"one"}, queues, []Job{in("c3", "other"), in("c1", "other"), in("", "other"), in("c3", "also")}, []Unserved{
				{Queue: "also", Cluster: "three", Jobs: 1, Example: "c3/also"}, {Queue: "other", Jobs: 1, Example: "/other"},
				{Queue: "other", Cluster: "one", Jobs: 1, Example: "c1/other"}, {Queue: "other", Cluster: "three", Jobs: 1, Example: "c3/other"},
			},
		},
		"of any queue":                    {[]string{"one"}, queues, []Job{in("c1", "*"), in("c2", "*")}, []Unserved{{Queue: "*", Cluster: "two", Jobs: 1, Example: "c2/*"}}},
		"several, and the first of them":  {[]string{"one"}, queues, []Job{in("c2", "default"), {Cluster: "c2", Rules: []string{"queue=default", "os=linux"}, State: JobPending, URL: "c2/a"}}, []Unserved{{Queue: "default", Cluster: "two", Jobs: 2, Example: "c2/a"}}},
		"of another, and nothing pending": {[]string{"one"}, queues, []Job{{Cluster: "c2", Rules: []string{"queue=default"}, State: JobBlocked}}, nil},
	} {
		var overlays []Overlay
		for _, cluster := range c.clusters {
			overlays = append(overlays, Overlay{Name: "o" + cluster, Policy: Policy{Queue: "default", Cluster: cluster, Max: 10}})
		}
		if diff := cmp.Diff(c.want, FindUnserved(overlays, Snapshot{Queues: c.queues, Jobs: c.jobs})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestNothingWaitsUnmatched: what no overlay can serve is reported while it is pending,
// and not while it waits for something else, or runs.
func TestNothingWaitsUnmatched(t *testing.T) {
	overlays := []Overlay{{Name: "default", Policy: Policy{Queue: "default", Max: 5}}}
	rules := []string{"queue=default", "os=mac"}
	pending := []Unmatched{{Rules: []string{"os=mac", "queue=default"}, Jobs: 1, Missing: []string{"os=mac"}}}
	for state, want := range map[JobState][]Unmatched{JobPending: pending, JobUpcoming: nil, JobLimited: nil, JobBlocked: nil} {
		got := Observe(overlays, Snapshot{Jobs: []Job{{ID: "j", Rules: rules, State: state}}}, &Registrations{})[0].Unmatched
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: (-want +got)\n%s", state, diff)
		}
	}
}

// TestJobsFor: the jobs that an overlay's agents could take, the longest pending first.
func TestJobsFor(t *testing.T) {
	at := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	overlays := []Overlay{{Name: "a", Policy: Policy{Queue: "q", Cluster: "ci", Tags: []string{"os=linux"}}}, {Name: "b", Policy: Policy{Queue: "other"}}}
	job := func(id string, after time.Duration, cluster string, state JobState, rules ...string) Job {
		return Job{ID: id, Cluster: cluster, State: state, Rules: rules, Since: at.Add(after)}
	}
	s := Snapshot{At: at, Queues: []Queue{{Cluster: "1", ClusterName: "ci", Key: "q"}, {Cluster: "2", ClusterName: "gpu", Key: "q"}}, Jobs: []Job{
		job("later", 2, "1", JobPending, "queue=q"), job("first", 1, "1", JobPending, "queue=q", "os=linux"), job("second", 1, "1", JobPending, "queue=*"),
		job("told", 0, "1", JobPending, "queue=q"), job("limited", 0, "1", JobLimited, "queue=q"), job("unmatched", 0, "1", JobPending, "queue=q", "os=plan9"),
		job("elsewhere", 0, "2", JobPending, "queue=q"), job("another", 0, "1", JobPending, "queue=other"),
	}}
	for most, want := range []string{"", "first", "first second", "first second later", "first second later"} {
		var ids []string
		for _, j := range JobsFor(overlays, s, "a", most, func(id string) bool { return id == "told" }) {
			ids = append(ids, j.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%d: %s, want %s", most, got, want)
		}
	}
}
