package buildkite_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/buildkite/steptime"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

// moments are the predicted times of upcoming jobs, and the expected ones.
func moments(s plan.Snapshot) map[string]string {
	all := map[string]string{}
	for _, j := range s.Jobs {
		if j.Expected {
			all[fmt.Sprint(j.Cluster, j.Rules, j.Stage, j.Freed)] += fmt.Sprint(j.State, j.ID, j.Created, j.Due, ";")
			continue
		}
		if j.State == plan.JobUpcoming || !j.Due.IsZero() || j.Stage != "" {
			all[j.ID] = fmt.Sprint(j.Due, j.Stage, j.Freed)
		}
	}
	return all
}

// playChain lets a build of several stages come, and agents for it.
func playChain(t *testing.T, r *rand.Rand, s *fakebuildkite.Server, cluster string) {
	step := func(name string) fakebuildkite.Step {
		x := fakebuildkite.Step{Label: name, Duration: time.Duration(60+r.IntN(240)) * time.Second, Parallelism: 1 + r.IntN(2), Agents: []string{"queue=fast"}}
		switch r.IntN(6) {
		case 0:
			x.Key = name + "-key"
		case 1:
			x.Label = ""
		case 2:
			x.Fail, x.Retries = r.IntN(2), r.IntN(2)
		case 3:
			x.Fail, x.SoftFail = 1, true
		}
		return x
	}
	wait := fakebuildkite.Step{Type: []fakebuildkite.StepType{fakebuildkite.Wait, fakebuildkite.Wait, fakebuildkite.Block}[r.IntN(3)]}
	id := s.CreateBuild(fakebuildkite.Build{Pipeline: []string{"app", "lib"}[r.IntN(2)], Cluster: cluster, Steps: []fakebuildkite.Step{
		step("build"), step("lint"), wait, step("test"), {Type: fakebuildkite.Trigger, Label: "other", Duration: time.Minute}, {Type: fakebuildkite.Wait}, step("deploy"),
	}})
	if r.IntN(2) == 0 {
		s.At(s.Now().Add(5*time.Minute), func() { s.Unblock(id) })
	}
	upload := fakebuildkite.Step{Label: "upload", Duration: 5 * time.Second, Agents: []string{"queue=fast"}, Fail: r.IntN(5) / 4, Retries: r.IntN(2)}
	upload.Uploads = []fakebuildkite.Step{step("one"), {Label: "two", Duration: time.Second, Parallelism: 1 + r.IntN(3)}, wait, step("three")}
	uploading := s.CreateBuild(fakebuildkite.Build{Pipeline: "uploads", Cluster: cluster, Steps: []fakebuildkite.Step{upload}})
	if r.IntN(9) == 0 {
		s.CancelBuild(uploading)
	}
	for range 1 + r.IntN(5) {
		connect(t, s, fakebuildkite.Agent{Cluster: cluster, Tags: []string{"queue=fast"}, AfterJob: true, IdleTimeout: 20 * time.Minute})
	}
	s.Advance(time.Duration(r.IntN(180)) * time.Second)
}

// lookingAhead is an overlay of a queue in no cluster, so that all agents are listed.
var lookingAhead = []plan.Overlay{{Name: "a", Policy: plan.Policy{Queue: "nowhere", Lookahead: 100}}}

// TestStepTimes: the client predicts the same times for upcoming jobs as the simulator, in seeded
// simulations. What it remembers of earlier polls changes nothing else.
func TestStepTimes(t *testing.T) {
	unraced.Only(t)
	known, expected := 0, 0
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, Poll: 5 * time.Second})
		cluster := s.AddCluster("one")
		s.AddQueue(cluster, "fast")
		s.AddQueue(cluster, "slow")
		s.SetDefaultQueue(cluster, "slow")
		other := s.AddCluster("two")
		s.AddQueue(other, "fast")
		s.AddQueue(other, "slow")
		s.SetDefaultQueue(other, "slow")
		for range 8 { // before the client polls
			playChain(t, r, s, cluster)
		}
		c := &serving{newClient(t, buildkite.Config{HTTP: s.Transport()}), lookingAhead}
		times := &steptime.Times{}
		for n := range 60 {
			if n == 40 {
				cluster = other // the pipelines move
			}
			playChain(t, r, s, cluster)
			var since time.Time
			if r.IntN(2) == 0 {
				since = s.Now().Add(-10 * time.Minute)
			}
			want, got := s.SnapshotWithTimes(times, since), observe(t, c, s.Now(), since)
			if diff := cmp.Diff(moments(want), moments(got)); diff != "" {
				t.Fatalf("seed %d: at %s (-simulator +client):\n%s", seed, s.Now(), diff)
			}
			for _, j := range got.Jobs {
				if j.Expected {
					expected++
				} else if !j.Due.IsZero() {
					known++
				}
			}
			got.Jobs = slices.DeleteFunc(got.Jobs, func(j plan.Job) bool { return j.Expected })
			fresh := observe(t, newClient(t, buildkite.Config{HTTP: s.Transport()}), s.Now(), since)
			if diff := cmp.Diff(fresh, got, cmpopts.IgnoreFields(plan.Job{}, "Due", "Stage", "Freed")); diff != "" {
				t.Fatalf("seed %d: at %s (-fresh +old):\n%s", seed, s.Now(), diff)
			}
		}
		c.overlays = nil
		for id, m := range moments(observe(t, c, s.Now(), time.Time{})) {
			if m != fmt.Sprint(time.Time{}, "", false) {
				t.Fatalf("seed %d: of job %s %s is said where nobody looks ahead", seed, id, m)
			}
		}
	}
	if known < 100 || expected < 100 {
		t.Errorf("the times of %d jobs were known, and %d jobs expected", known, expected)
	}
}

// TestStepTimesRequests: step durations take one request, once; if it fails, no later poll repeats it.
func TestStepTimesRequests(t *testing.T) {
	for _, refused := range []bool{false, true} {
		past := 0
		s := fakebuildkite.New(fakebuildkite.Options{Token: secret, Now: now, BeforeRequest: func(r *http.Request) {
			if strings.Contains(r.URL.RawQuery, "finished_from") {
				past++
			}
		}})
		if refused {
			s.Fail(fakebuildkite.Fault{Path: "finished_from", Status: http.StatusInternalServerError, Times: -1})
		}
		for range 300 {
			s.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Label: "a", Duration: time.Second}}})
			connect(t, s, fakebuildkite.Agent{AfterJob: true})
		}
		s.Advance(time.Minute)
		off, on := newClient(t, buildkite.Config{HTTP: s.Transport()}), &serving{newClient(t, buildkite.Config{HTTP: s.Transport()}), lookingAhead}
		for range 5 {
			observe(t, off, s.Now(), time.Time{})
			if past != 0 {
				t.Fatal("builds of the past are read where nobody looks ahead")
			}
			s.Advance(15 * time.Second)
		}
		for range 5 {
			observe(t, on, s.Now(), time.Time{})
			s.Advance(15 * time.Second)
		}
		want := 1
		if refused {
			want = 5 // attempts
		}
		if more := on.Stats().Requests - off.Stats().Requests; past != want || more != int64(want) {
			t.Errorf("refused %t: %d requests are sent for the past, %d more in all", refused, past, more)
		}
	}
}
