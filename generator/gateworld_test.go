package generator_test

import (
	"bytes"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/plan"
	"muster/gitops/canary"
	"muster/gitops/unraced"
)

// gateShape is what the gate of a world is like. The zero value is none.
type gateShape struct {
	on bool
	// poll and age are those of the simulated Buildkite: how often it wants to be asked,
	// and for how long an answer is given again.
	poll, age time.Duration
	// failing is how often a request fails, and wrong how often it is told that there is
	// nothing at all.
	failing, wrong float64
}

// honest reports whether the gate tells what there is.
func (g gateShape) honest() bool { return g.on && g.poll < 0 && g.age == 0 && g.wrong == 0 }

// drawGate draws the gate of a world, of which most have none, from dice of its own: the
// rest of the seed's world stays what it was.
func drawGate(seed uint64) gateShape {
	r := rand.New(rand.NewPCG(seed, 9))
	g := gateShape{on: r.IntN(3) == 0, poll: []time.Duration{-1, 10 * time.Second, time.Minute}[r.IntN(3)]}
	if !g.on {
		return gateShape{}
	}
	g.age = time.Duration(r.IntN(2)*r.IntN(300)) * time.Second
	g.failing, g.wrong = upTo(r, 0.5)*float64(r.IntN(2)), upTo(r, 1)*float64(r.IntN(2))
	return g
}

// beginGate gives the gate its token.
func (w *world) beginGate() {
	w.gated = rand.New(rand.NewPCG(w.seed, 10))
	w.server.AddAgentToken(w.cluster, canary.AgentToken)
}

// gate is the gate of a process; nil where the world has none.
func (m *muster) gate() generator.Gate {
	if !m.w.gate.on || m == m.w.other {
		return nil
	}
	metrics, err := buildkite.NewMetrics(buildkite.AgentConfig{
		Org: "acme", Tokens: []func() (string, error){func() (string, error) { return canary.AgentToken, nil }},
		HTTP: gateTransport{m.w}, Timeout: time.Hour, Log: canary.Log(m.w.audit.fail, nil),
	})
	if err != nil {
		panic(err)
	}
	return metrics
}

// gateTransport stands between a gate and Buildkite, until all is well.
type gateTransport struct{ w *world }

// RoundTrip implements [http.RoundTripper].
func (t gateTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := t.w
	response, err := w.server.Transport().RoundTrip(r)
	if err != nil || !w.healed.IsZero() {
		return response, err
	}
	body := ""
	switch {
	case w.gated.Float64() < w.gate.failing:
		if w.gated.IntN(2) == 0 {
			return nil, errUnreachable
		}
		response.StatusCode, body = http.StatusBadGateway, `{"message":"sorry"}`
	case w.gated.Float64() < w.gate.wrong:
		body = `{"agents":{"total":0,"queues":{}},"jobs":{"scheduled":0,"total":0,"queues":{}},"organization":{"slug":"acme"}}`
		if w.cluster != "" {
			body = body[:len(body)-1] + `,"cluster":{"name":"ci"}}`
		}
	default:
		return response, nil
	}
	response.Body = io.NopCloser(bytes.NewReader([]byte(body)))
	response.ContentLength = int64(len(body))
	return response, nil
}

// leftOut demands of a tick without a look that one with a look would have done nothing,
// where the gate is honest and nobody else acts.
func (a *audit) leftOut(m *muster, r generator.Result) {
	if !r.LeftOut {
		return
	}
	a.w.seen["left out"]++
	a.w.trace("%s: no look", m.name)
	now := a.w.server.Now()
	if len(r.Acts) > 0 {
		a.failf("%s acts without a look", m.name)
	}
	if !a.w.gate.honest() || len(a.w.musters) > 1 || r.Looked.Snapshot.At.Before(now.Truncate(time.Second)) || r.Tip.Commit != a.w.fleet.head().id {
		return
	}
	s := a.w.server.Snapshot(time.Time{})
	s.At = r.Looked.Snapshot.At
	for _, o := range plan.Observe(r.Looked.Overlays, s, &plan.Registrations{}) {
		for _, d := range plan.Decide(r.Tip.Commit, r.Looked.Overlays, o) {
			if len(d.Dispatch)+len(d.Retire) > 0 {
				a.failf("%s left a look out, and with it would have ordered %d and retired %d for %s", m.name, len(d.Dispatch), len(d.Retire), d.Overlay)
			}
		}
	}
}

// TestGateWorlds plays worlds whose gate is honest, late, failing and wrong, little work
// between long quiet times, and holds them to what every world must hold.
func TestGateWorlds(t *testing.T) {
	unraced.Only(t)
	out := 0
	for _, g := range []gateShape{
		{on: true, poll: -1}, {on: true, poll: 10 * time.Second}, {on: true, poll: -1, age: 3 * time.Minute},
		{on: true, poll: -1, failing: 0.5}, {on: true, poll: -1, wrong: 1}, {on: true, poll: 10 * time.Second, wrong: 0.5, failing: 0.2},
	} {
		for seed := range uint64(4) {
			s := drawShape(7 * (seed + 1)) // plain
			s.gate, s.length, s.work.builds, s.work.bursts = g, 3*time.Hour, 2, 0
			for _, o := range s.overlays {
				o.spec.min, o.spec.buffer, o.spec.schedule = 0, 0, schedule{}
			}
			w := newWorld(s, func(text string) { t.Errorf("gate %+v, seed %d: %s", g, seed, text) })
			w.play(s.length, nil)
			w.conclude()
			out += w.seen["left out"]
			if g == (gateShape{on: true, poll: -1}) && w.seen["left out"] == 0 {
				t.Errorf("seed %d: no look was left out", seed)
			}
		}
	}
	t.Logf("%d looks were left out", out)
}

// drawStacks lets the Stacks API tell the jobs of a fifth of the worlds, from dice of its
// own. It is for queues of clusters, and asked by the real client alone.
func drawStacks(s *shape) {
	r := rand.New(rand.NewPCG(s.seed, 11))
	s.stacks = s.inCluster && !s.clusters && r.IntN(12) < 5
	s.http = s.http || s.stacks
}

// stacks is what tells the jobs of a process; nil: REST does.
func (m *muster) stacks() *buildkite.Stacks {
	if !m.w.stacks {
		return nil
	}
	stacks, err := buildkite.NewStacks(buildkite.StacksConfig{Key: "muster-of-the-world", Clock: m, AgentConfig: buildkite.AgentConfig{
		Org: "acme", Tokens: []func() (string, error){func() (string, error) { return canary.AgentToken, nil }},
		HTTP: troubledTransport{m, m.w.server.Transport()}, Timeout: time.Hour, Log: canary.Log(m.w.audit.fail, nil),
	}})
	if err != nil {
		panic(err)
	}
	return stacks
}

// TestStackWorlds plays worlds of every theme in which the Stacks API tells the jobs, and
// holds them to what every world must hold.
func TestStackWorlds(t *testing.T) {
	unraced.Only(t)
	for seed := range uint64(14) {
		s := drawShape(seed + 1)
		s.http, s.inCluster, s.clusters, s.stacks, s.length = true, true, false, true, min(s.length, time.Hour)
		for _, o := range s.overlays {
			o.spec.cluster, o.spec.lookahead = "", 0
		}
		w := newWorld(s, func(text string) { t.Errorf("seed %d (%s): %s", seed+1, s.theme, text) })
		w.play(s.length, nil)
		w.conclude()
		if w.audit.total() == 0 && w.server.Stats().Runnable > 0 {
			t.Errorf("seed %d: nothing was ordered", seed+1)
		}
	}
}

// TestWorldsListedByQueue runs fault simulations with short pages, so that agents are
// listed by queue, and makes the assertions of every simulation.
func TestWorldsListedByQueue(t *testing.T) {
	unraced.Only(t)
	byQueue := 0
	for seed := range uint64(*listedByQueue) {
		s := drawShape(seed + 1)
		s.http, s.inCluster, s.stacks, s.perPage, s.length = true, true, false, 1, min(s.length, time.Hour)
		w := newWorld(s, func(text string) { t.Errorf("seed %d (%s): %s", seed+1, s.theme, text) })
		w.play(s.length, nil)
		w.conclude()
		byQueue += w.seen["by queue"]
	}
	if byQueue == 0 {
		t.Error("agents were never listed by queue")
	}
	t.Logf("%d lists by queue", byQueue)
}

var listedByQueue = flag.Int("listed-by-queue", 2, "worlds that TestWorldsListedByQueue plays")
