package buildkite_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// large is an organisation with many agents, few of which are in the queue default, and
// counts the requests for agents.
type large struct {
	*fakebuildkite.Server
	t          *testing.T
	ci, other  string // clusters
	client     *serving
	whole, few int // requests for agents since the last poll: for all, and by queue
}

func newLarge(t *testing.T, agents, served int, opts fakebuildkite.Options) *large {
	t.Helper()
	l := &large{t: t}
	opts.Token, opts.Now = secret, now
	opts.BeforeRequest = func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/agents") {
			l.whole++
			if r.URL.Query().Has("cluster_queue_id") {
				l.whole--
				l.few++
			}
		}
	}
	l.Server = fakebuildkite.New(opts)
	l.ci, l.other = l.AddCluster("ci"), l.AddCluster("other")
	l.AddQueue(l.ci, "default")
	l.AddQueue(l.ci, "mac")
	l.AddQueue(l.other, "large")
	for i := range agents {
		cluster, queue := l.other, "large"
		if i < served {
			cluster, queue = l.ci, "default"
		}
		l.connect(cluster, "queue="+queue)
	}
	l.client = &serving{newClient(t, buildkite.Config{HTTP: l.Transport()}), ofQueues("default")}
	return l
}

func (l *large) connect(cluster string, tags ...string) string {
	l.t.Helper()
	return connect(l.t, l.Server, fakebuildkite.Agent{Cluster: cluster, Tags: tags})
}

// poll reads Buildkite, and returns the number of requests for all agents and by queue,
// and the agents.
func (l *large) poll() (whole, few int, ids []string) {
	l.t.Helper()
	l.whole, l.few = 0, 0
	for _, a := range observe(l.t, l.client, l.Now(), time.Time{}).Agents {
		ids = append(ids, a.ID)
	}
	l.Advance(15 * time.Second)
	return l.whole, l.few, ids
}

// want polls until an agent is listed, or is no longer listed, and fails after some polls.
func (l *large) want(id string, seen bool, polls int) {
	l.t.Helper()
	for range polls {
		if _, _, ids := l.poll(); slices.Contains(ids, id) == seen {
			return
		}
	}
	l.t.Errorf("after %d polls the agent %s is seen: %v", polls, id, !seen)
}

// TestAgentsAreListedByQueue asserts that of 5,000 agents, 50 of them in a served queue,
// the first poll reads a page of all and then, like later polls, these 50 and another page. With a
// server that ignores the filter it takes one request more, once, and lists all.
func TestAgentsAreListedByQueue(t *testing.T) {
	l := newLarge(t, 5000, 50, fakebuildkite.Options{})
	whole, few, ids := l.poll()
	if whole != 2 || few != 1 || len(ids) != 50 {
		t.Errorf("the first poll: %d and %d requests, %d agents", whole, few, len(ids))
	}
	for range 3 {
		if whole, few, ids := l.poll(); whole != 1 || few != 1 || len(ids) != 50 {
			t.Errorf("%d requests of all, %d by queue, %d agents, want 1, 1 and 50", whole, few, len(ids))
		}
	}
	l = newLarge(t, 400, 50, fakebuildkite.Options{NoAgentFilter: true})
	for poll, want := range []int{1, 0, 0} {
		if whole, few, ids := l.poll(); whole != 5+want || few != want || len(ids) != 400 {
			t.Errorf("without the filter, poll %d: %d and %d requests, %d agents", poll, whole, few, len(ids))
		}
	}
	l = newLarge(t, 400, 50, fakebuildkite.Options{})
	l.poll()
	l.Fail(fakebuildkite.Fault{Path: "cluster_queue_id", Status: http.StatusUnprocessableEntity, Times: -1})
	for poll, want := range []int{1, 0} {
		if whole, few, ids := l.poll(); whole != 5 || few != want || len(ids) != 400 {
			t.Errorf("with the filter refused, poll %d: %d and %d requests, %d agents", poll, whole, few, len(ids))
		}
	}
}

// TestFewAgentsAreListedWhole asserts that all agents are listed if that takes no more
// requests.
func TestFewAgentsAreListedWhole(t *testing.T) {
	for agents, want := range map[int]int{50: 1, 190: 2, 390: 1} {
		l := newLarge(t, agents, 5, fakebuildkite.Options{})
		l.poll()
		if whole, few, _ := l.poll(); whole != want || few != 0 != (agents > 200) {
			t.Errorf("%d agents: %d requests of all and %d by queue", agents, whole, few)
		}
	}
}

// TestAgentsOfOverlaysAreSeenInOtherQueues asserts that an agent of an overlay that
// registers in a queue that is not served is noticed within as many polls as the list of
// all agents has pages, and is then listed in every poll until it disconnects.
func TestAgentsOfOverlaysAreSeenInOtherQueues(t *testing.T) {
	for _, where := range []string{"a queue", "a queue, by its name", "no cluster"} {
		l := newLarge(t, 600, 10, fakebuildkite.Options{})
		l.client.overlays = []plan.Overlay{{Name: "own", Policy: plan.Policy{Queue: "default"}, Dispatches: []plan.Dispatch{{ID: "d"}}}}
		l.poll()
		l.connect(l.ci, "queue=mac", "dispatch=of-another")
		for i := range 6 { // its page moves on, and was read
			l.poll()
			l.connect(l.other, "queue=large", fmt.Sprint("n=", i))
		}
		cluster, tag := l.ci, "dispatch=d"
		if where == "no cluster" {
			cluster, tag = "", "overlay=own"
		}
		agent := fakebuildkite.Agent{Cluster: cluster, Tags: []string{"queue=mac", tag}}
		if where == "a queue, by its name" {
			agent.Tags, agent.Name = []string{"queue=mac"}, "own-0123abcd-7"
		}
		id := connect(l.t, l.Server, agent)
		l.want(id, true, 7)
		for range 10 {
			whole, few, ids := l.poll()
			if !slices.Contains(ids, id) || where != "no cluster" && (whole != 1 || few != 2) || where == "no cluster" && (whole != 7 || few != 0) {
				t.Errorf("%s: seen %v, with %d requests of all and %d by queue", where, slices.Contains(ids, id), whole, few)
			}
		}
		l.StopAgent(id)
		l.want(id, false, 2)
		l.poll()
		if whole, few, _ := l.poll(); whole != 1 || few != 1 {
			t.Errorf("%s: when it has left: %d requests of all and %d by queue", where, whole, few)
		}
	}
}

// TestAgentsWithoutTags asserts that an agent without the tags of its order gets them from its name, in
// its queue, in the default queue and in another cluster, unless it is that of another muster.
func TestAgentsWithoutTags(t *testing.T) {
	const own = "overlay=own dispatch=own-0123abcd index=7"
	for _, c := range []struct {
		name, queue string
		tags        []string
		want        string
	}{
		{"own-0123abcd-7", "default", []string{"queue=default"}, own},
		{"own-0123abcd-7", "mac", []string{"queue=mac"}, own},
		{"own-0123abcd-7", "default", nil, own},
		{"own-0123abcd-7", "default", []string{"overlay=own", "muster=abc"}, "overlay=own muster=abc " + own},
		{"own-warm-0123abcd-7", "default", nil, "overlay=own dispatch=own-warm-0123abcd index=7"},
		{"own-0123abcd-7", "default", []string{"muster=other"}, "muster=other"},
		{"own-0123abcd-7", "default", []string{"overlay=other"}, "overlay=other"},
		{"own-0123abcd-7", "default", []string{"dispatch=other"}, "dispatch=other"},
		{"other-0123abcd-7", "default", nil, ""},
		{"own-0123abcd-07", "default", nil, ""},
		{"own-0123abcd-", "default", nil, ""},
		{"own-0123abci-7", "default", nil, ""},
		{"own-123abcd-7", "default", nil, ""},
		{"-0123abcd-7", "default", nil, ""},
		{"own0123abcd-7", "default", nil, ""},
	} {
		l := newLarge(t, 3, 1, fakebuildkite.Options{})
		l.SetDefaultQueue(l.ci, "default")
		l.client.overlays = []plan.Overlay{{Name: "own", Identity: plan.Identity{ID: "abc"}, Policy: plan.Policy{Queue: "default"}}}
		id := connect(t, l.Server, fakebuildkite.Agent{Cluster: l.ci, Name: c.name, Tags: c.tags})
		var got []string
		for _, a := range observe(t, l.client, l.Now(), time.Time{}).Agents {
			if a.ID == id {
				got = slices.DeleteFunc(slices.Clone(a.Tags), func(tag string) bool { return tag == "queue="+c.queue })
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s %q: %q, want %q", c.name, c.tags, text, c.want)
		}
	}
}

// TestUnseenDispatchesHaveAllAgentsListed asserts that all agents are listed once when a
// dispatch is three minutes old and none of its agents was listed. So an agent that waits
// in a wrong queue is noticed before it disconnects.
func TestUnseenDispatchesHaveAllAgentsListed(t *testing.T) {
	for _, queue := range []string{"mac", "default", ""} {
		l := newLarge(t, 2200, 10, fakebuildkite.Options{})
		l.poll()
		d := plan.Dispatch{ID: "d", Agents: 1, At: l.Now(), NotAfter: l.Now().Add(time.Hour)}
		l.client.overlays = []plan.Overlay{{Name: "own", Policy: plan.Policy{Queue: "default"}, Dispatches: []plan.Dispatch{d}}}
		l.poll()
		id := ""
		if queue != "" {
			id = l.connect(l.ci, "queue="+queue, "dispatch=d", "index=0")
		}
		var all []time.Duration
		seen := false
		for age := l.Now().Sub(d.At); age < 5*time.Minute; age = l.Now().Sub(d.At) {
			whole, _, ids := l.poll()
			if whole > 1 {
				all = append(all, age)
			}
			seen = seen || id != "" && slices.Contains(ids, id)
		}
		want := "[3m0s]"
		if queue == "default" {
			want = "[]"
		}
		if fmt.Sprint(all) != want || seen != (id != "") {
			t.Errorf("queue %q: all agents are listed after %v, want %s; seen %v", queue, all, want, seen)
		}
	}
}

// TestServedQueuesChange asserts that after a change of the served queues the next poll
// lists the agents of the new and of the former ones. A queue in no cluster makes every
// poll list all agents.
func TestServedQueuesChange(t *testing.T) {
	l := newLarge(t, 400, 10, fakebuildkite.Options{})
	mac := l.connect(l.ci, "queue=mac")
	l.poll()
	l.want(mac, false, 1)
	l.client.overlays = ofQueues("mac")
	if whole, few, ids := l.poll(); whole != 5 || few != 0 || len(ids) != 401 {
		t.Errorf("%d requests of all, %d by queue, %d agents", whole, few, len(ids))
	}
	if whole, few, ids := l.poll(); whole != 1 || few != 1 || len(ids) != 1 || ids[0] != mac {
		t.Errorf("%d requests of all, %d by queue, agents %v", whole, few, ids)
	}
	l.client.overlays = ofQueues("mac", "nowhere")
	for range 3 {
		if whole, few, ids := l.poll(); whole != 5 || few != 0 || len(ids) != 401 {
			t.Errorf("a queue in no cluster: %d requests of all, %d by queue, %d agents", whole, few, len(ids))
		}
	}
	// A deleted queue is no error.
	l.client.overlays = ofQueues("mac")
	l.poll()
	l.Fail(fakebuildkite.Fault{Path: "cluster_queue_id", Status: http.StatusNotFound})
	if whole, few, ids := l.poll(); whole != 5 || few != 1 || len(ids) != 401 {
		t.Errorf("a queue that is gone: %d requests of all, %d by queue, %d agents", whole, few, len(ids))
	}
	if whole, few, _ := l.poll(); whole != 1 || few != 1 {
		t.Errorf("after that: %d requests of all, %d by queue", whole, few)
	}
}

// TestServedQueuesChangeDuringAPoll asserts that a poll that takes several calls restarts
// when the served queues change meanwhile.
func TestServedQueuesChangeDuringAPoll(t *testing.T) {
	l := newLarge(t, 400, 10, fakebuildkite.Options{})
	mac := l.connect(l.ci, "queue=mac")
	l.poll()
	l.Fail(fakebuildkite.Fault{Path: "/builds", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"5"}}})
	if _, err := l.client.Snapshot(t.Context(), plan.Query{At: l.Now()}); err == nil {
		t.Fatal("the poll is not refused")
	}
	l.Advance(10 * time.Second)
	l.client.overlays = ofQueues("mac")
	l.want(mac, true, 1)
}

// TestFirstPollOfLargeOrganisation asserts that the first poll needs one call although all agents
// would take more requests than Buildkite's limit allows at once, and that it lists all agents if one
// may be in a former queue of an overlay, or if a dispatch is three minutes old and none of its agents
// is in its queue.
func TestFirstPollOfLargeOrganisation(t *testing.T) {
	order := func(l *large, age time.Duration, queue string) {
		l.client.overlays = []plan.Overlay{{Name: "own", Policy: plan.Policy{Queue: "default"}, Dispatches: []plan.Dispatch{{
			ID: "d", Agents: 2, At: l.Now().Add(-age), NotAfter: l.Now().Add(time.Hour), Tags: []string{"queue=" + queue},
		}}}}
	}
	l := newLarge(t, 2503, 3, fakebuildkite.Options{UserLimit: 50})
	l.poll()
	for _, c := range []struct {
		age           time.Duration
		queue         string
		seen          bool
		first, second int // requests for all agents
	}{
		{time.Minute, "default", false, 2, 1},
		{5 * time.Minute, "default", true, 2, 1},
		{5 * time.Minute, "default", false, 19, 1},
		{time.Minute, "mac", false, 18, 1},
	} {
		l := newLarge(t, 1203, 3, fakebuildkite.Options{})
		if order(l, c.age, c.queue); c.seen {
			l.connect(l.ci, "queue=default", "dispatch=d", "index=0")
		}
		stray := l.connect(l.other, "queue=large", "dispatch=d", "index=1")
		for range 350 {
			l.connect(l.other, "queue=large")
		}
		first, _, before := l.poll()
		second, _, ids := l.poll()
		if first != c.first || second != c.second {
			t.Errorf("%+v: %d and %d requests for all agents", c, first, second)
		}
		if all := first > 2 || second > 2; slices.Contains(append(before, ids...), stray) != all {
			t.Errorf("%+v: the agent in another queue is listed: %t", c, !all)
		}
	}
}

// TestFirstPollContinues asserts that a first poll which is interrupted between two requests for
// agents, clusters and queues continues there.
func TestFirstPollContinues(t *testing.T) {
	for _, path := range []string{"/clusters?", "/queues?", "cluster_queue_id", "agents?page=2"} {
		for skip := range 2 {
			l := newLarge(t, 1203, 3, fakebuildkite.Options{})
			l.Fail(fakebuildkite.Fault{Path: path, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"5"}}, Skip: skip})
			_, err := l.client.Snapshot(t.Context(), plan.Query{At: l.Now()})
			if l.Advance(10 * time.Second); err != nil {
				observe(t, l.client, l.Now(), time.Time{})
			} else if skip == 0 {
				t.Errorf("%s: the poll is not interrupted", path)
			}
			extra := 0
			if path == "agents?page=2" && skip == 0 {
				extra = 1
			}
			if l.whole != 2+extra || l.few > 2 {
				t.Errorf("%s, %d: %d requests for all agents and %d by queue", path, skip, l.whole, l.few)
			}
		}
	}
}
