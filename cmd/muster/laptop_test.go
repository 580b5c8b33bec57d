package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/gitops/gitserver"
)

// laptop is the environment of a person who has set up git.
func laptop(t *testing.T, gitconfig string) (home string, environ []string) {
	t.Helper()
	home = t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(gitconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
}

// TestStatusWithAHelper: what git has stored is enough to read the repository.
func TestStatusWithAHelper(t *testing.T) {
	w, p, stdout, stderr := fleetProgram(t, "status", "-o", "name")
	w.git.SetPassword("hunter2")
	home, environ := laptop(t, "[credential]\n\thelper = store\n")
	p.environ = append(p.environ, environ...)
	if code := p.run(t.Context()); code != exitOutside || !strings.Contains(stderr.String(), "none was given") {
		t.Errorf("without anything stored: exit code %d, %s", code, stderr)
	}
	url := strings.Replace(w.git.URL, "http://", "http://git:hunter2@", 1)
	if err := os.WriteFile(filepath.Join(home, ".git-credentials"), []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.run(t.Context()); code != exitOK || stdout.String() != "overlays/default\n" {
		t.Errorf("exit code %d, printed %q and %q", code, stdout, stderr)
	}
}

// TestNobodyIsAsked: off a terminal no program that asks a person is started, and
// none gets muster's secrets.
func TestNobodyIsAsked(t *testing.T) {
	w, p, _, stderr := fleetProgram(t, "status")
	w.git.SetPassword("hunter2")
	asked := filepath.Join(t.TempDir(), "asked")
	script := asked + ".sh"
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\necho asked > %s\necho hunter2\n", asked), 0o700); err != nil {
		t.Fatal(err)
	}
	_, environ := laptop(t, "[core]\n\taskPass = "+script+"\n")
	p.environ = append(append(p.environ, environ...), "GIT_ASKPASS="+script, "SSH_ASKPASS="+script)
	if code := p.run(t.Context()); code != exitOutside {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, err := os.Stat(asked); err == nil {
		t.Error("somebody was asked for a password")
	}
	cmd := p.credentialHelper()(t.Context(), "fill")
	if slices.ContainsFunc(cmd.Env, func(entry string) bool { return strings.HasPrefix(entry, variableToken+"=") }) {
		t.Error("the helper gets Buildkite's token")
	}
}

// TestAskpassOnATerminal: a person at a terminal is asked as git is set up to.
func TestAskpassOnATerminal(t *testing.T) {
	w, p, stdout, stderr := fleetProgram(t, "status", "-o", "name")
	w.git.SetPassword("hunter2")
	script := filepath.Join(t.TempDir(), "ask.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ncase $1 in User*) echo git;; *) echo hunter2;; esac\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, environ := laptop(t, "")
	p.environ = append(append(p.environ, environ...), "GIT_ASKPASS="+script)
	p.terminal, p.screen.progress = true, true
	if code := p.run(t.Context()); code != exitOK || stdout.String() != "overlays/default\n" {
		t.Errorf("exit code %d, printed %q and %q", code, stdout, stderr)
	}
}

// gitOnly is a PATH without ssh.
func gitOnly(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(path, filepath.Join(dir, "git")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// TestStatusOverSSH: where there is no ssh program, with the real ssh-agent and with a
// key in the usual place no flag is needed.
func TestStatusOverSSH(t *testing.T) {
	server, err := gitserver.ServeSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	w, p, stdout, stderr := fleetProgram(t, "status", "-o", "name")
	home, environ := laptop(t, "")
	ssh := filepath.Join(home, ".ssh")
	if err := os.Mkdir(ssh, 0o700); err != nil {
		t.Fatal(err)
	}
	copyFile := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyFile(server.KnownHostsFile, filepath.Join(ssh, "known_hosts"))
	p.environ = append(append(p.environ, environ...), "MUSTER_REPO="+server.URL(w.repo))
	run := func(how string, more ...string) {
		t.Helper()
		stdout.Reset()
		q := p
		q.environ = append(slices.Clone(p.environ), more...)
		if code := q.run(t.Context()); code != exitOK || stdout.String() != "overlays/default\n" {
			t.Errorf("%s: exit code %d, printed %q and %q", how, code, stdout, stderr)
		}
	}
	agent := agentWith(t, server.KeyFile)
	gitOnly(t)
	if code := p.run(t.Context()); code != exitUsage || !strings.Contains(stderr.String(), "give --ssh-key-file, or start an ssh-agent") {
		t.Errorf("without any key: exit code %d, %s", code, stderr)
	}
	run("agent", "SSH_AUTH_SOCK="+agent)
	copyFile(server.KeyFile, filepath.Join(ssh, "id_ed25519"))
	run("key in ~/.ssh")
}

// agentWith starts the real ssh-agent, until the test ends, and adds a key.
func agentWith(t *testing.T, keyFile string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	daemon := exec.Command("ssh-agent", "-D", "-a", socket)
	out, err := daemon.StdoutPipe()
	if err == nil {
		err = daemon.Start()
	}
	if err == nil {
		t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
		_, err = out.Read(make([]byte, 1)) // it prints its socket once it listens
	}
	if err != nil {
		t.Fatalf("ssh-agent comes with OpenSSH, which this test needs: %v", err)
	}
	add := exec.Command("ssh-add", "-q", keyFile)
	add.Env = []string{"SSH_AUTH_SOCK=" + socket}
	var said bytes.Buffer
	add.Stderr = &said
	if err := add.Run(); err != nil {
		t.Fatalf("ssh-add: %v: %s", err, &said)
	}
	return socket
}
