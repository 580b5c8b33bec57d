package generator_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/metrics"
	"muster/generator/status"
	"muster/gitops/unraced"
)

// running is the clock of a muster in a world, for [generator.Generator.Run]. It stops at
// end, or later, after the first tick that did not fail: only then is it known whether the
// last push has landed.
type running struct {
	*muster
	end    time.Time
	failed func() bool // the last tick
	stop   func()
}

// Sleep implements generator.Clock.
func (r running) Sleep(ctx context.Context, d time.Duration) error {
	r.w.server.Advance(d)
	if !r.Now().Before(r.end) && !r.failed() {
		r.stop()
	}
	return ctx.Err()
}

// watched is a muster that runs, with what is known of it from outside.
type watched struct {
	*status.Recorder
	metrics  *metrics.Metrics
	seen     map[string]int // indexes that looks have shown, of each dispatch
	failed   bool           // the last tick
	outcomes [2]int         // of ticks: failed, and others
	landed   int            // operations whose push was confirmed by a later tick
}

func (v *watched) Began(at time.Time) {
	v.Recorder.Began(at)
	v.metrics.Began(at)
}

func (v *watched) Ended(r generator.Report) {
	if v.failed = r.Outcome == generator.Failed; v.failed {
		v.outcomes[0]++
	} else {
		v.outcomes[1]++
	}
	v.landed += len(r.Result.Landed)
	v.Recorder.Ended(r)
	v.metrics.Ended(r)
	for _, d := range r.Result.Decisions {
		for _, s := range d.Observation.Overlays {
			for id, seen := range s.Dispatches {
				for _, o := range r.Result.Input.Overlays {
					for _, of := range o.Dispatches {
						if of.ID == id {
							v.seen[id] = max(v.seen[id], seen.Registered.Below(of.Agents))
						}
					}
				}
			}
		}
	}
}

// run lets the world's one muster run until the end.
func (w *scenario) run(t *testing.T) *watched {
	t.Helper()
	v := &watched{seen: map[string]int{}}
	v.Recorder = status.NewRecorder(status.Config{Started: w.server.Now(), Interval: w.every, Longest: 20 * time.Minute})
	var err error
	if v.metrics, err = metrics.New(v.Snapshot, w.server.Now); err != nil {
		t.Fatal(err)
	}
	m := w.musters[0]
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clock := running{m, scenarioStart().Add(w.length), func() bool { return v.failed }, stop}
	g := generator.New(generator.Config{
		Repository: m, Buildkite: m, Clock: clock, Overlays: "overlays", Watch: v,
	})
	if err := g.Run(ctx, w.every, 0); err != nil {
		t.Fatal(err)
	}
	return v
}

// values are the numbers that are served: of histograms, how many observations.
func (v *watched) values(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := v.metrics.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

var ordersAgents = regexp.MustCompile(`(?m)^  parallelism: ([0-9]+)$`)

// booked are the counters as the ledger has them: from the messages of commits,
// read back, and from the manifests.
func (w *scenario) booked(t *testing.T, v *watched) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, c := range w.fleet.history() {
		if c.operation == nil {
			continue
		}
		e, err := ledger.Parse(ledger.Message(*c.operation, "v0"))
		if err != nil {
			t.Fatal(err)
		}
		overlay := strings.TrimPrefix(e.Path, "overlays/")
		all["commits "+overlay+" "+string(e.Kind)]++
		for _, id := range e.Dispatches() {
			file, kept := e.Path+"/dispatches/"+id+".yaml", e.Path+"/dispatches/withdrawn/"+id+".yaml"
			text := string(c.tree.files[file]) + string(c.parent.tree.files[file]) + string(c.parent.tree.files[kept])
			found := ordersAgents.FindStringSubmatch(text)
			if found == nil {
				t.Fatalf("%s: no manifest of %s", c.id, id)
			}
			agents, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case e.Kind == ledger.Dispatch:
				all["dispatches "+overlay]++
				all["dispatched "+overlay] += float64(agents)
			case c.tree.files[kept] != nil:
				all["withdrawn "+overlay]++
			default:
				came := 0
				for _, s := range e.Observation.Overlays {
					came += s.Dispatches[id].Registered.Below(agents)
				}
				all["retired "+overlay]++
				all["retired agents "+overlay] += float64(agents)
				all["never "+overlay] += float64(agents - came)
			}
		}
	}
	for id, n := range v.seen {
		overlay, _, _ := strings.Cut(id, "-")
		all["registered "+overlay] += float64(n)
	}
	return withoutZeros(all)
}

func withoutZeros(all map[string]float64) map[string]float64 {
	maps.DeleteFunc(all, func(_ string, n float64) bool { return n == 0 })
	return all
}

// counted are the same counters as they are served.
func (v *watched) counted(t *testing.T) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, n := range v.values(t) {
		words := strings.Fields(name)
		labels := map[string]string{}
		for _, l := range words[1:] {
			key, value, _ := strings.Cut(l, "=")
			labels[key] = value
		}
		called := map[string]string{
			"muster_dispatches_total": "dispatches", "muster_dispatched_agents_total": "dispatched", "muster_withdrawn_dispatches_total": "withdrawn",
			"muster_retired_dispatches_total": "retired", "muster_retired_agents_total": "retired agents",
			"muster_never_registered_agents_total": "never", "muster_registration_seconds": "registered",
		}[words[0]]
		switch {
		case words[0] == "muster_commits_total":
			all["commits "+labels["overlay"]+" "+labels["act"]] += n
		case called != "":
			all[called+" "+labels["overlay"]] += n
		}
	}
	return withoutZeros(all)
}

// TestMetricsAreTheLedgers plays hours with faults of every kind that leave the
// process alive, and compares what was counted with what is in git.
func TestMetricsAreTheLedgers(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	sums := map[string]float64{}
	for _, seed := range []uint64{1, 2, 3} {
		s := drawShape(seed)
		s.musters, s.instant, s.http, s.perPage = 1, true, true, 100
		s.length, s.every = time.Hour, 15*time.Second
		s.rates = rates{
			lag: s.rates.lag, startup: s.rates.startup, unreachable: 0.03, refused: 0.05, moved: 0.1, swallowed: 0.1,
			limited: 0.01, broken: 0.02, half: 0.01, noShow: 0.1, crashPod: 0.05, drains: 2, policies: 2, brokenImages: 1,
		}
		w := startScenario(t, s)
		v := w.run(t)
		sums["landed late"] += float64(v.landed)
		booked, counted := w.booked(t, v), v.counted(t)
		if diff := cmp.Diff(booked, counted); diff != "" {
			t.Errorf("seed %d (-ledger +metrics):\n%s", seed, diff)
		}
		for name, n := range counted {
			sums[strings.Fields(name)[0]] += n
		}
		all := v.values(t)
		failed, every := float64(v.outcomes[0]), float64(v.outcomes[0]+v.outcomes[1])
		if got := all["muster_ticks_total result=failed"]; got != failed || all["muster_tick_seconds"] != every {
			t.Errorf("seed %d: %v of %v ticks failed, want %v", seed, got, all["muster_tick_seconds"], v.outcomes)
		}
		started(t, w, all, sums)
	}
	for _, name := range []string{"dispatched", "retired", "never", "registered", "landed late", "started"} {
		if sums[name] == 0 {
			t.Errorf("nothing was ever %s", name)
		}
	}
	t.Log(sums)
}

// started compares the jobs that were seen to start with those that did, on
// agents of each overlay.
func started(t *testing.T, w *scenario, all, sums map[string]float64) {
	t.Helper()
	agents := map[string]fakebuildkite.AgentRecord{}
	for _, a := range w.server.Agents() {
		agents[a.ID] = a
	}
	for _, o := range w.overlays {
		did := 0
		for _, j := range w.server.Jobs() {
			if a, ok := agents[j.Agent]; ok && !j.Started.IsZero() && slices.Contains(a.Tags, "overlay="+o.name) {
				did++
			}
		}
		saw := all[fmt.Sprintf("muster_start_seconds overlay=%s", o.name)]
		sums["started"] += saw
		sums["to start"] += float64(did)
		if saw > float64(did) || saw < 0.9*float64(did) {
			t.Errorf("%s: %v jobs were seen to start of %d", o.name, saw, did)
		}
	}
}
