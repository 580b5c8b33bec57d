package buildkite_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
	"muster/gitops/leaktest"
)

// TestLongPauseOfEachSource asserts that one 503 response with a long Retry-After to any request of any source stops
// decisions for at most two minutes.
func TestLongPauseOfEachSource(t *testing.T) {
	for _, source := range sources {
		for _, path := range []string{"/metrics", "/scheduled-jobs", "/get-states", "/builds", "/agents", "/clusters"} {
			for _, after := range []string{"3600", "600", "30"} {
				o := newOrganisation(fakebuildkite.Options{MetricsPoll: -1})
				ci := o.AddCluster("ci")
				o.AddQueue(ci, "default")
				o.AddAgentToken(ci, leaktest.AgentToken)
				o.CreateBuild(fakebuildkite.Build{Cluster: ci, Steps: []fakebuildkite.Step{{}}})
				c := retryingClient(t, o.Server, source)
				if _, err := c.Snapshot(t.Context(), plan.Query{At: o.Now()}); err != nil {
					t.Fatal(source, err)
				}
				o.Advance(15 * time.Second)
				o.Fail(fakebuildkite.Fault{Path: path, Status: 503, Body: "-", Header: http.Header{"Retry-After": {after}}, Times: 1})
				began := o.Now()
				var first error
				for n := 0; ; n++ {
					_, err := c.Snapshot(t.Context(), plan.Query{At: o.Now()})
					if err == nil {
						break
					}
					if first == nil {
						first = err
					}
					wait := plan.RetryError(nil)
					pause := 15 * time.Second
					if errors.As(err, &wait) {
						pause = max(pause, wait.RetryAfter())
					}
					o.Advance(pause)
					if n > 1000 {
						break
					}
				}
				if d := o.Now().Sub(began); d > 2*time.Minute {
					t.Errorf("%s %s %s: no decision for %s: %v", source, path, after, d, first)
				}
			}
		}
	}
}
