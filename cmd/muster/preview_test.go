package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"

	"sigs.k8s.io/yaml"
)

// TestPreviewOnGitHub asserts that a pull request has one comment and a check for each head;
// without a check for a personal token; and that a closed pull request gets nothing.
func TestPreviewOnGitHub(t *testing.T) {
	server, r, api := manualFleet(t)
	clone := filepath.Join(t.TempDir(), "clone")
	git := func(args ...string) {
		t.Helper()
		ada := []string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}
		_, err := gitserver.Repository{Dir: clone}.Git(append(ada, args...)...)
		check(t, err)
	}
	edit := func(from, to string) {
		t.Helper()
		policy := filepath.Join(clone, "overlays/default/scaling.yaml")
		check(t, exec.Command("sed", "-i", "s/"+from+"/"+to+"/", policy).Run())
		git("commit", "--quiet", "--all", "--message", "Change max")
		git("push", "--quiet", "origin", "HEAD:raise")
	}
	_, err := r.Git("clone", "--quiet", server.URL+"/acme/fleet.git", clone)
	check(t, err)
	git("checkout", "--quiet", "-b", "raise")
	edit("max: 10 ", "max: 40 ")
	n := api.AddPull("raise", "main")
	run := func(want int, said string, environ ...string) {
		t.Helper()
		args := []string{"preview", "--repo", clone, "--github-pr", "1", "--github-repo", server.URL + "/acme/fleet.git", "--github-api-url", api.URL}
		if len(environ) == 0 {
			args = append(args, "--github-app", "id="+api.AppID+",installation=42,key-file="+api.KeyFile)
		}
		if code, _, errs := execute(t, program{invocation.Program{Args: args, Environ: environ}}); code != want || !strings.Contains(errs, said) {
			t.Fatalf("exit code %d, want %d; it says\n%swant %q", code, want, errs, said)
		}
	}
	run(invocation.ExitOK, "wrote https://github.com/acme/fleet/pull/1#issuecomment-1\nwrote https://github.com/acme/fleet/runs/1\n")
	if got := api.Comments(n); len(got) != 1 || !strings.HasPrefix(got[0], "<!-- muster preview -->\n## What this does to the agents\n") || !strings.Contains(got[0], "| `max` | `10` | `40` |") {
		t.Errorf("the comments are %q", got)
	}
	head, err := r.Git("rev-parse", "raise")
	check(t, err)
	// The fleet of this test has no template: that is a finding, and a policy to annotate is there.
	if got := api.Checks(); len(got) != 1 || got[0].HeadSHA != strings.TrimSpace(head) || got[0].Conclusion != "failure" || len(got[0].Output.Annotations) == 0 {
		t.Errorf("the checks are %+v", got)
	}
	run(invocation.ExitOK, "unchanged https://github.com/acme/fleet/pull/1#issuecomment-1\n")
	edit("max: 40 ", "max: lots ")
	run(invocation.ExitOK, "wrote https://github.com/acme/fleet/pull/1#issuecomment-1\nno check is written: ", "GH_TOKEN="+githubtest.PersonalToken)
	if got := api.Comments(n); len(got) != 1 || !strings.Contains(got[0], "It would be suspended") {
		t.Errorf("the comments are %q", got)
	}
	edit("max: lots ", `max: "`+"\u202e\u200b"+` @canary-team" `)
	run(invocation.ExitOK, "wrote https://github.com/acme/fleet/pull/1#issuecomment-1\nwrote ")
	last := api.Checks()[len(api.Checks())-1]
	said := []string{api.Comments(n)[0], last.Output.Title, last.Output.Summary}
	for _, a := range last.Output.Annotations {
		said = append(said, fmt.Sprint(a["message"]))
		if found := leaktest.Printed(said[len(said)-1]); len(found) > 0 {
			t.Errorf("%q in the annotation %v", found, a)
		}
	}
	for _, text := range said { // Markdown: mentions are in code
		if found := leaktest.Controls(text); len(found) > 0 {
			t.Errorf("%q in %q", found, text)
		}
	}
	if !strings.Contains(said[0], "canary-team") || !strings.Contains(strings.Join(said[3:], ""), "canary-team") {
		t.Errorf("what was looked for is not there: %q", said)
	}
	edit("max: .* ", "max: 50 ")
	run(invocation.ExitOK, "no comment is written: commenting on pull request 1: the token may not write here, as with a pull request from a fork (403: Resource not accessible by integration)\n", "GITHUB_TOKEN="+githubtest.ForkToken)
	run(invocation.ExitOutside, "does not accept the token or key (401: Bad credentials)", "GITHUB_TOKEN=ghs_old")
	api.ClosePull(n)
	run(invocation.ExitOK, "pull request 1 is closed: nothing is written\n", "GITHUB_TOKEN="+githubtest.PersonalToken)
}

// TestPreviewInContainerJob runs the workflow of docs/how-to/review-policy-changes.md on files of another
// user, as in a container job, and asserts what preview prints without each of its steps and without git.
func TestPreviewInContainerJob(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	server, r, api := manualFleet(t)
	clone := filepath.Join(t.TempDir(), "clone")
	git := func(args ...string) {
		t.Helper()
		_, err := gitserver.Repository{Dir: clone}.Git(append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		check(t, err)
	}
	_, err := r.Git("clone", "--quiet", server.URL+"/acme/fleet.git", clone)
	check(t, err)
	git("checkout", "--quiet", "-b", "raise")
	check(t, exec.Command("sed", "-i", "s/max: 10 /max: 40 /", filepath.Join(clone, "overlays/default/scaling.yaml")).Run())
	git("commit", "--quiet", "--all", "--message", "Change max")
	git("push", "--quiet", "origin", "HEAD:raise")
	check(t, exec.Command("chown", "-R", "12345:12345", clone).Run())
	self, err := os.Executable()
	check(t, err)
	muster := tempFile(t, "muster-sim", fmt.Sprintf("#!/bin/sh\n%s=muster-sim exec %q \"$@\"\n", realVariable, self))
	check(t, os.Chmod(muster, 0o700))
	_, page, _ := strings.Cut(readText(t, "docs/how-to/review-policy-changes.md"), "name: fleet preview\n")
	page, _, _ = strings.Cut(page, "```")
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	check(t, yaml.Unmarshal([]byte(page), &workflow))
	run := func(path string, skip int) (string, error) {
		t.Helper()
		home := t.TempDir()
		var all []byte
		for i, step := range workflow.Jobs["check"].Steps {
			if step.Run == "" || i == skip {
				continue
			}
			c := exec.Command("/bin/sh", "-e", "-c", step.Run)
			c.Dir = clone
			c.Env = []string{
				"HOME=" + home, "PATH=" + path, "GIT_CONFIG_NOSYSTEM=1", "GITHUB_WORKSPACE=" + clone, "GITHUB_BASE_REF=main", "GITHUB_REPOSITORY=acme/fleet", "GOCOVERDIR=" + home,
				"GITHUB_TOKEN=" + githubtest.PersonalToken, "MUSTER_GITHUB_API_URL=" + api.URL, fmt.Sprintf("PULL_REQUEST=%d", api.AddPull("raise", "main")),
			}
			text, err := c.CombinedOutput()
			if all = append(all, text...); err != nil {
				return string(all), err
			}
		}
		return string(all), nil
	}
	tools, here := filepath.Dir(muster), os.Getenv("PATH")
	if text, err := run(tools+":"+here, -1); err != nil || !strings.Contains(text, "| `max` | `10` | `40` |") || !strings.Contains(text, "wrote https://github.com/acme/fleet/pull/") {
		t.Errorf("%v, it prints\n%s", err, text)
	}
	if text, err := run(tools+":"+here, 1); err == nil || !strings.Contains(text, "git config --global --add safe.directory "+clone) {
		t.Errorf("without safe.directory: %v, it prints\n%s", err, text)
	}
	if text, err := run(tools, 1); err == nil || !strings.Contains(text, "git is not installed, or not in PATH: install it") {
		t.Errorf("without git: %v, it prints\n%s", err, text)
	}
}
