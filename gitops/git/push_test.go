package git_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
	"muster/gitops/git"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
	"muster/gitops/writertest"
)

// TestWriter runs the contract of every writer.
func TestWriter(t *testing.T) {
	t.Parallel()
	var hosts sync.Map
	host := func(r gitserver.Repository) *losing {
		l, _ := hosts.LoadOrStore(r.Dir, &losing{})
		return l.(*losing)
	}
	writertest.Run(t, writertest.Harness{
		Open: func(t *testing.T, r gitserver.Repository) branch.Writer {
			s, err := gitserver.Serve(filepath.Dir(r.Dir), gitserver.Options{Wrap: host(r).wrap})
			must(t, err)
			t.Cleanup(s.Close)
			return open(t, git.Config{URL: s.URL + "/" + filepath.Base(r.Dir)})
		},
		Lose: func(r gitserver.Repository, made bool, then func()) {
			host(r).next.Store(&loss{made, then})
		},
		Away: func(r gitserver.Repository, away bool) { host(r).away.Store(away) },
		Refuse: func(t *testing.T, r gitserver.Repository, words string) {
			hook(t, r, "pre-receive", "echo '"+words+"' >&2\nexit 1\n")
		},
	})
}

// losing is a host that may lose the response to a push, or all requests.
type losing struct {
	next atomic.Pointer[loss]
	away atomic.Bool
}

// loss is the loss of a response. made reports whether the request is processed, and then is called
// afterwards.
type loss struct {
	made bool
	then func()
}

func (l *losing) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.away.Load() {
			panic(http.ErrAbortHandler)
		}
		if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			if lost := l.next.Swap(nil); lost != nil {
				if lost.made {
					next.ServeHTTP(httptest.NewRecorder(), r)
				} else {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				lost.then()
				panic(http.ErrAbortHandler)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// TestPropose puts commits into a new branch, on every host, and leaves the branch
// that is read where it is.
func TestPropose(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 3)
		b := open(t, c)
		head := headOf(t, b)
		draft := []branch.Draft{{Message: "Raise max\n", At: time.Unix(1e9, 0), Changes: []branch.Change{{Path: "f/new.txt", Content: []byte("new")}}}}
		commit, _, err := b.Propose(t.Context(), head, draft, "muster/raise-max")
		must(t, err)
		out := gitIn(t, r, "log", "-1", "--format=%H %P %s", "muster/raise-max")
		if want := commit + " " + head.Commit + " Raise max"; out != want {
			t.Errorf("the branch is at %q, want %q", out, want)
		}
		wantHead(t, r, head.Commit)
		var refused *branch.Refused
		if _, _, err := b.Propose(t.Context(), head, draft, "muster/raise-max"); err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "the branch muster/raise-max exists already") {
			t.Errorf("a second time: %v", err)
		}
		if _, _, err := b.Propose(t.Context(), head, draft, "muster/..raise"); err == nil {
			t.Error("a name that git refuses is taken")
		}
		_, err = b.Push(t.Context(), head, draft)
		must(t, err)
		if _, _, err := b.Propose(t.Context(), head, draft, "muster/late"); !errors.Is(err, branch.ErrMoved) {
			t.Errorf("on a commit that is not the head any more: %v", err)
		}
	})
}

// TestWritable: checks whether the server's rules let this user push, without a change and without a
// notification, also if the branch has one commit.
func TestWritable(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		seed(t, r, files()...)
		told := filepath.Join(t.TempDir(), "told")
		b := open(t, c)
		headID := headOf(t, b)
		for _, commits := range []string{"one commit", "two commits"} {
			if commits == "two commits" {
				must(t, push(t, b, &headID, "x"))
			}
			hook(t, r, "post-receive", "echo told >"+told+"\n")
			for name, b := range map[string]*git.Branch{"the same": b, "another": open(t, c)} {
				if err := b.Writable(t.Context()); err != nil {
					t.Errorf("%s, %s: %v", commits, name, err)
				}
			}
			for name, script := range map[string]string{
				"pre-receive": "while read old new ref; do [ $ref != refs/heads/main ] || { echo 'main is protected' >&2; exit 1; }; done\n",
				"update":      "[ $1 != refs/heads/main ] || { echo 'main is protected' >&2; exit 1; }\n",
			} {
				hook(t, r, name, script)
				var refused *branch.Refused
				if err := b.Writable(t.Context()); !errors.As(err, &refused) || !strings.Contains(refused.Message, "main is protected") {
					t.Errorf("%s, %s refuses: %v", commits, name, err)
				}
				must(t, os.Remove(filepath.Join(r.Dir, "hooks", name)))
			}
			wantHead(t, r, headID.Commit)
			must(t, os.Remove(filepath.Join(r.Dir, "hooks", "post-receive")))
		}
		if _, err := os.Stat(told); err == nil {
			t.Error("somebody was told of a push")
		}
	})
}

// TestLockedBranch: a push is retried while another push locks the branch; the error for a persistent
// lock has the host's message.
func TestLockedBranch(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	onEveryHost(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		past(t, r, 3)
		b := open(t, c)
		head := headOf(t, b)
		lock := filepath.Join(r.Dir, "refs", "heads", "main.lock")
		must(t, os.WriteFile(lock, nil, 0o600))
		time.AfterFunc(300*time.Millisecond, func() { _ = os.Remove(lock) })
		must(t, push(t, b, &head, "more"))
		must(t, os.WriteFile(lock, nil, 0o600))
		err := push(t, b, &head, "again")
		if err == nil || errors.Is(err, branch.ErrMoved) || !strings.Contains(err.Error(), "ref") {
			t.Errorf("of a lock that stays: %v", err)
		}
		must(t, os.Remove(lock))
		head = headOf(t, b)
		must(t, push(t, b, &head, "after all"))
	})
}

// TestPushWithoutAReport: a push succeeds only if the server reports success for that branch.
func TestPushWithoutAReport(t *testing.T) {
	t.Parallel()
	s := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		report := "000eunpack ok\n001aok refs/heads/another\n0000"
		fmt.Fprintf(w, "%04x\x01%s0000", len(report)+5, report) // a packet of channel 1 of the sideband
		return true
	})
	repository := open(t, git.Config{URL: s.URL()})
	head := headOf(t, repository)
	wantError(t, push(t, repository, &head, "a"), "the server did not report the result of the push")
	wantHead(t, s.Repository, headOf(t, repository).Commit)
}

// TestNoReportStatus: nothing is pushed to a server without report-status.
func TestNoReportStatus(t *testing.T) {
	t.Parallel()
	sent := 0
	f := gitserver.NewServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
				sent++
			}
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte("report-status"), []byte("report-nothing")[:len("report-status")]))
		})
	}})
	before := seed(t, f.Repository, write("a", "b"))
	r := open(t, git.Config{URL: f.URL()})
	_, err := r.Push(t.Context(), headOf(t, r), []branch.Draft{{Message: "Change", At: at, Changes: []branch.Change{write("a", "c")}}})
	if err == nil || !strings.Contains(err.Error(), "(report-status), which is required") || sent > 0 {
		t.Errorf("%d pushes were sent: %v", sent, err)
	}
	if head := headOf(t, r); head.Commit != before {
		t.Errorf("the branch is at %s, want %s", head.Commit, before)
	}
}
