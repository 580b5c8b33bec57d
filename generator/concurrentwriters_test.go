package generator_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
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
	mu     sync.Mutex
	random *rand.Rand
	most   time.Duration // that a request takes
}

func (r *slowRemote) wait() {
	r.mu.Lock()
	d := time.Duration(r.random.Int64N(int64(r.most)))
	r.mu.Unlock()
	time.Sleep(d)
}

func (r *slowRemote) Head(ctx context.Context) (branch.Head, error) {
	r.wait()
	return r.remote.Head(ctx)
}

func (r *slowRemote) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
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

// TestConcurrentLoops runs the real loop of five musters at once, with real
// timers, slow remotes, and requests that hang until they time out; one after
// the other is stopped and started again. There are as many agents as jobs.
func TestConcurrentLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { concurrentLoops(t, 1) })
}

func concurrentLoops(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
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
	for range 40 {
		n := 1 + r.IntN(12)
		jobs += n
		server.At(time.Now().Add(time.Duration(r.Int64N(int64(time.Hour)))), func() {
			server.CreateBuild(fakebuildkite.Build{Steps: []fakebuildkite.Step{{Parallelism: n, Duration: 5 * time.Second}}})
		})
	}
	for range 10 {
		server.At(time.Now().Add(time.Duration(r.Int64N(int64(time.Hour)))), func() {
			server.Fail(fakebuildkite.Fault{Hang: true, Skip: 7})
			server.Fail(fakebuildkite.Fault{Status: http.StatusBadGateway, Skip: 3})
			server.Fail(fakebuildkite.Fault{Half: true})
		})
	}
	var loops sync.WaitGroup
	run := func() context.CancelFunc {
		ctx, stop := context.WithCancel(t.Context())
		g := generator.New(generator.Config{
			Repository: &slowRemote{remote: remote{repository, "muster"}, random: rand.New(rand.NewPCG(seed, r.Uint64())), most: 2 * time.Second},
			Buildkite:  newClient(t, server), Clock: bubbleClock{}, Overlays: "overlays",
		})
		loops.Go(func() {
			if err := g.Run(ctx, 15*time.Second, 15*time.Second); err != nil {
				t.Errorf("the loop ends with %v", err)
			}
		})
		return stop
	}
	stops := make([]context.CancelFunc, 5)
	for i := range stops {
		stops[i] = run()
	}
	for second := range 75 * 60 {
		if second%400 == 399 {
			i := second / 400 % len(stops)
			stops[i]()
			stops[i] = run()
		}
		time.Sleep(time.Second)
		server.AdvanceTo(time.Now())
		if n := k.Connected(); n > p.max {
			t.Fatalf("seed %d: %d agents, max is %d", seed, n, p.max)
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
			ordered += c.operation.Decision.Sum.Dispatch
		}
	}
	s := server.Stats()
	if s.Finished != jobs || ordered != jobs || s.Agents != jobs || s.Unused != 0 {
		t.Errorf("seed %d: %d jobs, %d of which finished; %d agents ordered, %d registered, %d unused", seed, jobs, s.Finished, ordered, s.Agents, s.Unused)
	}
	if orders < 20 {
		t.Errorf("seed %d: %d orders only", seed, orders)
	}
}

// busy is a bench on which everything takes time, and on whose branch a rival pushes
// without a pause.
type busy struct {
	*bench
	every time.Duration
	next  time.Time
	n     int
}

// pass lets time pass, and the rival push.
func (b *busy) pass(d time.Duration) {
	end := b.now.Add(d)
	for !b.next.After(end) {
		b.now, b.next = b.next, b.next.Add(b.every)
		b.n++
		b.fleet.edit("a rival", branch.Change{Path: "elsewhere.txt", Content: fmt.Append(nil, b.n)})
	}
	b.now = end
}

// Sleep implements [generator.Clock].
func (b *busy) Sleep(ctx context.Context, d time.Duration) error {
	b.pass(d)
	return ctx.Err()
}

// Head implements [generator.Repository]. It takes as long as the fetch of a small change
// does, and Commit as long as a push to a repository of 10,000 files does
// (docs/explanation/performance.md).
func (b *busy) Head(context.Context) (branch.Head, error) {
	head := b.fleet.head().head()
	b.pass(10 * time.Millisecond)
	return head, nil
}

// Commit implements [generator.Repository].
func (b *busy) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
	b.pass(27 * time.Millisecond)
	return b.bench.Commit(ctx, head, ops)
}

// Snapshot implements [generator.Buildkite]: two requests over a long line.
func (b *busy) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	s, err := b.bench.Snapshot(ctx, query)
	b.pass(300 * time.Millisecond)
	return s, err
}

// TestWriterWithoutPause: while another writer pushes ten times a second for a minute, a commit lands
// at least every five seconds, without an error.
func TestWriterWithoutPause(t *testing.T) {
	b := &busy{bench: newBench("a"), every: 100 * time.Millisecond}
	b.overlays[0].spec.max = 1000
	b.fleet.edit("a person", branch.Change{Path: "overlays/a/scaling.yaml", Content: b.overlays[0].policyText()})
	start := b.now
	b.next = start
	b.jobs("a", 1)
	b.run(t, time.Second, func(int, generator.Result, error) bool {
		b.jobs("a", 1)
		return b.now.Sub(start) <= time.Minute
	}, func(c *generator.Config) { c.Repository, c.Buildkite, c.Clock = b, b, b })
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
	if strings.Contains(b.log.String(), "level=ERROR") || b.n < 600 {
		t.Errorf("of %d pushes of the rival's the log says\n%s", b.n, b.log.String())
	}
	t.Logf("%d commits beside %d of the rival's", landed, b.n)
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

// TestTwoWritersOfOneSecond asserts that the commits of two musters that polled in the
// same second verify: the first push concerns two overlays, the second one of them again.
func TestTwoWritersOfOneSecond(t *testing.T) {
	b := newBench("b", "default")
	b.jobs("b", 5)
	b.jobs("default", 5)
	if got := kinds(tick(t, b.generator()).Operations); got != "b: dispatch 5; default: dispatch 5" {
		t.Fatalf("the first does %q", got)
	}
	b.jobs("b", 4)
	if got := kinds(tick(t, b.generator()).Operations); got != "b: dispatch 4" {
		t.Fatalf("the second does %q", got)
	}
	verifyAll(t, b.fleet)
}

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
			g := generator.New(generator.Config{
				Repository: &slowRemote{remote: remote{repository, fmt.Sprintf("muster-%d", i)}, random: rand.New(rand.NewPCG(3, uint64(i))), most: 60 * time.Millisecond},
				Buildkite:  newClient(t, server), Clock: bubbleClock{}, Overlays: "overlays",
			})
			loops.Go(func() {
				if err := g.Run(ctx, time.Second, 0); err != nil {
					t.Errorf("the loop ends with %v", err)
				}
			})
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

// headsOnly is a host that sends only what its branch is at, and says so by a status, as
// Dulwich does, and beside which somebody else pushes at the worst moments.
type headsOnly struct {
	t          *testing.T
	repository gitserver.Repository
	// conflicts is before how many pushes somebody else is first. until is how many requests for
	// more than the head alone are answered before one that finds the branch elsewhere.
	conflicts, until int
	pushed           int
}

func (h *headsOnly) theirs() {
	h.t.Helper()
	h.pushed++
	if _, err := h.repository.Commit("note\n", scenarioStart(), branch.Change{Path: fmt.Sprintf("notes/%d", h.pushed), Content: []byte("x")}); err != nil {
		h.t.Error(err)
	}
}

func (h *headsOnly) upload(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Error(err)
	}
	if bytes.Contains(body, []byte("deepen ")) && !bytes.Contains(body, []byte("deepen 1\n")) {
		if h.until == 0 {
			h.theirs()
		}
		h.until--
	}
	if head, _ := h.repository.Head(); !strings.Contains(string(body), "want "+head) || bytes.Contains(body, []byte("shallow ")) && !bytes.Contains(body, []byte("deepen ")) {
		gitserver.Response{Status: http.StatusInternalServerError, Words: "Internal Server Error"}.Write(w)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	next.ServeHTTP(w, r)
}

func (h *headsOnly) receive(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if h.conflicts > 0 {
		h.conflicts--
		h.theirs()
	}
	next.ServeHTTP(w, r)
}

// TestTheLogOfABranchThatMoves: where somebody else pushes while the log is read after a
// conflict, whichever request that is, it is another conflict, and nothing is wrong with
// the overlay.
func TestTheLogOfABranchThatMoves(t *testing.T) {
	t.Parallel()
	for until, tried := 0, true; tried; until++ {
		t.Run(fmt.Sprint(until), func(t *testing.T) {
			b, h := newBench("a"), &headsOnly{t: t, repository: gitserver.NewRepository(t), until: -1}
			g := h.generator(b)
			b.jobs("a", 2)
			tick(t, g)
			b.jobs("a", 4)
			h.conflicts, h.until = 1, until
			r := tick(t, g)
			if got := kinds(r.Operations); got != "a: dispatch 4" || len(r.Suspended) > 0 {
				t.Errorf("%q after %d conflicts, suspended %v", got, r.Conflicts, r.Suspended)
			}
			if log := b.log.String(); strings.Contains(log, "level=ERROR") {
				t.Errorf("the log says\n%s", log)
			}
			tried = h.until < 0
		})
	}
}

// generator serves the fleet of a bench, and is one that goes by it.
func (h *headsOnly) generator(b *bench) *generator.Generator {
	h.t.Helper()
	b.commitFiles(h.t, h.repository)
	strict := gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: h.upload, Receive: h.receive}
	server, err := gitserver.Serve(filepath.Dir(h.repository.Dir), gitserver.Options{Wrap: strict.Wrap})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(server.Close)
	g, _ := served(h.t, b, server.URL+"/fleet.git")
	return g
}
