package main

import (
	"regexp"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// TestRunAfterMoveToSSH asserts that a fleet continues if its repository is reached through ssh instead of
// http while agents are in flight: nothing is ordered twice, and the identity stays.
func TestRunAfterMoveToSSH(t *testing.T) {
	unraced.Only(t)
	w, p, _, _ := fleetProgram(t)
	ssh, err := gitserver.ServeSSH(t.TempDir())
	check(t, err)
	t.Cleanup(ssh.Close)
	run := func(flags ...string) {
		t.Helper()
		p.Args = append([]string{"run", "--once"}, flags...)
		if code, _, errs := execute(t, p); code != invocation.ExitOK {
			t.Fatalf("%q: exit code %d, %s", flags, code, errs)
		}
	}
	identity := func() string {
		t.Helper()
		state, err := w.repo.ReadFile("overlays/default/dispatches/state.yaml")
		check(t, err)
		return regexp.MustCompile(`\n  id: [0-9a-f]{10}\n`).FindString(string(state))
	}
	w.addBuild(3)
	run()
	before := identity()
	moved := []string{"--repo", ssh.URL(w.repo), "--ssh-key-file", ssh.KeyFile, "--ssh-known-hosts-file", ssh.KnownHostsFile}
	run(moved...)
	w.addBuild(2)
	run(moved...)
	subjects, err := w.repo.Git("log", "--format=%s", "main")
	check(t, err)
	if want := "default: dispatch 2 agents (5 pending, 3 in flight)\ndefault: dispatch 3 agents (3 pending)\nBegin the fleet"; strings.TrimSpace(subjects) != want {
		t.Errorf("the commits are\n%s\nwant\n%s", subjects, want)
	}
	if after := identity(); before == "" || after != before {
		t.Errorf("the identity is %q, was %q", after, before)
	}
}
