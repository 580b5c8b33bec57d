package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/starter"
	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// TestGitHubCommits asserts that run commits the two operations of a tick through GitHub's API
// with one request each, with and without a receiver, and that verify accepts them.
func TestGitHubCommits(t *testing.T) {
	files, err := starter.Changes(func(policy []byte) []byte { return policy })
	check(t, err)
	second, err := starter.OverlayFiles(starter.Overlay{Name: "second", Queue: "second"})
	check(t, err)
	for name, content := range second {
		files = append(files, branch.Change{Path: "overlays/second/" + name, Content: content})
	}
	secret := tempFile(t, "secret", leaktest.GitHubToken)
	receiver := serveHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, more := range map[string][]string{"alone": nil, "with a receiver": {"--notify", "kind=flux,url=" + receiver.URL + "/hook/0123,secret-file=" + secret}} {
		t.Run(name, func(t *testing.T) {
			server, r, api := githubFleet(t, files...)
			buildkite := fakebuildkite.New(fakebuildkite.Options{Now: start.Add(-time.Minute), Token: leaktest.BuildkiteToken})
			cluster := buildkite.AddCluster("ci")
			for _, queue := range []string{"default", "second"} {
				buildkite.AddQueue(cluster, queue)
				buildkite.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{Parallelism: 2, Duration: time.Hour, Agents: []string{"queue=" + queue}}}})
			}
			buildkite.Advance(time.Minute)
			rest := serveHTTP(t, buildkite)
			run := func(args ...string) string {
				t.Helper()
				code, out, errs := execute(t, program{invocation.Program{Args: append(args, "--repo", server.URL+"/acme/fleet.git"), Environ: []string{"BUILDKITE_API_TOKEN=" + leaktest.BuildkiteToken}}})
				if code != invocation.ExitOK {
					t.Fatalf("%v: exit code %d: %s%s", args, code, out, errs)
				}
				return out
			}
			run(append([]string{"run", "--once", "--buildkite-org", "acme", "--buildkite-url", rest.URL + "/", "--github-api-url", api.URL,
				"--github-app", fmt.Sprintf("id=%s,installation=%d,key-file=%s,sign=true", api.AppID, api.Installation, api.KeyFile)}, more...)...)
			if made := api.Made(); fmt.Sprint(made) != "map[createCommitOnBranch:2]" {
				log, _ := r.Git("log", "--format=%s")
				t.Errorf("GitHub was asked to write %v, want two commits; the log is\n%s", made, log)
			}
			if out := run("verify", "--strict"); out != "3 commits, 2 of them by muster: 2 reproduced\n" {
				t.Errorf("verify says %s", out)
			}
		})
	}
}
