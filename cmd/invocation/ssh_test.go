package invocation

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/gitops/leaktest"
)

// TestSSHProgramDoesNotPrompt asserts that ssh does not prompt without a terminal, and does not
// get muster's secrets.
func TestSSHProgramDoesNotPrompt(t *testing.T) {
	p := Program{Environ: []string{VariableToken + "=" + leaktest.BuildkiteToken}}
	for name, variable := range map[string]string{"ssh": "A=b", "a command": "GIT_SSH_COMMAND=ssh -4"} {
		q := p
		q.Environ = append(slices.Clone(p.Environ), variable)
		cmd := q.sshProgram()(context.Background(), "host", "git-upload-pack 'x'")
		if !slices.Contains(cmd.Args, "BatchMode=yes") {
			t.Errorf("%s: %q asks", name, cmd.Args)
		}
		if slices.ContainsFunc(cmd.Env, func(entry string) bool { return strings.HasPrefix(entry, VariableToken+"=") }) {
			t.Errorf("%s gets Buildkite's token", name)
		}
		q.Terminal, q.Screen.Progress = true, true
		if cmd := q.sshProgram()(context.Background(), "host"); slices.Contains(cmd.Args, "BatchMode=yes") {
			t.Errorf("%s: %q does not ask at a terminal", name, cmd.Args)
		}
	}
}

// TestUnusedSSHConfig asserts the warning about ignored ssh configuration.
func TestUnusedSSHConfig(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	config := filepath.Join(home, "config")
	check(t, os.WriteFile(config, []byte("Host git.inside\n  ProxyJump bastion\nHost short\n  HostName git.example.com\n"), 0o600))
	// OpenSSH ignores HOME, so the configuration is an argument.
	script := "#!/bin/sh\nPATH=" + os.Getenv("PATH") + " exec ssh -F " + config + ` "$@"` + "\n"
	check(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700))
	t.Setenv("PATH", dir)
	s := &Repository{SSHKey: "key"}
	for address, want := range map[string]string{
		"ssh://git@git.inside/fleet.git":       "ssh is set up to reach git.inside by proxyjump bastion,",
		"git@short:fleet.git":                  "ssh is set up to reach short by hostname git.example.com,",
		"ssh://git@git.example.com/fleet.git":  "",
		"https://git.inside/fleet.git":         "",
		"/srv/fleet.git":                       "",
		"ssh://-oProxyCommand=x/fleet.git":     "",
		"git@git.example.com:22/fleet:old.git": "",
	} {
		if got := s.unusedSSHConfig(address); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	s.SSHKey = ""
	if got := s.unusedSSHConfig("git@short:fleet.git"); got != "" {
		t.Errorf("where it is used: %q", got)
	}
}

// TestInsteadOf compares the addresses with git's.
func TestInsteadOf(t *testing.T) {
	home := t.TempDir()
	check(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(`[url "https://git.example.com/"]
	insteadOf = our:
	insteadOf = https://old.example.com/
[url "https://git.example.com/team/"]
	insteadOf = our:team-
[url "ssh://git@git.example.com/"]
	pushInsteadOf = https://git.example.com/
	pushInsteadOf = our:
[url "https://Me:x=y@git.example.com/"]
	insteadOf = mine:
`), 0o600))
	p := Program{Environ: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}}
	clone := filepath.Join(home, "clone")
	git := func(args ...string) string {
		out, _ := runProgram(t.Context(), "git", "", p.ChildEnviron(), args...)
		return out
	}
	if git("init", "-q", clone); git("-C", clone, "rev-parse", "--git-dir") == "" {
		t.Fatal("no clone")
	}
	for _, address := range []string{"our:fleet.git", "our:team-a.git", "https://old.example.com/a.git", "https://git.example.com/a.git", "mine:a", "/srv/fleet.git", "https://other.example.com/a"} {
		git("-C", clone, "config", "remote.x.url", address)
		wantRead, wantPush := git("-C", clone, "remote", "get-url", "x"), git("-C", clone, "remote", "get-url", "--push", "x")
		read, push := p.insteadOf(address)
		if push == "" {
			push = read
		}
		if read != wantRead || push != wantPush || wantRead == "" {
			t.Errorf("%s: %q and %q, git has %q and %q", address, read, push, wantRead, wantPush)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if read, push := p.insteadOf("our:fleet.git"); read != "our:fleet.git" || push != "" {
		t.Errorf("without git: %q and %q", read, push)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
