package generator_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// served is a generator for a bench's fleet in a git repository.
func served(t *testing.T, b *bench, url string) (*generator.Generator, *gitops.Repository) {
	t.Helper()
	repository, err := gitops.New(gitops.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return b.generator(func(c *generator.Config) { c.Repository = generator.Fleet{Writer: repository, Version: "v0"} }), repository
}

// commitFiles commits the files of the bench's overlays to a git repository.
func (b *bench) commitFiles(t *testing.T, r gitserver.Repository) {
	t.Helper()
	var begin []branch.Change
	for name, content := range files(b.overlays) {
		begin = append(begin, branch.Change{Path: name, Content: content})
	}
	if _, err := r.Commit("begin\n", b.now, begin...); err != nil {
		t.Fatal(err)
	}
}

// crowdOf pushes somebody else's commits, with dates of years ago, to the branch.
func crowdOf(t *testing.T, r gitserver.Repository, n int) {
	t.Helper()
	var stream bytes.Buffer
	for i := range n {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter C <c@example.com> %d +0000\ndata 2\nx\n", 1_500_000_000+i)
		if i == 0 {
			stream.WriteString("from refs/heads/main^0\n")
		}
		fmt.Fprintf(&stream, "M 100644 inline notes.txt\ndata 5\n%05d\n", i)
	}
	if _, err := r.GitInput(stream.Bytes(), "fast-import", "--quiet"); err != nil {
		t.Fatal(err)
	}
}

// TestManyCommitsOnGitHosts asserts, on git hosts with and without partial clone, that a
// new process and one that was stopped for a while count a dispatch that a person deleted
// among 450 commits of other people. If the host's repository is shallow, nothing is
// ordered.
func TestManyCommitsOnGitHosts(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{true, false} {
		t.Run(fmt.Sprintf("partial clone %t", partial), func(t *testing.T) {
			t.Parallel()
			f := gitserver.NewServer(t, gitserver.Options{})
			if !partial {
				for _, key := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
					if err := f.Configure(key, "false"); err != nil {
						t.Fatal(err)
					}
				}
			}
			b := newBench("a")
			b.commitFiles(t, f.Repository)
			g, _ := served(t, b, f.URL())
			b.jobs("a", 5)
			d := tick(t, g).Operations[0].Decision.Dispatch[0]
			crowdOf(t, f.Repository, 50)
			if _, err := f.Commit("delete\n", b.now, branch.Change{Path: dispatches + "/" + d.ID + ".yaml"}, branch.Change{Path: dispatches + "/kustomization.yaml"}); err != nil {
				t.Fatal(err)
			}
			crowdOf(t, f.Repository, 400)
			b.now = b.now.Add(time.Minute)

			cut := gitserver.NewServer(t, gitserver.Options{})
			if _, err := cut.Git("fetch", "--quiet", "--depth=100", "file://"+f.Dir, "main:main"); err != nil {
				t.Fatal(err)
			}
			shallow, _ := served(t, b, cut.URL())
			if r, err := shallow.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") || len(r.Operations) > 0 {
				t.Errorf("cut off: %q and %v", kinds(r.Operations), err)
			}

			fresh, repository := served(t, b, f.URL())
			if r := tick(t, fresh); kinds(r.Operations) != "a: repair" || r.Decisions[0].Sum.InFlight != 5 {
				t.Errorf("a new process: %q, %d in flight", kinds(r.Operations), r.Decisions[0].Sum.InFlight)
			}
			t.Logf("a new process: %+v", repository.Stats())
			if _, err := f.Git("update-ref", "refs/heads/main", "refs/heads/main~1"); err != nil { // without that repair
				t.Fatal(err)
			}
			if r := tick(t, g); kinds(r.Operations) != "a: repair" || r.Decisions[0].Sum.InFlight != 5 {
				t.Errorf("one that was stopped: %q, %d in flight", kinds(r.Operations), r.Decisions[0].Sum.InFlight)
			}
		})
	}
}
