package plan

import (
	"testing"
	"time"
)

// TestAgentKnownByItsName: an agent that came between the reading of agents and
// that of jobs, and whose tags the job does not tell, is known by its name. It
// counts against max like any other.
func TestAgentKnownByItsName(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	overlays := []Overlay{{Name: "default", Policy: Policy{Queue: "default", Max: 1, MaxDispatch: 100, Lease: lease},
		Dispatches: []Dispatch{{ID: "default-0000000a", Agents: 1, At: now.Add(-time.Minute), NotAfter: now.Add(lease), Cluster: AnyCluster}}}}
	s := Snapshot{At: now, Sightings: []Sighting{{Agent: "a", Name: "default-0000000a-0", Running: true}},
		Jobs: []Job{{ID: "j", Rules: []string{"queue=default"}, State: JobPending, Since: now}}}
	var r Registrations
	r.Note(s)
	r.Reconcile(overlays, now)
	d := Decide("c0ffee", overlays, Observe(overlays, s, &r)[0])[0]
	if d.Sum.Current != 1 || d.Sum.Busy != 1 || d.Sum.InFlight != 0 || d.Sum.Dispatch != 0 {
		t.Errorf("%+v, want one busy agent and no room", d.Sum)
	}
}
