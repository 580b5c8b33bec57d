package fakebuildkite_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
)

// TestAcquire: an agent that was started for one job takes that one, reserved or not and
// whatever its rules, lets older ones wait, and leaves with it; where it is not to be had,
// it leaves at once.
func TestAcquire(t *testing.T) {
	s := fakebuildkite.New(fakebuildkite.Options{Now: start})
	s.CreateBuild(build{Steps: []step{{Key: "old", Duration: time.Minute}, {Key: "new", Duration: time.Minute, Agents: []string{"os=beos"}}}})
	jobs := s.Jobs()
	old, late := jobs[0].ID, jobs[1].ID
	if !s.Reserve(late, time.Hour) {
		t.Fatal("the job could not be reserved")
	}
	for range 2 {
		connect(t, s, agent{Acquire: late})
	}
	s.Advance(2 * time.Minute)
	var reasons []string
	for _, a := range s.Agents() {
		reasons = append(reasons, a.Reason)
	}
	if diff := cmp.Diff([]string{fakebuildkite.EndedAfterJob, fakebuildkite.EndedRejected}, reasons); diff != "" {
		t.Errorf("why the agents left (-want +got):\n%s", diff)
	}
	for _, j := range s.Jobs() {
		if want := map[string]string{old: "scheduled", late: "passed"}[j.ID]; j.State != want {
			t.Errorf("job %s is %s, want %s", j.Step, j.State, want)
		}
	}
}

// TestReservationExpires: a job that was reserved and not taken is dispatched again.
func TestReservationExpires(t *testing.T) {
	var events []string
	s := fakebuildkite.New(fakebuildkite.Options{Now: start, OnEvent: func(event string) { events = append(events, event) }})
	s.CreateBuild(build{Steps: []step{{Duration: time.Minute}}})
	job := s.Jobs()[0].ID
	if !s.Reserve(job, 15*time.Minute) || s.Reserve(job, 0) {
		t.Error("a job is reserved once")
	}
	connect(t, s, agent{})
	s.Advance(14 * time.Minute)
	if got := s.Jobs()[0]; got.State != "reserved" {
		t.Errorf("the job is %s while it is reserved", got.State)
	}
	s.Advance(3 * time.Minute)
	if got := s.Jobs()[0]; !got.Started.Equal(start.Add(15 * time.Minute)) {
		t.Errorf("the job started at %s, want when the reservation was over", got.Started)
	}
	if want := []string{"job.scheduled", "agent.connected", "job.started", "job.finished"}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}
