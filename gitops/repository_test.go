package gitops_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

var at = time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)

// host is one way to reach a repository.
type host struct {
	name string
	// serve returns how to reach r.
	serve func(t *testing.T, r gitserver.Repository) gitops.Config
}

func hosts() []host {
	return []host{
		{"http", func(t *testing.T, r gitserver.Repository) gitops.Config {
			s, err := gitserver.Serve(filepath.Dir(r.Dir), gitserver.Options{Username: "muster", Password: "s3cret"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return gitops.Config{
				URL:         s.URL + "/" + filepath.Base(r.Dir),
				Credentials: gitops.Credentials{Password: gitops.StaticPassword("muster", "s3cret")},
			}
		}},
		{"ssh", func(t *testing.T, r gitserver.Repository) gitops.Config {
			s, err := gitserver.ServeSSH(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return gitops.Config{
				URL:         s.URL(r),
				Credentials: gitops.Credentials{SSHKeyFile: s.KeyFile, SSHKnownHostsFile: s.KnownHostsFile},
			}
		}},
		{"daemon", func(t *testing.T, r gitserver.Repository) gitops.Config {
			address := inetd(t, "git", "daemon", "--inetd", "--export-all", "--enable=receive-pack", "--base-path="+filepath.Dir(r.Dir))
			return gitops.Config{URL: "git://" + address + "/" + filepath.Base(r.Dir)}
		}},
		{"path", func(_ *testing.T, r gitserver.Repository) gitops.Config { return gitops.Config{URL: r.Dir} }},
	}
}

// clones are what a server may offer.
func clones() map[string]func(t *testing.T, r gitserver.Repository) {
	set := func(pairs ...string) func(*testing.T, gitserver.Repository) {
		return func(t *testing.T, r gitserver.Repository) {
			for i := 0; i < len(pairs); i += 2 {
				if err := r.Configure(pairs[i], pairs[i+1]); err != nil {
					t.Fatal(err)
				}
			}
		}
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

// pullRequests adds refs that muster has no use for.
func pullRequests(t *testing.T, r gitserver.Repository, n int) {
	t.Helper()
	if err := r.AddPullRequests(n); err != nil {
		t.Fatal(err)
	}
}

// contract runs a test against every server, with partial clone, without, and
// with a long list of refs, and against one of them with everything that
// servers offer or refuse.
func contract(t *testing.T, test func(t *testing.T, r gitserver.Repository, c gitops.Config)) {
	for _, h := range hosts() {
		for name, offer := range clones() {
			if h.name != "http" && name != "partial" && name != "shallow" && name != "long list" {
				continue
			}
			t.Run(h.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := gitserver.NewRepository(t)
				offer(t, r)
				test(t, r, h.serve(t, r))
			})
		}
	}
}

func open(t testing.TB, c gitops.Config) *gitops.Repository {
	t.Helper()
	r, err := gitops.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(path, content string) branch.Change {
	return branch.Change{Path: path, Content: []byte(content)}
}

func remove(path string) branch.Change { return branch.Change{Path: path} }

func seed(t testing.TB, r gitserver.Repository, changes ...branch.Change) string {
	t.Helper()
	head, err := r.Commit("seed", at.Add(-time.Hour), changes...)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// fleet is a small fleet repository.
func fleet() []branch.Change {
	return []branch.Change{
		write("README.md", "hello\n"),
		write("base/kustomization.yaml", "base\n"),
		write("base/job.yaml", "job\n"),
		write("apps/web/deploy.yaml", "web\n"),
		write("overlays/default/scaling.yaml", "policy\n"),
		write("overlays/default/template/kustomization.yaml", "template\n"),
		write("overlays/default/dispatches/kustomization.yaml", "resources: []\n"),
		write("overlays/linux/large/scaling.yaml", "large\n"),
	}
}

func tipOf(t testing.TB, r *gitops.Repository) branch.Tip {
	t.Helper()
	tip, err := r.Tip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tip
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
	if out, err := r.Git("fsck", "--strict", "--full"); err != nil {
		t.Errorf("fsck: %v\n%s", err, out)
	}
}

// listing is every path of the branch with its mode and content's name.
func listing(t testing.TB, r gitserver.Repository, commit string) string {
	t.Helper()
	out, err := r.Git("ls-tree", "-r", "-t", commit)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestContract(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, r gitserver.Repository, c gitops.Config) {
		head := seed(t, r, fleet()...)
		repository := open(t, c)
		tip := tipOf(t, repository)
		if tip.Commit != head {
			t.Fatalf("tip is %s, want %s", tip.Commit, head)
		}
		wantFile(t, tip.Tree, "overlays/default/scaling.yaml", "policy\n")
		wantFile(t, tip.Tree, "overlays/linux/large/scaling.yaml", "large\n")
		wantFile(t, tip.Tree, "base/job.yaml", "job\n")

		// One push of two commits.
		tip, err := repository.Push(t.Context(), tip, []branch.Draft{
			{Message: "dispatch\n", At: at, Changes: []branch.Change{
				write("overlays/default/dispatches/a.yaml", "a\n"),
				write("overlays/default/dispatches/kustomization.yaml", "resources: [a.yaml]\n"),
			}},
			{Message: "retire\n", At: at, Changes: []branch.Change{
				remove("overlays/default/dispatches/a.yaml"),
				write("overlays/linux/large/dispatches/b.yaml", "b\n"),
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if now, _ := r.Head(); now != tip.Commit {
			t.Errorf("the branch is at %s, Push returned %s", now, tip.Commit)
		}
		wantFile(t, tip.Tree, "overlays/linux/large/dispatches/b.yaml", "b\n")
		if _, err := fs.Stat(tip.Tree, "overlays/default/dispatches/a.yaml"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the removed file: %v", err)
		}
		if out, err := r.Git("log", "--format=%an <%ae> %cI %s", "main"); err != nil ||
			!strings.HasPrefix(out, "muster <muster@localhost> 2026-11-21T02:15:00+00:00 retire\nmuster <muster@localhost> 2026-11-21T02:15:00+00:00 dispatch\n") {
			t.Errorf("log = %s, %v", out, err)
		}

		// Somebody else writes; inside and outside the overlays.
		seed(t, r, write("overlays/default/scaling.yaml", "policy 2\n"), write("base/job.yaml", "job 2\n"), write("apps/web/deploy.yaml", "web 2\n"))
		if _, err := repository.Push(t.Context(), tip, []branch.Draft{{Message: "late", At: at, Changes: []branch.Change{write("overlays/x", "x")}}}); !errors.Is(err, branch.ErrMoved) {
			t.Fatalf("a lost race: %v, want ErrMoved", err)
		}
		tip = tipOf(t, repository)
		wantFile(t, tip.Tree, "overlays/default/scaling.yaml", "policy 2\n")
		wantFile(t, tip.Tree, "base/job.yaml", "job 2\n")
		wantFile(t, tip.Tree, "base/kustomization.yaml", "base\n")
		wantFile(t, tip.Tree, "apps/web/deploy.yaml", "web 2\n")
		tip, err = repository.Push(t.Context(), tip, []branch.Draft{{Message: "again", At: at, Changes: []branch.Change{write("overlays/x", "x")}}})
		if err != nil {
			t.Fatal(err)
		}

		// The branch is forced back: everything is read afresh.
		if _, err := r.Git("update-ref", "refs/heads/main", head); err != nil {
			t.Fatal(err)
		}
		tip = tipOf(t, repository)
		if tip.Commit != head {
			t.Errorf("after a force push: %s, want %s", tip.Commit, head)
		}
		wantFile(t, tip.Tree, "overlays/default/scaling.yaml", "policy\n")
		wantFile(t, tip.Tree, "base/job.yaml", "job\n")
		fsck(t, r)
	})
}

// push dispatches one, and moves the tip when that succeeds.
func push(t *testing.T, r *gitops.Repository, tip *branch.Tip, name string) error {
	t.Helper()
	next, err := r.Push(t.Context(), *tip, one(name))
	if err == nil {
		*tip = next
	}
	return err
}

func TestRequests(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	seed(t, f.Repository, fleet()...)
	r := open(t, gitops.Config{URL: f.URL()})
	tip := tipOf(t, r)
	wantFile(t, tip.Tree, "overlays/default/scaling.yaml", "policy\n")
	f.Requests()
	count := func(what string, want int) {
		t.Helper()
		if got := f.Requests(); len(got) != want {
			t.Errorf("%s took %d requests, want %d:\n%s", what, len(got), want, strings.Join(got, "\n"))
		}
	}
	tip = tipOf(t, r)
	wantFile(t, tip.Tree, "overlays/linux/large/scaling.yaml", "large\n")
	count("an idle tick", 1)
	push := func(name string) error { return push(t, r, &tip, name) }
	if err := push("a"); err != nil {
		t.Fatal(err)
	}
	count("a push", 2)
	seed(t, f.Repository, write("overlays/default/dispatches/theirs", "theirs"))
	if err := push("b"); !errors.Is(err, branch.ErrMoved) {
		t.Fatal(err)
	}
	tip = tipOf(t, r)
	wantFile(t, tip.Tree, "overlays/default/dispatches/theirs", "theirs")
	if err := push("b"); err != nil {
		t.Fatal(err)
	}
	count("a lost race and the push after it", 4)
	if _, err := r.Push(t.Context(), tip, []branch.Draft{{Message: "nothing", At: at, Changes: []branch.Change{write("overlays/default/dispatches/b", "b"), remove("overlays/none")}}}); err != nil {
		t.Fatal(err)
	}
	count("a push of nothing", 0)
	fsck(t, f.Repository)
}

func TestFallBackIsSaidOnce(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	if err := f.Configure("uploadpack.allowFilter", "false"); err != nil {
		t.Fatal(err)
	}
	seed(t, f.Repository, fleet()...)
	var log bytes.Buffer
	r := open(t, gitops.Config{URL: f.URL(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 3 {
		tipOf(t, r)
		seed(t, f.Repository, write("overlays/file", fmt.Sprint(i)))
	}
	if got := strings.Count(log.String(), "reading every commit whole"); got != 1 {
		t.Errorf("said %d times:\n%s", got, log.String())
	}
}

func TestTreeTellsLinksFromFiles(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	stream := "blob\nmark :1\ndata 5\nhello\ncommit refs/heads/main\ncommitter a <a@example.com> 1700000000 +0000\ndata 1\nx\n" +
		"M 100755 :1 overlays/run.sh\nM 120000 :1 overlays/link\nM 160000 b2a258c7a5e3aef37a35b4cf2a13ba0bd0b2b6b2 overlays/module\nM 100644 :1 overlays/a.txt\nM 100644 :1 overlays/a/b\n"
	if _, err := r.GitInput([]byte(stream), "fast-import", "--quiet"); err != nil {
		t.Fatal(err)
	}
	repository := open(t, gitops.Config{URL: r.Dir})
	tip := tipOf(t, repository)
	entries, err := fs.ReadDir(tip.Tree, "overlays")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Type().String()+" "+e.Name())
	}
	if want := []string{"d--------- a", "---------- a.txt", "L--------- link", "?--------- module", "---------- run.sh"}; !slices.Equal(names, want) {
		t.Errorf("listing = %v, want %v", names, want)
	}
	for name, word := range map[string]string{"overlays/link": "symbolic link", "overlays/module": "submodule", "overlays/link/x": "symbolic link"} {
		if _, err := fs.ReadFile(tip.Tree, name); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("reading %s: %v, want an error with %q", name, err, word)
		}
		_, err := repository.Push(t.Context(), tip, []branch.Draft{{Message: "x", At: at, Changes: []branch.Change{write(name, "y")}}})
		if err == nil {
			t.Errorf("writing %s succeeded", name)
		}
	}
	// The mode of a file that is written again stays.
	if _, err := repository.Push(t.Context(), tip, []branch.Draft{{Message: "x", At: at, Changes: []branch.Change{write("overlays/run.sh", "new")}}}); err != nil {
		t.Fatal(err)
	}
	if out := listing(t, r, "main"); !strings.Contains(out, "100755 blob") {
		t.Errorf("the mode was lost:\n%s", out)
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	head := seed(t, r, fleet()...)
	repository := open(t, gitops.Config{URL: r.Dir})
	tip := tipOf(t, repository)
	for _, changes := range [][]branch.Change{
		{write("", "x")}, {write("/etc/passwd", "x")}, {write("../x", "x")}, {write("a/../../x", "x")}, {write("a//b", "x")}, {write("./a", "x")},
		{write(".git/config", "x")}, {write("a/.GIT/config", "x")}, {write("a/.git. /x", "x")}, {write("a/git~1/x", "x")}, {write("a\x00b", "x")}, {write(`a\b`, "x")},
		{write("a", "x"), write("a", "y")}, {write("a", "x"), write("a/b", "y")}, {write("README.md/x", "x")}, {write("overlays", "x")},
	} {
		if _, err := repository.Push(t.Context(), tip, []branch.Draft{{Message: "x", At: at, Changes: changes}}); err == nil {
			t.Errorf("writing %q succeeded", changes[len(changes)-1].Path)
		}
	}
	if now, _ := r.Head(); now != head {
		t.Error("something was written")
	}
}

func TestSameCommitsHaveTheSameIdentifier(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 2 {
		r := gitserver.NewRepository(t)
		seed(t, r, fleet()...)
		repository := open(t, gitops.Config{URL: r.Dir})
		tip, err := repository.Push(t.Context(), tipOf(t, repository), []branch.Draft{
			{Message: "m\n", At: at.Add(300 * time.Millisecond).In(time.FixedZone("x", 3600)), Changes: []branch.Change{write("overlays/b", "b"), write("overlays/a", "a"), remove("README.md")}}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, tip.Commit)
	}
	if ids[0] != ids[1] {
		t.Errorf("the same commit is %s and %s", ids[0], ids[1])
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	f := gitserver.NewServer(t, gitserver.Options{})
	seed(t, f.Repository, fleet()...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, gitops.Config{URL: f.URL()}).Tip(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Tip with a context that is over: %v", err)
	}
}
