package generator_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// bubbleClock is the clock of a synctest bubble.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time { return time.Now() }

func (bubbleClock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// slowRemote takes its time, so that several musters come in between.
type slowRemote struct {
	remote
	random *rand.Rand
	most   time.Duration // that a request takes
}

func (r *slowRemote) wait() {
	time.Sleep(time.Duration(r.random.Int64N(int64(r.most))))
}

func (r *slowRemote) Head(ctx context.Context) (branch.Head, error) {
	r.wait()
	return r.remote.Head(ctx)
}

func (r *slowRemote) Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	r.wait()
	return r.remote.Commit(ctx, head, ops)
}

// newClient returns a client of a server's REST API.
func newClient(t *testing.T, server *fakebuildkite.Server) *buildkite.Client {
	t.Helper()
	client, err := buildkite.New(buildkite.Config{Org: "acme", Token: func() (string, error) { return "test-token", nil }, HTTP: server.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// runLoop runs the loop of a muster that commits to r, until its context ends.
func (r *slowRemote) runLoop(ctx context.Context, t *testing.T, c *buildkite.Client, interval, jitter time.Duration) {
	g := generator.New(generator.Config{Repository: r, Buildkite: c, Clock: bubbleClock{}, Overlays: "overlays"})
	if err := g.Run(ctx, interval, jitter); err != nil {
		t.Errorf("the loop ends with %v", err)
	}
}

// TestConcurrentLoops runs the real loop of five musters at once, with real
// timers, slow remotes, and requests that hang until they time out; one after
// the other is stopped and started again. There are as many agents as jobs.
func TestConcurrentLoops(t *testing.T) {
	synctest.Test(t, concurrentLoops)
}

func concurrentLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	var k *kube
	server := fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), OnAgentEnd: func(a fakebuildkite.AgentRecord) { k.AgentEnded(a) }})
	overlays := quietNight().overlays
	p := &overlays[0].spec
	p.min, p.buffer, p.max = 0, 0, 30
	repository := newFleet(server.Now, files(overlays))
	k = &kube{
		Cluster: simulation.Cluster{Buildkite: server}, fleet: repository, overlay: "overlays/a", random: r, lag: 20 * time.Second,
		startup: [2]time.Duration{10 * time.Second, time.Minute}, onProblem: func(text string) { t.Error(text) },
	}
	k.start()
	jobs := 0
	for range 25 {
		n := 1 + r.IntN(12)
		jobs += n
		server.At(time.Now().Add(time.Duration(r.Int64N(int64(35*time.Minute)))), func() {
			server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Parallelism: n, Duration: 5 * time.Second}}})
		})
	}
	for range 6 {
		server.At(time.Now().Add(time.Duration(r.Int64N(int64(35*time.Minute)))), func() {
			server.Fail(fakebuildkite.Fault{Hang: true, Skip: 7})
			server.Fail(fakebuildkite.Fault{Status: http.StatusBadGateway, Skip: 3})
			server.Fail(fakebuildkite.Fault{Half: true})
		})
	}
	var loops sync.WaitGroup
	run := func() context.CancelFunc {
		ctx, stop := context.WithCancel(t.Context())
		random := rand.New(rand.NewPCG(1, r.Uint64()))
		git := &slowRemote{remote{repository, "muster"}, random, 2 * time.Second}
		client := newClient(t, server)
		loops.Go(func() { git.runLoop(ctx, t, client, 15*time.Second, 15*time.Second) })
		return stop
	}
	stops := make([]context.CancelFunc, 5)
	for i := range stops {
		stops[i] = run()
	}
	for second := range 45 * 60 {
		if second%400 == 399 {
			i := second / 400 % len(stops)
			stops[i]()
			stops[i] = run()
		}
		time.Sleep(time.Second)
		server.AdvanceTo(time.Now())
		if n := k.Connected(); n > p.max {
			t.Fatalf("%d agents, max is %d", n, p.max)
		}
	}
	for _, stop := range stops {
		stop()
	}
	loops.Wait()
	orders, ordered := 0, 0
	for _, c := range repository.history()[1:] {
		if c.operation.Kind == ledger.Dispatch {
			orders++
			ordered += c.operation.Decision.Figures.Dispatch
		}
	}
	s := server.Stats()
	if s.Finished != jobs || ordered != jobs || s.Agents != jobs || s.Unused != 0 {
		t.Errorf("%d of %d jobs finished; %d agents ordered: %+v", s.Finished, jobs, ordered, s)
	}
	if orders < 15 {
		t.Errorf("%d orders only", orders)
	}
}

// TestWriterWithoutPause: while another writer pushes ten times a second for a minute, a commit lands
// at least every five seconds, without an error. A snapshot takes two requests over a long line, and the
// fetch of a small change and a push as long as with a repository of 10,000 files
// (docs/explanation/performance.md).
func TestWriterWithoutPause(t *testing.T) {
	b := newBench("a")
	b.overlays[0].spec.max = 1000
	b.fleet.edit("a person", branch.Change{Path: "overlays/a/scaling.yaml", Content: b.overlays[0].policyText()})
	start, pushes := b.now, 0
	pass := func(d time.Duration) error {
		b.now = b.now.Add(d)
		for ; !start.Add(time.Duration(pushes) * 100 * time.Millisecond).After(b.now); pushes++ {
			b.fleet.edit("a rival", branch.Change{Path: "elsewhere.txt", Content: fmt.Append(nil, pushes)})
		}
		return nil
	}
	b.onSnapshot = func() error { return pass(300 * time.Millisecond) }
	b.onCommit = func([]ledger.Draft) error { return pass(37 * time.Millisecond) }
	b.triggers = func() { _ = pass(0) }
	b.jobs("a", 1)
	b.run(t, time.Second, func(int, generator.Result, error) bool {
		b.jobs("a", 1)
		return b.now.Sub(start) <= time.Minute
	})
	last, landed := start, 0
	for _, c := range b.fleet.history() {
		if c.who != "muster" {
			continue
		}
		if landed++; c.at.Sub(last) > 5*time.Second {
			t.Errorf("nothing landed between %s and %s", last.Sub(start), c.at.Sub(start))
		}
		last = c.at
	}
	if b.now.Sub(last) > 5*time.Second {
		t.Errorf("nothing landed after %s", last.Sub(start))
	}
	if strings.Contains(b.log.String(), "level=ERROR") || pushes < 600 {
		t.Errorf("of %d pushes of the rival's the log says\n%s", pushes, b.log.String())
	}
	t.Logf("%d commits beside %d of the rival's", landed, pushes)
}

// TestOnlyNewCommitsAreRead asserts that a tick reads no commit of the log that was there at the
// last tick. One more may cost one more request, and a writer that pushes continuously would be
// faster each time.
func TestOnlyNewCommitsAreRead(t *testing.T) {
	c := &archive{bench: newBench("a")}
	g := c.generator()
	c.jobs("a", 1)
	tick(t, g)
	for n := range 3 {
		c.read = 0
		for i := range n {
			c.fleet.edit("a rival", branch.Change{Path: "elsewhere.txt", Content: fmt.Append(nil, n, i)})
		}
		tick(t, g)
		if c.read != n {
			t.Errorf("%d commits came, and %d were read", n, c.read)
		}
	}
}

var raced = flag.Duration("raced", 10*time.Second, "simulated time that TestThreeWritersVerify lasts")

// TestThreeWritersVerify asserts that every commit verifies while three musters poll in
// every second, push concurrently, retire and repair, and a person deletes dispatches.
func TestThreeWritersVerify(t *testing.T) {
	unraced.Only(t)
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 23))
		var clusters []*kube
		server := fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), OnAgentEnd: func(a fakebuildkite.AgentRecord) {
			for _, k := range clusters {
				k.AgentEnded(a)
			}
		}})
		var overlays []*overlay
		for _, name := range []string{"b", "c", "default", "e"} {
			queue := name
			if name == "e" {
				queue = "default"
			}
			overlays = append(overlays, &overlay{name: name, spec: policy{queue: queue, max: 200, lease: 2 * time.Minute, idle: time.Minute, upkeepIdle: 20 * time.Minute, buffer: 1}})
		}
		repository := newFleet(server.Now, files(overlays))
		for i, o := range overlays {
			k := &kube{
				Cluster: simulation.Cluster{Buildkite: server}, fleet: repository, overlay: o.path(), random: rand.New(rand.NewPCG(2, uint64(i))), lag: 5 * time.Second,
				startup: [2]time.Duration{time.Second, 20 * time.Second}, noShow: 0.1, onProblem: func(text string) { t.Error(text) }, tampered: map[string]bool{},
			}
			k.start()
			clusters = append(clusters, k)
		}
		ctx, stop := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		for i := range 3 {
			time.Sleep(330 * time.Millisecond)
			random := rand.New(rand.NewPCG(3, uint64(i)))
			git := &slowRemote{remote{repository, fmt.Sprintf("muster-%d", i)}, random, 60 * time.Millisecond}
			client := newClient(t, server)
			loops.Go(func() { git.runLoop(ctx, t, client, time.Second, 0) })
		}
		for end := time.Now().Add(*raced); time.Now().Before(end); server.AdvanceTo(time.Now()) {
			time.Sleep(100 * time.Millisecond)
			for _, queue := range []string{"b", "c", "default"} {
				if r.IntN(8) == 0 {
					server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Agents: []string{"queue=" + queue}, Parallelism: 1 + r.IntN(5), Duration: time.Duration(r.IntN(10)) * time.Second}}})
				}
			}
			o := overlays[r.IntN(len(overlays))]
			if names := repository.head().tree.below(o.path() + "/dispatches"); r.IntN(100) == 0 {
				if id, ok := manifestID(o.path() + "/dispatches/" + names[r.IntN(len(names))]); ok {
					repository.edit("a person", branch.Change{Path: o.path() + "/dispatches/" + id + ".yaml"})
				}
			}
		}
		stop()
		loops.Wait()
		together := 0
		log := repository.history()
		for i, c := range log[1:] {
			if p := log[i]; c.operation != nil && p.operation != nil && c.who != p.who && c.operation.Decision.At().Equal(p.operation.Decision.At()) {
				together++
			}
		}
		if t.Logf("%d commits, %d of them on another muster's of the same second", len(log), together); together == 0 {
			t.Error("no commit is on another muster's of the same second")
		}
		verifyAll(t, repository)
	})
}
