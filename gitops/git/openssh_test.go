package git_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// openSSH is OpenSSH's own sshd, serving the repositories of this machine to one
// key. It has two host keys, as hosts do: known_hosts lists both.
type openSSH struct {
	address, keyFile, knownHosts, user string
}

// serveOpenSSH starts an sshd on the loopback interface, with more lines of
// configuration. A machine without one has only the tests' own ssh server.
func serveOpenSSH(t *testing.T, more string) openSSH {
	t.Helper()
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		t.Skip("this machine has no OpenSSH server; .ci/run installs one")
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for name, kind := range map[string]string{"key": "ed25519", "host_ed25519": "ed25519", "host_ecdsa": "ecdsa"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", file(name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	// The daemon leaves its privileges in a directory that its package's start
	// script makes.
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`HostKey %s
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
%s
`, file("host_ed25519"), file("host_ecdsa"), file("key.pub"), more)
	if err := os.WriteFile(file("config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := inetd(t, sshd, "-i", "-f", file("config"))
	_, port, _ := net.SplitHostPort(address)
	var known strings.Builder
	for _, host := range []string{"host_ecdsa", "host_ed25519"} {
		key, err := os.ReadFile(file(host + ".pub"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&known, "[127.0.0.1]:%s %s", port, key)
	}
	if err := os.WriteFile(file("known_hosts"), []byte(known.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return openSSH{address: address, keyFile: file("key"), knownHosts: file("known_hosts"), user: me.Username}
}

// inetd listens on the loopback interface and hands each connection to a
// command of its own, as inetd does.
func inetd(t *testing.T, command string, args ...string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(conn *net.TCPConn) {
		defer conn.Close()
		socket, err := conn.File()
		if err != nil {
			return
		}
		defer socket.Close()
		daemon := exec.Command(command, args...)
		daemon.Stdin, daemon.Stdout = socket, socket
		_ = daemon.Run() // what goes wrong shows at the client
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// TestOpenSSH reads, pushes and loses a race over OpenSSH's sshd, which greets
// with the first of several host keys that the client knows.
func TestOpenSSH(t *testing.T) {
	t.Parallel()
	server := serveOpenSSH(t, "")
	r := gitserver.NewRepository(t)
	if _, err := r.Commit("begin", at, write("deploy/web/settings.yaml", "a\n"), write("base/job.yaml", "b\n")); err != nil {
		t.Fatal(err)
	}
	config := git.Config{URL: "ssh://" + server.user + "@" + server.address + r.Dir,
		Credentials: remote.Credentials{SSHKeyFile: server.keyFile, SSHKnownHostsFile: server.knownHosts}}
	first, second := open(t, config), open(t, config)
	head, stale := headOf(t, first), headOf(t, second)
	commit := []branch.Draft{{Message: "one", At: at, Changes: []branch.Change{write("deploy/web/jobs/x.yaml", "x\n")}}}
	next, err := first.Push(t.Context(), head, commit)
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := r.Head(); head != next.Commit {
		t.Errorf("the branch is at %s, want %s", head, next.Commit)
	}
	commit[0].Message = "two"
	if _, err := second.Push(t.Context(), stale, commit); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("pushing onto a tip that has moved: %v", err)
	}
	content, err := fs.ReadFile(headOf(t, second).Tree, "deploy/web/jobs/x.yaml")
	if err != nil || string(content) != "x\n" {
		t.Errorf("read %q, %v", content, err)
	}
	strangers := config
	strangers.Credentials.SSHKnownHostsFile = filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(strangers.Credentials.SSHKnownHostsFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, strangers).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "host key") {
		t.Errorf("a host that is not known: %v", err)
	}
}

// TestOpenSSHWithALongList looks twice at a host with many refs, which may or
// may not pass on that the client understands version 2 of the protocol.
func TestOpenSSHWithALongList(t *testing.T) {
	t.Parallel()
	for more, said := range map[string]int{"AcceptEnv GIT_PROTOCOL": 0, "": 1} {
		t.Run("config="+more, func(t *testing.T) {
			t.Parallel()
			server := serveOpenSSH(t, more)
			r := gitserver.NewRepository(t)
			pullRequests(t, r, 150)
			seed(t, r, files()...)
			var log bytes.Buffer
			repository := open(t, git.Config{URL: "ssh://" + server.user + "@" + server.address + r.Dir, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Credentials: remote.Credentials{SSHKeyFile: server.keyFile, SSHKnownHostsFile: server.knownHosts}})
			for range 5 {
				tip := headOf(t, repository)
				if head, _ := r.Head(); head != tip.Commit {
					t.Errorf("the tip is %s, want %s", tip.Commit, head)
				}
				seed(t, r, write("deploy/web/jobs/theirs", tip.Commit))
			}
			if got := strings.Count(log.String(), "lists all of its refs on every read"); got != said {
				t.Errorf("said %d times, want %d:\n%s", got, said, log.String())
			}
		})
	}
}
