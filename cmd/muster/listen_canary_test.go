package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// TestPagesEscapeHostileText asserts that run --listen escapes hostile text in everything that
// other people can write.
func TestPagesEscapeHostileText(t *testing.T) {
	w, p, _, _ := fleetProgram(t, "run", "--listen", "127.0.0.1:0", "--startup-jitter", "0s")
	policy := func(queue, more string) []byte {
		return []byte("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: \"" + queue + "\"\n  max: 20\n" + more)
	}
	named := `  schedules: [{name: "fixes acme/canary#1 @canary-team", from: 00:00, to: 24:00, timeZone: UTC, min: 6}]` + "\n"
	if _, err := w.repo.Commit(leaktest.Words(), start.Add(-time.Hour),
		branch.Change{Path: "overlays/default/scaling.yaml", Content: policy("default", named)},
		branch.Change{Path: "overlays/odd/scaling.yaml", Content: policy("x", "  \""+leaktest.Hostile+"\": 1\n")},
		branch.Change{Path: "overlays/queue/scaling.yaml", Content: policy(leaktest.Hostile, "")},
		branch.Change{Path: "overlays/@canary-team/scaling.yaml", Content: policy("default", "")},
		branch.Change{Path: "overlays/" + strings.ReplaceAll(leaktest.Words(), "/", "-") + "/scaling.yaml", Content: policy("default", "")},
	); err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"queue=default", "queue=" + leaktest.Words()} {
		w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster.BuildkiteCluster,
			Steps: []fakebuildkite.Step{{Label: leaktest.Words(), Parallelism: 2, Duration: time.Hour, Agents: []string{rule, "os=" + leaktest.Words()}}}})
	}
	w.addBuild(2)
	_, err := w.buildkite.Connect(fakebuildkite.Agent{Cluster: w.cluster.BuildkiteCluster, Name: leaktest.Words(), Tags: []string{"queue=default", "name=" + leaktest.Words()}})
	check(t, err)
	w.buildkite.AdvanceTo(start)
	var stderr bytes.Buffer
	p.stderr = &stderr
	looked := 0
	look := func() { // between two ticks: the log is not written to
		for _, path := range []string{"/", "/?overlay=default", "/status.json", "/metrics", "/healthz", "/readyz", "/timeline.svg?overlay=default", "/?overlay=%40canary-team", "/nothing@canary"} {
			text := getText(t, "http://"+listenAddress(stderr.String())+path)
			looked++
			found := leaktest.Printed(strings.ReplaceAll(text, "@media ", "")) // a style sheet's rule
			if slices.Sort(found); len(found) > 0 {
				t.Errorf("%s has %q:\n%s", path, slices.Compact(found), text)
			}
			if sees := strings.Contains(text, "canary-team"); !sees && slices.Contains([]string{"/", "/status.json", "/metrics", "/readyz"}, path) {
				t.Errorf("%s has none of what is looked for:\n%s", path, text)
			}
		}
	}
	runScripted(t, p, start, look, func() {
		w.buildkite.Fail(fakebuildkite.Fault{Path: "/builds", Status: 500, Body: `{"message":"` + leaktest.Hostile + leaktest.BuildkiteToken + `"}`})
	}, look)
	if looked != 18 {
		t.Errorf("looked at %d pages\n%s", looked, &stderr)
	}
}
