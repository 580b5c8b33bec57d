package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
	"muster/gitops/canarytest"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
)

// twoOverlays are the files of a fleet with the overlays default and second, each for the
// queue of its name.
func twoOverlays(t *testing.T) []branch.Change {
	t.Helper()
	var all []branch.Change
	err := fs.WalkDir(os.DirFS(top), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".yaml" {
			if e != nil && e.IsDir() && name != "." && !strings.HasPrefix(name, "base") && !strings.HasPrefix(name, "overlays") {
				return fs.SkipDir
			}
			return err
		}
		content, err := os.ReadFile(filepath.Join(top, name))
		if err != nil || !strings.Contains(name, "/") {
			return err
		}
		all = append(all, branch.Change{Path: name, Content: content})
		if second := strings.Replace(name, "overlays/default", "overlays/second", 1); second != name {
			text := strings.NewReplacer("queue: default", "queue: second", "muster-default", "muster-second", "overlay: default", "overlay: second").Replace(string(content))
			all = append(all, branch.Change{Path: second, Content: []byte(text)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestGitHubCommits: the program commits the two acts of a tick through GitHub's API with
// one request each, with somebody to tell of pushes and without, and verify finds that
// they follow.
func TestGitHubCommits(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(canarytest.GitHubToken), 0o600); err != nil {
		t.Fatal(err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	for name, more := range map[string][]string{"alone": nil, "with a receiver": {"--notify", "kind=flux,url=" + receiver.URL + "/hook/0123,secret-file=" + secret}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := gitserver.Init(filepath.Join(dir, githubtest.Owner, githubtest.Name+".git"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Commit("Begin\n", start.Add(-time.Hour), twoOverlays(t)...); err != nil {
				t.Fatal(err)
			}
			server, err := gitserver.Serve(dir, gitserver.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			api, err := githubtest.Serve(r, t.TempDir(), stoppedClock{start}.Now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(api.Close)
			buildkite := fakebuildkite.New(fakebuildkite.Options{Now: start.Add(-time.Minute), Token: canarytest.BuildkiteToken})
			cluster := buildkite.AddCluster("ci")
			for _, queue := range []string{"default", "second"} {
				buildkite.AddQueue(cluster, queue)
				buildkite.CreateBuild(fakebuildkite.Build{Cluster: cluster, Steps: []fakebuildkite.Step{{Parallelism: 2, Duration: time.Hour, Agents: []string{"queue=" + queue}}}})
			}
			buildkite.Advance(time.Minute)
			rest := httptest.NewServer(buildkite)
			t.Cleanup(rest.Close)
			run := func(args ...string) string {
				t.Helper()
				code, out, errs := execute(t, program{args: append(args, "--repo", server.URL+"/acme/fleet.git"), environ: []string{"BUILDKITE_API_TOKEN=" + canarytest.BuildkiteToken}})
				if code != exitOK {
					t.Fatalf("%v: exit code %d: %s%s", args, code, out, errs)
				}
				return out
			}
			run(append([]string{"run", "--once", "--buildkite-org", "acme", "--buildkite-url", rest.URL + "/", "--github-commits", "--github-api-url", api.URL,
				"--github-app-id", api.AppID, "--github-app-installation", fmt.Sprint(api.Installation), "--github-app-key-file", api.KeyFile}, more...)...)
			if made := api.Made(); fmt.Sprint(made) != "map[createCommitOnBranch:2]" {
				log, _ := r.Git("log", "--format=%s")
				t.Errorf("GitHub was asked to write %v, want two commits; the log is\n%s", made, log)
			}
			if out := run("verify", "--strict"); out != "3 commits, 2 of them muster's: 2 follows\n" {
				t.Errorf("verify says %s", out)
			}
		})
	}
}
