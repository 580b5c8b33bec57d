package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/starter"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"
)

var monthDays = flag.Float64("month-days", 0, "days of production that TestMonth plays with 20 queues; 0: an hour with 3")

// production is a simulated fleet, and muster in a separate process, which uses HTTP to a git
// server and to a simulated Buildkite, and has their clock.
type production struct {
	t         *testing.T
	queues    []string
	begin     time.Time
	length    time.Duration // of the time in which builds come
	jobs      int           // of a build, about
	buildkite *fakebuildkite.Server
	cluster   *simulation.Cluster
	kept      string // the Buildkite cluster
	repo      gitserver.Repository
	checkout  string // the syncer's directory
	random    *rand.Rand
	problem   atomic.Pointer[fault] // of the moment
	synced    string                // the commit that the cluster has
	stopped   bool                  // the syncer
	unused    []string              // agents for jobs that left without one
	most      int                   // agents that were connected at once
	problems  map[string]int        // how often each began

	muster  *exec.Cmd
	address string // of its endpoints
	log     *os.File
}

func newProduction(t *testing.T, queues int, begin time.Time, length time.Duration, jobs int) *production {
	t.Helper()
	p := &production{t: t, begin: begin, length: length, jobs: jobs, random: rand.New(rand.NewPCG(1, uint64(queues))), problems: map[string]int{}}
	p.problem.Store(&fault{})
	for i := range queues {
		p.queues = append(p.queues, fmt.Sprintf("queue-%02d", i))
	}
	p.buildkite = fakebuildkite.New(fakebuildkite.Options{Token: leaktest.BuildkiteToken, Now: p.begin, OnAgentEnd: p.ended})
	p.kept = p.buildkite.AddCluster("ci")
	for _, key := range p.queues {
		p.buildkite.AddQueue(p.kept, key)
	}
	fates := simulation.Faults{}.Fates([2]time.Duration{25 * time.Second, 70 * time.Second}, p.random)
	p.cluster = &simulation.Cluster{Buildkite: p.buildkite, BuildkiteCluster: p.kept, Fate: func() simulation.Fate {
		f := fates()
		f.NoShow = p.random.Float64() < p.problem.Load().noShow
		f.Linger = simulation.Streaming.Draw(p.random)
		return f
	}}
	dir := t.TempDir()
	p.checkout = t.TempDir()
	p.makeRepository(filepath.Join(dir, "srv", "fleet.git"))
	p.serve(filepath.Join(dir, "srv"), dir)
	p.schedule()
	return p
}

// makeRepository creates a fleet with an overlay for each queue, each with at most 100 agents.
func (p *production) makeRepository(bare string) {
	p.t.Helper()
	var err error
	p.repo, err = gitserver.Init(bare)
	check(p.t, err)
	// The repository need not survive a power failure, and git gc runs at night.
	for key, value := range map[string]string{"core.fsync": "none", "receive.autogc": "false", "gc.auto": "0"} {
		check(p.t, p.repo.Configure(key, value))
	}
	changes, err := starter.Changes(func(text []byte) []byte { return bytes.Replace(text, []byte("max: 10 "), []byte("max: 0 "), 1) })
	check(p.t, err)
	for i, queue := range p.queues {
		files, err := starter.OverlayFiles(starter.Overlay{Name: queue, Queue: queue})
		check(p.t, err)
		for name, content := range files {
			if name == "scaling.yaml" {
				content = bytes.Replace(content, []byte("max: 10 "), []byte("max: 100 "), 1)
				if i%warmEvery == 0 {
					content = bytes.Replace(content, []byte("# buffer: 0 "), []byte("buffer: 2   "), 1)
				}
			}
			changes = append(changes, branch.Change{Path: path.Join("overlays", queue, name), Content: content})
		}
	}
	_, err = p.repo.Commit("Begin the fleet", p.begin.Add(-time.Hour), changes...)
	check(p.t, err)
}

// warmEvery is the number of overlays for each with a warm pool.
const warmEvery = 4

// serve starts the servers and configures muster.
func (p *production) serve(served, dir string) {
	p.t.Helper()
	git := serveGit(p.t, served, gitserver.Options{Remember: true, Wrap: p.disturb})
	api := serveHTTP(p.t, p.buildkite)
	var err error
	p.log, err = os.Create(filepath.Join(dir, "log"))
	check(p.t, err)
	p.t.Cleanup(func() { _ = p.log.Close() })
	token := filepath.Join(dir, "token")
	check(p.t, os.WriteFile(token, []byte(leaktest.BuildkiteToken), 0o600))
	program, err := os.Executable()
	check(p.t, err)
	p.muster = exec.Command(program, "run", "--repo", git.URL+"/fleet.git", "--buildkite-org", "acme", "--buildkite-url", api.URL+"/",
		"--listen", "127.0.0.1:0", "--startup-jitter", "0", "--buildkite-token-file", token)
	p.muster.Env = append(os.Environ(), stepVariable+"="+strconv.FormatInt(p.begin.UnixNano(), 10))
	p.muster.Stdout, p.muster.Stderr = p.log, p.log
}

// play runs muster until all builds are finished. Time passes only while muster sleeps.
func (p *production) play() {
	p.t.Helper()
	asks, told := p.pipe(), p.pipe()
	p.muster.ExtraFiles = []*os.File{asks.w, told.r}
	check(p.t, p.muster.Start())
	p.t.Cleanup(func() { _ = p.muster.Process.Kill() })
	check(p.t, errors.Join(asks.w.Close(), told.r.Close()))
	sleeps := bufio.NewScanner(asks.r)
	for sleeps.Scan() {
		d, err := strconv.ParseInt(sleeps.Text(), 10, 64)
		check(p.t, err)
		p.buildkite.Advance(time.Duration(d))
		if p.over() {
			return
		}
		_, err = fmt.Fprintln(told.w, p.buildkite.Now().UnixNano())
		check(p.t, err)
	}
	p.t.Fatalf("muster has ended: %v\n%s", p.muster.Wait(), p.lastWords())
}

type pipe struct{ r, w *os.File }

func (p *production) pipe() pipe {
	p.t.Helper()
	r, w, err := os.Pipe()
	check(p.t, err)
	p.t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return pipe{r, w}
}

// over reports whether all jobs are finished, long enough ago that every dispatch is retired.
func (p *production) over() bool {
	since := p.since() - p.length
	if since < 2*time.Hour {
		return false
	}
	s := p.buildkite.Stats()
	if since > 12*time.Hour {
		p.t.Fatalf("%d of %d jobs are not finished twelve hours after the last build came\n%s", s.Runnable-s.Finished, s.Runnable, p.lastWords())
	}
	return s.Finished == s.Jobs
}

// lastWords returns the end of muster's log.
func (p *production) lastWords() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// end ends muster, and returns the processor time of it and its children.
func (p *production) end() time.Duration {
	p.t.Helper()
	check(p.t, p.muster.Process.Signal(syscall.SIGTERM))
	if err := p.muster.Wait(); err != nil {
		p.t.Errorf("muster ended with %v\n%s", err, p.lastWords())
	}
	return p.muster.ProcessState.UserTime() + p.muster.ProcessState.SystemTime()
}

// ended records an agent that was ordered for jobs and had none. In overlays with a warm pool
// other agents may take the jobs, so these are excluded.
func (p *production) ended(a fakebuildkite.AgentRecord) {
	overlay := a.Name[:len("queue-00")]
	if a.Jobs == 0 && a.Reason == fakebuildkite.EndedIdle && slices.Index(p.queues, overlay)%warmEvery != 0 {
		p.unused = append(p.unused, p.buildkite.Now().Format(time.DateTime)+" "+a.Name)
	}
	p.cluster.AgentEnded(a)
}

// stepVariable makes the test binary muster with a [steppedClock], which begins at the
// nanoseconds in its value.
const stepVariable = "MUSTER_TEST_STEPPED"

func stepped(begin string) int {
	at, err := strconv.ParseInt(begin, 10, 64)
	if err != nil {
		panic(err)
	}
	executable, err := os.Executable()
	if err != nil {
		panic(err)
	}
	debug.SetMemoryLimit(invocation.ProgramMemory) // as main does
	clock := &steppedClock{asks: os.NewFile(3, "asks"), notified: bufio.NewScanner(os.NewFile(4, "told"))}
	clock.at.Store(at)
	if err := os.Unsetenv(stepVariable); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p := program{invocation.Program{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Clock: clock, Executable: executable}}
	return p.run(ctx)
}

// steppedClock is a clock that another process advances: Sleep sends its duration, and returns
// when the new time is received.
type steppedClock struct {
	at       atomic.Int64
	sleep    sync.Mutex // one sleeps at a time
	asks     io.Writer
	notified *bufio.Scanner
}

func (c *steppedClock) Now() time.Time { return time.Unix(0, c.at.Load()).UTC() }

func (c *steppedClock) Sleep(ctx context.Context, d time.Duration) error {
	c.sleep.Lock()
	woken := make(chan error, 1)
	go func() {
		defer c.sleep.Unlock()
		woken <- c.step(d)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-woken:
		return err
	}
}

func (c *steppedClock) step(d time.Duration) error {
	if _, err := fmt.Fprintln(c.asks, int64(d)); err != nil {
		return err
	}
	if !c.notified.Scan() {
		return errors.Join(errors.New("nobody says what time it is"), c.notified.Err())
	}
	at, err := strconv.ParseInt(c.notified.Text(), 10, 64)
	c.at.Store(at)
	return err
}

// resident returns a field of muster's memory in MiB: proc_pid_status(5).
func (p *production) resident(field string) float64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.muster.Process.Pid))
	check(p.t, err)
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		p.t.Fatalf("no %s in\n%s", field, text)
	}
	kib, _ := strconv.ParseFloat(string(found[1]), 64)
	return kib / 1024
}
