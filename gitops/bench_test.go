package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"
)

// The benchmarks compare muster with what bounds it and with what people use
// instead. Each compares within one run, in turns, and reports medians and
// their ratios.

// forSizes runs a benchmark on a repository of each size. repository makes a
// copy of it below root.
func forSizes(b *testing.B, run func(b *testing.B, root string, repository func(name string) gitserver.Repository)) {
	bench.EachSize(b, func(b *testing.B, size string) {
		root := b.TempDir()
		run(b, root, func(name string) gitserver.Repository {
			return bench.Repository(b, size, filepath.Join(root, name+".git"))
		})
	})
}

// rival is one of several ways to do the same.
type rival struct {
	name string
	// before runs ahead of each turn and is not measured.
	before func()
	run    func()
	wall   []float64 // of each turn, in milliseconds
	cpu    []float64 // of this process, in milliseconds
}

// turn runs and measures once.
func (r *rival) turn() {
	cpu, wall := bench.CPUTime(), time.Now()
	r.run()
	r.wall = append(r.wall, bench.Milliseconds(time.Since(wall)))
	r.cpu = append(r.cpu, bench.Milliseconds(bench.CPUTime()-cpu))
}

// compete runs the rivals in turns.
func compete(b *testing.B, rivals ...*rival) {
	for turn := 0; b.Loop(); turn++ {
		for i := range rivals {
			r := rivals[(i+turn)%len(rivals)]
			if r.before != nil {
				r.before()
			}
			r.turn()
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of the rivals says nothing
	for _, r := range rivals {
		b.ReportMetric(bench.Median(r.wall), r.name+"-ms")
	}
}

// ratio adds a row with the ratio of two medians.
func ratio(b *testing.B, figure string, over, under *rival) {
	b.Helper()
	bench.Row(b, figure, bench.Median(over.wall)/bench.Median(under.wall))
}

func opened(b testing.TB, url string) *Repository {
	r, err := New(Config{URL: url})
	bench.Check(b, err)
	return r
}

// dispatch is the i-th commit of the benchmarks: one manifest, and the list.
func dispatch(i int) branch.Draft {
	name := fmt.Sprintf("default-bench%06d", i)
	return branch.Draft{
		Message: "default: dispatch 12 agents\n", At: time.Unix(int64(1_700_000_000+i), 0),
		Changes: []branch.Change{
			{Path: "overlays/default/dispatches/" + name + ".yaml", Content: manifest(name)},
			{Path: "overlays/default/dispatches/kustomization.yaml", Content: []byte("resources: [" + name + ".yaml]\n")},
		},
	}
}

// manifest is as large as a Job is.
func manifest(name string) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: %s\n", name)
	for i := range 60 {
		fmt.Fprintf(&text, "# field %d of the template, as long as fields are\n", i)
	}
	return text.Bytes()
}

// muster is a repository that dispatches again and again.
type muster struct {
	b    testing.TB
	r    *Repository
	head branch.Head
	next int
}

func newMuster(b testing.TB, url string) *muster {
	m := &muster{b: b, r: opened(b, url)}
	m.read()
	return m
}

func (m *muster) read() {
	var err error
	m.head, err = m.r.Head(m.b.Context())
	bench.Check(m.b, err)
}

func (m *muster) push(commits int) error {
	var chain []branch.Draft
	for range commits {
		chain = append(chain, dispatch(m.next))
		m.next++
	}
	head, err := m.r.Push(m.b.Context(), m.head, chain)
	if err == nil {
		m.head = head
	}
	return err
}

// retire removes the last dispatches again, as many as there are up to n.
func (m *muster) retire(n int) {
	c := branch.Draft{Message: "default: retire\n", At: time.Unix(1_700_000_000, 0)}
	for i := max(m.next-n, 0); i < m.next; i++ {
		c.Changes = append(c.Changes, branch.Change{Path: dispatch(i).Changes[0].Path})
	}
	var err error
	m.head, err = m.r.Push(m.b.Context(), m.head, []branch.Draft{c})
	bench.Check(m.b, err)
}

func BenchmarkPush(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		url := serveOther(b, root)
		for _, name := range []string{"muster", "raw", "raw-copy", "script", "race", "hundred"} {
			repository(name)
		}
		m := newMuster(b, url+"/muster.git")
		own := &rival{name: "muster", run: func() { bench.Check(b, m.push(1)) }}
		raw, sent := rawPush(b, url+"/raw.git", url+"/raw-copy.git")
		script, kustomize := gitScript(b, url+"/script.git")
		lost := newMuster(b, url+"/race.git")
		other := newMuster(b, url+"/race.git")
		other.next = 500_000
		race := &rival{name: "race", before: func() { other.read(); bench.Check(b, other.push(1)) }, run: func() {
			if err := lost.push(1); !errors.Is(err, branch.ErrMoved) {
				b.Fatalf("no race was lost: %v", err)
			}
			lost.read()
			bench.Check(b, lost.push(1))
		}}
		many := newMuster(b, url+"/hundred.git")
		hundred := &rival{name: "hundred", before: func() { many.retire(100) }, run: func() { bench.Check(b, many.push(100)) }}

		compete(b, own, raw, script, kustomize, race, hundred)
		bench.Row(b, "push of one dispatch", bench.Median(own.wall))
		ratio(b, "push / raw GET and POST of a ready-made body", own, raw)
		both := &rival{wall: sums(kustomize.wall, script.wall)}
		ratio(b, "push / script: kubectl kustomize; git add, commit, push", own, both)
		ratio(b, "push / script without kubectl kustomize", own, script)
		bench.Row(b, "push: client CPU", bench.Median(own.cpu))
		bench.Row(b, "push: bytes sent, beside the overlay's other dispatches", bench.Median(*sent))
		ratio(b, "push after a conflict / push", race, own)
		ratio(b, "push of 100 dispatches / push of one", hundred, own)
		bench.Row(b, "push of 100 dispatches: client CPU", bench.Median(hundred.cpu))
	})
}

// rawPush sends bodies that were made beforehand: what the server and the
// protocol take, whoever writes. A body is what muster has just pushed to a
// copy of the repository.
func rawPush(b *testing.B, url, copyURL string) (*rival, *[]float64) {
	client := &http.Client{Transport: &http.Transport{}}
	const service = "/git-receive-pack"
	var body []byte
	target, err := neturl.Parse(copyURL)
	bench.Check(b, err)
	forward := httputil.NewSingleHostReverseProxy(&neturl.URL{Scheme: target.Scheme, Host: target.Host})
	recorder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, service) {
			body, _ = io.ReadAll(r.Body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		forward.ServeHTTP(w, r)
	}))
	b.Cleanup(recorder.Close)
	m := newMuster(b, recorder.URL+target.Path)
	sent := &[]float64{}
	ask := func(response *http.Response, err error) []byte {
		bench.Check(b, err)
		answer, err := io.ReadAll(response.Body)
		bench.Check(b, err)
		bench.Check(b, response.Body.Close())
		return answer
	}
	return &rival{
		name: "raw",
		before: func() {
			bench.Check(b, m.push(1))
			*sent = append(*sent, float64(len(body)))
		},
		run: func() {
			ask(client.Get(url + "/info/refs?service=git-receive-pack"))
			answer := ask(client.Post(url+service, "application/x-git-receive-pack-request", bytes.NewReader(body)))
			if !bytes.Contains(answer, []byte("ok refs/heads/main")) {
				b.Fatalf("the raw push failed: %q", answer)
			}
		},
	}, sent
}

// shell runs git as a script would.
func shell(b testing.TB, dir string, args ...string) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// sums adds what two rivals took, turn by turn.
func sums(a, b []float64) []float64 {
	both := slices.Clone(a)
	for i := range both {
		both[i] += b[i]
	}
	return both
}

// gitScript is the script: a shallow, sparse clone kept between ticks, and
// kubectl kustomize, which builds the template in it.
func gitScript(b *testing.B, url string) (script, kustomize *rival) {
	dir := b.TempDir()
	shell(b, dir, "clone", "--quiet", "--depth=1", "--filter=blob:none", "--sparse", url, ".")
	shell(b, dir, "sparse-checkout", "set", "overlays/default", "base")
	i := 0
	kustomize = &rival{name: "kustomize", run: func() {
		cmd := exec.Command("kubectl", "kustomize", filepath.Join(dir, "overlays/default/template"))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("kubectl kustomize: %v\n%s", err, out)
		}
	}}
	script = &rival{name: "script", run: func() {
		var files []string
		for _, c := range dispatch(i).Changes {
			bench.Check(b, os.WriteFile(filepath.Join(dir, c.Path), c.Content, 0o644))
			files = append(files, c.Path)
		}
		i++
		shell(b, dir, append([]string{"add", "--"}, files...)...)
		shell(b, dir, "commit", "--quiet", "-m", "default: dispatch 12 agents")
		shell(b, dir, "push", "--quiet")
	}}
	return script, kustomize
}

func BenchmarkIdle(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		repository("fleet")
		bench.Check(b, repository("crowded").AddPullRequests(100_000))
		at := serveOther(b, root)
		url, crowded := at+"/fleet.git", at+"/crowded.git"
		lsRemote := func(url string) func() {
			return func() { shell(b, root, "ls-remote", url, "refs/heads/main") }
		}
		m := newMuster(b, url)
		own := &rival{name: "muster", run: m.read}
		remote := &rival{name: "ls-remote", run: lsRemote(url)}
		many := newMuster(b, crowded)
		among := &rival{name: "crowded", run: many.read}
		remoteAmong := &rival{name: "crowded-ls-remote", run: lsRemote(crowded)}
		versionZero := &rival{name: "go-git", run: func() { goGitList(b, crowded) }}
		compete(b, own, remote, among, remoteAmong, versionZero)
		bench.Row(b, "idle tick: request to git", bench.Median(own.wall))
		ratio(b, "idle tick / git ls-remote", own, remote)
		bench.Row(b, "idle tick beside 100,000 pull requests: request to git", bench.Median(among.wall))
		ratio(b, "idle tick beside 100,000 pull requests / git ls-remote", among, remoteAmong)
		ratio(b, "idle tick beside 100,000 pull requests / go-git", among, versionZero)
	})
}

func BenchmarkStart(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		repository("fleet")
		url := serveOther(b, root) + "/fleet.git"
		own := &rival{name: "muster", run: func() {
			m := newMuster(b, url)
			for _, name := range []string{"overlays/default/scaling.yaml", "overlays/default/template/kustomization.yaml", "base/job.yaml"} {
				_, err := fs.ReadFile(m.head.Tree, name)
				bench.Check(b, err)
			}
			_, err := fs.ReadDir(m.head.Tree, "overlays/default/dispatches")
			bench.Check(b, err)
		}}
		dir := ""
		clone := &rival{name: "clone", before: func() { dir = b.TempDir() }, run: func() {
			shell(b, dir, "clone", "--quiet", "--depth=1", "--filter=blob:none", "--sparse", url, ".")
		}}
		compete(b, own, clone)
		bench.Row(b, "start: all reads of git before a first decision", bench.Median(own.wall))
		ratio(b, "start / git clone --depth=1 --filter=blob:none --sparse", own, clone)
	})
}
