package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/cmd/starter"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/policy"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"
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
	observed  atomic.Pointer[func()]
}

// inArenas runs a benchmark in an arena of each size.
func inArenas(b *testing.B, run func(a *arena)) {
	binary := shipped(b)
	bench.EachSize(b, func(b *testing.B, size string) {
		a := &arena{b: b, size: size, binary: binary}
		a.open()
		run(a)
		bench.Once(b)
	})
}

// open copies the generated repository and puts into it the overlay that muster
// init writes. The dispatches that it was generated with, which muster never
// ordered, move into a directory of their own among the overlays.
func (a *arena) open() {
	root := a.b.TempDir()
	a.repo = bench.Repository(a.b, a.size, filepath.Join(root, "fleet.git"))
	head, err := a.repo.Head()
	check(a.b, err)
	_, err = a.repo.GitInput(fmt.Appendf(nil, "commit refs/heads/main\ncommitter Else <grace@example.com> %d +0000\ndata 5\nmove\n\nfrom %s\n"+
		"R overlays/default/dispatches overlays/shared/dispatches\nD overlays/default\nD base\n\n", start.Add(-time.Hour).Unix(), head), "fast-import", "--quiet")
	check(a.b, err)
	a.serve(root)
}

// serve adds the overlay that muster init writes to the repository, and serves all of root. The
// overlay's state has an earlier registration: without one, muster orders at most ten agents.
func (a *arena) serve(root string) {
	changes, err := starter.Changes(func(policy []byte) []byte {
		return bytes.Replace(policy, []byte("max: 10 "), []byte("max: 20000 "), 1)
	})
	check(a.b, err)
	changes = append(changes, branch.Change{Path: "overlays/default/dispatches/state.yaml",
		Content: fmt.Appendf(nil, "apiVersion: %s\nkind: OverlayState\nservedAt: %s\n", policy.Version, start.Add(-time.Hour).Format(time.RFC3339))})
	_, err = a.repo.Commit("Begin the fleet\n", start.Add(-time.Hour), changes...)
	check(a.b, err)

	a.git = serveGit(a.b, root, gitserver.Options{Wrap: a.weigh})
}

// age adds a commit of muster's that is older than any lease. A start reads the history
// back to such a commit, and the whole history of a branch without one.
func (a *arena) age() {
	a.b.Helper()
	_, err := a.repo.Commit(fleetMessage(1), gitserver.GeneratedAt(1), branch.Change{Path: "overlays/default/dispatches/README", Content: []byte("\n")})
	check(a.b, err)
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
	a.api = serveHTTP(a.b, a.buildkite)
}

// onPoll calls f when muster begins to poll Buildkite.
func (a *arena) onPoll(f func()) { a.observed.Store(&f) }

func (a *arena) build(jobs int, duration time.Duration) {
	a.buildkite.CreateBuild(fakebuildkite.Build{Cluster: a.queue,
		Steps: []fakebuildkite.Step{{Label: "test", Parallelism: jobs, Duration: duration}}})
}

// muster is the program as a process of its own.
type muster struct {
	*exec.Cmd
	b     *testing.B
	lines chan string // of its log; closed at its end
	log   strings.Builder
}

// muster starts the program; it ends with the benchmark at the latest.
func (a *arena) muster(path, name string, args ...string) *muster {
	m := &muster{Cmd: exec.Command(path), b: a.b, lines: make(chan string)}
	m.Args = append([]string{name, "run", "--startup-jitter=0s"}, args...)
	m.Env = append(m.Environ(), "MUSTER_REPO="+a.git.URL+"/fleet.git", "MUSTER_BUILDKITE_URL="+a.api.URL+"/",
		"MUSTER_BUILDKITE_ORG=acme", "BUILDKITE_API_TOKEN=test-token")
	stderr, err := m.StderrPipe()
	check(a.b, err)
	check(a.b, m.Start())
	a.b.Cleanup(func() { _ = m.Process.Kill(); _ = m.Wait() })
	go func() {
		defer close(m.lines)
		for log := bufio.NewScanner(stderr); log.Scan(); {
			select {
			case m.lines <- log.Text():
			case <-a.b.Context().Done():
				return
			}
		}
	}()
	return m
}

// await reads the log up to a line that contains text.
func (m *muster) await(text string) {
	m.b.Helper()
	if !m.read(func(line string) bool { return strings.Contains(line, text) }, nil) {
		m.b.Fatalf("muster ended without logging %q:\n%s", text, &m.log)
	}
}

// end waits until the program has ended.
func (m *muster) end() error {
	m.b.Helper()
	m.read(func(string) bool { return false }, nil)
	return m.Wait()
}

// read reads the log until a line is the wanted one or event happens. It reports false if
// the log ends before. A program that does neither is killed.
func (m *muster) read(wanted func(line string) bool, event <-chan struct{}) bool {
	m.b.Helper()
	late := time.After(bench.LongestWait)
	for {
		select {
		case line, ok := <-m.lines:
			if !ok {
				return false
			}
			m.log.WriteString(line + "\n")
			if wanted(line) {
				return true
			}
		case <-event:
			return true
		case <-late:
			m.b.Fatalf("waited for muster for %s. Its log:\n%s", bench.LongestWait, &m.log)
		}
	}
}

// memory returns the peak and the current resident memory of the program in MB.
func (m *muster) memory() (peak, now float64) {
	m.b.Helper()
	peak, now, err := bench.Memory(strconv.Itoa(m.Process.Pid))
	check(m.b, err)
	return peak, now
}

// commits returns the number of commits whose message contains text.
func (a *arena) commits(text string) float64 {
	out, err := a.repo.Git("rev-list", "--count", "--fixed-strings", "--grep="+text, "main")
	check(a.b, err)
	n, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	check(a.b, err)
	return n
}

// count returns a line of git count-objects in bytes.
func (a *arena) count(name string) float64 {
	out, err := a.repo.Git("count-objects", "-v")
	check(a.b, err)
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			check(a.b, err)
			return n * 1024
		}
	}
	return 0
}

func (a *arena) loose() float64 { return a.count("size") }

// growth reports what a commit adds to the repository as the server keeps it at first, and what an order adds,
// with its share of a retirement, after git gc's packing.
func (a *arena) growth(orders, commits, loose float64) {
	packed := a.count("size-pack")
	_, err := a.repo.Git("repack", "-q", "-d")
	check(a.b, err)
	packed = a.count("size-pack") - packed
	bench.Row(a.b, "server: growth per commit of a busy fleet, loose", loose/commits)
	bench.Row(a.b, "server: growth per order of a busy fleet, packed", packed/orders)
}
