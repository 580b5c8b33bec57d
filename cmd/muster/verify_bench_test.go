package main

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/generator"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"
)

// verifiedCommits is how many commits of muster's the benchmark verifies.
const verifiedCommits = 10_000

// BenchmarkVerify measures muster verify on a clone of 10,000 commits, each of which
// follows, in a process of its own: seconds, and its peak memory.
func BenchmarkVerify(b *testing.B) {
	r := gitserver.Repository{Dir: b.TempDir()}
	if _, err := r.Git("init", "--quiet", "--bare", "--initial-branch=main"); err != nil {
		b.Fatal(err)
	}
	f := newFollowing(b, r)
	for f.commits < verifiedCommits {
		f.tick(b)
	}
	f.close(b)
	var took, peak []float64
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "verify", "--repo", r.Dir)
		cmd.Env = append(os.Environ(), realVariable+"=1")
		begin := time.Now()
		out, most := bench.Run(b, cmd)
		if want := fmt.Sprintf("%d of them muster's: %d follows\n", f.commits, f.commits); !strings.HasSuffix(out, want) {
			b.Fatal(out)
		}
		took = append(took, time.Since(begin).Seconds())
		peak = append(peak, most)
	}
	bench.Row(b, "verify of 10,000 commits", bench.Median(took))
	bench.Row(b, "verify of 10,000 commits: peak memory", slices.Max(peak))
}

// following writes a history in which each tick orders agents and retires those before.
// The names of dispatches depend on the commit that was decided on, so that it works out
// the commits' identifiers as git does.
type following struct {
	in       io.WriteCloser
	importer *exec.Cmd
	loader   *fleet.Loader
	files    fstest.MapFS
	head     string
	at       time.Time
	commits  int
	repo     gitserver.Repository
}

func newFollowing(b *testing.B, r gitserver.Repository) *following {
	b.Helper()
	f := &following{repo: r, loader: fleet.NewLoader("overlays"), files: fstest.MapFS{}, at: start}
	f.importer = exec.Command("git", "fast-import", "--quiet")
	f.importer.Dir = r.Dir
	var err error
	if f.in, err = f.importer.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	if err := f.importer.Start(); err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), "fleet")
	p := program{args: []string{"init", dir}, stdout: io.Discard, stderr: io.Discard, clock: stoppedClock{start}}
	if code := p.run(b.Context()); code != 0 {
		b.Fatalf("init ends with %d", code)
	}
	changes, err := filesBelow(os.DirFS(dir))
	if err != nil {
		b.Fatal(err)
	}
	f.commit(b, "A fleet\n", changes)
	f.commits = 0
	return f
}

// tick looks, decides and commits as muster does.
func (f *following) tick(b *testing.B) {
	b.Helper()
	f.at = f.at.Add(time.Minute)
	overlays, err := f.loader.Load(f.files)
	if err != nil || overlays[0].Err() != nil {
		b.Fatal(err, overlays[0].Err())
	}
	oldest := f.at.Add(-10 * time.Second)
	supply := plan.Supply{Overlay: "default", Dispatches: map[string]plan.Seen{}}
	for _, d := range overlays[0].Dispatches {
		seen := plan.Seen{HadJob: d.Agents, FirstAt: &oldest, RegisteredAt: &oldest}
		for index := range d.Agents {
			seen.Registered.Add(index)
		}
		supply.Dispatches[d.ID] = seen
	}
	o := plan.Observation{At: f.at, Queue: "default", Overlays: []plan.Supply{supply}, Jobs: []plan.Demand{{Overlays: []string{"default"}, Pending: 5, Oldest: &oldest}}}
	for _, d := range plan.Decide(f.head, fleet.Decidable(overlays), o) {
		ops, err := generator.Render(overlays[0], d)
		if err != nil || len(ops) == 0 {
			b.Fatal(err, d)
		}
		for _, a := range ops {
			f.commit(b, ledger.Message(a, thisBuild().String()), a.Changes)
		}
	}
}

// commit writes a commit, and works out its identifier.
func (f *following) commit(b *testing.B, message string, changes []branch.Change) {
	b.Helper()
	var text bytes.Buffer
	who := fmt.Sprintf("muster <muster@localhost> %d +0000", f.at.Unix())
	fmt.Fprintf(&text, "commit refs/heads/main\nauthor %s\ncommitter %s\ndata %d\n%s\n", who, who, len(message), message)
	for _, c := range changes {
		if c.Content == nil {
			delete(f.files, c.Path)
			fmt.Fprintf(&text, "D %s\n", c.Path)
			continue
		}
		f.files[c.Path] = &fstest.MapFile{Data: c.Content, Mode: 0o644}
		fmt.Fprintf(&text, "M 100644 inline %s\ndata %d\n%s\n", c.Path, len(c.Content), c.Content)
	}
	if _, err := f.in.Write(text.Bytes()); err != nil {
		b.Fatal(err)
	}
	parent := ""
	if f.head != "" {
		parent = "parent " + f.head + "\n"
	}
	f.head = hex.EncodeToString(named("commit", fmt.Appendf(nil, "tree %x\n%sauthor %s\ncommitter %s\n\n%s", f.tree(""), parent, who, who, message)))
	f.commits++
}

// named is the identifier that git gives an object.
func named(kind string, content []byte) []byte {
	sum := sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", kind, len(content)), content...))
	return sum[:]
}

// tree is the identifier of a directory, which ends in a slash.
func (f *following) tree(dir string) []byte {
	entries := map[string][]byte{} // by names as git orders them
	for name, file := range f.files {
		rest, inside := strings.CutPrefix(name, dir)
		first, _, deeper := strings.Cut(rest, "/")
		switch {
		case !inside:
		case !deeper:
			entries[first] = append(fmt.Appendf(nil, "100644 %s\x00", first), named("blob", file.Data)...)
		case entries[first+"/"] == nil:
			entries[first+"/"] = append(fmt.Appendf(nil, "40000 %s\x00", first), f.tree(dir+first+"/")...)
		}
	}
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		all = append(all, entries[name]...)
	}
	return named("tree", all)
}

func (f *following) close(b *testing.B) {
	b.Helper()
	_ = f.in.Close()
	if err := f.importer.Wait(); err != nil {
		b.Fatal(err)
	}
	if head, err := f.repo.Git("rev-parse", "main"); err != nil || strings.TrimSpace(head) != f.head {
		b.Fatalf("%v: the head is %s, and was to be %s", err, head, f.head)
	}
}
