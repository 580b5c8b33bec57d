package git_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// gitHelper is the real git credential with the real helper "store", over a file.
func gitHelper(t *testing.T, store string) remote.HelperFunc {
	t.Helper()
	home := t.TempDir()
	config := fmt.Sprintf("[credential]\n\thelper = store --file=%s\n", store)
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, action string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "git", "credential", action)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS="}
		return cmd
	}
}

// TestCredentialHelper: git's own helper is asked when the server wants a password
// and not before, what it gave is used to read and to push, and what the server no
// longer takes is rejected.
func TestCredentialHelper(t *testing.T) {
	t.Parallel()
	server := gitserver.NewServer(t, gitserver.Options{Username: "ada"})
	seed(t, server.Repository, files()...)
	store := filepath.Join(t.TempDir(), "credentials")
	host := strings.TrimPrefix(server.URL(), "http://")
	host = host[:strings.IndexByte(host, '/')]
	remember := func(password string) {
		if err := os.WriteFile(store, []byte("http://ada:"+password+"@"+host+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var asked []string
	known := "hunter2" // to the person who is asked where the helper has nothing
	real := gitHelper(t, store)
	b := open(t, git.Config{URL: server.URL(), Credentials: remote.Credentials{Helper: func(ctx context.Context, action string) *exec.Cmd {
		asked = append(asked, action)
		if action == "fill" {
			remember(known)
		}
		return real(ctx, action)
	}}})
	wantAsked := func(doing string, want ...string) {
		t.Helper()
		if got := strings.Join(asked, " "); got != strings.Join(want, " ") {
			t.Errorf("%s: the helper is asked %q, want %q", doing, got, want)
		}
		asked = nil
	}

	headOf(t, b)
	wantAsked("a server that wants no password")
	server.SetPassword("hunter2")
	head := headOf(t, b)
	wantAsked("a server that wants one", "fill", "approve")
	if _, err := b.Push(t.Context(), head, []branch.Draft{{Message: "one", At: at, Changes: []branch.Change{write("deploy/web/x.yaml", "x\n")}}}); err != nil {
		t.Fatal(err)
	}
	headOf(t, b)
	wantAsked("one that has taken it")

	server.SetPassword("hunter3")
	known = "hunter3"
	headOf(t, b)
	wantAsked("a password that was changed", "reject", "fill", "approve")
	if kept, err := os.ReadFile(store); err != nil || !strings.Contains(string(kept), "ada:hunter3@") {
		t.Errorf("the helper keeps %q, %v", kept, err)
	}

	server.SetPassword("hunter4")
	if err := b.Writable(t.Context()); err == nil || errors.Is(err, remote.ErrNoPassword) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("a password that is wrong: %v", err)
	}
	wantAsked("a password that is wrong", "reject", "fill", "reject")
	if kept, err := os.ReadFile(store); err != nil || strings.Contains(string(kept), "hunter3") {
		t.Errorf("the helper keeps what the server does not take: %q, %v", kept, err)
	}
}

// TestCredentialHelperHasNothing: then the error is that of a missing password.
func TestCredentialHelperHasNothing(t *testing.T) {
	t.Parallel()
	server := gitserver.NewServer(t, gitserver.Options{Username: "ada", Password: "hunter2"})
	seed(t, server.Repository, files()...)
	for name, helper := range map[string]remote.HelperFunc{
		"empty":  gitHelper(t, filepath.Join(t.TempDir(), "credentials")),
		"no git": func(ctx context.Context, _ string) *exec.Cmd { return exec.CommandContext(ctx, "/nonexistent/git") },
	} {
		_, err := open(t, git.Config{URL: server.URL(), Credentials: remote.Credentials{Helper: helper}}).Head(t.Context())
		if !errors.Is(err, remote.ErrNoPassword) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// startAgent starts the real ssh-agent until the test ends, with the key in a file.
func startAgent(t *testing.T, keyFile string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	listening := make(chan error, 1)
	daemon := exec.Command("ssh-agent", "-D", "-a", socket)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatalf("ssh-agent comes with OpenSSH, which this test needs: %v", err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	go func() { // it prints its socket once it listens
		_, err := out.Read(make([]byte, 1))
		listening <- err
	}()
	if err := <-listening; err != nil {
		t.Fatalf("ssh-agent ended: %v", err)
	}
	if keyFile == "" {
		return socket
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := agent.NewClient(conn).Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	return socket
}

// TestSSHAgent reads and pushes with a key that only the real ssh-agent has.
func TestSSHAgent(t *testing.T) {
	t.Parallel()
	server, err := gitserver.ServeSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	credentials := func(socket string) git.Config {
		return git.Config{URL: server.URL(r), Credentials: remote.Credentials{SSHAgent: socket, SSHKnownHostsFile: server.KnownHostsFile}}
	}
	b := open(t, credentials(startAgent(t, server.KeyFile)))
	head := headOf(t, b)
	next, err := b.Push(t.Context(), head, []branch.Draft{{Message: "one", At: at, Changes: []branch.Change{write("deploy/web/x.yaml", "x\n")}}})
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := r.Head(); head != next.Commit {
		t.Errorf("the branch is at %s, want %s", head, next.Commit)
	}
	if _, err := open(t, credentials(startAgent(t, ""))).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "does not accept the ssh key") {
		t.Errorf("an agent without a key: %v", err)
	}
	if _, err := open(t, credentials(filepath.Join(t.TempDir(), "none"))).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "asking the ssh-agent") {
		t.Errorf("an agent that is gone: %v", err)
	}
}
