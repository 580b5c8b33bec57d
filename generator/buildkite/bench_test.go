package buildkite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"muster/generator/buildkite"
	"muster/generator/plan"
	"muster/testdata/bench"
)

// BenchmarkTenThousandBuilds is a tick over 10,000 builds of ten jobs, a quarter
// of which run: reading, observing, deciding. Beside it stands what it costs to
// decode the same bytes and keep nothing, with the client's own reader, and to
// validate them with encoding/json. The table has the tick less the decoding.
func BenchmarkTenThousandBuilds(b *testing.B) {
	api := &bulk{builds: 10_000, jobs: 10, perPage: 100, job: largeJob}
	pages := map[string][]byte{}
	size := 0
	render := roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := api.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		page, ok := pages[r.URL.String()]
		if !ok {
			if page, err = io.ReadAll(response.Body); err != nil {
				return nil, err
			}
			pages[r.URL.String()] = page
			size += len(page)
		}
		response.Body = io.NopCloser(bytes.NewReader(page))
		return response, nil
	})
	c, err := buildkite.New(buildkite.Config{Org: "acme", Token: token(secret), HTTP: render})
	if err != nil {
		b.Fatal(err)
	}
	overlays := []plan.Overlay{{Name: "default", Policy: plan.Policy{Queue: "default", Tags: []string{"os=linux"}, Max: 50, Lease: 15 * time.Minute}}}
	tick := func() {
		snapshot, err := c.Snapshot(context.Background(), plan.Query{At: now})
		if err != nil {
			b.Fatal(err)
		}
		var register plan.Registrations
		register.Note(snapshot)
		for _, o := range plan.Observe(overlays, snapshot, &register) {
			if d := plan.Decide("tip", overlays, o); d[0].Figures.Pending != 50_000 {
				b.Fatal(fmt.Sprint(d[0].Figures))
			}
		}
	}
	each := func(f func(page []byte) bool) func() {
		return func() {
			for _, page := range pages {
				if !f(page) {
					b.Fatal("a page is not JSON")
				}
			}
		}
	}
	tick()
	// The least of each: what others do on the machine only ever adds.
	ticks, decoded, valid := time.Hour, time.Hour, time.Hour
	for b.Loop() {
		ticks = min(ticks, cpuOf(tick))
		decoded = min(decoded, cpuOf(each(func(page []byte) bool { return buildkite.DecodeBuilds(bytes.NewReader(page)) == nil })))
		valid = min(valid, cpuOf(each(json.Valid)))
	}
	b.ReportMetric(float64(size>>20), "MiB")
	b.ReportMetric(bench.Milliseconds(ticks), "tick-ms")
	b.ReportMetric(bench.Milliseconds(decoded), "decode-ms")
	b.ReportMetric(bench.Milliseconds(valid), "json.Valid-ms")
	bench.Row(b, "tick over 10,000 builds / decoding them: CPU", float64(ticks)/float64(decoded))
}

// cpuOf returns the CPU time that f takes, garbage collection included.
func cpuOf(f func()) time.Duration {
	before := bench.CPUTime()
	f()
	return bench.CPUTime() - before
}
