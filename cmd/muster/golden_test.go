package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/cmd/laboratory"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/status"
	"muster/gitops/git/remote"

	"github.com/google/go-cmp/cmp"
)

var golden = flag.Bool("golden", false, "run the tests of make golden, which compare output with testdata/golden")

// checkGolden compares a text with a file of testdata/golden, and with -update writes that.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	if *updateScripts {
		check(t, os.WriteFile(filepath.Join(top, "testdata", "golden", name), []byte(got), 0o644))
	}
	if diff := cmp.Diff(readText(t, "testdata/golden/"+name), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestGoldenSession runs the first 100 minutes of the demo, and compares the repository that
// it leaves, /status.json and /metrics with testdata/golden.
func TestGoldenSession(t *testing.T) {
	if !*golden {
		t.Skip("run make golden")
	}
	d := session{laboratory.NewDemo(filepath.Join(t.TempDir(), "demo"), 100*time.Minute)}
	ends := d.serveSession(t)
	get := func(path string) string {
		code, body := get(t, ends.handler(), path)
		if code != 200 {
			t.Fatalf("%s: %d", path, code)
		}
		return body
	}
	checkGolden(t, "status.json", get("/status.json"))
	checkGolden(t, "metrics.txt", ownMetrics(get("/metrics")))

	// Raw lines contain the hashes of the files' contents.
	const format = "--format=commit %H%ntree %T%nauthor %an <%ae> %aI%ncommitter %cn <%ce> %cI%n%n%B"
	checkGolden(t, "log.txt", d.log(t, "--raw", format))
	var manifests strings.Builder
	for _, name := range strings.Fields(d.git(t, "ls-tree", "-r", "--name-only", "main", "overlays/")) {
		if strings.Contains(name, "/dispatches/") {
			fmt.Fprintf(&manifests, "-- %s --\n%s", name, d.git(t, "cat-file", "blob", "main:"+name))
		}
	}
	checkGolden(t, "manifests.txt", manifests.String())
	if !t.Failed() {
		return
	}
	file, err := os.CreateTemp("", "muster-golden-*.log")
	check(t, err)
	defer file.Close()
	_, err = io.WriteString(file, d.log(t, "-p"))
	check(t, err)
	t.Logf("the output of git log -p is in %s", file.Name())
}

// session is a demonstration.
type session struct{ *laboratory.Demo }

// log returns the commits of the fleet repository, the first one first.
func (d session) log(t *testing.T, options ...string) string {
	t.Helper()
	args := []string{"log", "--reverse", "--no-color", "--no-ext-diff", "--no-renames", "--no-abbrev", "--root"}
	return d.git(t, append(append(args, options...), "main")...)
}

// git runs git in the fleet repository.
func (d session) git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.Repository.Git(args...)
	check(t, err)
	return out
}

// serveSession runs the demo without its sockets for Buildkite, and returns the endpoints at the
// end of the session.
func (d session) serveSession(t *testing.T) *endpoints {
	t.Helper()
	git, err := d.Open(t.Context())
	check(t, err)
	t.Cleanup(git.Close)
	client, err := buildkite.New(buildkite.Config{Org: "acme", Token: func() (string, error) { return "test-token", nil }, HTTP: d.Buildkite.Transport(), Timeout: time.Hour})
	check(t, err)
	clock := d.Clock()
	ends, err := newEndpoints(clock, status.Config{
		Muster:  status.Muster{Version: "v0", Commit: "c0ffee", Repository: "https://git.example.com/fleet.git", Branch: "main", Overlays: "overlays", Organisation: "acme"},
		Started: clock.Now(), Interval: laboratory.DemoInterval, Longest: longestTick,
		Services: services(func() remote.Stats { return remote.Stats{} }, nil, client, func() (buildkite.Stats, bool) { return buildkite.Stats{}, false }),
	}, nil)
	check(t, err)
	t.Cleanup(ends.page.Close)
	check(t, d.Loop(t.Context(), "v0", generator.Config{Buildkite: client, Watch: ends.watcher()}))
	return ends
}

// ownMetrics removes the metrics of the process and of Go, and the version of Go.
func ownMetrics(text string) string {
	text = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(go|process)_.*\n`).ReplaceAllString(text, "")
	return regexp.MustCompile(`goversion="[^"]*"`).ReplaceAllString(text, fmt.Sprintf("goversion=%q", "go"))
}
