package fakebuildkite_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// TestStart: an agent that Buildkite refuses, or whose answers get lost, tries again. It comes when its
// lease is over if no hook, which believes the pod's clock, keeps it from that; and one agent connects,
// however many are registered.
func TestStart(t *testing.T) {
	const s = time.Second
	leaseOver, unavailable := fakebuildkite.ErrLeaseOver, fakebuildkite.ErrUnavailable
	for _, test := range []struct {
		name          string
		refused, lost time.Duration // from the start
		notAfter      time.Duration // zero: no hook
		skew          time.Duration
		want          error
		at            time.Duration
	}{
		{name: "at once", notAfter: time.Minute},
		{name: "at the second try", refused: 5 * s, notAfter: time.Minute, at: 10 * s},
		{name: "at the last try, no hook", refused: 290 * s, at: 290 * s},
		{name: "at the last try, after the lease", refused: 290 * s, notAfter: 289 * s, want: leaseOver, at: 290 * s},
		{name: "in the last second of the lease", refused: 290 * s, notAfter: 290 * s, at: 290 * s},
		{name: "gives up", refused: time.Hour, want: unavailable, at: 290 * s},
		{name: "the clock is slow", refused: 5 * s, notAfter: 5 * s, skew: -10 * s, at: 10 * s},
		{name: "answers lost", lost: 25 * s, notAfter: 30 * s, at: 30 * s},
		{name: "answers lost, after the lease", lost: time.Minute, notAfter: 30 * s, want: leaseOver, at: 60 * s},
		{name: "answers lost, gives up", lost: time.Hour, notAfter: 30 * s, want: unavailable, at: 290 * s},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newServer()
			b.RefuseAgents(start, start.Add(test.refused))
			b.LoseAnswers(start, start.Add(test.lost))
			var notAfter, at time.Time
			if test.notAfter > 0 {
				notAfter = start.Add(test.notAfter)
			}
			var id string
			err := errors.New("never called")
			b.Start(fakebuildkite.Start{Agent: agent{}, NotAfter: notAfter, Skew: test.skew, Done: func(got string, why error) {
				id, err, at = got, why, b.Now()
			}})
			b.Advance(time.Hour)
			if !errors.Is(err, test.want) || at.Sub(start) != test.at {
				t.Errorf("%v after %s, want %v after %s", err, at.Sub(start), test.want, test.at)
			}
			if connected := len(b.Agents()) == 1; connected != (test.want == nil) || connected != (id != "") {
				t.Errorf("agents %v, identifier %q", b.Agents(), id)
			}
		})
	}
}

// TestStopWhileStarting: SIGTERM while an agent registers ends it.
func TestStopWhileStarting(t *testing.T) {
	s := newServer()
	s.RefuseAgents(s.Now(), s.Now().Add(time.Minute))
	stop := s.Start(fakebuildkite.Start{Done: func(string, error) { t.Error("the start came to an end") }})
	s.Advance(30 * time.Second)
	stop()
	s.Advance(time.Hour)
	if len(s.Agents()) != 0 {
		t.Errorf("agents %v", s.Agents())
	}
}

// TestRegistered: an agent that has not connected is in no list.
func TestRegistered(t *testing.T) {
	s := newServer()
	s.Start(fakebuildkite.Start{Agent: agent{Tags: []string{"os=linux"}}, NotAfter: start, Skew: time.Second})
	s.CreateBuild(build{Steps: []step{{Duration: time.Minute}}})
	s.Advance(time.Second)
	wantStates(t, s, "scheduled")
	if got := len(s.Snapshot(time.Time{}).Agents); got != 0 {
		t.Errorf("%d agents are listed", got)
	}
	const id = "a0000000-0000-4000-8000-000000000001"
	if got := getAgent(t, s, id); got["connection_state"] != "never_connected" || got["connected_at"] != nil {
		t.Errorf("the agent is %v", got)
	}
}

// TestLinger: an agent that has had its job is listed as if it were idle, and
// takes nothing.
func TestLinger(t *testing.T) {
	s := newServer()
	id := connect(t, s, agent{AfterJob: true, Linger: 5700 * time.Millisecond})
	s.CreateBuild(build{Steps: []step{{Duration: time.Minute, Parallelism: 2}}})
	s.Advance(time.Minute + time.Second)
	wantStates(t, s, "passed scheduled")
	want := []plan.Agent{{
		ID: id, Tags: []string{"queue=default"}, State: plan.AgentIdle, Connected: start,
		IdleSince: start.Add(time.Minute), LastJobFinished: start.Add(time.Minute),
	}}
	if diff := cmp.Diff(want, s.Snapshot(time.Time{}).Agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	got := getAgent(t, s, id)
	job, told := got["job"]
	if got["connection_state"] != "connected" || job != nil || !told || got["last_job_finished_at"] != "2026-01-05T08:01:00.000Z" {
		t.Errorf("the agent is %v", got)
	}
	if idle := s.Stats().Idle; idle != 0 {
		t.Errorf("it has waited %s for work, want none: it lingers", idle)
	}
	s.Advance(5700 * time.Millisecond)
	if n := s.Stats().Connected; n != 0 {
		t.Errorf("%d agents are connected", n)
	}
	wantStates(t, s, "passed scheduled")
}

// TestHostedQueue asserts that no agent of one's own can join a hosted queue.
func TestHostedQueue(t *testing.T) {
	s := newServer()
	c := s.AddCluster("Default cluster")
	s.AddHostedQueue(c, "linux-small")
	for _, tags := range [][]string{nil, {"queue=linux-small"}, {"queue=default"}} {
		if _, err := s.Connect(agent{Cluster: c, Tags: tags}); err == nil {
			t.Errorf("an agent with tags %v has joined", tags)
		}
	}
	var queues []struct {
		Key    string
		Hosted bool
	}
	decode(t, s, "clusters/"+c+"/queues", &queues)
	if len(queues) != 1 || queues[0].Key != "linux-small" || !queues[0].Hosted {
		t.Errorf("queues %v", queues)
	}
	s.AddQueue(c, "own")
	id := connect(t, s, agent{Cluster: c, Tags: []string{"queue=own"}})
	if got := getAgent(t, s, id); got["queue"] != "own" || got["paused"] != false {
		t.Errorf("the agent is %v", got)
	}
	s.PauseAgent(id)
	if got := getAgent(t, s, id); got["paused"] != true {
		t.Errorf("the agent is %v", got)
	}
}

func getAgent(t *testing.T, s *fakebuildkite.Server, id string) map[string]any {
	t.Helper()
	var got map[string]any
	decode(t, s, "agents/"+id, &got)
	return got
}

// decode asks the REST API for a path below the organisation.
func decode(t *testing.T, s *fakebuildkite.Server, path string, into any) {
	t.Helper()
	response, body := get(t, s, "test-token", "organizations/acme/"+path)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, response.Status)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatal(err)
	}
}
