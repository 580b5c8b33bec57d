package fakebuildkite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
)

type (
	agent = fakebuildkite.Agent
	build = fakebuildkite.Build
	step  = fakebuildkite.Step
)

var start = time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)

func connect(t *testing.T, s *fakebuildkite.Server, a agent) string {
	t.Helper()
	id, err := s.Connect(a)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// states are the states of all jobs of type script, in order of creation, as
// in "passed running scheduled".
func states(s *fakebuildkite.Server) string {
	var all []string
	for _, j := range s.Jobs() {
		all = append(all, j.State)
	}
	return strings.Join(all, " ")
}

func wantStates(t *testing.T, s *fakebuildkite.Server, want string) {
	t.Helper()
	if got := states(s); got != want {
		t.Errorf("after %s: jobs are %q, want %q", s.Now().Sub(start), got, want)
	}
}

func wantBuild(t *testing.T, s *fakebuildkite.Server, id, want string) {
	t.Helper()
	state, blocked := s.BuildState(id)
	if blocked {
		state += " blocked"
	}
	if state != want {
		t.Errorf("after %s: build is %q, want %q", s.Now().Sub(start), state, want)
	}
}

func newServer() *fakebuildkite.Server {
	return fakebuildkite.New(fakebuildkite.Options{Now: start})
}

// TestMatching: an agent takes a job only when it carries every rule.
func TestMatching(t *testing.T) {
	for _, test := range []struct {
		tags, rules string
		want        bool
	}{
		{"", "", true},
		{"queue=default", "", true},
		{"", "queue=default", true},
		{"queue=a", "", false},
		{"", "queue=a", false},
		{"queue=a", "queue=a", true},
		{"queue=a os=linux", "queue=a os=linux", true},
		{"queue=a", "queue=a os=linux", false},
		{"queue=a os=mac", "queue=a os=linux", false},
		{"queue=a os=mac", "queue=a os=*", true},
		{"queue=a oss=mac", "queue=a os=*", false},
		{"queue=a os=mac", "queue=*", true},
		{"os=mac", "*", true},
		// A rule without a value is a rule with any value (docs agent/cli/reference/start.md "Agent targeting").
		{"os=linux", "os=*", true},
		{"os=linux", "os=", true},
		{"os=linux", "queue=", true},
		{"os=linux", "queue=* os=", true},
		{"os=linux", "arch=", false},
		{"os=linux", "arch=*", false},
		{"os=linux", "os=lin*", false},
		{"os=linux", "o=", false},
		{"queue=a queue=b", "queue=b", true},
		{"queue=a queue=b", "queue=a queue=b", true},
		{"queue=a", "queue=a queue=b", false},
	} {
		for _, agentFirst := range []bool{true, false} {
			s := newServer()
			if agentFirst {
				connect(t, s, agent{Tags: strings.Fields(test.tags)})
			}
			s.CreateBuild(build{Steps: []step{{Agents: strings.Fields(test.rules), Duration: time.Hour}}})
			if !agentFirst {
				connect(t, s, agent{Tags: strings.Fields(test.tags)})
			}
			if got := states(s) == "running"; got != test.want {
				t.Errorf("agent %q, job %q, agent first %v: taken %v, want %v", test.tags, test.rules, agentFirst, got, test.want)
			}
		}
	}
}

// TestDispatchOrder: higher priority first, then the older job.
func TestDispatchOrder(t *testing.T) {
	for _, rules := range [][]string{nil, {"queue=*"}} {
		s := newServer()
		for i, priority := range []int{0, 5, 0, -1, 5} {
			s.CreateBuild(build{Steps: []step{{Key: fmt.Sprint(i), Priority: priority, Agents: rules, Duration: time.Minute}}})
			s.Advance(time.Second)
		}
		connect(t, s, agent{})
		s.Advance(time.Hour)
		jobs := s.Jobs()
		slices.SortFunc(jobs, func(a, b fakebuildkite.JobRecord) int { return a.Started.Compare(b.Started) })
		var order []string
		for _, j := range jobs {
			order = append(order, j.Step)
		}
		if want := []string{"1", "4", "0", "2", "3"}; !slices.Equal(order, want) {
			t.Errorf("rules %v: order %v, want %v", rules, order, want)
		}
	}
}

// TestAgentOrder: higher priority first, then the more recent success.
func TestAgentOrder(t *testing.T) {
	s := newServer()
	first := connect(t, s, agent{})
	second := connect(t, s, agent{})
	high := connect(t, s, agent{Priority: 1})
	run := func(wants ...string) {
		t.Helper()
		for _, want := range wants {
			s.CreateBuild(build{Steps: []step{{Duration: time.Minute}}})
			jobs := s.Jobs()
			if got := jobs[len(jobs)-1].Agent; got != want {
				t.Errorf("job taken by %s, want %s", got, want)
			}
			s.Advance(time.Second)
		}
		s.Advance(time.Hour)
	}
	run(high, first, second)
	run(high, second, first) // second finished last
}

func TestClusters(t *testing.T) {
	s := newServer()
	one, two := s.AddCluster("one"), s.AddCluster("two")
	s.AddQueue(one, "fast")
	s.AddQueue(one, "slow")
	for _, refused := range []agent{
		{Cluster: one, Tags: []string{"queue=none"}},
		{Cluster: one, Tags: []string{"queue=fast", "queue=slow"}},
		{Cluster: two},
	} {
		if _, err := s.Connect(refused); err == nil {
			t.Errorf("agent %+v was let in", refused)
		}
	}
	s.AddQueue(two, "fast")
	s.CreateBuild(build{Cluster: one, Steps: []step{{Duration: time.Hour}, {Agents: []string{"queue=slow"}, Duration: time.Hour}}})
	connect(t, s, agent{Cluster: two})
	connect(t, s, agent{Tags: []string{"queue=fast"}})
	wantStates(t, s, "scheduled scheduled")
	connect(t, s, agent{Cluster: one}) // without a queue: the default, fast
	wantStates(t, s, "running scheduled")
	s.SetDefaultQueue(one, "slow")
	connect(t, s, agent{Cluster: one})
	wantStates(t, s, "running running")
	s.SetDefaultQueue(one, "")
	if _, err := s.Connect(agent{Cluster: one}); err == nil {
		t.Error("an agent without a queue was let into a cluster without a default one")
	}
}

func TestPausedQueue(t *testing.T) {
	s := newServer()
	s.PauseQueue("", "default")
	connect(t, s, agent{})
	s.CreateBuild(build{Steps: []step{{Duration: time.Hour}, {Agents: []string{"queue=*"}}}})
	connect(t, s, agent{})
	wantStates(t, s, "scheduled scheduled")
	s.ResumeQueue("", "default")
	wantStates(t, s, "running running")
}

func TestWaitAndBlock(t *testing.T) {
	s := newServer()
	connect(t, s, agent{})
	id := s.CreateBuild(build{Steps: []step{
		{Duration: time.Minute}, {Type: fakebuildkite.Wait}, {Duration: time.Minute},
		{Type: fakebuildkite.Block}, {Duration: time.Minute}, {Type: fakebuildkite.Wait}, {Duration: time.Minute},
	}})
	wantStates(t, s, "running waiting waiting waiting")
	wantBuild(t, s, id, "running")
	s.Advance(time.Minute)
	wantStates(t, s, "passed running blocked waiting")
	s.Advance(time.Minute)
	wantStates(t, s, "passed passed blocked waiting")
	wantBuild(t, s, id, "passed blocked")
	s.Advance(time.Hour)
	if !s.Unblock(id) || s.Unblock(id) {
		t.Error("a build is unblocked once")
	}
	wantStates(t, s, "passed passed running waiting")
	wantBuild(t, s, id, "running")
	s.Advance(2 * time.Minute)
	wantStates(t, s, "passed passed passed passed")
	wantBuild(t, s, id, "passed")
	for _, j := range s.Jobs() {
		if !j.Runnable.Equal(j.Started) || j.Finished.Sub(j.Started) != time.Minute {
			t.Errorf("job %+v was runnable before it started, or ran another time than a minute", j)
		}
	}
}

// TestWaitContinuesOnFailure runs the examples of docs
// pipelines/configure/step_types/wait_step.md "Continuing on failure".
func TestWaitContinuesOnFailure(t *testing.T) {
	job, failed := step{Duration: time.Minute}, step{Duration: time.Minute, Fail: 1}
	wait, continues := step{Type: fakebuildkite.Wait}, step{Type: fakebuildkite.Wait, ContinueOnFailure: true}
	for _, c := range []struct {
		steps []step
		want  string
	}{
		{[]step{failed, continues, job, wait, job}, "failed passed waiting_failed"},
		{[]step{job, continues, job, wait, job}, "passed passed passed"},
		{[]step{failed, wait, job, continues, job}, "failed waiting_failed waiting_failed"},
		{[]step{failed, continues, job, job, continues, job}, "failed passed passed passed"},
	} {
		s := newServer()
		connect(t, s, agent{})
		id := s.CreateBuild(build{Steps: c.steps})
		s.Advance(time.Hour)
		wantStates(t, s, c.want)
		if c.steps[0].Fail > 0 {
			wantBuild(t, s, id, "failed")
		} else {
			wantBuild(t, s, id, "passed")
		}
	}
}

func TestFailure(t *testing.T) {
	s := newServer()
	connect(t, s, agent{})
	connect(t, s, agent{})
	id := s.CreateBuild(build{Steps: []step{
		{Duration: time.Minute, Fail: 1}, {Duration: time.Hour}, {Type: fakebuildkite.Wait}, {Duration: time.Minute},
	}})
	s.Advance(time.Minute)
	wantBuild(t, s, id, "failing")
	wantStates(t, s, "failed running waiting")
	s.Advance(time.Hour)
	wantBuild(t, s, id, "failed")
	wantStates(t, s, "failed passed waiting_failed")
	again, ok := s.RetryJob(s.Jobs()[0].ID)
	if !ok || again == s.Jobs()[0].ID {
		t.Error("a failed job can be retried, under another identifier")
	}
	if _, ok := s.RetryJob(s.Jobs()[0].ID); ok {
		t.Error("a job can be retried once")
	}
	wantBuild(t, s, id, "running")
	wantStates(t, s, "failed passed waiting running")
	s.Advance(time.Hour)
	wantBuild(t, s, id, "passed")
	wantStates(t, s, "failed passed passed passed")
}

func TestAutomaticRetry(t *testing.T) {
	for _, test := range []struct {
		step         step
		jobs, result string
	}{
		{step{Fail: 2, Retries: 2}, "failed failed passed", "passed"},
		{step{Fail: 2, Retries: 1}, "failed failed", "failed"},
		{step{Fail: -1, Retries: 1}, "failed failed", "failed"},
		{step{Fail: 1, SoftFail: true}, "failed", "passed"},
		{step{Fail: 1, Parallelism: 2, Retries: 1}, "failed failed passed passed", "passed"},
	} {
		s := newServer()
		connect(t, s, agent{})
		id := s.CreateBuild(build{Steps: []step{test.step}})
		s.Advance(time.Hour)
		wantStates(t, s, test.jobs)
		wantBuild(t, s, id, test.result)
	}
}

func TestCancel(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: start, CancelTime: 10 * time.Second})
	a := connect(t, s, agent{})
	id := s.CreateBuild(build{Steps: []step{{Duration: time.Hour}, {}, {Type: fakebuildkite.Wait}, {}}})
	s.CancelBuild(id)
	wantStates(t, s, "canceling canceled canceled")
	wantBuild(t, s, id, "canceling")
	s.Advance(10 * time.Second)
	wantStates(t, s, "canceled canceled canceled")
	wantBuild(t, s, id, "canceled")
	if got := s.Agents()[0]; got.ID != a || got.Job != "" || got.State != "connected" {
		t.Errorf("the agent of a cancelled job goes on: %+v", got)
	}
	blocked := s.CreateBuild(build{Steps: []step{{Type: fakebuildkite.Block}, {}}})
	s.CancelBuild(blocked)
	wantBuild(t, s, blocked, "canceled")
}

// TestCancelledBeforeAccepting: the agent keeps waiting, and leaves when it
// has been idle for long enough.
func TestCancelledBeforeAccepting(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: start, Poll: 10 * time.Second})
	connect(t, s, agent{AfterJob: true, IdleTimeout: time.Minute})
	s.Advance(time.Second)
	id := s.CreateBuild(build{Steps: []step{{Duration: time.Hour}}})
	wantStates(t, s, "assigned")
	s.Advance(8 * time.Second)
	wantStates(t, s, "assigned")
	s.CancelBuild(id)
	wantStates(t, s, "canceled")
	s.Advance(time.Minute - time.Second)
	if got := s.Stats().Connected; got != 1 {
		t.Errorf("%d agents before the idle time-out, want 1", got)
	}
	s.Advance(time.Second)
	if got := s.Agents()[0]; got.Reason != fakebuildkite.EndedIdle || got.Jobs != 0 {
		t.Errorf("agent %+v, want gone for idleness", got)
	}
}

func TestPoll(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: start, Poll: 10 * time.Second})
	connect(t, s, agent{})
	s.Advance(13 * time.Second)
	s.CreateBuild(build{Steps: []step{{Duration: time.Minute}}})
	wantStates(t, s, "assigned")
	s.Advance(time.Hour)
	if got := s.Jobs()[0].Started.Sub(start); got != 20*time.Second {
		t.Errorf("started after %s, want at the poll after 20s", got)
	}
}

func TestConcurrencyGroup(t *testing.T) {
	limited := func(eager bool) []step {
		return []step{{Duration: time.Minute, ConcurrencyGroup: "g", Concurrency: 1, Eager: eager}}
	}
	behind := func(eager bool) []step {
		return append([]step{{Duration: time.Hour, Agents: []string{"queue=slow"}}, {Type: fakebuildkite.Wait}}, limited(eager)...)
	}
	three := func(t *testing.T, eager bool) *fakebuildkite.Server {
		s := newServer()
		connect(t, s, agent{})
		connect(t, s, agent{})
		connect(t, s, agent{Tags: []string{"queue=slow"}})
		s.CreateBuild(build{Steps: behind(eager)})
		s.CreateBuild(build{Steps: limited(eager)})
		s.CreateBuild(build{Steps: limited(eager)})
		return s
	}
	t.Run("ordered", func(t *testing.T) {
		s := three(t, false)
		wantStates(t, s, "running waiting limited limited") // created first, goes first
		s.Advance(time.Hour)
		wantStates(t, s, "passed running limited limited")
		s.Advance(time.Minute)
		wantStates(t, s, "passed passed running limited")
		s.Advance(time.Minute)
		wantStates(t, s, "passed passed passed running")
	})
	t.Run("eager", func(t *testing.T) {
		s := three(t, true)
		wantStates(t, s, "running waiting running limited")
		s.Advance(time.Minute)
		wantStates(t, s, "running waiting passed running")
	})
	t.Run("cancelled", func(t *testing.T) {
		s := newServer()
		first := s.CreateBuild(build{Steps: limited(false)})
		s.CreateBuild(build{Steps: limited(false)})
		wantStates(t, s, "scheduled limited") // a slot is held while waiting for an agent
		s.CancelBuild(first)
		wantStates(t, s, "canceled scheduled")
	})
}

func TestPlanConcurrency(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: start, PlanConcurrency: 2})
	s.CreateBuild(build{Steps: []step{{Parallelism: 3, Duration: time.Minute}}})
	wantStates(t, s, "scheduled scheduled platform_limited")
	connect(t, s, agent{})
	s.Advance(time.Minute)
	wantStates(t, s, "passed running scheduled")
}

func TestTrigger(t *testing.T) {
	s := newServer()
	connect(t, s, agent{})
	id := s.CreateBuild(build{Steps: []step{
		{Type: fakebuildkite.Trigger, Build: &build{Pipeline: "child", Steps: []step{{Duration: time.Minute}}}},
		{Type: fakebuildkite.Wait},
		{Type: fakebuildkite.Trigger, Duration: time.Minute},
		{Type: fakebuildkite.Wait},
		{Duration: time.Minute},
	}})
	wantStates(t, s, "waiting running")
	s.Advance(time.Minute)
	wantStates(t, s, "waiting passed")
	s.Advance(time.Minute)
	wantStates(t, s, "running passed")
	s.Advance(time.Minute)
	wantBuild(t, s, id, "passed")
}

// TestUpload asserts that the steps that a job uploads stand directly after its step, also after a retry.
func TestUpload(t *testing.T) {
	s := newServer()
	connect(t, s, agent{})
	uploads := []step{{Key: "a"}, {Type: fakebuildkite.Wait}, {Key: "b", Duration: time.Minute}, {Type: fakebuildkite.Block}, {Key: "c"}}
	id := s.CreateBuild(build{Steps: []step{
		{Key: "upload", Duration: time.Minute, Fail: 1, Retries: 1, Uploads: uploads}, {Key: "free"}, {Type: fakebuildkite.Wait}, {Key: "after"},
	}})
	s.Advance(time.Minute)
	wantStates(t, s, "failed passed waiting running")
	s.Advance(time.Minute)
	wantStates(t, s, "failed passed waiting passed passed running blocked")
	s.Advance(time.Minute)
	wantBuild(t, s, id, "passed blocked")
	s.Unblock(id)
	s.Advance(time.Second)
	wantStates(t, s, "failed passed passed passed passed passed passed")
	wantBuild(t, s, id, "passed")

	canceled := s.CreateBuild(build{Steps: []step{{Duration: time.Minute, Uploads: uploads}}})
	s.Advance(time.Second)
	s.CancelBuild(canceled)
	s.Advance(time.Hour)
	wantBuild(t, s, canceled, "canceled")
	if n := len(s.Jobs()); n != 8 {
		t.Errorf("%d jobs, want 8: a cancelled job uploads nothing", n)
	}
}

func TestStats(t *testing.T) {
	s := newServer()
	connect(t, s, agent{AfterJob: true})
	connect(t, s, agent{IdleTimeout: time.Minute})
	connect(t, s, agent{})
	s.Advance(30 * time.Second)
	s.CreateBuild(build{Steps: []step{{Duration: time.Hour}, {Agents: []string{"os=none"}}, {Type: fakebuildkite.Wait}, {}}})
	s.Advance(time.Minute)
	want := fakebuildkite.Stats{
		Jobs: 3, Runnable: 2, Started: 1, Agents: 3, Connected: 2, Unused: 1,
		Idle: 30*time.Second + time.Minute + 90*time.Second,
	}
	if diff := cmp.Diff(want, s.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}
