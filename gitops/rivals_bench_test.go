package gitops

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	git "github.com/go-git/go-git/v5"
	gitconfig "github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/memory"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"
)

// goGit is go-git as it is usually used: a clone with a worktree, kept between
// ticks.
type goGit struct {
	b     *testing.B
	files billy.Filesystem
	clone *git.Repository
	next  int
}

func newGoGit(b *testing.B, objects storage.Storer, files billy.Filesystem, url string, depth int) *goGit {
	clone, err := git.Clone(objects, files, &git.CloneOptions{URL: url, Depth: depth, SingleBranch: true, ReferenceName: "refs/heads/main"})
	bench.Check(b, err)
	return &goGit{b: b, files: files, clone: clone}
}

func (g *goGit) push() {
	worktree, err := g.clone.Worktree()
	bench.Check(g.b, err)
	for _, c := range dispatch(g.next).Changes {
		f, err := g.files.Create(c.Path)
		bench.Check(g.b, err)
		_, err = f.Write(c.Content)
		bench.Check(g.b, err)
		bench.Check(g.b, f.Close())
		// Without SkipStatus each file costs a walk over the whole worktree.
		bench.Check(g.b, worktree.AddWithOptions(&git.AddOptions{Path: c.Path, SkipStatus: true}))
	}
	who := &object.Signature{Name: "x", Email: "x@example.com", When: time.Unix(int64(1_700_000_000+g.next), 0)}
	g.next++
	_, err = worktree.Commit("default: dispatch 12 agents", &git.CommitOptions{Author: who})
	bench.Check(g.b, err)
	bench.Check(g.b, g.clone.Push(&git.PushOptions{RefSpecs: []gitconfig.RefSpec{"refs/heads/main:refs/heads/main"}}))
}

// BenchmarkGoGitInMemory sets muster against a shallow clone in memory.
func BenchmarkGoGitInMemory(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		repository("muster")
		repository("go-git")
		url := serveOther(b, root)
		m := newMuster(b, url+"/muster.git")
		own := &rival{name: "muster", run: func() { bench.Check(b, m.push(1)) }}
		g := newGoGit(b, memory.NewStorage(), memfs.New(), url+"/go-git.git", 1)
		theirs := &rival{name: "go-git", run: g.push}
		compete(b, own, theirs)
		ratio(b, "push / go-git: shallow clone and worktree in memory", own, theirs)
	})
}

// BenchmarkGoGitOnDisk sets muster against a whole clone on disk. It takes three turns,
// whatever -benchtime says, and leaves out the largest repository: there go-git takes
// minutes.
func BenchmarkGoGitOnDisk(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		if strings.HasSuffix(b.Name(), "size=large") {
			b.SkipNow()
		}
		for _, name := range []string{"muster", "go-git"} {
			repository(name)
		}
		url := serveOther(b, root)
		dir := b.TempDir()
		var m *muster
		var g *goGit
		start := &rival{name: "start", run: func() { m = newMuster(b, url+"/muster.git") }}
		clone := &rival{name: "clone", run: func() {
			files := osfs.New(filepath.Join(dir, "tree"))
			objects := filesystem.NewStorage(osfs.New(filepath.Join(dir, "tree", ".git")), cache.NewObjectLRUDefault())
			g = newGoGit(b, objects, files, url+"/go-git.git", 0)
		}}
		own := &rival{name: "muster", run: func() { bench.Check(b, m.push(1)) }}
		theirs := &rival{name: "go-git", run: func() { g.push() }}
		for turn := 0; b.Loop(); turn++ {
			if turn == 0 {
				start.turn()
				clone.turn()
			}
			if turn < 3 {
				own.turn()
				theirs.turn()
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(bench.Median(theirs.wall), "go-git-ms")
		ratio(b, "push / go-git: whole clone, worktree on disk", own, theirs)
		ratio(b, "start / go-git: whole clone on disk", start, clone)
	})
}

// goGitList asks for the branch as go-git does: for every ref.
func goGitList(b testing.TB, url string) {
	remote := git.NewRemote(memory.NewStorage(), &gitconfig.RemoteConfig{Name: "origin", URLs: []string{url}})
	_, err := remote.ListContext(b.Context(), &git.ListOptions{})
	bench.Check(b, err)
}

// BenchmarkRequests counts.
func BenchmarkRequests(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		repository("fleet")
		server, err := gitserver.Serve(root, gitserver.Options{})
		bench.Check(b, err)
		b.Cleanup(server.Close)
		m, other := newMuster(b, server.URL+"/fleet.git"), newMuster(b, server.URL+"/fleet.git")
		other.next = 500_000
		count := func(run func()) float64 {
			server.Requests()
			run()
			return float64(len(server.Requests()))
		}
		var idle, push, hundred, race float64
		for b.Loop() {
			idle = count(m.read)
			push = count(func() { bench.Check(b, m.push(1)) })
			hundred = count(func() { bench.Check(b, m.push(100)) })
			other.read()
			bench.Check(b, other.push(1))
			race = count(func() {
				if err := m.push(1); !errors.Is(err, branch.ErrMoved) {
					b.Fatalf("no race was lost: %v", err)
				}
				m.read()
				bench.Check(b, m.push(1))
			})
		}
		b.ReportMetric(0, "ns/op")
		bench.Row(b, "requests: idle tick", idle)
		bench.Row(b, "requests: push", push)
		bench.Row(b, "requests: push of 100 dispatches", hundred)
		bench.Row(b, "requests: push after a conflict", race)
	})
}
