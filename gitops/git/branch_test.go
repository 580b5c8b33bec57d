package git_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"
	"muster/gitops/unraced"
)

var at = time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)

// host is one way to reach a repository.
type host struct {
	name string
	// serve returns how to reach r.
	serve func(t *testing.T, r gitserver.Repository) git.Config
}

func hosts() []host {
	return []host{
		{"http", func(t *testing.T, r gitserver.Repository) git.Config {
			s, err := gitserver.Serve(filepath.Dir(r.Dir), gitserver.Options{Username: "robot", Password: leaktest.GitPassword})
			must(t, err)
			t.Cleanup(s.Close)
			return git.Config{
				URL:         s.URL + "/" + filepath.Base(r.Dir),
				Credentials: remote.Credentials{Password: remote.StaticPassword("robot", leaktest.GitPassword)},
			}
		}},
		{"ssh", func(t *testing.T, r gitserver.Repository) git.Config {
			s := serveSSH(t)
			return git.Config{
				URL:         s.URL(r),
				Credentials: remote.Credentials{SSHKeyFile: s.KeyFile, SSHKnownHostsFile: s.KnownHostsFile},
			}
		}},
		{"path", func(_ *testing.T, r gitserver.Repository) git.Config { return git.Config{URL: r.Dir} }},
	}
}

// clones are what a server may offer.
func clones() map[string]func(t *testing.T, r gitserver.Repository) {
	set := func(pairs ...string) func(*testing.T, gitserver.Repository) {
		return func(t *testing.T, r gitserver.Repository) { configure(t, r, pairs...) }
	}
	return map[string]func(*testing.T, gitserver.Repository){
		"partial":    set(),
		"depth zero": set("uploadpackfilter.tree.maxDepth", "0"),
		"no limit":   set("uploadpackfilter.blob:limit.allow", "false"),
		"no trees":   set("uploadpackfilter.tree.allow", "false"),
		"shallow":    set("uploadpack.allowFilter", "false", "uploadpack.allowAnySHA1InWant", "false"),
		"reachable":  set("uploadpack.allowAnySHA1InWant", "false", "uploadpack.allowReachableSHA1InWant", "true"),
		"named only": set("uploadpack.allowAnySHA1InWant", "false"),
		"long list":  func(t *testing.T, r gitserver.Repository) { pullRequests(t, r, 150) },
	}
}

// pullRequests adds refs that nobody here has a use for.
func pullRequests(t *testing.T, r gitserver.Repository, n int) {
	t.Helper()
	must(t, r.AddPullRequests(n))
}

// hostTest is a test with an empty repository at a host.
type hostTest func(t *testing.T, r gitserver.Repository, c git.Config)

// contract runs a test over HTTP with some clones, and against every other host with others.
func contract(t *testing.T, test hostTest, overHTTP []string, onOthers ...string) {
	for _, h := range hosts() {
		names := onOthers
		if h.name == "http" {
			names = overHTTP
		}
		for _, name := range names {
			t.Run(h.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := gitserver.NewRepository(t)
				clones()[name](t, r)
				test(t, r, h.serve(t, r))
			})
		}
	}
}

// contractOfPast is the contract of what reads commits by their identifiers: a long list of refs
// makes no difference to it.
func contractOfPast(t *testing.T, test hostTest) {
	contract(t, test, []string{
		"partial", "depth zero", "no limit", "no trees", "shallow", "reachable", "named only",
	}, "partial", "shallow")
}

// onEveryHost runs a test against every host, with partial clone.
func onEveryHost(t *testing.T, test hostTest) {
	contract(t, test, []string{"partial"}, "partial")
}

// usual fills in what most tests have in common.
func usual(c git.Config) git.Config {
	for field, value := range map[*string]string{&c.Branch: "main", &c.ReadAhead: "deploy", &c.AuthorName: "robot", &c.AuthorEmail: "robot@localhost"} {
		if *field == "" {
			*field = value
		}
	}
	c.ReadFirst = []string{"base"}
	return c
}

func open(t testing.TB, c git.Config) *git.Branch {
	t.Helper()
	c.Log = leaktest.Log(func(text string) { t.Error(text) }, c.Log)
	r, err := git.New(usual(c))
	must(t, err)
	return r
}

func write(path, content string) branch.Change {
	return branch.Change{Path: path, Content: []byte(content)}
}

func remove(path string) branch.Change { return branch.Change{Path: path} }

func seed(t testing.TB, r gitserver.Repository, changes ...branch.Change) string {
	t.Helper()
	head, err := r.Commit("seed", at.Add(-time.Hour), changes...)
	must(t, err)
	return head
}

// files are those of a small repository.
func files() []branch.Change {
	return []branch.Change{
		write("README.md", "hello\n"),
		write("base/kustomization.yaml", "base\n"),
		write("base/job.yaml", "job\n"),
		write("apps/web/deploy.yaml", "web\n"),
		write("deploy/web/settings.yaml", "settings\n"),
		write("deploy/web/template/kustomization.yaml", "template\n"),
		write("deploy/web/jobs/kustomization.yaml", "resources: []\n"),
		write("deploy/linux/large/settings.yaml", "large\n"),
	}
}

// newRepository makes a repository with [files].
func newRepository(t testing.TB) gitserver.Repository {
	t.Helper()
	r := gitserver.NewRepository(t)
	seed(t, r, files()...)
	return r
}

// newServer makes a repository with [files], and serves it.
func newServer(t testing.TB, o gitserver.Options) gitserver.Fleet {
	t.Helper()
	f := gitserver.NewServer(t, o)
	seed(t, f.Repository, files()...)
	return f
}

func headOf(t testing.TB, r *git.Branch) branch.Head {
	t.Helper()
	head, err := r.Head(t.Context())
	must(t, err)
	return head
}

func wantFile(t testing.TB, fsys fs.FS, name, want string) {
	t.Helper()
	got, err := fs.ReadFile(fsys, name)
	if err != nil || string(got) != want {
		t.Errorf("%s = %q, %v, want %q", name, got, err, want)
	}
}

func fsck(t testing.TB, r gitserver.Repository) {
	t.Helper()
	gitIn(t, r, "fsck", "--strict", "--full")
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gitIn runs git in a repository, and returns what it prints without the last line end.
func gitIn(t testing.TB, r gitserver.Repository, args ...string) string {
	t.Helper()
	out, err := r.Git(args...)
	must(t, err)
	return strings.TrimSpace(out)
}

// fastImport writes commits as git fast-import reads them.
func fastImport(t testing.TB, r gitserver.Repository, stream string) {
	t.Helper()
	_, err := r.GitInput([]byte(stream), "fast-import", "--quiet", "--force")
	must(t, err)
}

// wantHead asserts that the branch of a repository is at a commit.
func wantHead(t testing.TB, r gitserver.Repository, commit string) {
	t.Helper()
	if head, _ := r.Head(); head != commit {
		t.Errorf("the branch is at %s, want %s", head, commit)
	}
}

// wantError asserts that there is an error with some words.
func wantError(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error is %v, want one with %q", err, word)
		}
	}
}

// configure sets values of a repository's configuration, each after its key.
func configure(t testing.TB, r gitserver.Repository, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		must(t, r.Configure(pairs[i], pairs[i+1]))
	}
}

// serveSSH starts a server that ends with the test.
func serveSSH(t *testing.T) *gitserver.SSHServer {
	t.Helper()
	s, err := gitserver.ServeSSH(t.TempDir())
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, r gitserver.Repository, c git.Config) {
		var log bytes.Buffer
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		keepsTheContract(t, r, c)
		got := strings.Count(log.String(), "fetching each commit whole")
		if got > 1 || got == 0 && strings.HasSuffix(t.Name(), "/shallow") {
			t.Errorf("the fallback is logged %d times:\n%s", got, &log)
		}
		if strings.Contains(log.String(), "reading all refs") {
			t.Errorf("version 2 is not used:\n%s", &log)
		}
	}, slices.Sorted(maps.Keys(clones())), "partial", "shallow", "long list")
}

// TestStrictHosts reads from and writes to hosts that are stricter than git's own server, and reads
// more than a page of their history.
func TestStrictHosts(t *testing.T) {
	t.Parallel()
	for name, s := range strictHosts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := gitserver.NewRepository(t)
			c := serveStrict(t, r, s)
			keepsTheContract(t, r, c)
			past(t, r, 100)
			if got := listed(t, open(t, c), "", branch.Limit{}); len(got) != 110 {
				t.Errorf("the history has %d commits, want 110", len(got))
			}
		})
	}
}

// keepsTheContract reads, writes, and handles a conflict and a force push.
func keepsTheContract(t *testing.T, r gitserver.Repository, c git.Config) {
	t.Helper()
	head := seed(t, r, files()...)
	repository := open(t, c)
	headID := headOf(t, repository)
	if headID.Commit != head {
		t.Fatalf("head is %s, want %s", headID.Commit, head)
	}
	if diff := cmp.Diff(filesAt(t, r, head), filesOf(t, headID.Tree)); diff != "" {
		t.Errorf("the head (-git +got)\n%s", diff)
	}

	// One push of two commits.
	headID, err := repository.Push(t.Context(), headID, []branch.Draft{
		{Message: "add\n", At: at, Changes: []branch.Change{
			write("deploy/web/jobs/a.yaml", "a\n"),
			write("deploy/web/jobs/kustomization.yaml", "resources: [a.yaml]\n"),
		}},
		{Message: "remove\n", At: at, Changes: []branch.Change{
			remove("deploy/web/jobs/a.yaml"),
			write("deploy/linux/large/jobs/b.yaml", "b\n"),
		}},
	})
	must(t, err)
	wantHead(t, r, headID.Commit)
	wantFile(t, headID.Tree, "deploy/linux/large/jobs/b.yaml", "b\n")
	if _, err := fs.Stat(headID.Tree, "deploy/web/jobs/a.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the removed file: %v", err)
	}
	if out, err := r.Git("log", "--format=%an <%ae> %cI %s", "main"); err != nil ||
		!strings.HasPrefix(out, "robot <robot@localhost> 2026-11-21T02:15:00+00:00 remove\nrobot <robot@localhost> 2026-11-21T02:15:00+00:00 add\n") {
		t.Errorf("log = %s, %v", out, err)
	}

	// Somebody else writes; inside and outside the deploy.
	seed(t, r, write("deploy/web/settings.yaml", "settings 2\n"), write("base/job.yaml", "job 2\n"), write("apps/web/deploy.yaml", "web 2\n"))
	if _, err := repository.Push(t.Context(), headID, []branch.Draft{{Message: "late", At: at, Changes: []branch.Change{write("deploy/x", "x")}}}); !errors.Is(err, branch.ErrMoved) {
		t.Fatalf("a lost race: %v, want ErrMoved", err)
	}
	earlier := headID.Tree
	headID = headOf(t, repository)
	// A file of the earlier tree may be gone, but it must not be another tree's file.
	if content, err := fs.ReadFile(earlier, "deploy/web/settings.yaml"); err == nil && string(content) != "settings\n" {
		t.Errorf("of the earlier head: %q", content)
	}
	wantFile(t, headID.Tree, "deploy/web/settings.yaml", "settings 2\n")
	wantFile(t, headID.Tree, "base/job.yaml", "job 2\n")
	wantFile(t, headID.Tree, "base/kustomization.yaml", "base\n")
	wantFile(t, headID.Tree, "apps/web/deploy.yaml", "web 2\n")
	headID, err = repository.Push(t.Context(), headID, []branch.Draft{{Message: "again", At: at, Changes: []branch.Change{write("deploy/x", "x")}}})
	must(t, err)

	// The branch is forced back: everything is read afresh.
	gitIn(t, r, "update-ref", "refs/heads/main", head)
	headID = headOf(t, repository)
	if headID.Commit != head {
		t.Errorf("after a force push: %s, want %s", headID.Commit, head)
	}
	wantFile(t, headID.Tree, "deploy/web/settings.yaml", "settings\n")
	wantFile(t, headID.Tree, "base/job.yaml", "job\n")
	fsck(t, r)
}

// push writes one file, and updates the head on success.
func push(t *testing.T, r *git.Branch, head *branch.Head, name string) error {
	t.Helper()
	next, err := r.Push(t.Context(), *head, one(name))
	if err == nil {
		*head = next
	}
	return err
}

// counted counts what a server sends.
type counted struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// TestRequests counts requests and what the server sends, also beside so many refs that listing
// them costs more than everything else: after the first poll only receive-pack lists them.
func TestRequests(t *testing.T) {
	t.Parallel()
	for name, refs := range map[string]int{"few refs": 0, "many refs": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			f := gitserver.NewServer(t, gitserver.Options{Username: "robot", Password: leaktest.GitPassword, Wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(counted{w, &sent}, r) })
			}})
			pullRequests(t, f.Repository, refs)
			seed(t, f.Repository, files()...)
			password := remote.StaticPassword("robot", leaktest.GitPassword)
			r := open(t, git.Config{URL: f.URL(), Credentials: remote.Credentials{Password: password}})
			head := headOf(t, r)
			wantFile(t, head.Tree, "deploy/web/settings.yaml", "settings\n")
			if sent.Load() < int64(refs)*60 {
				t.Fatalf("the list has only %d bytes: nothing is tested", sent.Load())
			}
			count := func(what string, requests, lists int) {
				t.Helper()
				got := f.Requests()
				most := int64(3000 + lists*refs*70)
				if len(got) != requests || sent.Load() > most {
					t.Errorf("%s took %d bytes and %d requests, want at most %d and %d:\n%s", what, sent.Load(), len(got), most, requests, strings.Join(got, "\n"))
				}
				sent.Store(0)
			}
			f.Requests()
			sent.Store(0)
			head = headOf(t, r)
			wantFile(t, head.Tree, "deploy/linux/large/settings.yaml", "large\n")
			count("an idle tick", 1, 0)
			push := func(name string) error { return push(t, r, &head, name) }
			must(t, push("a"))
			count("a push", 2, 1)
			seed(t, f.Repository, write("deploy/web/jobs/theirs", "theirs"))
			if err := push("b"); !errors.Is(err, branch.ErrMoved) {
				t.Fatal(err)
			}
			head = headOf(t, r)
			wantFile(t, head.Tree, "deploy/web/jobs/theirs", "theirs")
			must(t, push("b"))
			count("a conflict and the push after it", 4, 2)
			nothing := []branch.Change{write("deploy/web/jobs/b", "b"), remove("deploy/none")}
			_, err := r.Push(t.Context(), head, []branch.Draft{{Message: "nothing", At: at, Changes: nothing}})
			must(t, err)
			count("a push of nothing", 0, 0)
			fsck(t, f.Repository)

			// A branch whose name begins like the one that is wanted is another.
			gitIn(t, f.Repository, "branch", "main-2", "main~1")
			if again := headOf(t, r); again.Commit != head.Commit {
				t.Errorf("the head is %s, want %s", again.Commit, head.Commit)
			}
			gitIn(t, f.Repository, "update-ref", "-d", "refs/heads/main")
			if _, err := r.Head(t.Context()); err == nil || !strings.Contains(err.Error(), `no branch "main"; it has main-2`) {
				t.Errorf("without the branch: %v", err)
			}
		})
	}
}

// TestRequestsAfterALongChain: of a chain whose directories are together more than is kept,
// those of its last commit are, so that the next push reads nothing.
func TestRequestsAfterALongChain(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	const inDirectory, inChain = 3_000, 30 // of 0.8 MB each, and 16 MB are kept
	f := gitserver.NewServer(t, gitserver.Options{})
	var all []branch.Change
	for i := range inDirectory {
		all = append(all, write(fmt.Sprintf("deploy/web/jobs/%0240d", i), "job"))
	}
	seed(t, f.Repository, append(all, files()...)...)
	r := open(t, git.Config{URL: f.URL()})
	head := headOf(t, r)
	var chain []branch.Draft
	for i := range inChain {
		chain = append(chain, one(fmt.Sprint("in-chain-", i))...)
	}
	head, err := r.Push(t.Context(), head, chain)
	must(t, err)
	f.Requests()
	must(t, push(t, r, &head, "next"))
	if got := f.Requests(); len(got) != 2 {
		t.Errorf("%d requests, want 2:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func TestLinksAndSubmodulesAreListed(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	stream := "blob\nmark :1\ndata 5\nhello\ncommit refs/heads/main\ncommitter a <a@example.com> 1700000000 +0000\ndata 1\nx\n" +
		"M 100755 :1 deploy/run.sh\nM 120000 :1 deploy/link\nM 160000 b2a258c7a5e3aef37a35b4cf2a13ba0bd0b2b6b2 deploy/module\nM 100644 :1 deploy/a.txt\nM 100644 :1 deploy/a/b\n"
	fastImport(t, r, stream)
	repository := open(t, git.Config{URL: r.Dir})
	head := headOf(t, repository)
	entries, err := fs.ReadDir(head.Tree, "deploy")
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Type().String()+" "+e.Name())
	}
	if want := []string{"d--------- a", "---------- a.txt", "L--------- link", "?--------- module", "---------- run.sh"}; !slices.Equal(names, want) {
		t.Errorf("listing = %v, want %v", names, want)
	}
	for name, word := range map[string]string{"deploy/link": "symbolic link", "deploy/module": "submodule", "deploy/link/x": "symbolic link"} {
		if _, err := fs.ReadFile(head.Tree, name); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("reading %s: %v, want an error with %q", name, err, word)
		}
		_, err := repository.Push(t.Context(), head, []branch.Draft{{Message: "x", At: at, Changes: []branch.Change{write(name, "y")}}})
		if err == nil {
			t.Errorf("writing %s succeeded", name)
		}
	}
}
