package generator_test

import (
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/gitops/leaktest"
	"muster/gitops/unraced"
)

// token is a process's API token; nil where it has none.
func (m *muster) token() func() (string, error) {
	if m.w.agentTokenOnly {
		return nil
	}
	return func() (string, error) { return leaktest.BuildkiteToken, nil }
}

// counter counts the agents of a process that has no API token; else nil.
func (m *muster) counter() *buildkite.Metrics {
	if !m.w.agentTokenOnly {
		return nil
	}
	return m.newMetrics(troubledTransport{m, m.w.server.Transport()})
}

// inferred holds a tick without an API token to the safe side, by what has truly happened:
// what may still come counts as in flight, and what is connected or may come is never
// above max when something is ordered. It keeps books of its own, for the others go by
// what a muster was shown.
func (a *audit) inferred(m *muster, r generator.Result) {
	if !a.w.agentTokenOnly || r.Input.Snapshot.Counted == nil {
		return
	}
	for _, d := range r.Decisions {
		o := a.w.byPath("overlays/" + d.Overlay)
		coming := 0
		for _, x := range a.orders {
			if x.overlay == o && x.At.Before(d.Observation.At) && !x.Expired(d.Observation.At) {
				coming += x.Agents - len(x.registered)
			}
		}
		a.unmuted(func() {
			if d.Figures.InFlight < coming {
				a.failf("%s: %s counts %d in flight, %d may still come: %t %+v", m.name, o.name, d.Figures.InFlight, coming, r.Head.Commit == a.w.fleet.head().id, d.Figures)
			}
			if there := o.kube.Connected(); d.Figures.Dispatch > 0 && there+coming+d.Figures.Dispatch > d.Figures.Max {
				a.failf("%s: %s orders %d beside %d connected and %d that may come, max is %d: %+v", m.name, o.name, d.Figures.Dispatch, there, coming, d.Figures.Max, d.Figures)
			}
		})
		a.w.seen["in flight"] += d.Figures.InFlight
		a.w.seen["in flight unused"] += d.Figures.InFlight - coming
	}
}

// unmuted calls f with an audit that reports.
func (a *audit) unmuted(f func()) {
	mute := a.mute
	a.mute = false
	f()
	a.mute = mute
}

// agentTokenShape is a world without an API token: one overlay for each queue, and no agents but
// muster's.
func agentTokenShape(seed uint64) shape {
	s := drawShape(seed)
	s.http, s.inCluster, s.clusters, s.stacks, s.agentTokenOnly, s.length = true, true, false, true, true, min(s.length, time.Hour)
	s.namesake, s.work.foreign, s.metrics, s.hooks, s.noLoops = nil, 0, metricsShape{}, hookShape{}, true
	s.metrics.age = []time.Duration{0, 10 * time.Second, 25 * time.Second}[seed%3] // of counts
	s.overlays = s.overlays[:1]
	for _, o := range s.overlays {
		o.spec.cluster, o.spec.lookahead = "", 0
	}
	return s
}

// TestAgentTokensOnlyScenarios runs fault simulations with agent tokens only, with network faults,
// concurrent writers and lost pods: muster orders no agent twice, stays within max, and serves every
// job.
func TestAgentTokensOnlyScenarios(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	vain, all := 0, 0
	for seed := range uint64(min(*seeds, 40)) {
		if *oneSeed != 0 && seed+1 != *oneSeed {
			continue
		}
		s := agentTokenShape(seed + 1)
		switch r := s.rates; {
		case s.theme == "people", s.theme == "everything": // what people do is told from git as ever
			continue
		case r.crashPod+r.drains+r.deletions > 0: // a pod that is made anew comes twice, as docs/explanation/buildkite.md says
			continue
		}
		w := startScenario(t, s)
		w.audit.mute = true
		w.play(s.length, nil)
		w.heal()
		w.play(w.since()+50*time.Hour, func() bool { return w.musters[0].ticks%8 == 0 && len(w.waiting()) == 0 })
		if waiting := w.waiting(); len(waiting) > 0 && !w.audit.failed {
			t.Errorf("seed %d (%s): jobs wait for ever: %v\n%s", seed+1, s.theme, waiting, w.story())
		}
		vain, all = vain+w.seen["in flight unused"], all+w.seen["in flight"]
	}
	t.Logf("of %d agents in flight at a tick, %d would not come", all, vain)
}

// TestAgentTokensOnlyShared: overlays that share a queue are suspended if agents are not listed.
func TestAgentTokensOnlyShared(t *testing.T) {
	s := agentTokenShape(7)
	second := *s.overlays[0]
	second.name = "b"
	s.overlays = append(s.overlays, &second)
	w := startScenario(t, s)
	w.audit.mute = true
	w.play(10*time.Minute, nil)
	result, err := w.musters[0].generator.Tick(t.Context())
	if err != nil || w.audit.total() > 0 || len(result.Suspended) != 2 || !strings.Contains(result.Suspended[0].Why.Finding, `shares the queue "default" with b`) {
		t.Errorf("%d agents ordered, %v, %v", w.audit.total(), result.Suspended, err)
	}
}

// TestAgentTokensOnlyVerified: commits with inferred registrations can be recomputed byte for byte.
func TestAgentTokensOnlyVerified(t *testing.T) {
	w := startScenario(t, agentTokenShape(14))
	w.audit.mute = true
	w.play(w.length, nil)
	if verifyAll(t, w.fleet) == 0 {
		t.Error("muster has made no commit")
	}
}
