package plan

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestAgentsOfUnknownDispatchesTakeLittleMemory starts agents with the tags of dispatches
// that nobody ordered, and with the highest index, as anybody with an agent token can.
func TestAgentsOfUnknownDispatchesTakeLittleMemory(t *testing.T) {
	now := time.Date(2026, time.November, 21, 2, 15, 0, 0, time.UTC)
	var s Snapshot
	for i := range 9000 {
		tags := []string{"queue=default", fmt.Sprintf("dispatch=default-%08d", i), fmt.Sprintf("index=%d", MaxIndex-1)}
		s.Agents = append(s.Agents, Agent{ID: fmt.Sprint(i), Tags: tags, State: AgentBusy, Connected: now})
	}
	s.At = now
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := &Registrations{}
	for range 3 {
		r.Note(s)
		r.Reconcile(nil, now)
	}
	r.Note(s)
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 32 {
		t.Errorf("%d agents take %d MiB", len(s.Agents), used)
	}
	// Agents may be seen before the commit that ordered them.
	d := Dispatch{ID: "default-00000007", Agents: MaxIndex, At: now}
	if seen := r.Seen(d.ID); seen.Registered.String() != "99999" || seen.HadJob == 0 {
		t.Errorf("before its commit: %v", seen)
	}
	r.Reconcile([]Overlay{{Dispatches: []Dispatch{d}}}, now)
	s.Agents = []Agent{{ID: "x", Tags: []string{"dispatch=" + d.ID, "index=3"}, Connected: now}}
	r.Note(s)
	if seen := r.Seen(d.ID); seen.Registered.String() != "3,99999" || seen.HadJob != 1 {
		t.Errorf("with its commit: %v", seen)
	}
}
