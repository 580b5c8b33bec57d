package git_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestLongListWithoutVersionTwo has hosts that do not speak the version of the
// protocol that spares them the list, each in its own way.
func TestLongListWithoutVersionTwo(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"not understood": nil, // git as it is without the header
		"bad request":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad", http.StatusBadRequest) },
		"a web page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) },
		"nothing":        func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := gitserver.NewServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Git-Protocol") != "" && answer != nil {
						answer(w, r)
						return
					}
					r.Header.Del("Git-Protocol")
					next.ServeHTTP(w, r)
				})
			}})
			pullRequests(t, f.Repository, 150)
			head := seed(t, f.Repository, files()...)
			var log bytes.Buffer
			r := open(t, git.Config{URL: f.URL(), Log: slog.New(slog.NewTextHandler(&log, nil))})
			headID := headOf(t, r)
			for _, name := range []string{"a", "b", "c", "d"} {
				if headID.Commit != head {
					t.Fatalf("the head is %s, want %s", headID.Commit, head)
				}
				var err error
				if headID, err = r.Push(t.Context(), headID, one(name)); err != nil {
					t.Fatal(err)
				}
				head = seed(t, f.Repository, write("deploy/web/jobs/theirs", name))
				headID = headOf(t, r)
			}
			if got := strings.Count(log.String(), "lists all of its refs on every read"); got != 1 {
				t.Errorf("said %d times:\n%s", got, log.String())
			}
			fsck(t, f.Repository)
		})
	}
}

// TestLongListEverywhere polls a repository again and again on every host: the server answers in
// version 2 each time.
func TestLongListEverywhere(t *testing.T) {
	t.Parallel()
	onEveryHost(t, func(t *testing.T, f gitserver.Repository, config git.Config) {
		pullRequests(t, f, 150)
		seed(t, f, files()...)
		var log bytes.Buffer
		config.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r := open(t, config)
		headOf(t, r)
		for i := range 2 {
			head := seed(t, f, write("deploy/web/jobs/theirs", fmt.Sprint(i)))
			if headID := headOf(t, r); headID.Commit != head {
				t.Errorf("the head is %s, want %s", headID.Commit, head)
			}
		}
		if log.Len() > 0 {
			t.Errorf("something did not work:\n%s", log.String())
		}
	})
}

// TestLongListAfterOneFailure has a host that has long spoken version 2 and then is
// faulty for one request: that must not end it.
func TestLongListAfterOneFailure(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect is followed with %s %s", r.Method, r.URL)
	}))
	t.Cleanup(other.Close)
	var trouble atomic.Int32
	f := gitserver.NewServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if code := int(trouble.Swap(0)); code != 0 {
				w.Header().Set("Location", other.URL+r.URL.Path)
				http.Error(w, "trouble", code)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	pullRequests(t, f.Repository, 150)
	seed(t, f.Repository, files()...)
	r := open(t, git.Config{URL: f.URL()})
	headOf(t, r)
	for _, code := range []int32{401, 403, 404, 429, 500, 503, 307} {
		trouble.Store(code)
		headOf(t, r)
		f.Requests()
		headOf(t, r)
		if got := f.Requests(); len(got) != 1 || !strings.HasPrefix(got[0], "POST ") {
			t.Errorf("after a %d it asks %q", code, got)
		}
	}
}

// TestDeltasDoNotDependOnEachOther pushes what would be a delta on itself, or two
// that are deltas on each other, to a server that keeps what it gets as a pack.
func TestDeltasDoNotDependOnEachOther(t *testing.T) {
	t.Parallel()
	const a, b = "deploy/web/jobs/a.yaml", "deploy/web/jobs/b.yaml"
	text := strings.Repeat("a line of what is mostly the same\n", 60)
	for name, chain := range map[string][]branch.Change{
		"a copy":      {write(b, text+"x")},
		"to and fro":  {write(a, text+"y"), write(a, text+"x")},
		"and removed": {write(b, "b"), remove(b)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := gitserver.NewServer(t, gitserver.Options{})
			if err := f.Configure("receive.unpackLimit", "1"); err != nil {
				t.Fatal(err)
			}
			seed(t, f.Repository, append(files(), write(a, text+"x"))...)
			r := open(t, git.Config{URL: f.URL()})
			head := headOf(t, r)
			wantFile(t, head.Tree, a, text+"x")
			var commits []branch.Draft
			for _, c := range chain {
				commits = append(commits, branch.Draft{Message: "m", At: at, Changes: []branch.Change{c}})
			}
			if _, err := r.Push(t.Context(), head, commits); err != nil {
				t.Fatal(err)
			}
			fsck(t, f.Repository)
		})
	}
}
