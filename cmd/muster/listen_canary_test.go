package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/url"
	"os"
	"regexp"
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
	p.Stderr = &stderr
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

// TestCommandLineIsNotServed asserts that no path of --listen serves a credential in the
// arguments or in the environment.
func TestCommandLineIsNotServed(t *testing.T) {
	w, p, _, _ := fleetProgram(t)
	host := strings.TrimPrefix(w.git.URL, "http://")
	p.Args = []string{
		"run", "--listen", "127.0.0.1:0,pprof=localhost:0", "--startup-jitter", "0s",
		"--repo", "http://git:" + url.QueryEscape(leaktest.GitPassword) + "@" + host + "/fleet.git?private_token=" + leaktest.GitHubToken,
		"--notify", "kind=url,name=chat,url=http://127.0.0.1:1/hooks/" + leaktest.AgentToken + "?key=" + leaktest.SSHKey,
	}
	args := os.Args
	os.Args = append([]string{args[0]}, p.Args...)
	t.Cleanup(func() { os.Args = args })
	for _, pair := range p.Environ {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	var stderr bytes.Buffer
	p.Stderr = &stderr
	looked := 0
	look := func() { // between two ticks: the log is not written to
		listening := regexp.MustCompile(`for="?(profiles|the status page).* address=(\S+)`).FindAllStringSubmatch(stderr.String(), -1)
		if len(listening) != 2 {
			t.Fatalf("%d addresses in %s", len(listening), &stderr)
		}
		for _, at := range listening {
			for _, path := range []string{
				"/", "/status.json", "/metrics", "/healthz", "/readyz", "/timeline.svg?overlay=default", "/nothing", "/debug/vars", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/nothing",
				"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs", "/debug/pprof/threadcreate?debug=1", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=0.1",
			} {
				text := getText(t, "http://"+at[2]+path)
				if zipped, err := gzip.NewReader(strings.NewReader(text)); err == nil {
					plain, err := io.ReadAll(zipped)
					check(t, err)
					text += string(plain)
				}
				looked++
				if found := leaktest.Leaks(text); len(found) > 0 {
					t.Errorf("%s serves %q", path, found)
				}
			}
		}
	}
	runScripted(t, p, start, look)
	if looked != 36 {
		t.Errorf("looked at %d pages", looked)
	}
	if found := leaktest.Leaks(stderr.String()); len(found) > 0 {
		t.Errorf("the log has %q", found)
	}
}
