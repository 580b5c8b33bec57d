package git_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// strictHosts are servers that refuse what git's own lets pass.
func strictHosts() map[string]gitserver.Strict {
	silent := gitserver.Dulwich() // behind a server that keeps its words, as waitress does
	silent.Refusal.Words = "Internal Server Error"
	return map[string]gitserver.Strict{
		"a silent one": silent,
		"Azure DevOps": gitserver.AzureDevOps(),
		"CodeCommit":   gitserver.CodeCommit(),
		"Dulwich":      gitserver.Dulwich(),
		"no filter":    gitserver.NoFilter(),
	}
}

// bodyOf reads the body of a request, and lets it be read again.
func bodyOf(t *testing.T, q *http.Request) string {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		t.Error(err)
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}

// serveStrict serves a repository as such a host does.
func serveStrict(t *testing.T, r gitserver.Repository, s gitserver.Strict) git.Config {
	t.Helper()
	server, err := gitserver.Serve(filepath.Dir(r.Dir), gitserver.Options{Wrap: s.Wrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return git.Config{URL: server.URL + "/" + filepath.Base(r.Dir)}
}

// TestHistoryOfStrictHosts reads more than a page of it.
func TestHistoryOfStrictHosts(t *testing.T) {
	t.Parallel()
	for name, s := range strictHosts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := gitserver.NewRepository(t)
			past(t, r, 100)
			if got := listed(t, open(t, serveStrict(t, r, s)), "", branch.Limit{}); len(got) != 110 {
				t.Errorf("the history has %d commits, want 110", len(got))
			}
		})
	}
}

// message is a host that gives one answer to some requests, after a number of them.
type message struct {
	gitserver.Response
	// to is how the path of these requests ends.
	to string
	// asked counts them.
	asked atomic.Int32
}

func (s *message) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, s.to) {
			next.ServeHTTP(w, r)
			return
		}
		s.asked.Add(1)
		s.Write(w)
	})
}

// outOfOrder is the end of an error with the message in the JSON of [inJSON].
const outOfOrder = "409 Conflict: out of order"

func inJSON(body string) gitserver.Response {
	return gitserver.Response{Status: http.StatusConflict, Type: "application/json", Words: body}
}

// TestStatusMessages: the error contains the message of a host's error status.
func TestStatusMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		said gitserver.Response
		want string
	}{
		// TF401027 and the form of the answer: Azure DevOps Services REST API, "Errors".
		"Azure DevOps": {gitserver.Response{Status: 400, Type: "application/json", Words: `{"$id":"1","innerException":null,"message":"TF401027: You need the Git 'GenericContribute' permission","typeKey":"GitNeedsPermissionException"}`},
			"400 Bad Request: TF401027: You need the Git 'GenericContribute' permission"},
		// nginx, ngx_http_special_response.c.
		"a proxy": {gitserver.Response{Status: 502, Type: "text/html", Words: "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"},
			"the git host answers with 502 Bad Gateway"},
		"a page without a title": {gitserver.Response{Status: 500, Type: "text/html", Words: "<p>out of <b>disk</b><script>track()</script></p>"}, "500 Internal Server Error: out of disk"},
		// Bitbucket Data Center REST API, "Errors & Validation".
		"Bitbucket": {gitserver.Response{Status: 409, Type: "application/json", Words: `{"errors":[{"context":null,"message":"The repository is read-only","exceptionName":null}]}`},
			"409 Conflict: The repository is read-only"},
		// The message alone is shown of JSON.
		"GitLab":                    {inJSON(`{"error":"out of order"}`), outOfOrder},
		"Bitbucket Cloud":           {inJSON(`{"type":"error","error":{"message":"out of order","id":"1"}}`), outOfOrder},
		"Bitbucket Data Center":     {inJSON(`{"errors":[{"context":null,"message":"out of order"}]}`), outOfOrder},
		"Gitea, with other errors":  {inJSON(`{"message":"out of order","errors":["one"],"error":7}`), outOfOrder},
		"another case":              {inJSON(`{"Message":"out of order"}`), outOfOrder},
		"the first that is no text": {inJSON(`{"message":{"base":["one"]},"errors":[],"error":"out of order"}`), outOfOrder},
		"forbidden":                 {gitserver.Response{Status: 403, Type: "text/html", Words: "<html><title>IP address not allowed</title></html>"}, ": IP address not allowed"},
		"payment required":          {gitserver.Response{Status: 402, Words: "\x1b[31mThe plan\u202e is over\n"}, "402 Payment Required: The plan is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/git-upload-pack", "/git-receive-pack"} {
				host := &message{Response: test.said, to: path}
				f := gitserver.NewServer(t, gitserver.Options{Wrap: host.wrap})
				head := seed(t, f.Repository, files()...)
				repository := open(t, git.Config{URL: f.URL()})
				headID, err := repository.Head(t.Context())
				if path == "/git-receive-pack" {
					_, err = repository.Push(t.Context(), headID, one("a"))
				}
				if err == nil || !strings.HasSuffix(err.Error(), test.want) || strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v, want %q", path, err, test.want)
				}
				if now, _ := f.Head(); now != head {
					t.Error("the branch moved")
				}
			}
		})
	}
}

// TestRetryAfter: the error of a rate limit contains the host's message and the wait, and is not a
// refusal of the commits.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		said gitserver.Response
		want time.Duration
	}{
		// RFC 6585, 4; GitLab: docs.gitlab.com, "Rate limits", "Retry-After".
		"seconds": {gitserver.Response{Status: 429, RetryAfter: "40", Words: "Retry later"}, 40 * time.Second},
		"nothing": {gitserver.Response{Status: 429, Words: "Retry later"}, time.Minute},
		// RFC 9110, 10.2.3, with 503.
		"overloaded": {gitserver.Response{Status: 503, RetryAfter: "7"}, 7 * time.Second},
		// docs.github.com/rest, "Rate limits for the REST API": 403 or 429.
		"forbidden": {gitserver.Response{Status: 403, RetryAfter: "60", Words: "You have exceeded a secondary rate limit"}, time.Minute},
		"too long":  {gitserver.Response{Status: 429, RetryAfter: "864000"}, time.Hour},
		"a date":    {gitserver.Response{Status: 429, RetryAfter: "Fri, 31 Dec 2999 23:59:59 GMT"}, time.Hour},
		"bad":       {gitserver.Response{Status: 429, RetryAfter: "soon"}, time.Minute},
	} {
		paths := []string{"/info/refs"}
		if name == "seconds" {
			paths = []string{"/info/refs", "/git-upload-pack", "/git-receive-pack"}
		}
		for _, path := range paths {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				host := &message{Response: test.said, to: path}
				f := gitserver.NewServer(t, gitserver.Options{Wrap: host.wrap})
				seed(t, f.Repository, files()...)
				repository := open(t, git.Config{URL: f.URL()})
				head, err := repository.Head(t.Context())
				if path == "/git-receive-pack" {
					_, err = repository.Push(t.Context(), head, one("a"))
				}
				var wait interface{ RetryAfter() time.Duration }
				var refused *branch.Refused
				if !errors.As(err, &wait) || wait.RetryAfter() != test.want || errors.As(err, &refused) {
					t.Fatalf("%v, want to wait %s", err, test.want)
				}
				for _, word := range []string{"asks to wait " + test.want.String(), strconv.Itoa(test.said.Status), test.said.Words} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q is missing: %v", word, err)
					}
				}
				if asked := host.asked.Load(); asked != 1 {
					t.Errorf("the host was asked %d times", asked)
				}
			})
		}
	}
}

// TestStatusUnrelatedToFilter: after a temporary error of the host, later requests are not larger.
func TestStatusUnrelatedToFilter(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	f := gitserver.NewServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		host := &message{Response: gitserver.Response{Status: 500}, to: "/git-upload-pack"}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				host.wrap(next).ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	seed(t, f.Repository, files()...)
	var log bytes.Buffer
	repository := open(t, git.Config{URL: f.URL(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	broken.Store(true)
	if _, err := repository.Head(t.Context()); err == nil {
		t.Error("no error")
	}
	broken.Store(false)
	headOf(t, repository)
	if strings.Contains(log.String(), "whole") {
		t.Errorf("it says\n%s", log.String())
	}
}

// TestRefusalOmitsProgress: the error has the server's reason, without progress, banner and prefixes.
func TestRefusalOmitsProgress(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	// The prefix and the empty lines: GitLab, lib/gitlab/git_access.rb and gitlab-shell. The
	// progress: JGit, BatchingProgressMonitor.
	hook(t, r, "pre-receive", `{
printf 'Resolving deltas:  50%% (1/2)\rResolving deltas: 100%% (2/2)\r\n'
for i in $(seq 100); do echo "Welcome to the git server of acme, where line $i says nothing at all"; done
printf 'remote: \nremote: ========================================\nremote: \n\nremote: remote: GitLab: \033[31mthe branch is protected\033[0m\nremote: \nerror:\n'
} >&2
exit 1
`)
	repository := open(t, git.Config{URL: r.Dir})
	_, err := repository.Push(t.Context(), headOf(t, repository), one("a"))
	var refused *branch.Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "line 100 says nothing at all; GitLab: the branch is protected; ") {
		t.Fatalf("Push: %v, want the reason", err)
	}
	for _, noise := range []string{"Resolving", "remote:", "error:;", "===", "; ;", "line 1 "} {
		if strings.Contains(refused.Message, noise) {
			t.Errorf("%q is in %s", noise, refused.Message)
		}
	}
}

// TestRedirectToHostThatRequiresPassword: the address is what is wrong, and not the password, which
// that host has not seen.
func TestRedirectToHostThatRequiresPassword(t *testing.T) {
	t.Parallel()
	there := gitserver.NewServer(t, gitserver.Options{Username: "robot", Password: "s3cret"})
	seed(t, there.Repository, files()...)
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, there.Server.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	t.Cleanup(here.Close)
	for name, c := range map[string]remote.Credentials{"a password": {Password: remote.StaticPassword("robot", "s3cret")}, "none": {}} {
		_, err := open(t, git.Config{URL: here.URL + "/fleet.git", Credentials: c}).Head(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the address redirects to "+there.URL()+",") || !strings.Contains(err.Error(), "use that address") {
			t.Errorf("with %s: %v", name, err)
		}
	}
}

// TestRedirectToLoginPage: the error contains the host's login page.
func TestRedirectToLoginPage(t *testing.T) {
	t.Parallel()
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/users/sign_in" { // GitLab's
			http.Redirect(w, r, "/users/sign_in", http.StatusFound)
			return
		}
		gitserver.Response{Status: http.StatusOK, Type: "text/html; charset=utf-8", Words: "<!DOCTYPE html><title>Sign in · GitLab</title>"}.Write(w)
	}))
	t.Cleanup(host.Close)
	_, err := open(t, git.Config{URL: host.URL + "/fleet.git"}).Head(t.Context())
	if err == nil || !strings.Contains(err.Error(), "a web page (Sign in · GitLab)") {
		t.Error(err)
	}
}

// TestHostKeyOfUnknownType: the host has other keys than those that are known.
func TestHostKeyOfUnknownType(t *testing.T) {
	t.Parallel()
	s, err := gitserver.ServeSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, []byte(knownhosts.Line([]string{s.Address}, public)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, git.Config{URL: s.URL(gitserver.NewRepository(t)), Credentials: remote.Credentials{SSHKeyFile: s.KeyFile, SSHKnownHostsFile: known}}).Head(t.Context())
	if err == nil || !strings.Contains(err.Error(), "none of a type that the host has: add the output of ssh-keyscan") {
		t.Error(err)
	}
}

// TestHooksSeeNoSecret: a hook of a repository on this machine gets what git
// needs of the environment, and not the tokens in it.
func TestHooksSeeNoSecret(t *testing.T) {
	t.Setenv("BUILDKITE_API_TOKEN", "bkua-secret")
	t.Setenv("MUSTER_GIT_PASSWORD", "git-secret")
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	out := filepath.Join(t.TempDir(), "environment")
	hook(t, r, "pre-receive", "env >"+out+"\n")
	repository := open(t, git.Config{URL: r.Dir})
	if _, err := repository.Push(t.Context(), headOf(t, repository), one("a")); err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(seen), "secret") || !strings.Contains(string(seen), "PATH=") {
		t.Errorf("the hook sees\n%s", seen)
	}
}

// TestWebPage: the error for a web page contains its title.
func TestWebPage(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><head><TITLE lang=en>Sign in &middot;\n\u009b31mAcme\u202e</title></head>"))
	}))
	t.Cleanup(s.Close)
	repository := open(t, git.Config{URL: s.URL + "/acme/fleet"})
	_, err := repository.Head(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the host answered with a web page (Sign in · 31mAcme) instead of git's protocol") {
		t.Error(err)
	}
}

// TestTokenInQuery: errors omit the query of the address.
func TestTokenInQuery(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	address := s.URL
	s.Close()
	repository := open(t, git.Config{URL: address + "/acme/fleet?v=1&token=s3%20cret"})
	_, err := repository.Head(t.Context())
	if err == nil || strings.Contains(err.Error(), "s3") || strings.Contains(repository.String(), "s3") {
		t.Errorf("%s: %v", repository, err)
	}
}

// TestUnreliableReportOfPush: a server without an agent capability reports success after a conflict;
// the push is verified.
func TestUnreliableReportOfPush(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	lost := ""
	config := serveStrict(t, r, gitserver.Strict{Hides: append(gitserver.Dulwich().Hides, "agent", "side-band-64k"), Receive: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if lost == "" {
			next.ServeHTTP(w, q)
			return
		}
		_, _ = io.Copy(io.Discard, q.Body)
		seed(t, r, write("deploy/web/jobs/"+lost, lost))
		w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		_, _ = io.WriteString(w, "000eunpack ok\n0017ok refs/heads/main\n0000")
	}})
	b := open(t, config)
	headID, err := b.Push(t.Context(), headOf(t, b), one("a"))
	if err != nil {
		t.Fatal(err)
	}
	if head, _ := r.Head(); head != headID.Commit {
		t.Errorf("the branch is at %s, want %s", head, headID.Commit)
	}
	lost = "theirs"
	if _, err := b.Push(t.Context(), headID, one("b")); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("a race that was lost: %v", err)
	}
}

// TestBranchMovesDuringRead: if the host sends only the current head, the read is repeated.
func TestBranchMovesDuringRead(t *testing.T) {
	t.Parallel()
	f := gitserver.NewRepository(t)
	seed(t, f, files()...)
	moves := 0
	config := serveStrict(t, f, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if moves > 0 {
			moves--
			seed(t, f, write("deploy/web/jobs/theirs", strings.Repeat("x", moves+1)))
			gitserver.Response{Status: http.StatusInternalServerError, Words: "Client wants invalid object"}.Write(w)
			return
		}
		next.ServeHTTP(w, q)
	}})
	for _, moves = range []int{1, 2} {
		b := open(t, config)
		headID := headOf(t, b)
		if head, _ := f.Head(); head != headID.Commit {
			t.Errorf("the head is %s, want %s", headID.Commit, head)
		}
	}
	moves = 1000
	if _, err := open(t, config).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid object") || moves < 990 {
		t.Errorf("%v, after %d reads", err, 1000-moves)
	}
}

// TestPastFromHostThatRefusesByStatus: a host that serves only heads, and refuses others with a status,
// is read from the head; a moved head is an error.
func TestPastFromHostThatRefusesByStatus(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	before := seed(t, r, files()...)
	seed(t, r, write("deploy/web/settings.yaml", "new\n"))
	moves := false
	config := serveStrict(t, r, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if moves {
			moves = false
			seed(t, r, write("deploy/web/jobs/theirs", "x"))
		}
		if head, _ := r.Head(); !strings.Contains(bodyOf(t, q), "want "+head) {
			gitserver.Response{Status: http.StatusInternalServerError, Words: "Internal Server Error"}.Write(w)
			return
		}
		next.ServeHTTP(w, q)
	}})
	b := open(t, config)
	headOf(t, b)
	if content, err := b.File(t.Context(), before, "deploy/web/settings.yaml"); err != nil || string(content) != "settings\n" {
		t.Errorf("%q, %v", content, err)
	}
	moves = true
	if _, err := b.File(t.Context(), before, "deploy/web/settings.yaml"); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("a branch that has moved: %v", err)
	}
	moves = true
	for _, err := range b.Commits(t.Context(), "", branch.Limit{}) {
		if !errors.Is(err, branch.ErrMoved) {
			t.Errorf("the history of a branch that has moved: %v", err)
		}
	}
	// A directory that was not in use, in which something has changed: its commit is read again.
	for _, name := range []string{"notes/1", "notes/2"} {
		seed(t, r, write(name, name))
		headOf(t, b)
	}
	head := headOf(t, b)
	moves = true
	if _, err := b.Push(t.Context(), head, []branch.Draft{{Message: "note\n", At: at, Changes: []branch.Change{write("notes/3", "x")}}}); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("a commit on a branch that has moved: %v", err)
	}
}

// TestResultOfConflict: a reported conflict needs no further request. Without a report, and without the
// commits since, the result is unknown.
func TestResultOfConflict(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	reads, away := 0, false
	config := serveStrict(t, r, gitserver.Strict{
		Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
			reads++
			if away {
				gitserver.Response{Status: http.StatusBadGateway}.Write(w)
				return
			}
			next.ServeHTTP(w, q)
		},
		Receive: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
			seed(t, r, write("deploy/web/jobs/theirs", strings.Repeat("x", reads+1)))
			if away {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, q)
		},
	})
	b := open(t, config)
	head := headOf(t, b)
	reads = 0
	if _, err := b.Push(t.Context(), head, one("a")); !errors.Is(err, branch.ErrMoved) || errors.Is(err, branch.ErrUnsettled) {
		t.Errorf("a race of which the server tells: %v", err)
	}
	if reads > 0 {
		t.Errorf("%d requests to read after it", reads)
	}
	head = headOf(t, b)
	away = true
	if _, err := b.Push(t.Context(), head, one("a")); !errors.Is(err, branch.ErrMoved) || !errors.Is(err, branch.ErrUnsettled) {
		t.Errorf("a race of which nobody tells: %v", err)
	}
}

// TestHostRefusesChangesSinceCommit: a refused request for changes since a commit is not repeated.
func TestHostRefusesChangesSinceCommit(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	reads := 0
	config := serveStrict(t, r, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		reads++
		// "shallow" without "deepen" (dulwich 0.21, server.py, _handle_shallow_request).
		if text := bodyOf(t, q); strings.Contains(text, "shallow ") && !strings.Contains(text, "deepen ") {
			gitserver.Response{Status: http.StatusInternalServerError, Words: "Internal Server Error"}.Write(w)
			return
		}
		next.ServeHTTP(w, q)
	}})
	b := open(t, config)
	headOf(t, b)
	for i, want := range []int{2, 1, 1} {
		reads = 0
		head := seed(t, r, write("deploy/web/jobs/theirs", strings.Repeat("x", i+1)))
		if headID := headOf(t, b); headID.Commit != head || reads != want {
			t.Errorf("the head is %s after %d requests, want %s after %d", headID.Commit, reads, head, want)
		}
	}
}

// TestMissingRepository: what hosts print over ssh for a repository that does not exist, or that the
// key may not read.
func TestMissingRepository(t *testing.T) {
	t.Parallel()
	for host, message := range map[string]string{
		"Gitea":           "Gitea: Cannot find repository: fleet/none",
		"gitolite":        "FATAL: R any none robot DENIED by fallthru\n(or you mis-spelled the reponame)",
		"Bitbucket Cloud": "conq: repository access denied.",
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			ssh := func(ctx context.Context, _ ...string) *exec.Cmd {
				return exec.CommandContext(ctx, "sh", "-c", `printf '%s\n' "$1" >&2; exit 1`, "ssh", message)
			}
			_, err := open(t, git.Config{URL: "ssh://git@git.example.com/fleet/none", Credentials: remote.Credentials{SSHProgram: ssh}}).Head(t.Context())
			want := "repository not found, or these credentials have no access: " + strings.ReplaceAll(message, "\n", "; ")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Tip: %v, want %q", err, want)
			}
		})
	}
}

// TestPastFileOfJGit: a host that serves only heads refuses a past commit in JGit's words; the file
// comes with a deeper fetch of the head.
func TestPastFileOfJGit(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	old := seed(t, r, write("a.txt", "old"))
	head := seed(t, r, write("a.txt", "new"))
	refused := 0
	config := serveStrict(t, r, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if strings.Contains(bodyOf(t, q), "want "+head) {
			next.ServeHTTP(w, q)
			return
		}
		refused++
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		line := "ERR want " + old + " not valid"
		fmt.Fprintf(w, "%04x%s", len(line)+4, line)
	}})
	content, err := open(t, config).File(t.Context(), old, "a.txt")
	if err != nil || string(content) != "old" {
		t.Errorf("File: %q, %v", content, err)
	}
	if refused == 0 {
		t.Error("the host refused nothing")
	}
}
