package generator_test

import (
	"context"
	"math/rand/v2"
	"net/http"
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
