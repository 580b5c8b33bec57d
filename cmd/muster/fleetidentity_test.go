package main

import (
	"bytes"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/starter"
	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// orderedBy matches the tag of ordered agents with the identifier of their fleet.
var orderedBy = regexp.MustCompile(`\bmuster=([0-9a-f]{10})\b`)

// fleetsOf returns the identifiers with which plan would order agents, each once.
func fleetsOf(t *testing.T, p program, args ...string) []string {
	t.Helper()
	p.Args = append([]string{"plan", "--diff"}, args...)
	code, out, errs := execute(t, p)
	if code != invocation.ExitChanges {
		t.Fatalf("%q: exit code %d, %s", args, code, errs)
	}
	var ids []string
	for _, m := range orderedBy.FindAllStringSubmatch(out, -1) {
		ids = append(ids, m[1])
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// TestOneFleetByEveryAddress asserts that a repository is one fleet under every address, before its
// first order and after it, also as a mirror, and that another branch and another repository are other fleets.
func TestOneFleetByEveryAddress(t *testing.T) {
	unraced.Only(t)
	w, p, _, _ := fleetProgram(t)
	w.addBuild(3)
	dir := filepath.Dir(w.repo.Dir)
	git := func(args ...string) {
		t.Helper()
		_, err := w.repo.Git(args...)
		check(t, err)
	}
	ssh, err := gitserver.ServeSSH(t.TempDir())
	check(t, err)
	t.Cleanup(ssh.Close)
	host, port, err := net.SplitHostPort(ssh.Address)
	check(t, err)
	mirror := filepath.Join(dir, "mirror.git")
	addresses := func() map[string][]string {
		git("clone", "--quiet", "--mirror", w.repo.Dir, mirror)
		key := []string{"--ssh-key-file", ssh.KeyFile, "--ssh-known-hosts-file", ssh.KnownHostsFile}
		base := w.git.URL
		return map[string][]string{
			"http": {base + "/fleet.git"}, "final slash": {base + "/fleet.git/"}, "without .git": {base + "/fleet"}, "dot segments": {base + "/x/../fleet.git"},
			"host in capital letters": {strings.Replace(base, "127.0.0.1", "LOCALHOST", 1) + "/fleet.git"}, "user": {strings.Replace(base, "//", "//robot@", 1) + "/fleet.git"},
			"path": {w.repo.Dir}, "file": {"file://" + w.repo.Dir}, "path with a final slash": {w.repo.Dir + "/"},
			"ssh": append([]string{ssh.URL(w.repo)}, key...), "scp": append([]string{"[git@" + host + ":" + port + "]:" + w.repo.Dir}, key...),
			"mirror": {base + "/" + filepath.Base(mirror)}, "mirror on disk": {mirror},
		}
	}
	var first []string
	for _, when := range []string{"before the first order", "after it"} {
		for name, args := range addresses() {
			if name == "without .git" { // this server has no such rule, as large hosts have
				git("clone", "--quiet", "--bare", w.repo.Dir, filepath.Join(dir, "fleet"+when[:1]))
				args = []string{w.git.URL + "/fleet" + when[:1]}
			}
			got := fleetsOf(t, p, append([]string{"--repo"}, args...)...)
			if first == nil {
				first = got
			}
			if len(got) != 1 || got[0] != first[0] {
				t.Errorf("%s, %s: the fleets are %q, want %q", when, name, got, first)
			}
		}
		git("branch", "-f", "east", "main")
		east := fleetsOf(t, p, "--branch", "east") // after the first order, the copied one is withdrawn
		if !slices.ContainsFunc(east, func(id string) bool { return id != first[0] }) {
			t.Errorf("%s: the branch east is %q, and main %q", when, east, first)
		}
		if when != "after it" {
			p.Args = []string{"run", "--once"}
			if code, _, errs := execute(t, p); code != invocation.ExitOK {
				t.Fatalf("run: %d, %s", code, errs)
			}
			w.addBuild(9)
			mirror = filepath.Join(dir, "second.git")
		}
	}
	other, err := gitserver.Init(filepath.Join(dir, "other.git"))
	check(t, err)
	changes, err := starter.Changes(func(text []byte) []byte { return text })
	check(t, err)
	_, err = other.Commit("Begin the fleet", start.Add(-2*time.Hour), changes...)
	check(t, err)
	if got := fleetsOf(t, p, "--repo", other.Dir); len(got) != 1 || got[0] == first[0] {
		t.Errorf("another repository with the same overlay is %q, and the first %q", got, first)
	}
}

// TestQueueOfTwoClusters asserts that overlays of one queue key in two clusters of Buildkite are two fleets,
// and that the agents of each get the tag of their own.
func TestQueueOfTwoClusters(t *testing.T) {
	w, p, _, _ := fleetProgram(t)
	second := w.buildkite.AddCluster("Second")
	w.buildkite.AddQueue(second, "default")
	w.addBuild(2)
	w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: second, Steps: []fakebuildkite.Step{{Label: "test", Parallelism: 2, Duration: time.Hour}}})
	names, err := w.repo.Git("ls-tree", "-r", "--name-only", "main", "overlays/default")
	check(t, err)
	var changes []branch.Change
	for name := range strings.FieldsSeq(names) {
		text, err := w.repo.ReadFile(name)
		check(t, err)
		for dir, cluster := range map[string]string{"default": w.cluster.BuildkiteCluster, "second": second} {
			of := bytes.Replace(text, []byte("  # cluster: \"\" "), []byte("  cluster: "+cluster+" "), 1)
			changes = append(changes, branch.Change{Path: strings.Replace(name, "default", dir, 1), Content: of})
		}
	}
	_, err = w.repo.Commit("Serve the second cluster", start.Add(-time.Minute), changes...)
	check(t, err)
	if got := fleetsOf(t, p); len(got) != 2 {
		t.Errorf("the fleets are %q, want two", got)
	}
}
