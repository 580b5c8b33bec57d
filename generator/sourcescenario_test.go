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
	"muster/gitops/leaktest"
	"muster/gitops/unraced"
)

// metricsShape is what the metrics of a world are like. The zero value triggers no ticks.
type metricsShape struct {
	on bool
	// poll and age are those of the simulated Buildkite: how often the metrics may be
	// requested, and for how long a response is repeated.
	poll, age time.Duration
	// failing is how often a request fails, and wrong how often the response shows no job
	// and no agent.
	failing, wrong float64
}

// drawMetrics draws the metrics of a world, of which most have none, from dice of its own:
// the rest of the seed's world stays what it was.
func drawMetrics(seed uint64) metricsShape {
	r := rand.New(rand.NewPCG(seed, 9))
	m := metricsShape{on: r.IntN(3) == 0, poll: []time.Duration{-1, 10 * time.Second, time.Minute}[r.IntN(3)]}
	if !m.on {
		return metricsShape{}
	}
	m.age = time.Duration(r.IntN(2)*r.IntN(300)) * time.Second
	m.failing, m.wrong = upTo(r, 0.5)*float64(r.IntN(2)), upTo(r, 1)*float64(r.IntN(2))
	return m
}

// beginMetrics gives the metrics their token.
func (w *scenario) beginMetrics() {
	w.counted = rand.New(rand.NewPCG(w.seed, 10))
	w.server.AddAgentToken(w.cluster, leaktest.AgentToken)
}

// metrics are those that trigger ticks of a process; nil where the world has none.
func (m *muster) metrics() generator.Metrics {
	if !m.w.metrics.on {
		return nil
	}
	return m.newMetrics(metricsTransport{m.w})
}

func (m *muster) newMetrics(transport http.RoundTripper) *buildkite.Metrics {
	metrics, err := buildkite.NewMetrics(m.agentConfig(transport))
	if err != nil {
		panic(err)
	}
	return metrics
}

// agentConfig returns the configuration of clients with an agent token.
func (m *muster) agentConfig(transport http.RoundTripper) buildkite.AgentConfig {
	return buildkite.AgentConfig{
		Org: "acme", Tokens: []func() (string, error){func() (string, error) { return leaktest.AgentToken, nil }},
		HTTP: transport, Timeout: time.Hour, Log: leaktest.Log(m.w.audit.fail, nil),
	}
}

// metricsTransport injects the faults of the metrics, until the world heals.
type metricsTransport struct{ w *scenario }

// RoundTrip implements [http.RoundTripper].
func (t metricsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := t.w
	response, err := w.server.Transport().RoundTrip(r)
	if err != nil || !w.healed.IsZero() {
		return response, err
	}
	body := ""
	switch {
	case w.counted.Float64() < w.metrics.failing:
		if w.counted.IntN(2) == 0 {
			return nil, errUnreachable
		}
		response.StatusCode, body = http.StatusBadGateway, `{"message":"sorry"}`
	case w.counted.Float64() < w.metrics.wrong:
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
	stacks, err := buildkite.NewStacks(buildkite.StacksConfig{
		Key: "muster-of-the-world", Clock: m, AgentConfig: m.agentConfig(troubledTransport{m, m.w.server.Transport()}),
	})
	if err != nil {
		panic(err)
	}
	return stacks
}

// TestScenariosListedByQueue runs fault simulations with short pages, so that agents are
// listed by queue, and makes the assertions of every simulation.
func TestScenariosListedByQueue(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	byQueue := 0
	for seed := range uint64(*listedByQueue) {
		s := drawShape(seed + 1)
		s.http, s.inCluster, s.stacks, s.perPage, s.length = true, true, false, 1, min(s.length, time.Hour)
		w := playToEnd(t, s)
		byQueue += w.seen["by queue"]
	}
	if byQueue == 0 {
		t.Error("agents were never listed by queue")
	}
	t.Logf("%d lists by queue", byQueue)
}

var listedByQueue = flag.Int("listed-by-queue", 2, "worlds that TestScenariosListedByQueue plays")
