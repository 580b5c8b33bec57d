package git_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	must(t, err)
	t.Cleanup(server.Close)
	return git.Config{URL: server.URL + "/" + filepath.Base(r.Dir)}
}

// answered returns the error of a read, or of a push, from a host that answers requests of a path so,
// and how many there were.
func answered(t *testing.T, answer gitserver.Response, path string) (asked int32, err error) {
	t.Helper()
	var count atomic.Int32
	f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, path) {
			return false
		}
		count.Add(1)
		answer.Write(w)
		return true
	})
	before, err := f.Head()
	must(t, err)
	repository := open(t, git.Config{URL: f.URL()})
	head, err := repository.Head(t.Context())
	if path == "/git-receive-pack" {
		err = push(t, repository, &head, "a")
	}
	wantHead(t, f.Repository, before)
	return count.Load(), err
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
				_, err := answered(t, test.said, path)
				if err == nil || !strings.HasSuffix(err.Error(), test.want) || strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v, want %q", path, err, test.want)
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
				asked, err := answered(t, test.said, path)
				var wait interface{ RetryAfter() time.Duration }
				var refused *branch.Refused
				if !errors.As(err, &wait) || wait.RetryAfter() != test.want || errors.As(err, &refused) {
					t.Fatalf("%v, want to wait %s", err, test.want)
				}
				wantError(t, err, "asks to wait "+test.want.String(), strconv.Itoa(test.said.Status), test.said.Words)
				if asked != 1 {
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
	f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !broken.Load() || !strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
			return false
		}
		gitserver.Response{Status: 500}.Write(w)
		return true
	})
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

// TestHostKeyOfUnknownType: the host has other keys than those that are known.
func TestHostKeyOfUnknownType(t *testing.T) {
	t.Parallel()
	s := serveSSH(t)
	key, known := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "known_hosts")
	sshKeygen(t, "-t", "ecdsa", "-N", "", "-f", key)
	writeText(t, known, "["+strings.Replace(s.Address, ":", "]:", 1)+" "+readText(t, key+".pub"))
	credentials := remote.Credentials{SSHKeyFile: s.KeyFile, SSHKnownHostsFile: known}
	_, err := open(t, git.Config{URL: s.URL(gitserver.NewRepository(t)), Credentials: credentials}).Head(t.Context())
	wantError(t, err, "none of a type that the host has: add the output of ssh-keyscan")
}

// TestHooksSeeNoSecret: a hook of a repository on this machine gets what git
// needs of the environment, and not the tokens in it.
func TestHooksSeeNoSecret(t *testing.T) {
	t.Setenv("BUILDKITE_API_TOKEN", "bkua-secret")
	t.Setenv("MUSTER_GIT_PASSWORD", "git-secret")
	r := newRepository(t)
	out := filepath.Join(t.TempDir(), "environment")
	hook(t, r, "pre-receive", "env >"+out+"\n")
	repository := open(t, git.Config{URL: r.Dir})
	head := headOf(t, repository)
	must(t, push(t, repository, &head, "a"))
	seen, err := os.ReadFile(out)
	must(t, err)
	if strings.Contains(string(seen), "secret") || !strings.Contains(string(seen), "PATH=") {
		t.Errorf("the hook sees\n%s", seen)
	}
}

// TestWebPage: the error for a web page contains its title, also after a redirect to a login page.
func TestWebPage(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := "<!DOCTYPE html><html><head><TITLE lang=en>Sign in &middot;\n\u009b31mAcme\u202e</title></head>"
		switch {
		case r.URL.Path == "/users/sign_in": // GitLab's
			page = "<!DOCTYPE html><title>Sign in · GitLab</title>"
		case strings.HasPrefix(r.URL.Path, "/fleet.git"):
			http.Redirect(w, r, "/users/sign_in", http.StatusFound)
			return
		}
		gitserver.Response{Status: http.StatusOK, Type: "text/html; charset=utf-8", Words: page}.Write(w)
	}))
	t.Cleanup(s.Close)
	for path, title := range map[string]string{"/acme/fleet": "Sign in · 31mAcme", "/fleet.git": "Sign in · GitLab"} {
		_, err := open(t, git.Config{URL: s.URL + path}).Head(t.Context())
		wantError(t, err, "the host answered with a web page ("+title+") instead of git's protocol")
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
	r := newRepository(t)
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
	head := headOf(t, b)
	must(t, push(t, b, &head, "a"))
	wantHead(t, r, head.Commit)
	lost = "theirs"
	if err := push(t, b, &head, "b"); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("a race that was lost: %v", err)
	}
}

// TestBranchMovesDuringRead: if the host sends only the current head, the read is repeated.
func TestBranchMovesDuringRead(t *testing.T) {
	t.Parallel()
	f := newRepository(t)
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
		wantHead(t, f, headOf(t, open(t, config)).Commit)
	}
	moves = 1000
	if _, err := open(t, config).Head(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid object") || moves < 990 {
		t.Errorf("%v, after %d reads", err, 1000-moves)
	}
}

// TestPastFromHostThatRefuses: a host that serves only heads is read from the head; a moved head is an
// error.
func TestPastFromHostThatRefuses(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(w http.ResponseWriter, commit string){
		"by status": func(w http.ResponseWriter, _ string) {
			gitserver.Response{Status: http.StatusInternalServerError, Words: "Internal Server Error"}.Write(w)
		},
		"in JGit's words": func(w http.ResponseWriter, commit string) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			line := "ERR want " + commit + " not valid"
			fmt.Fprintf(w, "%04x%s", len(line)+4, line)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := gitserver.NewRepository(t)
			before := seed(t, r, files()...)
			seed(t, r, write("deploy/web/settings.yaml", "new\n"))
			moves, refused := false, 0
			config := serveStrict(t, r, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
				if moves {
					moves = false
					seed(t, r, write("deploy/web/jobs/theirs", "x"))
				}
				head, _ := r.Head()
				if _, wanted, _ := strings.Cut(bodyOf(t, q), "want "); !strings.HasPrefix(wanted, head) {
					refused++
					refuse(w, wanted[:40])
					return
				}
				next.ServeHTTP(w, q)
			}})
			b := open(t, config)
			headOf(t, b)
			if content, err := b.File(t.Context(), before, "deploy/web/settings.yaml"); err != nil || string(content) != "settings\n" {
				t.Errorf("%q, %v", content, err)
			}
			if refused == 0 {
				t.Error("the host refused nothing")
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
		})
	}
}

// TestResultOfConflict: a reported conflict needs no further request. Without a report, and without the
// commits since, the result is unknown.
func TestResultOfConflict(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
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
	var unsettled *branch.Unsettled
	if _, err := b.Push(t.Context(), head, one("a")); !errors.Is(err, branch.ErrMoved) || errors.As(err, &unsettled) {
		t.Errorf("a race of which the server tells: %v", err)
	}
	if reads > 0 {
		t.Errorf("%d requests to read after it", reads)
	}
	head = headOf(t, b)
	away = true
	if _, err := b.Push(t.Context(), head, one("a")); !errors.Is(err, branch.ErrMoved) || !errors.As(err, &unsettled) {
		t.Errorf("a race of which nobody tells: %v", err)
	}
}

// TestHostRefusesChangesSinceCommit: a refused request for changes since a commit is not repeated.
func TestHostRefusesChangesSinceCommit(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
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
