package fakebuildkite_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestSnapshot runs seeded histories and compares the simulator's snapshot with that of the real client
// at the same time.
func TestSnapshot(t *testing.T) {
	unraced.Only(t)
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			s := fakebuildkite.New(fakebuildkite.Options{Now: start, Poll: 5 * time.Second, CancelTime: 20 * time.Second, PlanConcurrency: 30})
			one, two := s.AddCluster("one"), s.AddCluster("two")
			s.AddQueue(one, "fast")
			s.AddQueue(one, "slow")
			s.AddQueue(two, "large")
			s.SetDefaultQueue(two, "")
			filled := [3]int{}
			for range 40 {
				happen(r, s, []string{"", one, two}[r.IntN(3)])
				since := s.Now().Add(-time.Duration(r.IntN(900)) * time.Second)
				if r.IntN(4) == 0 {
					since = time.Time{}
				}
				// A fresh client: it keeps the list of queues for a minute.
				c, err := buildkite.New(buildkite.Config{Org: "acme", HTTP: s.Transport(), Token: func() (string, error) { return "test-token", nil }})
				if err != nil {
					t.Fatal(err)
				}
				want, err := c.Snapshot(t.Context(), plan.Query{At: s.Now(), Since: since})
				if err != nil {
					t.Fatal(err)
				}
				got := s.Snapshot(since)
				order(&want)
				order(&got)
				if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("at %s since %s (-client +in process):\n%s", s.Now(), since, diff)
				}
				for i, n := range []int{len(got.Agents), len(got.Jobs), len(got.Sightings)} {
					filled[i] += n
				}
			}
			if slices.Contains(filled[:], 0) {
				t.Errorf("agents, jobs or sightings were never seen: %v", filled)
			}
		})
	}
}

// order sorts what carries no order.
func order(s *plan.Snapshot) {
	for i := range s.Agents {
		s.Agents[i].Tags = slices.Sorted(slices.Values(s.Agents[i].Tags))
	}
	for i := range s.Jobs {
		s.Jobs[i].Rules = slices.Sorted(slices.Values(s.Jobs[i].Rules))
	}
	for i := range s.Sightings {
		s.Sightings[i].Tags = slices.Sorted(slices.Values(s.Sightings[i].Tags))
	}
	slices.SortFunc(s.Agents, func(a, b plan.Agent) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Jobs, func(a, b plan.Job) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Sightings, func(a, b plan.Sighting) int { return cmp.Compare(a.Agent, b.Agent) })
	slices.SortFunc(s.Queues, func(a, b plan.Queue) int { return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Key, b.Key)) })
}

// happen lets builds, agents and people come and go for a while.
func happen(r *rand.Rand, s *fakebuildkite.Server, home string) {
	seconds := func(most int) time.Duration { return time.Duration(r.IntN(most*1000)) * time.Millisecond }
	rules := [][]string{nil, {"queue=fast"}, {"queue=slow", "os=linux"}, {"queue=*"}, {"*"}, {"queue=large", "size=*"}}
	uploads := [][]step{nil, {{Duration: time.Minute}, {Type: fakebuildkite.Wait}, {Duration: time.Minute}}}
	for range r.IntN(3) {
		id := s.CreateBuild(build{Cluster: home, Steps: []step{
			{Uploads: uploads[r.IntN(2)], Parallelism: 1 + r.IntN(4), Duration: seconds(300), Agents: rules[r.IntN(len(rules))], Fail: r.IntN(3), Retries: r.IntN(3), Priority: r.IntN(2)},
			{Type: []fakebuildkite.StepType{fakebuildkite.Wait, fakebuildkite.Block, fakebuildkite.Trigger}[r.IntN(3)], Duration: seconds(60)},
			{Duration: seconds(100), Agents: rules[r.IntN(len(rules))]},
			{Type: fakebuildkite.Wait},
			{Duration: seconds(200), Parallelism: 2, ConcurrencyGroup: "deploy", Concurrency: 2, Eager: r.IntN(2) == 0},
		}})
		switch at := s.Now().Add(seconds(600)); r.IntN(4) {
		case 0:
			s.At(at, func() { s.CancelBuild(id) })
		default:
			s.At(at, func() { s.Unblock(id) })
		}
	}
	tags := [][]string{nil, {"queue=fast", "size=2"}, {"queue=slow", "os=linux", "dispatch=d", "index=1"}, {"queue=large", "size=9"}}
	for range r.IntN(5) {
		id, err := s.Connect(agent{Cluster: home, Tags: tags[r.IntN(len(tags))], AfterJob: r.IntN(3) > 0, Linger: seconds(60), IdleTimeout: seconds(240)})
		if err != nil {
			continue // the cluster has no such queue
		}
		at := s.Now().Add(seconds(300))
		switch r.IntN(10) {
		case 0:
			s.At(at, func() { s.LoseAgent(id) })
		case 1:
			s.At(at, func() { s.StopAgent(id) })
		case 2:
			s.PauseAgent(id)
			s.At(at, func() { s.ResumeAgent(id) })
		}
	}
	jobs := s.Jobs()
	if len(jobs) > 0 {
		j := jobs[r.IntN(len(jobs))].ID
		switch r.IntN(6) {
		case 0:
			s.Reserve(j, 0)
		case 1:
			s.Unreserve(j)
		case 2:
			s.RetryJob(j)
		}
	}
	switch r.IntN(12) {
	case 0:
		s.PauseQueue(home, "default")
	case 1:
		s.ResumeQueue(home, "default")
	}
	s.Advance(seconds(60))
}
