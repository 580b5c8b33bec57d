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

// One 503 with a long Retry-After to any request of any source must not stop decisions for longer than a minute or two.
func TestLongPauseOfEachSource(t *testing.T) {
	for _, source := range sources {
		for _, path := range []string{"/metrics", "/scheduled-jobs", "/get-states", "/builds", "/agents", "/clusters"} {
			for _, header := range []http.Header{{"Retry-After": {"3600"}}, {"Retry-After": {"600"}}, {"Retry-After": {"30"}}} {
				for _, f := range []fakebuildkite.Fault{{Status: 503, Body: "-", Header: header, Times: 1}} {
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
					f.Path = path
					o.Fail(f)
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
						t.Errorf("%s %s %v: no decision for %s: %v", source, path, header, d, first)
					}
				}
			}
		}
	}
}
