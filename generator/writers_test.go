package generator_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/generator"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

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
