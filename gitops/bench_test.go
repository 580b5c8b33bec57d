package gitops

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// The benchmarks compare muster with what bounds it and with what people use
// instead. Each compares within one run, in turns, and reports medians and
// their ratios. Nothing fails on time: a bound that is missed is said so.
var (
	benchSizes = flag.String("sizes", "small", "the repositories that benchmarks run on: small, medium, large")
	benchKeep  = flag.String("fleets", "", "a directory that keeps the generated repositories between runs; empty is one of the user's cache")
	benchTable = flag.String("table", "", "a file to which a line is added for each figure")
)

var sizes = map[string]gitserver.Size{
	"small":  {Files: 50, Commits: 100},
	"medium": {Files: 10_000, Commits: 10_000, Dispatches: 1_000},
	"large":  {Files: 100_000, Commits: 100_000, Dispatches: 10_000},
}

// forSizes runs a benchmark on a repository of each size. repository makes a
// copy of it below root.
func forSizes(b *testing.B, run func(b *testing.B, root string, repository func(name string) gitserver.Repository)) {
	for name := range strings.SplitSeq(*benchSizes, ",") {
		size, ok := sizes[name]
		if !ok {
			b.Fatalf("no size %q", name)
		}
		b.Run(fmt.Sprintf("size=%s", name), func(b *testing.B) {
			origin := generated(b, name, size)
			root := b.TempDir()
			run(b, root, func(name string) gitserver.Repository {
				dir := filepath.Join(root, name+".git")
				if out, err := exec.Command("cp", "-r", origin, dir).CombinedOutput(); err != nil {
					b.Fatalf("copying the repository: %v\n%s", err, out)
				}
				return gitserver.Repository{Dir: dir}
			})
		})
	}
}

// generated returns a repository of a size, made once.
func generated(b *testing.B, name string, size gitserver.Size) string {
	root := *benchKeep
	if root == "" {
		cache, err := os.UserCacheDir()
		must(b, err)
		root = filepath.Join(cache, "muster-bench")
	}
	dir := filepath.Join(root, name+".git")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	must(b, os.MkdirAll(root, 0o755))
	draft, err := os.MkdirTemp(root, "draft-")
	must(b, err)
	defer os.RemoveAll(draft)
	r, err := gitserver.Init(filepath.Join(draft, name+".git"))
	must(b, err)
	must(b, r.Generate(size))
	must(b, os.Rename(r.Dir, dir)) // whole, or not there
	return dir
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
	cpu, wall := cpuTime(), time.Now()
	r.run()
	r.wall = append(r.wall, float64(time.Since(wall).Microseconds())/1000)
	r.cpu = append(r.cpu, float64((cpuTime()-cpu).Microseconds())/1000)
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
		b.ReportMetric(median(r.wall), r.name+"-ms")
	}
}

// ratio reports a/b against its bound; 0 is none.
func ratio(b *testing.B, figure string, over, under *rival, bound float64) {
	value := median(over.wall) / median(under.wall)
	b.ReportMetric(value, over.name+"/"+under.name)
	row(b, figure, " x", value, bound)
}

// row adds a line to the table: what was measured, and whether it is within
// its bound; a bound of 0 is none.
func row(b *testing.B, figure, unit string, value, bound float64) {
	b.Helper()
	limit, missed := "", ""
	if bound > 0 {
		limit = number(bound) + unit
	}
	if bound > 0 && value > bound {
		missed = fmt.Sprintf("missed by %.0f %%", math.Ceil((value/bound-1)*100))
	}
	b.Log(figure, number(value)+unit, limit, missed)
	if *benchTable == "" {
		return
	}
	f, err := os.OpenFile(*benchTable, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(b, err)
	_, size, _ := strings.Cut(b.Name(), "size=")
	line := fmt.Sprintf("%-62s %-7s %12s %10s  %s", figure, size, number(value)+unit, limit, missed)
	_, err = fmt.Fprintln(f, strings.TrimRight(line, " "))
	must(b, err)
	must(b, f.Close())
}

// number is a value with three digits, or all before the point.
func number(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func opened(b testing.TB, url string) *Repository {
	r, err := New(Config{URL: url})
	must(b, err)
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
	tip  branch.Tip
	next int
}

func newMuster(b testing.TB, url string) *muster {
	m := &muster{b: b, r: opened(b, url)}
	m.look()
	return m
}

func (m *muster) look() {
	var err error
	m.tip, err = m.r.Tip(m.b.Context())
	must(m.b, err)
}

func (m *muster) push(commits int) error {
	var chain []branch.Draft
	for range commits {
		chain = append(chain, dispatch(m.next))
		m.next++
	}
	tip, err := m.r.Push(m.b.Context(), m.tip, chain)
	if err == nil {
		m.tip = tip
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
	m.tip, err = m.r.Push(m.b.Context(), m.tip, []branch.Draft{c})
	must(m.b, err)
}

func BenchmarkPush(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		url := serveElsewhere(b, root)
		for _, name := range []string{"muster", "raw", "raw-copy", "script", "race", "hundred"} {
			repository(name)
		}
		m := newMuster(b, url+"/muster.git")
		own := &rival{name: "muster", run: func() { must(b, m.push(1)) }}
		raw, sent := rawPush(b, url+"/raw.git", url+"/raw-copy.git")
		script, kustomize := gitScript(b, url+"/script.git")
		lost := newMuster(b, url+"/race.git")
		other := newMuster(b, url+"/race.git")
		other.next = 500_000
		race := &rival{name: "race", before: func() { other.look(); must(b, other.push(1)) }, run: func() {
			if err := lost.push(1); !errors.Is(err, branch.ErrMoved) {
				b.Fatalf("no race was lost: %v", err)
			}
			lost.look()
			must(b, lost.push(1))
		}}
		many := newMuster(b, url+"/hundred.git")
		hundred := &rival{name: "hundred", before: func() { many.retire(100) }, run: func() { must(b, many.push(100)) }}

		compete(b, own, raw, script, kustomize, race, hundred)
		row(b, "dispatch, commit and push", " ms", median(own.wall), 0)
		ratio(b, "  / raw GET and POST of a ready-made body", own, raw, 1.10)
		both := &rival{name: "kustomize-and-script", wall: sums(kustomize.wall, script.wall)}
		ratio(b, "  / script: kubectl kustomize; git add, commit, push", own, both, 0.6)
		ratio(b, "  / script without kubectl kustomize", own, script, 0.6)
		row(b, "  client CPU", " ms", median(own.cpu), 5)
		b.ReportMetric(median(own.cpu), "cpu-ms")
		b.ReportMetric(median(hundred.cpu), "hundred-cpu-ms")
		b.ReportMetric(median(*sent), "sent-B")
		row(b, "  bytes sent, beside the overlay's other dispatches", " B", median(*sent), 2048)
		ratio(b, "lost race / push", race, own, map[bool]float64{false: 2, true: 1.25}[strings.HasSuffix(b.Name(), "large")])
		ratio(b, "100 dispatches in one push / one", hundred, own, 3)
		row(b, "  client CPU of the 100", " ms", median(hundred.cpu), 0)
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
	must(b, err)
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
		must(b, err)
		answer, err := io.ReadAll(response.Body)
		must(b, err)
		must(b, response.Body.Close())
		return answer
	}
	return &rival{
		name: "raw",
		before: func() {
			must(b, m.push(1))
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
			must(b, os.WriteFile(filepath.Join(dir, c.Path), c.Content, 0o644))
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
		must(b, repository("crowded").AddPullRequests(100_000))
		at := serveElsewhere(b, root)
		url, crowded := at+"/fleet.git", at+"/crowded.git"
		lsRemote := func(url string) func() {
			return func() { shell(b, root, "ls-remote", url, "refs/heads/main") }
		}
		m := newMuster(b, url)
		own := &rival{name: "muster", run: m.look}
		remote := &rival{name: "ls-remote", run: lsRemote(url)}
		many := newMuster(b, crowded)
		among := &rival{name: "crowded", run: many.look}
		remoteAmong := &rival{name: "crowded-ls-remote", run: lsRemote(crowded)}
		versionZero := &rival{name: "go-git", run: func() { goGitList(b, crowded) }}
		compete(b, own, remote, among, remoteAmong, versionZero)
		row(b, "idle: what a tick asks of git", " ms", median(own.wall), 0)
		ratio(b, "  / git ls-remote", own, remote, 0.35)
		b.ReportMetric(median(own.cpu), "cpu-ms")
		row(b, "idle, beside 100,000 pull requests", " ms", median(among.wall), 0)
		ratio(b, "  / git ls-remote", among, remoteAmong, 0.35)
		ratio(b, "  / go-git: Remote.List", among, versionZero, 0)
	})
}

func BenchmarkStart(b *testing.B) {
	forSizes(b, func(b *testing.B, root string, repository func(string) gitserver.Repository) {
		repository("fleet")
		url := serveElsewhere(b, root) + "/fleet.git"
		own := &rival{name: "muster", run: func() {
			m := newMuster(b, url)
			for _, name := range []string{"overlays/default/scaling.yaml", "overlays/default/template/kustomization.yaml", "base/job.yaml"} {
				_, err := fs.ReadFile(m.tip.Tree, name)
				must(b, err)
			}
			_, err := fs.ReadDir(m.tip.Tree, "overlays/default/dispatches")
			must(b, err)
		}}
		dir := ""
		clone := &rival{name: "clone", before: func() { dir = b.TempDir() }, run: func() {
			shell(b, dir, "clone", "--quiet", "--depth=1", "--filter=blob:none", "--sparse", url, ".")
		}}
		compete(b, own, clone)
		row(b, "start: all that a first decision reads", " ms", median(own.wall), 0)
		ratio(b, "  / git clone --depth=1 --filter=blob:none --sparse", own, clone, 0.3)
		b.ReportMetric(median(own.cpu), "cpu-ms")
	})
}
