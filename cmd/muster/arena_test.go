package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
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
	"muster/gitops/gitserver"
)

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

// shipped builds the program as make build does.
func shipped(b *testing.B) (binary string) {
	binary = filepath.Join(b.TempDir(), "muster")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building muster: %v\n%s", err, out)
	}
	return binary
}

// inArenas runs a benchmark in an arena of each size.
func inArenas(b *testing.B, run func(a *arena)) {
	binary := shipped(b)
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
	a.serve(root)
}

// serve puts into the repository the overlay that muster init writes, and serves all
// of root.
func (a *arena) serve(root string) {
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
