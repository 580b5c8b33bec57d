package git_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
		sshKeygen(t, "-t", kind, "-N", "", "-f", file(name))
	}
	// The daemon leaves its privileges in a directory that its package's start
	// script makes.
	if os.Getuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755))
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
	writeText(t, file("config"), config)
	address := inetd(t, sshd, "-i", "-f", file("config"))
	_, port, _ := net.SplitHostPort(address)
	var known strings.Builder
	for _, host := range []string{"host_ecdsa", "host_ed25519"} {
		fmt.Fprintf(&known, "[127.0.0.1]:%s %s", port, readText(t, file(host+".pub")))
	}
	writeText(t, file("known_hosts"), known.String())
	me, err := user.Current()
	must(t, err)
	return openSSH{address: address, keyFile: file("key"), knownHosts: file("known_hosts"), user: me.Username}
}

// config reaches a repository with the server's keys.
func (s openSSH) config(r gitserver.Repository) git.Config {
	return git.Config{
		URL:         "ssh://" + s.user + "@" + s.address + r.Dir,
		Credentials: remote.Credentials{SSHKeyFile: s.keyFile, SSHKnownHostsFile: s.knownHosts},
	}
}

// inetd listens on the loopback interface and hands each connection to a
// command of its own, as inetd does.
func inetd(t *testing.T, command string, args ...string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
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

// TestOpenSSHWithALongList reads from and pushes to OpenSSH's sshd, which has many refs, and two host
// keys, of which the client knows one. With AcceptEnv, sshd passes the client's request for version 2 of
// the protocol on to git.
func TestOpenSSHWithALongList(t *testing.T) {
	t.Parallel()
	for i, more := range []string{"AcceptEnv GIT_PROTOCOL", ""} {
		t.Run("config="+more, func(t *testing.T) {
			t.Parallel()
			server := serveOpenSSH(t, more)
			known := strings.SplitAfter(readText(t, server.knownHosts), "\n")
			writeText(t, server.knownHosts, known[i])
			r := gitserver.NewRepository(t)
			pullRequests(t, r, 150)
			seed(t, r, files()...)
			var log bytes.Buffer
			config := server.config(r)
			config.Log = slog.New(slog.NewTextHandler(&log, nil))
			repository := open(t, config)
			for range 5 {
				headID := headOf(t, repository)
				wantHead(t, r, headID.Commit)
				must(t, push(t, repository, &headID, headID.Commit))
				wantHead(t, r, headID.Commit)
				seed(t, r, write("deploy/web/jobs/theirs", headID.Commit))
			}
			if got := strings.Count(log.String(), "lists all of its refs on every read"); got != i {
				t.Errorf("said %d times, want %d:\n%s", got, i, log.String())
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
	must(t, err)
	return string(text)
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o600))
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
	must(t, os.Rename(hostKey+"-cert.pub", hostCertificate))
	_, port, _ := net.SplitHostPort(server.address)
	known := filepath.Join(dir, "known_hosts")
	writeText(t, known, "@cert-authority [127.0.0.1]:"+port+" "+readText(t, ca+".pub"))
	r := newRepository(t)
	config := server.config(r)
	config.Credentials.SSHKnownHostsFile = known
	headOf(t, open(t, config))

	key := filepath.Join(dir, "user")
	sshKeygen(t, "-t", "ecdsa", "-N", "", "-f", key)
	config.Credentials.SSHKeyFile = key
	_, err := open(t, config).Head(t.Context())
	wantError(t, err, "does not accept the ssh key")
	sshKeygen(t, "-s", ca, "-I", "user", "-n", server.user, key+".pub")
	headOf(t, open(t, config))

	other := filepath.Join(dir, "other")
	sshKeygen(t, "-t", "ed25519", "-N", "", "-f", other)
	writeText(t, known, "@cert-authority [127.0.0.1]:"+port+" "+readText(t, other+".pub"))
	_, err = open(t, config).Head(t.Context())
	wantError(t, err, "no authority in the known hosts file has certified")
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
			r := newRepository(t)
			for _, url := range []string{"ssh://git.inside" + r.Dir, "git.inside:" + r.Dir} {
				b := open(t, git.Config{URL: url, Credentials: remote.Credentials{SSHProgram: sshWith(config)}})
				headID, err := b.Head(t.Context())
				if strings.HasSuffix(name, "nothing") {
					wantError(t, err, "ssh says: ")
					continue
				}
				must(t, err)
				must(t, push(t, b, &headID, url[:4]))
				wantHead(t, r, headID.Commit)
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
	f := newServer(t, gitserver.Options{})
	b := open(t, git.Config{URL: f.URL(), PushURL: f.Dir})
	head := headOf(t, b)
	must(t, push(t, b, &head, "a"))
	wantHead(t, f.Repository, head.Commit)
	for _, r := range f.Requests() {
		if strings.Contains(r, "receive-pack") {
			t.Errorf("pushed by %s", r)
		}
	}
	hook(t, f.Repository, "pre-receive", "echo no >&2; exit 1\n")
	wantError(t, push(t, b, &head, "b"), "pushing to "+f.Dir)
	wantError(t, b.Writable(t.Context()), "pushing to "+f.Dir)
	missing := filepath.Join(t.TempDir(), "none")
	wantError(t, push(t, open(t, git.Config{URL: f.URL(), PushURL: missing}), &head, "c"), "pushing to "+missing)
}
