package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/gitserver"
)

// These benchmarks run the whole program as a process of its own, against a
// repository over HTTP and a simulated Buildkite in this process. They add to
// the table of those in package gitops, and like those never fail on time.
var (
	benchSizes = flag.String("sizes", "small", "the repositories that benchmarks run on: small, medium, large")
	benchKeep  = flag.String("fleets", "", "the directory that keeps the generated repositories; empty is one of the user's cache")
	benchTable = flag.String("table", "", "a file to which a line is added for each figure")
	benchTicks = flag.Int("ticks", 200, "how many ticks memory is watched over")
)

// ticking is the program with a clock that jumps from tick to tick.
func ticking() {
	clock := &jumpingClock{now: start}
	p := program{args: os.Args[1:], environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, clock: clock}
	os.Exit(p.run(context.Background()))
}

type jumpingClock struct{ now time.Time }

func (c *jumpingClock) Now() time.Time { return c.now }

func (c *jumpingClock) Sleep(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	return ctx.Err()
}

// arena is a generated repository with a fleet in it, and all that muster
// needs around it.
type arena struct {
	b         *testing.B
	size      string
	repo      gitserver.Repository
	git       *gitserver.Server
	buildkite *fakebuildkite.Server
	api       *httptest.Server
	queue     string // the identifier of the Buildkite cluster
	binary    string
	pushed    atomic.Int64 // bytes of the last push
	// observed is called when muster begins to look at Buildkite.
	observed atomic.Pointer[func()]
}

var arenaSizes = map[string]gitserver.Size{
	"small":  {Files: 50, Commits: 100},
	"medium": {Files: 10_000, Commits: 10_000, Dispatches: 1_000},
	"large":  {Files: 100_000, Commits: 100_000, Dispatches: 10_000},
}

// inArenas runs a benchmark in an arena of each size.
func inArenas(b *testing.B, run func(a *arena)) {
	binary := filepath.Join(b.TempDir(), "muster")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".") // as make build does
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building muster: %v\n%s", err, out)
	}
	for size := range strings.SplitSeq(*benchSizes, ",") {
		b.Run("size="+size, func(b *testing.B) {
			a := &arena{b: b, size: size, binary: binary}
			a.open()
			run(a)
			for b.Loop() {
				// Whatever was measured has been, however often this runs.
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func (a *arena) check(err error) {
	a.b.Helper()
	if err != nil {
		a.b.Fatal(err)
	}
}

// open copies the generated repository and puts into it the overlay that muster
// init writes. The dispatches that it was generated with, which muster never
// ordered, move into a directory of their own among the overlays.
func (a *arena) open() {
	root := a.b.TempDir()
	a.repo = gitserver.Repository{Dir: filepath.Join(root, "fleet.git")}
	out, err := exec.Command("cp", "-r", a.generated(), a.repo.Dir).CombinedOutput()
	if err != nil {
		a.b.Fatalf("copying the repository: %v\n%s", err, out)
	}
	head, err := a.repo.Head()
	a.check(err)
	_, err = a.repo.GitInput(fmt.Appendf(nil, "commit refs/heads/main\ncommitter Else <else@example.com> %d +0000\ndata 5\nmove\n\nfrom %s\n"+
		"R overlays/default/dispatches overlays/shared/dispatches\nD overlays/default\nD base\n\n", start.Add(-time.Hour).Unix(), head), "fast-import", "--quiet")
	a.check(err)
	changes, err := starterChanges(func(policy []byte) []byte {
		return bytes.Replace(policy, []byte("max: 10 "), []byte("max: 20000 "), 1)
	})
	a.check(err)
	_, err = a.repo.Commit("Begin the fleet\n", start.Add(-time.Hour), changes...)
	a.check(err)

	a.git, err = gitserver.Serve(root, gitserver.Options{Wrap: a.weigh})
	a.check(err)
	a.b.Cleanup(a.git.Close)
}

// generated returns the generated repository, made once.
func (a *arena) generated() string {
	root := *benchKeep
	if root == "" {
		cache, err := os.UserCacheDir()
		a.check(err)
		root = filepath.Join(cache, "muster-bench")
	}
	dir := filepath.Join(root, a.size+".git")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	size, ok := arenaSizes[a.size]
	if !ok {
		a.b.Fatalf("no size %q", a.size)
	}
	a.check(os.MkdirAll(root, 0o755))
	draft, err := os.MkdirTemp(root, "draft-")
	a.check(err)
	defer os.RemoveAll(draft)
	r, err := gitserver.Init(filepath.Join(draft, a.size+".git"))
	a.check(err)
	a.check(r.Generate(size))
	a.check(os.Rename(r.Dir, dir)) // whole, or not there
	return dir
}

// weigh notes how many bytes a push sends.
func (a *arena) weigh(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			a.pushed.Store(r.ContentLength)
		}
		next.ServeHTTP(w, r)
	})
}

// simulate starts a Buildkite whose time begins at now.
func (a *arena) simulate(now time.Time) {
	a.buildkite = fakebuildkite.New(fakebuildkite.Options{Now: now, BeforeRequest: func(r *http.Request) {
		if f := a.observed.Load(); f != nil && strings.HasSuffix(r.URL.Path, "/agents") && r.URL.Query().Get("page") <= "1" {
			(*f)()
		}
	}})
	a.queue = a.buildkite.AddCluster("ci")
	a.buildkite.AddQueue(a.queue, "default")
	a.buildkite.SetDefaultQueue(a.queue, "default")
	a.api = httptest.NewServer(a.buildkite)
	a.b.Cleanup(a.api.Close)
}

func (a *arena) build(jobs int, duration time.Duration) {
	a.buildkite.CreateBuild(fakebuildkite.Build{Cluster: a.queue,
		Steps: []fakebuildkite.Step{{Label: "test", Parallelism: jobs, Duration: duration}}})
}

// muster starts the program; it ends with the benchmark at the latest.
func (a *arena) muster(path, name string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	cmd := exec.Command(path)
	cmd.Args = append([]string{name, "run", "--startup-jitter=0s"}, args...)
	cmd.Env = append(cmd.Environ(), "MUSTER_REPO="+a.git.URL+"/fleet.git", "MUSTER_BUILDKITE_URL="+a.api.URL+"/",
		"MUSTER_BUILDKITE_ORG=acme", "BUILDKITE_API_TOKEN=test-token")
	stderr, err := cmd.StderrPipe()
	a.check(err)
	a.check(cmd.Start())
	a.b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewScanner(stderr)
}

// await reads the log up to a line that holds a text.
func (a *arena) await(log *bufio.Scanner, text string) {
	var all []string
	for log.Scan() {
		all = append(all, log.Text())
		if strings.Contains(log.Text(), text) {
			return
		}
	}
	a.b.Fatalf("muster did not say %q:\n%s", text, strings.Join(all, "\n"))
}

// memory returns a process's most and present resident memory in MB.
func (a *arena) memory(cmd *exec.Cmd) (peak, now float64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	a.check(err)
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		for name, to := range map[string]*float64{"VmHWM:": &peak, "VmRSS:": &now} {
			if fields[0] == name {
				*to, err = strconv.ParseFloat(fields[1], 64)
				a.check(err)
				*to /= 1024
			}
		}
	}
	return peak, now
}

// row adds a line to the table; a bound of 0 is none.
func (a *arena) row(figure, unit string, value, bound float64) {
	number := func(v float64) string {
		if v >= 100 {
			return fmt.Sprintf("%.0f", v)
		}
		return fmt.Sprintf("%.3g", v)
	}
	limit, missed := "", ""
	if bound > 0 {
		limit = number(bound) + unit
	}
	if bound > 0 && value > bound {
		missed = fmt.Sprintf("missed by %.0f %%", math.Ceil((value/bound-1)*100))
	}
	a.b.Log(figure, number(value)+unit, limit, missed)
	if *benchTable == "" {
		return
	}
	f, err := os.OpenFile(*benchTable, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	a.check(err)
	line := fmt.Sprintf("%-62s %-7s %12s %10s  %s", figure, a.size, number(value)+unit, limit, missed)
	_, err = fmt.Fprintln(f, strings.TrimRight(line, " "))
	a.check(err)
	a.check(f.Close())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// BenchmarkFirstDecision measures from the start of the process to its first
// decision, against what git takes to have a clone to begin with.
func BenchmarkFirstDecision(b *testing.B) {
	inArenas(b, func(a *arena) {
		now := time.Now()
		a.simulate(now)
		a.build(3, time.Minute)
		var own, clone []float64
		for range 7 {
			a.buildkite.AdvanceTo(time.Now())
			begin := time.Now()
			cmd, log := a.muster(a.binary, "muster", "--once", "--dry-run")
			a.await(log, "dry run: dispatched")
			own = append(own, float64(time.Since(begin).Microseconds())/1000)
			a.check(cmd.Wait())
			begin = time.Now()
			git := exec.Command("git", "clone", "--quiet", "--depth=1", "--filter=blob:none", "--sparse", a.git.URL+"/fleet.git", ".")
			git.Dir = a.b.TempDir()
			a.check(git.Run())
			clone = append(clone, float64(time.Since(begin).Microseconds())/1000)
		}
		a.row("whole program: process start to first decision", " ms", median(own), 0)
		a.row("  / git clone --depth=1 --filter=blob:none --sparse", " x", median(own)/median(clone), 0.3)
	})
}

// BenchmarkPeak runs the program as it is shipped, with its own clock, through
// its start and fifteen ticks, each with a dispatch.
func BenchmarkPeak(b *testing.B) {
	inArenas(b, func(a *arena) {
		a.simulate(time.Now())
		observed := func() {
			a.buildkite.AdvanceTo(time.Now())
			a.build(1, time.Hour)
		}
		a.observed.Store(&observed)
		cmd, log := a.muster(a.binary, "muster", "--interval=1s")
		var first float64
		for tick := range 15 {
			a.await(log, "msg=dispatched")
			if tick == 0 {
				first, _ = a.memory(cmd)
			}
		}
		peak, now := a.memory(cmd)
		a.row("whole program: peak memory", " MB", peak, 45)
		a.row("  peak up to its first push", " MB", first, 0)
		a.row("  at its 15th push", " MB", now, 0)
		a.row("  bytes sent by its 15th push", " B", float64(a.pushed.Load()), 2048)
	})
}

// BenchmarkTicks runs the program through many ticks, each of which
// dispatches and retires, and looks at its memory and at the repository.
func BenchmarkTicks(b *testing.B) {
	inArenas(b, func(a *arena) {
		a.simulate(start.Add(-15 * time.Second))
		cluster := &simulation.Cluster{Buildkite: a.buildkite, BuildkiteCluster: a.queue,
			Fate: simulation.Trouble{}.Fates([2]time.Duration{10 * time.Second, 20 * time.Second}, rand.New(rand.NewPCG(1, 1)))}
		syncer, err := gitops.New(gitops.Config{URL: a.git.URL + "/fleet.git"})
		a.check(err)
		reached, resume := make(chan struct{}), make(chan struct{})
		tick := 0
		observed := func() {
			if tick++; tick == *benchTicks/10+1 || tick == *benchTicks+1 {
				reached <- struct{}{}
				<-resume
			}
			tip, err := syncer.Tip(context.Background())
			if err == nil {
				err = cluster.Sync(tip.Tree, "overlays/default")
			}
			if err != nil {
				panic(err)
			}
			a.buildkite.Advance(15 * time.Second)
			a.build(1, 40*time.Second)
		}
		a.observed.Store(&observed)
		before, growth := a.commits(), a.loose()
		cmd, log := a.muster(os.Args[0], "ticking")
		go func() {
			for log.Scan() {
			}
		}()
		<-reached
		_, early := a.memory(cmd)
		resume <- struct{}{}
		<-reached
		_, late := a.memory(cmd)
		a.check(cmd.Process.Kill())
		close(resume)
		_ = cmd.Wait()
		a.row(fmt.Sprintf("whole program: growth over %d ticks that dispatch", *benchTicks-*benchTicks/10), " MB", late-early, 3)
		a.growth(a.commits()-before, a.loose()-growth)
	})
}

func (a *arena) commits() float64 {
	out, err := a.repo.Git("rev-list", "--count", "main")
	a.check(err)
	n, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	a.check(err)
	return n
}

// count returns a line of git count-objects in bytes.
func (a *arena) count(name string) float64 {
	out, err := a.repo.Git("count-objects", "-v")
	a.check(err)
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			a.check(err)
			return n * 1024
		}
	}
	return 0
}

func (a *arena) loose() float64 { return a.count("size") }

// growth says what a commit adds to the repository: as the server keeps it at
// first, and after git gc's packing.
func (a *arena) growth(commits, loose float64) {
	packed := a.count("size-pack")
	_, err := a.repo.Git("repack", "-q", "-d")
	a.check(err)
	packed = a.count("size-pack") - packed
	const perYear = 365 * 24 * 60 / 1e6
	a.row(fmt.Sprintf("server: growth per commit of a fleet at work, loose (of %.0f)", commits), " B", loose/commits, 0)
	a.row("  packed", " B", packed/commits, 0)
	a.row("  packed, in a year at a commit a minute", " MB", packed/commits*perYear, 0)
}

// BenchmarkCrowd dispatches into an overlay in which ten thousand dispatches
// are alive: what that sends, and what it takes of memory.
func BenchmarkCrowd(b *testing.B) {
	const crowd = 10_000
	inArenas(b, func(a *arena) {
		if a.size != "large" {
			return
		}
		now := time.Now()
		a.simulate(now)
		a.build(crowd+1, time.Hour)
		tip, err := gitops.New(gitops.Config{URL: a.git.URL + "/fleet.git"})
		a.check(err)
		at, err := tip.Tip(context.Background())
		a.check(err)
		loaded, err := manifest.NewLoader("overlays").Load(at.Tree)
		a.check(err)
		var dispatches []plan.Dispatch
		for i := range crowd {
			dispatches = append(dispatches, plan.Dispatch{ID: fmt.Sprintf("default-%08x", rand.N(uint32(1<<31))+uint32(i)), Purpose: plan.ForDemand, Agents: 1,
				At: now.UTC().Truncate(time.Second), NotAfter: now.UTC().Truncate(time.Second).Add(15 * time.Minute), IdleTimeout: 5 * time.Minute})
		}
		_, changes, err := loaded[0].Add(dispatches)
		a.check(err)
		_, err = a.repo.Commit("Dispatch many\n", now, changes...)
		a.check(err)
		a.buildkite.AdvanceTo(time.Now())
		cmd, log := a.muster(a.binary, "muster", "--interval=2s")
		a.await(log, "msg=dispatched")
		peak, _ := a.memory(cmd)
		a.row("overlay of 10,000 live dispatches: bytes sent by one more", " B", float64(a.pushed.Load()), 2048)
		a.row("  peak memory", " MB", peak, 0)
	})
}

// BenchmarkOthers adds what other packages' benchmarks report.
func BenchmarkOthers(b *testing.B) {
	a := &arena{b: b, size: "-"}
	for _, x := range []struct {
		pkg, bench, reported, figure, unit string
		per, bound                         float64
	}{
		{"muster/generator/manifest", "^BenchmarkStamp$", "x-of-build", "stamping one Job / building its template", " x", 1, 0.1},
		{"muster/generator/plan", "^BenchmarkDecide$/^overlays=50$/^jobs=100000$", "ns/op", "decision over 100,000 jobs and 50 overlays", " ms", 1e6, 0},
		{"muster/generator/plan", "^BenchmarkGrowth$/^chain$/^ruleSets=300$", "ns/op", "decision over 300 rule sets and 450 idle agents", " ms", 1e6, 100},
		{"muster/generator/plan", "^BenchmarkGrowth$/^cross$/^ruleSets=1000$", "ns/op", "decision over 20 overlays of max 1,000 and 1,000 rule sets", " ms", 1e6, 100},
		{"muster/generator/buildkite", "^BenchmarkTenThousandBuilds$", "beyond-ms", "a tick over 10,000 builds, beyond decoding them", " ms", 1, 100},
		{"muster/generator/metrics", "^BenchmarkScrape$/^text$", "ns/op", "a scrape of 50 overlays", " ms", 1e6, 5},
		{"muster/generator/metrics", "^BenchmarkIdleTick$", "cpu-ms/op", "what the endpoint adds to an idle tick", " ms of CPU", 1, 1},
	} {
		out, err := exec.Command("go", "test", "-run", "^$", "-bench", x.bench, "-benchtime", "20x", x.pkg).CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		fields := strings.Fields(string(out))
		for i, f := range fields {
			if f == x.reported {
				value, err := strconv.ParseFloat(fields[i-1], 64)
				a.check(err)
				a.row(x.figure, x.unit, value/x.per, x.bound)
			}
		}
	}
	for b.Loop() {
		// Measured above.
	}
	b.ReportMetric(0, "ns/op")
}
