package git_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// gitHelper is the real git credential with the real helper "store", over a file.
func gitHelper(t *testing.T, store string) remote.HelperFunc {
	t.Helper()
	home := t.TempDir()
	config := fmt.Sprintf("[credential]\n\thelper = store --file=%s\n", store)
	must(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600))
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
	server := newServer(t, gitserver.Options{Username: "ada"})
	store := filepath.Join(t.TempDir(), "credentials")
	host := strings.TrimPrefix(server.URL(), "http://")
	host = host[:strings.IndexByte(host, '/')]
	remember := func(password string) {
		must(t, os.WriteFile(store, []byte("http://ada:"+password+"@"+host+"\n"), 0o600))
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
	must(t, push(t, b, &head, "x"))
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
	server := newServer(t, gitserver.Options{Username: "ada", Password: "hunter2"})
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
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	listening := make(chan error, 1)
	daemon := exec.Command("ssh-agent", "-D", "-a", socket)
	out, err := daemon.StdoutPipe()
	must(t, err)
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
	add := exec.Command("ssh-add", "-q", keyFile)
	add.Env = append(add.Environ(), "SSH_AUTH_SOCK="+socket)
	must(t, add.Run())
	return socket
}

// TestSSHAgent reads and pushes with a key that only the real ssh-agent has.
func TestSSHAgent(t *testing.T) {
	t.Parallel()
	server := serveSSH(t)
	r := newRepository(t)
	credentials := func(socket string) git.Config {
		return git.Config{URL: server.URL(r), Credentials: remote.Credentials{SSHAgent: socket, SSHKnownHostsFile: server.KnownHostsFile}}
	}
	b := open(t, credentials(startAgent(t, server.KeyFile)))
	head := headOf(t, b)
	must(t, push(t, b, &head, "x"))
	wantHead(t, r, head.Commit)
	for want, socket := range map[string]string{
		"does not accept the ssh key":        startAgent(t, ""),
		"requesting keys from the ssh-agent": filepath.Join(t.TempDir(), "none"),
	} {
		_, err := open(t, credentials(socket)).Head(t.Context())
		wantError(t, err, want)
	}
}

// asking is a host that wants a password, and remembers which it was given.
type asking struct {
	mu    sync.Mutex
	given []string
}

func (a *asking) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, ok := r.BasicAuth(); ok {
			a.mu.Lock()
			a.given = append(a.given, name+" "+password)
			a.mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

// was returns what was given since the last call, without repetitions.
func (a *asking) was() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []string
	for _, g := range a.given {
		if len(kept) == 0 || kept[len(kept)-1] != g {
			kept = append(kept, g)
		}
	}
	a.given = nil
	return strings.Join(kept, ", ")
}

// TestNetrc gives what git itself gives, which leaves the file to curl.
func TestNetrc(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, user string }{
		"lines":             {"machine 127.0.0.1\n  login ada\n  password hunter2\n", ""},
		"password first":    {"machine 127.0.0.1 password hunter2 login ada\nmachine other.example login eve password x\n", ""},
		"the second":        {"machine other.example login eve password x\nmachine 127.0.0.1 login ada password hunter2\n", ""},
		"the first of two":  {"machine 127.0.0.1 login ada password hunter2\nmachine 127.0.0.1 login eve password x\n", ""},
		"a user":            {"machine 127.0.0.1 login eve password x\nmachine 127.0.0.1 login ada password hunter2\n", "ada"},
		"a user at the end": {"machine 127.0.0.1 login eve password x\nmachine 127.0.0.1 login ada password hunter2 account y\nmachine other.example login ada password z", "ada"},
		"default":           {"machine other.example login eve password x\ndefault login ada password hunter2\n", ""},
		"comment":           {"# machine 127.0.0.1 login eve password x\nmachine 127.0.0.1 login ada password hunter2 # yes\n", ""},
		"quotes":            {"machine 127.0.0.1 login ada password \"hunter 2 \\\"x\\\"\"\n", ""},
		"macro":             {"macdef init\nmachine 127.0.0.1 login eve password x\n\nmachine 127.0.0.1 login ada password hunter2\n", ""},
		"another host":      {"machine other.example login ada password hunter2\n", ""},
		"another user":      {"machine 127.0.0.1 login eve password x\n", "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &asking{}
			f := gitserver.NewServer(t, gitserver.Options{Username: "ada", Password: "hunter3", Wrap: host.wrap})
			home := t.TempDir()
			file := filepath.Join(home, ".netrc")
			must(t, os.WriteFile(file, []byte(test.text), 0o600))
			url := f.URL()
			if test.user != "" {
				url = strings.Replace(url, "http://", "http://"+test.user+"@", 1)
			}
			gits := exec.Command("git", "ls-remote", url)
			gits.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS="}
			_ = gits.Run() // it is refused
			want := host.was()
			_, err := open(t, git.Config{URL: url, Credentials: remote.Credentials{NetrcFile: file}}).Head(t.Context())
			if err == nil {
				t.Error("the server takes it")
			}
			if name == "another user" {
				want = "" // curl gave another user's password until 8.11.1 (CVE-2024-11053)
			}
			// A user in the address is tried alone at first: some hosts take a token there.
			if got := strings.TrimPrefix(strings.TrimPrefix(host.was(), test.user+" "), ", "); got != want {
				t.Errorf("gives %q, git gives %q", got, want)
			}
			if want == "" != strings.HasPrefix(name, "another") {
				t.Errorf("git gives %q", want)
			}
		})
	}
}

// TestNetrcAndHelper: the helper is asked where the server does not take what the file
// has, and the file is read again when it no longer does.
func TestNetrcAndHelper(t *testing.T) {
	t.Parallel()
	host := &asking{}
	f := newServer(t, gitserver.Options{Username: "ada", Password: "hunter2", Wrap: host.wrap})
	file := filepath.Join(t.TempDir(), "netrc")
	b := open(t, git.Config{URL: f.URL(), Credentials: remote.Credentials{NetrcFile: file, Helper: func(ctx context.Context, action string) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "[ "+action+" != fill ] || printf 'username=ada\\npassword=helped\\n'")
	}}})
	for _, step := range []struct{ file, server, want string }{
		{"machine 127.0.0.1 login ada password hunter2", "hunter2", "ada hunter2"},
		{"machine 127.0.0.1 login ada password hunter2", "helped", "ada hunter2, ada helped"},
		{"machine 127.0.0.1 login ada password hunter3", "hunter3", "ada helped, ada hunter3"},
	} {
		must(t, os.WriteFile(file, []byte(step.file), 0o600))
		f.SetPassword(step.server)
		headOf(t, b)
		if got := host.was(); got != step.want {
			t.Errorf("gives %q, want %q", got, step.want)
		}
	}
}
