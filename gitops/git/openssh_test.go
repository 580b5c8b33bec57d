package git_test

import (
	"bytes"
	"context"
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

// TestOpenSSH reads, pushes and handles a conflict over OpenSSH's sshd, which has several host keys that
// the client knows.
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
		t.Errorf("pushing onto a head that has moved: %v", err)
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
				headID := headOf(t, repository)
				if head, _ := r.Head(); head != headID.Commit {
					t.Errorf("the head is %s, want %s", headID.Commit, head)
				}
				seed(t, r, write("deploy/web/jobs/theirs", headID.Commit))
			}
			if got := strings.Count(log.String(), "lists all of its refs on every read"); got != said {
				t.Errorf("said %d times, want %d:\n%s", got, said, log.String())
			}
		})
	}
}

func sshKeygen(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", append([]string{"-q"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOpenSSHCertificates: an authority stands for the host's key, and another for the
// user's, as large companies and GitHub Enterprise have it (ssh-keygen(1), CERTIFICATES).
func TestOpenSSHCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, hostCertificate := filepath.Join(dir, "ca"), filepath.Join(dir, "host-cert.pub")
	sshKeygen(t, "-t", "ed25519", "-N", "", "-f", ca)
	server := serveOpenSSH(t, "HostCertificate "+hostCertificate+"\nAuthorizedPrincipalsFile none\nTrustedUserCAKeys "+ca+".pub")
	hostKey := filepath.Join(filepath.Dir(server.keyFile), "host_ed25519")
	sshKeygen(t, "-s", ca, "-I", "host", "-h", "-n", "127.0.0.1", hostKey+".pub")
	if err := os.Rename(hostKey+"-cert.pub", hostCertificate); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(server.address)
	known := filepath.Join(dir, "known_hosts")
	writeText(t, known, "@cert-authority [127.0.0.1]:"+port+" "+readText(t, ca+".pub"))
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	config := git.Config{URL: "ssh://" + server.user + "@" + server.address + r.Dir,
		Credentials: remote.Credentials{SSHKeyFile: server.keyFile, SSHKnownHostsFile: known}}
	headOf(t, open(t, config))

	key := filepath.Join(dir, "user")
	sshKeygen(t, "-t", "ecdsa", "-N", "", "-f", key)
	config.Credentials.SSHKeyFile = key
	if _, err := open(t, config).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "does not accept the ssh key") {
		t.Errorf("a key that nobody has certified: %v", err)
	}
	sshKeygen(t, "-s", ca, "-I", "user", "-n", server.user, key+".pub")
	headOf(t, open(t, config))

	other := filepath.Join(dir, "other")
	sshKeygen(t, "-t", "ed25519", "-N", "", "-f", other)
	writeText(t, known, "@cert-authority [127.0.0.1]:"+port+" "+readText(t, other+".pub"))
	if _, err := open(t, config).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "no authority in the known hosts file has certified") {
		t.Errorf("a host that another authority has certified: %v", err)
	}
}

// sshWith is the real ssh program with a configuration of its own.
func sshWith(config string) remote.SSHFunc {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "ssh", append([]string{"-F", config, "-o", "BatchMode=yes"}, args...)...)
	}
}

// TestSSHProgram reads and writes through the real ssh program, at a host that only its
// configuration knows and that is behind another one.
func TestSSHProgram(t *testing.T) {
	t.Parallel()
	for name, forward := range map[string]string{"a bastion": "AcceptEnv GIT_PROTOCOL", "a bastion that forwards nothing": "AllowTcpForwarding no"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner, bastion := serveOpenSSH(t, "AcceptEnv GIT_PROTOCOL"), serveOpenSSH(t, forward)
			dir := t.TempDir()
			known, config := filepath.Join(dir, "known_hosts"), filepath.Join(dir, "config")
			writeText(t, known, readText(t, inner.knownHosts)+readText(t, bastion.knownHosts))
			var text strings.Builder
			for host, s := range map[string]openSSH{"git.inside": inner, "bastion": bastion} {
				_, port, _ := net.SplitHostPort(s.address)
				text.WriteString("Host " + host + "\n  HostName 127.0.0.1\n  Port " + port + "\n  User " + s.user + "\n  IdentityFile " + s.keyFile + "\n  UserKnownHostsFile " + known + "\n")
			}
			text.WriteString("Host git.inside\n  ProxyJump bastion\n")
			writeText(t, config, text.String())
			r := gitserver.NewRepository(t)
			seed(t, r, files()...)
			for _, url := range []string{"ssh://git.inside" + r.Dir, "git.inside:" + r.Dir} {
				b := open(t, git.Config{URL: url, Credentials: remote.Credentials{SSHProgram: sshWith(config)}})
				headID, err := b.Head(t.Context())
				if strings.HasSuffix(name, "nothing") {
					if err == nil || !strings.Contains(err.Error(), "ssh says: ") {
						t.Errorf("%s: %v", url, err)
					}
					continue
				}
				if err == nil {
					headID, err = b.Push(t.Context(), headID, one(url[:4]))
				}
				if head, _ := r.Head(); err != nil || head != headID.Commit {
					t.Errorf("%s: %v, the branch is at %s, want %s", url, err, head, headID.Commit)
				}
			}
		})
	}
}

// TestHostNameLikeAnOption is given to nobody.
func TestHostNameLikeAnOption(t *testing.T) {
	t.Parallel()
	ran := false
	program := func(ctx context.Context, args ...string) *exec.Cmd {
		ran = true
		return exec.CommandContext(ctx, "true")
	}
	for _, url := range []string{"ssh://-oProxyCommand=x/fleet.git", "-oProxyCommand=x:fleet.git", "ssh://-l@host/fleet.git"} {
		b, err := git.New(git.Config{URL: url, Branch: "main", Credentials: remote.Credentials{SSHProgram: program}})
		if err == nil {
			_, err = b.Head(t.Context())
		}
		if err == nil || ran {
			t.Errorf("%s: %v, ssh ran: %t", url, err, ran)
		}
	}
}

// TestPushURL reads at one address and pushes to another.
func TestPushURL(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	seed(t, f.Repository, files()...)
	b := open(t, git.Config{URL: f.URL(), PushURL: f.Dir})
	headID, err := b.Push(t.Context(), headOf(t, b), one("a"))
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := f.Head(); head != headID.Commit {
		t.Errorf("the branch is at %s, want %s", head, headID.Commit)
	}
	for _, r := range f.Requests() {
		if strings.Contains(r, "receive-pack") {
			t.Errorf("pushed by %s", r)
		}
	}
	hook(t, f.Repository, "pre-receive", "echo no >&2; exit 1\n")
	if _, err := b.Push(t.Context(), headID, one("b")); err == nil || !strings.Contains(err.Error(), "pushing to "+f.Dir) {
		t.Errorf("a refusal: %v", err)
	}
	if err := b.Writable(t.Context()); err == nil || !strings.Contains(err.Error(), "pushing to "+f.Dir) {
		t.Errorf("a refusal that was asked for: %v", err)
	}
	_, err = open(t, git.Config{URL: f.URL(), PushURL: filepath.Join(t.TempDir(), "none")}).Push(t.Context(), headID, one("c"))
	if err == nil {
		t.Error("pushed to what is not there")
	}
}
