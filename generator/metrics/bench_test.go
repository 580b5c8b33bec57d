package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/metrics"
	"muster/generator/plan"
	"muster/generator/status"
	"muster/testdata/bench"
)

// fifty is the report of a tick that found 50 overlays with ten live dispatches
// and a hundred agents at work each, and had nothing to do.
func fifty() generator.Report {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("overlay-%02d", i))
	}
	r := report(names...)
	r.Outcome, r.Result.Operations = generator.Unchanged, nil
	for i := range r.Result.Input.Overlays {
		o := &r.Result.Input.Overlays[i]
		supply := plan.Capacity{Overlay: o.Name, Dispatches: map[string]plan.Observed{}}
		for n := range 10 {
			id := fmt.Sprintf("%s-%d", o.Name, n)
			o.Dispatches = append(o.Dispatches, plan.Dispatch{ID: id, Agents: 20, At: start()})
			var seen plan.Observed
			for index := range 19 {
				seen.Registered.Add(index)
			}
			supply.Dispatches[id] = seen
		}
		r.Result.Decisions[i].Observation.Overlays = []plan.Capacity{supply}
		for n := range 100 {
			r.Result.Input.Snapshot.Sightings = append(r.Result.Input.Snapshot.Sightings, plan.Sighting{
				Agent: fmt.Sprintf("%s-%d", o.Name, n), Tags: []string{"overlay=" + o.Name}, Running: true, Started: start().Add(time.Duration(n) * time.Second),
			})
		}
	}
	return r
}

// BenchmarkIdleTick is what the endpoint adds to a tick that has nothing to do.
func BenchmarkIdleTick(b *testing.B) {
	r := fifty()
	recorder := status.NewRecorder(status.Config{Interval: 15 * time.Second, Longest: time.Minute})
	m, err := metrics.New(recorder.Snapshot, start)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	// The least: other work of the machine only adds to it.
	least := time.Hour
	for b.Loop() {
		before := bench.CPUTime()
		recorder.Began(r.Began)
		m.Began(r.Began)
		recorder.Ended(r)
		m.Ended(r)
		least = min(least, bench.CPUTime()-before)
	}
	bench.Row(b, "metrics: CPU that the endpoint adds to an idle tick", bench.Milliseconds(least))
}

// BenchmarkScrape is a scrape of 50 overlays, as Prometheus asks for it.
func BenchmarkScrape(b *testing.B) {
	r := fifty()
	m := after(b, r)
	h := m.Handler(nil)
	for name, accept := range map[string]string{ // as Prometheus 3 sends it, with exemplars and without
		"openmetrics": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
		"text":        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			bytes, before := 0, bench.CPUTime()
			var took []float64
			for b.Loop() {
				begin := time.Now()
				request := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
				request.Header.Set("Accept", accept)
				request.Header.Set("Accept-Encoding", "gzip")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, request)
				bytes = w.Body.Len()
				took = append(took, bench.Milliseconds(time.Since(begin)))
			}
			b.ReportMetric(float64(bytes), "bytes")
			b.ReportMetric(bench.Milliseconds(bench.CPUTime()-before)/float64(b.N), "cpu-ms/op")
			if name == "text" {
				bench.Row(b, "metrics: a scrape of 50 overlays", slices.Min(took))
			}
		})
	}
}
