package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"
)

// hook installs a server-side hook that runs a shell script.
func hook(t testing.TB, r gitserver.Repository, name, script string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(r.Dir, "hooks"), 0o755))
	must(t, os.WriteFile(filepath.Join(r.Dir, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755))
}

func one(name string) []branch.Draft {
	return []branch.Draft{{Message: "write " + name + "\n", At: at, Changes: []branch.Change{write("deploy/web/jobs/"+name, name)}}}
}

// TestRefusedHasMessageOfServer asserts that the error has the server's reason, without progress, banner,
// prefixes and the password, and that the same push succeeds when the server accepts it.
func TestRefusedHasMessageOfServer(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		head := seed(t, r, files()...)
		// The prefix and the empty lines: GitLab, lib/gitlab/git_access.rb and gitlab-shell. The
		// progress: JGit, BatchingProgressMonitor.
		hook(t, r, "pre-receive", `{
printf 'Resolving deltas:  50%% (1/2)\rResolving deltas: 100%% (2/2)\r\n'
for i in $(seq 100); do echo "Welcome to the git server of acme, where line $i says nothing at all"; done
printf 'remote: \nremote: ========================================\nremote: \n\nremote: remote: GitLab: \033[31mthe branch is protected\033[0m\nremote: \nerror:\n'
cat <<'END'
token `+leaktest.GitPassword+`
END
} >&2
exit 1
`)
		repository := open(t, c)
		headID := headOf(t, repository)
		_, err := repository.Push(t.Context(), headID, one("a"))
		var refused *branch.Refused
		if !errors.As(err, &refused) || errors.Is(err, branch.ErrMoved) {
			t.Fatalf("Push: %v, want a Refused", err)
		}
		wantError(t, errors.New(refused.Message),
			"line 100 says nothing at all; GitLab: the branch is protected; ", "pre-receive hook declined")
		for _, noise := range []string{"Resolving", "remote:", "error:;", "===", "; ;", "line 1 "} {
			if strings.Contains(refused.Message, noise) {
				t.Errorf("%q is in %s", noise, refused.Message)
			}
		}
		if strings.HasPrefix(c.URL, "http") && len(leaktest.Leaks(err.Error()+refused.Message)) > 0 {
			t.Errorf("the password is shown: %v", err)
		}
		wantHead(t, r, head)
		must(t, os.Remove(filepath.Join(r.Dir, "hooks/pre-receive")))
		must(t, push(t, repository, &headID, "a"))
	})
}

// intercept serves a repository with [files]. answer sees each request first, and reports
// whether it has answered it.
func intercept(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) bool) gitserver.Fleet {
	t.Helper()
	return newServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !answer(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}})
}

// breaker is a server whose pushes are lost on the way.
type breaker struct {
	// accept lets the repository have the push before the answer is lost.
	accept atomic.Bool
	// then runs after an accepted push, before the connection ends.
	then atomic.Pointer[func()]
	left atomic.Int32
}

func (b *breaker) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "git-receive-pack") || b.left.Add(-1) < 0 {
			next.ServeHTTP(w, r)
			return
		}
		if b.accept.Load() {
			next.ServeHTTP(httptest.NewRecorder(), r)
			if then := b.then.Load(); then != nil {
				(*then)()
			}
		} else {
			_, _ = io.CopyN(io.Discard, r.Body, 20)
		}
		panic(http.ErrAbortHandler) // closes the connection
	})
}

// TestConnectionLostAfterThePushWasAccepted asserts that a push whose response is lost succeeds, also
// if others have pushed since. One that is lost before the server has it is an error, and can be repeated.
func TestConnectionLostAfterThePushWasAccepted(t *testing.T) {
	t.Parallel()
	for name, offer := range clones() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &breaker{}
			f := gitserver.NewServer(t, gitserver.Options{Wrap: b.wrap})
			offer(t, f.Repository)
			before := seed(t, f.Repository, files()...)
			repository := open(t, git.Config{URL: f.URL()})
			head := headOf(t, repository)
			b.left.Store(1)
			var refused *branch.Refused
			err := push(t, repository, &head, "a")
			if err == nil || errors.Is(err, branch.ErrMoved) || errors.As(err, &refused) {
				t.Fatalf("Push: %v, want an error that is neither a race nor a refusal", err)
			}
			wantHead(t, f.Repository, before)
			b.accept.Store(true)
			lose := func(name string) {
				b.left.Store(1)
				if err := push(t, repository, &head, name); err != nil {
					t.Fatalf("the push has landed, but: %v", err)
				}
				wantFile(t, head.Tree, "deploy/web/jobs/"+name, name)
			}
			lose("a")
			wantHead(t, f.Repository, head.Commit)
			others := func() {
				_, _ = f.Commit("theirs", at, write("deploy/web/theirs", "theirs"))
				_, _ = f.Commit("theirs again", at, write("base/job.yaml", "theirs"))
			}
			b.then.Store(&others)
			lose("b")
			head = headOf(t, repository)
			wantFile(t, head.Tree, "deploy/web/theirs", "theirs")
			wantFile(t, head.Tree, "base/job.yaml", "theirs")
			must(t, push(t, repository, &head, "c"))
			fsck(t, f.Repository)
		})
	}
}

// TestProposalWithLostResponse asserts that a new branch whose response is lost is reported as made only if the
// server has it.
func TestProposalWithLostResponse(t *testing.T) {
	t.Parallel()
	b := &breaker{}
	f := gitserver.NewServer(t, gitserver.Options{Wrap: b.wrap})
	seed(t, f.Repository, files()...)
	repository := open(t, git.Config{URL: f.URL()})
	head := headOf(t, repository)
	for name, accept := range map[string]bool{"landed": true, "lost": false} {
		b.left.Store(1)
		b.accept.Store(accept)
		commit, _, err := repository.Propose(t.Context(), head, one("a"), "muster/"+name)
		if (err == nil) != accept || accept && gitIn(t, f.Repository, "rev-parse", "muster/"+name) != commit {
			t.Errorf("%s: commit %s, %v", name, commit, err)
		}
	}
	must(t, push(t, repository, &head, "a"))
}

func TestConnectionLostWhileReading(t *testing.T) {
	t.Parallel()
	var left atomic.Int32
	f := intercept(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && left.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	repository := open(t, git.Config{URL: f.URL()})
	left.Store(1)
	wantFile(t, headOf(t, repository).Tree, "deploy/web/settings.yaml", "settings\n")
	seed(t, f.Repository, write("deploy/web/settings.yaml", "settings 2\n"))
	left.Store(100) // a server that is down is not retried forever
	if _, err := repository.Head(t.Context()); err == nil {
		t.Error("no error")
	}
	left.Store(0)
	wantFile(t, headOf(t, repository).Tree, "deploy/web/settings.yaml", "settings 2\n")
}

func TestErrorsExplainFailure(t *testing.T) {
	t.Parallel()
	f := newServer(t, gitserver.Options{Username: "robot", Password: "hunter2/ä"})
	empty, err := gitserver.Init(filepath.Join(filepath.Dir(f.Dir), "empty.git"))
	must(t, err)
	ssh, other := serveSSH(t), serveSSH(t)
	password := remote.Credentials{Password: remote.StaticPassword("robot", "hunter2/ä")}
	key := remote.Credentials{SSHKeyFile: ssh.KeyFile, SSHKnownHostsFile: ssh.KnownHostsFile}
	sha256 := gitserver.NewRepository(t, "--object-format=sha256")
	seed(t, sha256, files()...)
	inURL := strings.Replace(f.URL(), "http://", "http://robot:wrong%2Fpass@", 1)
	for name, test := range map[string]struct {
		config git.Config
		want   []string
	}{
		"wrong password":      {git.Config{URL: f.URL(), Credentials: remote.Credentials{Password: remote.StaticPassword("robot", "wrong/pass")}}, []string{"user name and password", "401"}},
		"wrong in the URL":    {git.Config{URL: inURL}, []string{"401"}},
		"not found":           {git.Config{URL: f.Server.URL + "/none.git", Credentials: password}, []string{"repository not found"}},
		"branch missing":      {git.Config{URL: f.URL(), Branch: "trunk", Credentials: password}, []string{`no branch "trunk"`, "it has main", "git push origin HEAD:trunk"}},
		"empty":               {git.Config{URL: f.Server.URL + "/empty.git", Credentials: password}, []string{"the repository is empty", "push a first commit to branch"}},
		"empty over ssh":      {git.Config{URL: ssh.URL(empty), Credentials: key}, []string{"the repository is empty"}},
		"path missing":        {git.Config{URL: t.TempDir() + "/none"}, []string{"there is no git repository"}},
		"ssh path missing":    {git.Config{URL: "ssh://git@" + ssh.Address + "/none", Credentials: key}, []string{"repository not found"}},
		"unknown host key":    {git.Config{URL: other.URL(f.Repository), Credentials: key}, []string{"host key", "unknown", "ssh-keyscan"}},
		"key not accepted":    {git.Config{URL: other.URL(f.Repository), Credentials: remote.Credentials{SSHKeyFile: ssh.KeyFile, SSHKnownHostsFile: other.KnownHostsFile}}, []string{"does not accept the ssh key"}},
		"key file missing":    {git.Config{URL: ssh.URL(f.Repository), Credentials: remote.Credentials{SSHKeyFile: "/none", SSHKnownHostsFile: ssh.KnownHostsFile}}, []string{"reading the ssh key"}},
		"nobody listens":      {git.Config{URL: "http://127.0.0.1:1/fleet.git"}, []string{"127.0.0.1:1 refuses the connection: check the address"}},
		"password file empty": {git.Config{URL: f.URL(), Credentials: remote.Credentials{Password: remote.PasswordFile("robot", os.DevNull)}}, []string{"is empty"}},
		"sha256":              {git.Config{URL: sha256.Dir}, []string{"SHA-256"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open(t, test.config).Head(t.Context())
			wantError(t, err, test.want...)
			for _, secret := range []string{"hunter2", "wrong/pass", "wrong%2Fpass"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("a secret is shown: %v", err)
				}
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []git.Config{
		{}, {URL: "https://"}, {URL: "https://user:hunter2@example.com"}, {URL: "ftp://user:hunter2@example.com/x"}, {URL: "https://user:hunter2@exa mple.com/%zz"},
		{URL: "https://user:hunter2@exa%mple.com/x"}, {URL: "https://user:hunter2/more@example.com/x"}, {URL: "https://user:hunter2#more@example.com/x"},
		{URL: "https://user:hunter2@example.com/x\ny"}, {URL: "ssh://git@example.com/x"}, {URL: "git@example.com:x.git"},
		{URL: "/x", Branch: "a..b"}, {URL: "/x", AuthorName: "a\nb"}, {URL: "/x", AuthorEmail: "<a>"},
	} {
		_, err := git.New(usual(c))
		if err == nil {
			t.Errorf("New(%+v) succeeded", c)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a secret is shown: %v", err)
		}
	}
}

func TestMissingGitBinary(t *testing.T) {
	r := gitserver.NewRepository(t)
	t.Setenv("PATH", t.TempDir())
	_, err := open(t, git.Config{URL: r.Dir}).Head(t.Context())
	wantError(t, err, "git binary, which is not installed")
}

func TestPasswordIsReadAgain(t *testing.T) {
	t.Parallel()
	f := newServer(t, gitserver.Options{Username: "robot", Password: "first"})
	file := filepath.Join(t.TempDir(), "password")
	set := func(password string) {
		must(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	}
	set("first")
	repository := open(t, git.Config{URL: f.URL(), Credentials: remote.Credentials{Password: remote.PasswordFile("robot", file)}})
	headOf(t, repository)
	f.SetPassword("second")
	if _, err := repository.Head(t.Context()); err == nil || strings.Contains(err.Error(), "first") {
		t.Errorf("the old password: %v", err)
	}
	set("second")
	head := headOf(t, repository)
	must(t, push(t, repository, &head, "a"))
}

func TestCustomAuthority(t *testing.T) {
	t.Parallel()
	f := newServer(t, gitserver.Options{TLS: true})
	_, err := open(t, git.Config{URL: f.URL()}).Head(t.Context())
	wantError(t, err, "certificate")
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, f.CertificatePEM(), 0o600))
	repository := open(t, git.Config{URL: f.URL(), Credentials: remote.Credentials{CAFile: file}})
	head := headOf(t, repository)
	must(t, push(t, repository, &head, "a"))
}

// TestSilentServer: the server accepts connections and sends nothing until the deadline, or the caller
// cancels.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	keys := serveSSH(t)
	for _, scheme := range []string{"http", "ssh"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			repository := open(t, git.Config{
				URL: scheme + "://" + listener.Addr().String() + "/x", Timeout: 50 * time.Millisecond,
				Credentials: remote.Credentials{SSHKeyFile: keys.KeyFile, SSHKnownHostsFile: keys.KnownHostsFile},
			})
			if _, err := repository.Head(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Tip: %v, want a deadline", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := repository.Head(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Tip: %v, want that it was cancelled", err)
			}
		})
	}
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	f := newServer(t, gitserver.Options{Username: "robot", Password: leaktest.GitPassword, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if rest, old := strings.CutPrefix(r.URL.Path, "/renamed/"); old {
				http.Redirect(w, r, "/"+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	repository := open(t, git.Config{
		URL:         f.Server.URL + "/renamed/fleet.git",
		Credentials: remote.Credentials{Password: remote.StaticPassword("robot", leaktest.GitPassword)},
	})
	head := headOf(t, repository)
	wantFile(t, head.Tree, "base/job.yaml", "job\n")
	must(t, push(t, repository, &head, "a"))
}

// TestNoSecretInTheLog: the server repeats the password, and the header with it.
func TestNoSecretInTheLog(t *testing.T) {
	t.Parallel()
	f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		_, password, _ := r.BasicAuth()
		http.Error(w, fmt.Sprintf("filter: password %s, %q, %s is bad", password, password, r.Header), http.StatusForbidden)
		return true
	})
	var log bytes.Buffer
	repository := open(t, git.Config{
		URL: f.URL(), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Credentials: remote.Credentials{Password: remote.StaticPassword("git", leaktest.GitPassword)}, // as leaktest.Leaks
	})
	_, err := repository.Head(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error() + fmt.Sprintf("%+v", err) + log.String()
	if found := leaktest.Leaks(text); len(found) > 0 || !strings.Contains(text, "is bad") {
		t.Errorf("%q in %s", found, text)
	}
}
