package git_test

import (
	"bytes"
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
			f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Git-Protocol") != "" && answer != nil {
					answer(w, r)
					return true
				}
				r.Header.Del("Git-Protocol")
				return false
			})
			pullRequests(t, f.Repository, 150)
			head, err := f.Head()
			must(t, err)
			var log bytes.Buffer
			r := open(t, git.Config{URL: f.URL(), Log: slog.New(slog.NewTextHandler(&log, nil))})
			headID := headOf(t, r)
			for _, name := range []string{"a", "b", "c", "d"} {
				if headID.Commit != head {
					t.Fatalf("the head is %s, want %s", headID.Commit, head)
				}
				must(t, push(t, r, &headID, name))
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

// TestLongListAfterOneFailure has a host that has long spoken version 2 and then is
// faulty for one request: that must not end it.
func TestLongListAfterOneFailure(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect is followed with %s %s", r.Method, r.URL)
	}))
	t.Cleanup(other.Close)
	var trouble atomic.Int32
	f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
		code := int(trouble.Swap(0))
		if code == 0 {
			return false
		}
		w.Header().Set("Location", other.URL+r.URL.Path)
		http.Error(w, "trouble", code)
		return true
	})
	pullRequests(t, f.Repository, 150)
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
			configure(t, f.Repository, "receive.unpackLimit", "1")
			seed(t, f.Repository, append(files(), write(a, text+"x"))...)
			r := open(t, git.Config{URL: f.URL()})
			head := headOf(t, r)
			wantFile(t, head.Tree, a, text+"x")
			var commits []branch.Draft
			for _, c := range chain {
				commits = append(commits, branch.Draft{Message: "m", At: at, Changes: []branch.Change{c}})
			}
			_, err := r.Push(t.Context(), head, commits)
			must(t, err)
			fsck(t, f.Repository)
		})
	}
}
