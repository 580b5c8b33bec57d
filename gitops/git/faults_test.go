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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/canarytest"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// hook installs a server-side hook that runs a shell script.
func hook(t testing.TB, r gitserver.Repository, name, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(r.Dir, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func one(name string) []branch.Draft {
	return []branch.Draft{{Message: "write " + name + "\n", At: at, Changes: []branch.Change{write("deploy/web/jobs/"+name, name)}}}
}

func TestRefusedHasMessageOfServer(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		head := seed(t, r, files()...)
		hook(t, r, "pre-receive", "cat >&2 <<'END'\nGH006: the branch is protected; token "+canarytest.GitPassword+"\nEND\nexit 1\n")
		repository := open(t, c)
		headID := headOf(t, repository)
		_, err := repository.Push(t.Context(), headID, one("a"))
		var refused *branch.Refused
		if !errors.As(err, &refused) || errors.Is(err, branch.ErrMoved) {
			t.Fatalf("Push: %v, want a Refused", err)
		}
		if !strings.Contains(refused.Message, "GH006: the branch is protected") || !strings.Contains(refused.Message, "pre-receive hook declined") {
			t.Errorf("the server's words are missing: %s", refused.Message)
		}
		if strings.HasPrefix(c.URL, "http") && len(canarytest.Leaks(err.Error()+refused.Message)) > 0 {
			t.Errorf("the password is shown: %v", err)
		}
		if now, _ := r.Head(); now != head {
			t.Error("the branch moved")
		}
		// The refusal leaves nothing behind: the same push works later.
		if err := os.Remove(filepath.Join(r.Dir, "hooks/pre-receive")); err != nil {
			t.Fatal(err)
		}
		if _, err := repository.Push(t.Context(), headID, one("a")); err != nil {
			t.Error(err)
		}
	})
}

// intercept serves a repository with [files]. answer sees each request first, and reports
// whether it has answered it.
func intercept(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) bool) gitserver.Fleet {
	t.Helper()
	f := gitserver.NewServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !answer(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}})
	seed(t, f.Repository, files()...)
	return f
}

// breaker is a server whose pushes are lost on the way.
type breaker struct {
	// accept lets the repository have the push before the answer is lost.
	accept bool
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
		if b.accept {
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

func TestConnectionLostInTheMiddleOfAPush(t *testing.T) {
	t.Parallel()
	b := &breaker{}
	f := gitserver.NewServer(t, gitserver.Options{Wrap: b.wrap})
	head := seed(t, f.Repository, files()...)
	repository := open(t, git.Config{URL: f.URL()})
	headID := headOf(t, repository)
	b.left.Store(1)
	_, err := repository.Push(t.Context(), headID, one("a"))
	var refused *branch.Refused
	if err == nil || errors.Is(err, branch.ErrMoved) || errors.As(err, &refused) {
		t.Fatalf("Push: %v, want an error that is neither a race nor a refusal", err)
	}
	if now, _ := f.Head(); now != head {
		t.Fatal("the branch moved")
	}
	if _, err := repository.Push(t.Context(), headID, one("a")); err != nil {
		t.Errorf("the second try: %v", err)
	}
	fsck(t, f.Repository)
}

// TestConnectionLostAfterThePushWasAccepted asserts that a push whose response is lost succeeds, also
// if others have pushed since.
func TestConnectionLostAfterThePushWasAccepted(t *testing.T) {
	t.Parallel()
	for name, offer := range clones() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &breaker{accept: true}
			f := gitserver.NewServer(t, gitserver.Options{Wrap: b.wrap})
			offer(t, f.Repository)
			seed(t, f.Repository, files()...)
			repository := open(t, git.Config{URL: f.URL()})
			head := headOf(t, repository)
			lose := func(name string) {
				b.left.Store(1)
				var err error
				if head, err = repository.Push(t.Context(), head, one(name)); err != nil {
					t.Fatalf("the push has landed, but: %v", err)
				}
				if now, _ := f.Head(); now != head.Commit {
					t.Errorf("the branch is at %s, Push returned %s", now, head.Commit)
				}
				wantFile(t, head.Tree, "deploy/web/jobs/"+name, name)
			}
			lose("a")
			others := func() {
				_, _ = f.Commit("theirs", at, write("deploy/web/theirs", "theirs"))
				_, _ = f.Commit("theirs again", at, write("base/job.yaml", "theirs"))
			}
			b.then.Store(&others)
			lose("b")
			wantFile(t, head.Tree, "deploy/web/theirs", "theirs")
			wantFile(t, head.Tree, "base/job.yaml", "theirs")
			if _, err := repository.Push(t.Context(), head, one("c")); err != nil {
				t.Error(err)
			}
		})
	}
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

func TestConflictDetectedByServer(t *testing.T) {
	t.Parallel()
	// Another writer comes between the advertisement and the push.
	var f gitserver.Fleet
	var once sync.Once
	f = intercept(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "git-receive-pack") {
			once.Do(func() { _, _ = f.Commit("theirs", at, write("deploy/theirs", "theirs")) })
		}
		return false
	})
	repository := open(t, git.Config{URL: f.URL()})
	_, err := repository.Push(t.Context(), headOf(t, repository), one("a"))
	if !errors.Is(err, branch.ErrMoved) {
		t.Fatalf("Push: %v, want ErrMoved", err)
	}
	if _, err := repository.Push(t.Context(), headOf(t, repository), one("a")); err != nil {
		t.Error(err)
	}
	if out, _ := f.Git("rev-list", "--count", "main"); out != "3\n" {
		t.Errorf("the branch has %s commits, want 3", out)
	}
}

func TestErrorsExplainFailure(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{Username: "robot", Password: "hunter2/ä"})
	seed(t, f.Repository, files()...)
	if _, err := gitserver.Init(filepath.Join(filepath.Dir(f.Dir), "empty.git")); err != nil {
		t.Fatal(err)
	}
	ssh, err := gitserver.ServeSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ssh.Close)
	other, err := gitserver.ServeSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
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
		"no password":         {git.Config{URL: f.URL()}, []string{"401"}},
		"not found":           {git.Config{URL: f.Server.URL + "/none.git", Credentials: password}, []string{"repository not found"}},
		"branch missing":      {git.Config{URL: f.URL(), Branch: "trunk", Credentials: password}, []string{`no branch "trunk"`, "it has main", "git push origin HEAD:trunk"}},
		"empty":               {git.Config{URL: f.Server.URL + "/empty.git", Credentials: password}, []string{"empty", "push a first commit to branch"}},
		"path missing":        {git.Config{URL: t.TempDir() + "/none"}, []string{"repository not found"}},
		"ssh path missing":    {git.Config{URL: "ssh://git@" + ssh.Address + "/none", Credentials: key}, []string{"repository not found"}},
		"unknown host key":    {git.Config{URL: other.URL(f.Repository), Credentials: key}, []string{"host key", "unknown", "ssh-keyscan"}},
		"key not accepted":    {git.Config{URL: other.URL(f.Repository), Credentials: remote.Credentials{SSHKeyFile: ssh.KeyFile, SSHKnownHostsFile: other.KnownHostsFile}}, []string{"does not accept the ssh key"}},
		"key file missing":    {git.Config{URL: ssh.URL(f.Repository), Credentials: remote.Credentials{SSHKeyFile: "/none", SSHKnownHostsFile: ssh.KnownHostsFile}}, []string{"reading the ssh key"}},
		"nobody listens":      {git.Config{URL: "http://127.0.0.1:1/fleet.git"}, []string{"connection refused"}},
		"password file empty": {git.Config{URL: f.URL(), Credentials: remote.Credentials{Password: remote.PasswordFile("robot", os.DevNull)}}, []string{"is empty"}},
		"sha256":              {git.Config{URL: sha256.Dir}, []string{"SHA-256"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open(t, test.config).Head(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range test.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is missing: %v", word, err)
				}
			}
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

func TestEmptyRepositoryIsEmptyEverywhere(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, _ gitserver.Repository, c git.Config) {
		if _, err := open(t, c).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "the repository is empty") {
			t.Errorf("Head: %v", err)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []git.Config{
		{}, {URL: "https://"}, {URL: "https://user:hunter2@example.com"}, {URL: "ftp://user:hunter2@example.com/x"}, {URL: "https://user:hunter2@exa mple.com/%zz"},
		{URL: "https://user:%hunter2@example.com/x"}, {URL: "https://user:hunter2/more@example.com/x"}, {URL: "https://user:hunter2#more@example.com/x"},
		{URL: "https://user:hunter2@example.com/x\ny"}, {URL: "ssh://git@example.com/x"}, {URL: "git@example.com:x.git"},
		{URL: "/x", Branch: "a..b"}, {URL: "/x", ReadAhead: "../x"}, {URL: "/x", ReadAhead: "/x"}, {URL: "/x", AuthorName: "a\nb"}, {URL: "/x", AuthorEmail: "<a>"}, {URL: "/x", Timeout: -1},
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
	if err == nil || !strings.Contains(err.Error(), "git binary, which is not installed") {
		t.Errorf("Tip: %v", err)
	}
}

func TestPasswordIsReadAgain(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{Username: "robot", Password: "first"})
	seed(t, f.Repository, files()...)
	file := filepath.Join(t.TempDir(), "password")
	set := func(password string) {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("first")
	repository := open(t, git.Config{URL: f.URL(), Credentials: remote.Credentials{Password: remote.PasswordFile("robot", file)}})
	headOf(t, repository)
	f.SetPassword("second")
	if _, err := repository.Head(t.Context()); err == nil || strings.Contains(err.Error(), "first") {
		t.Errorf("the old password: %v", err)
	}
	set("second")
	if _, err := repository.Push(t.Context(), headOf(t, repository), one("a")); err != nil {
		t.Error(err)
	}
}

func TestCustomAuthority(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{TLS: true})
	seed(t, f.Repository, files()...)
	if _, err := open(t, git.Config{URL: f.URL()}).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, f.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	repository := open(t, git.Config{URL: f.URL(), Credentials: remote.Credentials{CAFile: file}})
	if _, err := repository.Push(t.Context(), headOf(t, repository), one("a")); err != nil {
		t.Error(err)
	}
}

// TestSilentServer: the server accepts connections and sends nothing.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	keys, err := gitserver.ServeSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
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
		})
	}
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{Username: "robot", Password: canarytest.GitPassword, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if rest, old := strings.CutPrefix(r.URL.Path, "/renamed/"); old {
				http.Redirect(w, r, "/"+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	seed(t, f.Repository, files()...)
	repository := open(t, git.Config{
		URL:         f.Server.URL + "/renamed/fleet.git",
		Credentials: remote.Credentials{Password: remote.StaticPassword("robot", canarytest.GitPassword)},
	})
	head := headOf(t, repository)
	wantFile(t, head.Tree, "base/job.yaml", "job\n")
	if _, err := repository.Push(t.Context(), head, one("a")); err != nil {
		t.Error(err)
	}
}

// TestNoSecretInTheLog: the server repeats the password.
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
		Credentials: remote.Credentials{Password: remote.StaticPassword("robot", canarytest.GitPassword)},
	})
	_, err := repository.Head(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error() + fmt.Sprintf("%+v", err) + log.String()
	if found := canarytest.Leaks(text); len(found) > 0 || !strings.Contains(text, "is bad") {
		t.Errorf("%q in %s", found, text)
	}
}
