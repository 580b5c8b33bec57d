package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/leaktest"
)

var older = flag.String("older", "", "the `program` of an older version, for TestUpgrade")

// TestUpgrade lets an older muster order agents for a fleet that it has written, this one continue with
// these agents in flight, the older one after a rollback, and this one again. No job gets a second agent,
// and all commits verify. make upgrade builds the older one.
func TestUpgrade(t *testing.T) {
	if *older == "" {
		t.Skip("make upgrade OLDER=COMMIT plays it")
	}
	newer, err := os.Executable()
	check(t, err)
	k := thisClock(t)
	k.cluster.Buildkite, k.cluster.Fate = k.buildkite, func() simulation.Fate { return simulation.Fate{} }
	run := func(program string, code int, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = []string{
			realVariable + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOCOVERDIR=" + t.TempDir(), "BUILDKITE_API_TOKEN=" + leaktest.BuildkiteToken,
			"MUSTER_REPO=" + k.git.URL + "/fleet.git", "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL=" + k.api.URL + "/",
		}
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%v: exit code %d, want %d (%v)\n%s", args, got, code, err, out)
		}
		return string(out)
	}
	// tick lets a program tick once, which orders agents as said, and the syncer apply it.
	tick := func(program, ordered string) {
		t.Helper()
		out := run(program, 0, "run", "--once")
		if got := strings.Contains(out, "msg=dispatched"); got != (ordered != "") || !strings.Contains(out, ordered) {
			t.Fatalf("it does not order %q:\n%s", ordered, out)
		}
	}
	sync := func() {
		t.Helper()
		repository, err := gitops.New(gitops.Config{URL: "file://" + k.repo.Dir})
		check(t, err)
		head, err := repository.Head(t.Context())
		check(t, err)
		check(t, k.cluster.Sync(head.Tree, "overlays/default"))
	}

	fleet := filepath.Join(t.TempDir(), "fleet")
	run(*older, 0, "init", fleet, "--max", "20")
	changes, err := filesBelow(os.DirFS(fleet))
	check(t, err)
	_, err = k.repo.Commit("Begin the fleet\n", start, changes...)
	check(t, err)

	k.addBuild(3)
	tick(*older, "agents=3")
	tick(newer, "")
	k.addBuild(5)
	tick(newer, "agents=5")
	tick(*older, "")
	k.addBuild(2)
	tick(*older, "agents=2")
	sync()
	tick(newer, "")
	tick(*older, "")
	run(*older, 0, "plan")
	run(newer, 0, "plan")
	for _, program := range []string{*older, newer} {
		if out := run(program, 0, "verify", "--all"); !strings.Contains(out, ": 3 reproduced\n") {
			t.Errorf("it does not reproduce three commits:\n%s", out)
		}
		run(program, 0, "history")
		run(program, 0, "explain")
	}
}
