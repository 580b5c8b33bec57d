package simulation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/buildkite/fakebuildkite"
)

// agentTokenOnly plays jobs that come at some times and run for so long, in a world in which
// every pod takes 30 seconds and the syncer is not needed.
func agentTokenOnly(t *testing.T, name string, duration time.Duration, ats ...time.Duration) Measures {
	t.Helper()
	w := DefaultScenario()
	w.Startup = [2]time.Duration{30 * time.Second, 30 * time.Second}
	load := Workload{Length: time.Hour}
	for _, at := range ats {
		load.Arrivals = append(load.Arrivals, Arrival{At: at, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: duration}}}})
	}
	a := algorithmNamed(t, name)
	return Play(a.In(w), load, a.New(), nil)
}

// TestElasticStack: instances take job after job and leave after ten minutes without one;
// for five minutes after the group grew it does not grow again.
func TestElasticStack(t *testing.T) {
	s := time.Second
	m := agentTokenOnly(t, "elastic-ci-stack", time.Minute, 5*s, 65*s, 110*s, 800*s)
	// Seen at 10s, up at 40s and until 100s. The second waits for that agent; the third
	// finds it busy until 160s. It leaves at 820s, and takes the last before.
	want := Waits{Mean: 30 * s, P50: 35 * s, P95: 50 * s, Max: 50 * s}
	if m.Wait != want || m.Agents != 1 || m.Unused != 0 {
		t.Errorf("%d agents, waits of %+v; want one and %+v", m.Agents, m.Wait, want)
	}
	if want := (860 + 600 - 10) * s; m.Pods != want {
		t.Errorf("pods of %s, want %s", m.Pods, want)
	}
	if m := agentTokenOnly(t, "elastic-ci-stack", time.Hour, 5*s, 65*s); m.Wait.Max != 275*s {
		t.Errorf("beside a long job the second waited %s; the cooldown is over at 310s, and it takes 30 to boot", m.Wait.Max)
	}
}

// TestAgentStack: each pod takes its own job, so that none overtakes another; and it starts a second
// after a job.
func TestAgentStack(t *testing.T) {
	s := time.Second
	m := agentTokenOnly(t, "agent-stack-k8s", time.Minute, 500*time.Millisecond, 20*s, 30*s+500*time.Millisecond)
	want := Waits{Mean: (30500 + 30000 + 30500) * time.Millisecond / 3, P50: 30500 * time.Millisecond, P95: 30500 * time.Millisecond, Max: 30500 * time.Millisecond}
	if diff := cmp.Diff(want, m.Wait); diff != "" || m.Agents != 3 {
		t.Errorf("%d agents, waits (-want +got):\n%s", m.Agents, diff)
	}
	// A pod whose job was cancelled leaves, and its place with it.
	w, a := DefaultScenario(), algorithmNamed(t, "agent-stack-k8s")
	w.Policy.Max = 1
	gone := Arrival{At: s, Cancel: 10 * s, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Minute}}}}
	after := Arrival{At: 2 * s, Build: gone.Build}
	m = Play(a.In(w), Workload{Length: time.Hour, Arrivals: []Arrival{gone, after}}, a.New(), nil)
	if m.Jobs != 1 || m.Cancelled != 1 || m.Unused != 1 || m.Unserved != 0 || m.Wait.Max > 3*time.Minute {
		t.Errorf("behind a job that was cancelled: %+v", m)
	}
}

// TestTransports: the same rule waits longer through git, by the tick and the syncer.
func TestTransports(t *testing.T) {
	for _, r := range rivals() {
		own, git := agentTokenOnly(t, r.name, time.Minute, 16*time.Second), agentTokenOnly(t, r.name+"-git", time.Minute, 16*time.Second)
		if own.Wait.Mean >= git.Wait.Mean {
			t.Errorf("%s waits %s in its own transport and %s through git", r.name, own.Wait.Mean, git.Wait.Mean)
		}
	}
}

// TestSyncers: what a syncer's people set is what a job waits for it.
func TestSyncers(t *testing.T) {
	waits := map[string]time.Duration{}
	for _, s := range Syncers() {
		w := DefaultScenario()
		w.Startup = [2]time.Duration{30 * time.Second, 30 * time.Second}
		s.Use(&w)
		load := Workload{Length: time.Hour, Arrivals: []Arrival{{At: 61 * time.Second, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Minute}}}}}}
		m := Play(w, load, &Muster{}, nil)
		if m.Wait != m.Bound {
			t.Errorf("%s: a wait of %s, and a bound of %s", s.Name, m.Wait.Mean, m.Bound.Mean)
		}
		waits[s.Name] = m.Wait.Mean
	}
	// Ordered at 75s. Flux looks at 120s; who is told has applied it at 76.5s.
	if waits["flux"] != 89*time.Second || waits["told"] != 45500*time.Millisecond {
		t.Errorf("waits of %v", waits)
	}
	if argo := waits["argocd"]; argo < 89*time.Second || argo > 149*time.Second {
		t.Errorf("Argo CD's first look comes between 120s and 180s: a wait of %s", argo)
	}
}

// TestWebhookTriggersTick: a webhook triggers a tick a quarter of a second after an event, at least a
// second after the previous tick.
func TestWebhookTriggersTick(t *testing.T) {
	w := DefaultScenario()
	w.Startup = [2]time.Duration{30 * time.Second, 30 * time.Second}
	w.Notified, w.Triggered = 3*time.Second, WebhookInterval
	load := Workload{Length: time.Hour}
	for _, at := range []time.Duration{15500 * time.Millisecond, 15600 * time.Millisecond} {
		load.Arrivals = append(load.Arrivals, Arrival{At: at, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{{Duration: time.Minute}}}})
	}
	m := Play(w, load, &Muster{}, nil)
	// The ticks at 0 and 15s saw none; then 16s, of both.
	if want := 33500 * time.Millisecond; m.Wait.Max != want || m.Wait != m.Bound {
		t.Errorf("waits of %+v, a bound of %+v, want %s at most", m.Wait, m.Bound, want)
	}
}
