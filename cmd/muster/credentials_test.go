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

	"muster/cmd/invocation"
	"muster/gitops/gitserver"
)

// laptop returns the environment of a user who has configured git.
func laptop(t *testing.T, gitconfig string) (home string, environ []string) {
	t.Helper()
	home = t.TempDir()
	check(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(gitconfig), 0o600))
	return home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
}

// fleetReader is muster status -o name with a starter fleet, in the environment of a person who
// has set up git.
type fleetReader struct {
	*scenario
	program
	home           string
	stdout, stderr *bytes.Buffer
}

func newFleetReader(t *testing.T, gitconfig string) *fleetReader {
	t.Helper()
	w, p, stdout, stderr := fleetProgram(t, "status", "-o", "name")
	home, environ := laptop(t, gitconfig)
	p.Environ = append(p.Environ, environ...)
	return &fleetReader{w, p, home, stdout, stderr}
}

// succeeds asserts that the overlays are printed, with more of an environment.
func (r *fleetReader) succeeds(t *testing.T, how string, environ ...string) {
	t.Helper()
	p := r.program
	p.Environ = append(slices.Clone(p.Environ), environ...)
	r.stdout.Reset()
	if code := p.run(t.Context()); code != invocation.ExitOK || r.stdout.String() != "overlays/default\n" {
		t.Errorf("%s: exit code %d, printed %q and %q", how, code, r.stdout, r.stderr)
	}
}

// fails asserts the exit code and the error, with more of an environment.
func (r *fleetReader) fails(t *testing.T, how string, code int, text string, environ ...string) {
	t.Helper()
	p := r.program
	p.Environ = append(slices.Clone(p.Environ), environ...)
	r.stderr.Reset()
	if got := p.run(t.Context()); got != code || !strings.Contains(r.stderr.String(), text) {
		t.Errorf("%s: exit code %d, %s", how, got, r.stderr)
	}
}

// TestStatusWithAHelper asserts that a password in git's store is used.
func TestStatusWithAHelper(t *testing.T) {
	r := newFleetReader(t, "[credential]\n\thelper = store\n")
	r.git.SetPassword("hunter2")
	r.fails(t, "without a stored password", invocation.ExitOutside, "none was given")
	url := strings.Replace(r.git.URL, "http://", "http://git:hunter2@", 1)
	check(t, os.WriteFile(filepath.Join(r.home, ".git-credentials"), []byte(url+"\n"), 0o600))
	r.succeeds(t, "with a stored password")
}

// TestStatusWithNetrc asserts that a password in ~/.netrc is used.
func TestStatusWithNetrc(t *testing.T) {
	r := newFleetReader(t, "")
	r.git.SetPassword("hunter2")
	check(t, os.WriteFile(filepath.Join(r.home, ".netrc"), []byte("machine 127.0.0.1 login git password hunter2\n"), 0o600))
	r.succeeds(t, "netrc")
}

// TestNoPromptWithoutTerminal asserts that without a terminal no program that prompts is
// started, and that no helper gets muster's secrets.
func TestNoPromptWithoutTerminal(t *testing.T) {
	prompted := filepath.Join(t.TempDir(), "prompted")
	script := prompted + ".sh"
	check(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\necho prompted > %s\necho hunter2\n", prompted), 0o700))
	r := newFleetReader(t, "[core]\n\taskPass = "+script+"\n")
	r.git.SetPassword("hunter2")
	r.fails(t, "without a terminal", invocation.ExitOutside, "", "GIT_ASKPASS="+script, "SSH_ASKPASS="+script)
	if _, err := os.Stat(prompted); err == nil {
		t.Error("a program prompted for the password")
	}
	cmd := r.CredentialHelper()(t.Context(), "fill")
	if slices.ContainsFunc(cmd.Env, func(entry string) bool { return strings.HasPrefix(entry, invocation.VariableToken+"=") }) {
		t.Error("the helper gets Buildkite's token")
	}
}

// TestAskpassOnATerminal asserts that on a terminal git's program prompts for the password.
func TestAskpassOnATerminal(t *testing.T) {
	script := filepath.Join(t.TempDir(), "ask.sh")
	check(t, os.WriteFile(script, []byte("#!/bin/sh\ncase $1 in User*) echo git;; *) echo hunter2;; esac\n"), 0o700))
	r := newFleetReader(t, "")
	r.git.SetPassword("hunter2")
	r.Terminal, r.Screen.Progress = true, true
	r.succeeds(t, "on a terminal", "GIT_ASKPASS="+script)
}

// gitOnly is a PATH without ssh.
func gitOnly(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("git")
	check(t, err)
	dir := t.TempDir()
	check(t, os.Symlink(path, filepath.Join(dir, "git")))
	t.Setenv("PATH", dir)
}

// TestStatusOverSSH asserts that without the ssh program the ssh-agent and the default key are
// used, without flags.
func TestStatusOverSSH(t *testing.T) {
	server, err := gitserver.ServeSSH(t.TempDir())
	check(t, err)
	t.Cleanup(server.Close)
	r := newFleetReader(t, "")
	ssh := filepath.Join(r.home, ".ssh")
	copyFile := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		check(t, err)
		check(t, os.WriteFile(to, text, 0o600))
	}
	check(t, os.Mkdir(ssh, 0o700))
	copyFile(server.KnownHostsFile, filepath.Join(ssh, "known_hosts"))
	r.Environ = append(r.Environ, "MUSTER_REPO="+server.URL(r.repo))
	agent := agentWith(t, server.KeyFile)
	gitOnly(t)
	r.fails(t, "without any key", invocation.ExitUsage, "give --ssh-key-file, or start an ssh-agent")
	r.succeeds(t, "agent", "SSH_AUTH_SOCK="+agent)
	copyFile(server.KeyFile, filepath.Join(ssh, "id_ed25519"))
	r.succeeds(t, "key in ~/.ssh")
}

// agentWith starts the real ssh-agent, until the test ends, and adds a key.
func agentWith(t *testing.T, keyFile string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	daemon := exec.Command("ssh-agent", "-D", "-a", socket)
	out, err := daemon.StdoutPipe()
	check(t, err)
	check(t, daemon.Start()) // it comes with OpenSSH, which this test needs
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	_, err = out.Read(make([]byte, 1)) // it prints its socket once it listens
	check(t, err)
	add := exec.Command("ssh-add", "-q", keyFile)
	add.Env = []string{"SSH_AUTH_SOCK=" + socket}
	if said, err := add.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add: %v: %s", err, said)
	}
	return socket
}
