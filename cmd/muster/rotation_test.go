package main

import (
	"os"
	"path/filepath"
	"testing"

	"muster/gitops/leaktest"
)

// TestRunRotatesCredentials replaces the credentials of git and of Buildkite while muster run runs: the servers
// first reject the former ones, then muster uses the new ones without a restart.
func TestRunRotatesCredentials(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	k.git.SetPassword(leaktest.GitPassword)
	dir := t.TempDir()
	write := func(name, secret string) string {
		file := filepath.Join(dir, name)
		check(t, os.WriteFile(file+".new", []byte(secret+"\n"), 0o600))
		check(t, os.Rename(file+".new", file)) // as kubelet replaces mounted Secrets
		return file
	}
	k.addBuild(2)
	k.start([]string{"BUILDKITE_API_TOKEN="}, "--interval", "1s", "--git-username", "git", "--git-password-file", write("password", leaktest.GitPassword),
		"--buildkite-token-file", write("token", leaktest.BuildkiteToken))
	k.says("agents=2")

	k.git.SetPassword("next-password")
	k.addBuild(3)
	k.says("the server does not accept the user name and password (401)")
	write("password", "next-password")
	k.says("agents=3")

	k.buildkite.SetToken("next-token")
	k.addBuild(4)
	k.says("Buildkite does not accept the API token (401)")
	write("token", "next-token")
	k.says("agents=4")
	k.stop()
}
