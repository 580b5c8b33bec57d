package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator/fleet"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/testdata/bench"
)

// These benchmarks run the whole program as a process of its own, against a
// repository over HTTP and a simulated Buildkite in this process.

// ticking is the program with a clock that jumps from tick to tick.
func ticking() {
	clock := &jumpingClock{now: start}
	p := program{invocation.Program{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Clock: clock}}
	os.Exit(p.run(context.Background()))
}

type jumpingClock struct{ now time.Time }

func (c *jumpingClock) Now() time.Time { return c.now }

func (c *jumpingClock) Sleep(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	return ctx.Err()
}

// BenchmarkFirstDecision measures from the start of the process to its first
// decision, against what git takes to have a clone to begin with. The start on a
// branch without commits of muster's is measured once.
func BenchmarkFirstDecision(b *testing.B) {
	inArenas(b, func(a *arena) {
		a.simulate(time.Now())
		a.build(3, time.Minute)
		decide := func() float64 {
			a.buildkite.AdvanceTo(time.Now())
			begin := time.Now()
			m := a.muster(a.binary, "muster", "--once", "--dry-run")
			m.await("dry run: dispatched")
			took := bench.Milliseconds(time.Since(begin))
			check(a.b, m.end())
			return took
		}
		first := decide()
		a.age()
		var own, clone []float64
		for range 7 {
			own = append(own, decide())
			begin := time.Now()
			git := exec.Command("git", "clone", "--quiet", "--depth=1", "--filter=blob:none", "--sparse", a.git.URL+"/fleet.git", ".")
			git.Dir = a.b.TempDir()
			check(a.b, git.Run())
			clone = append(clone, bench.Milliseconds(time.Since(begin)))
		}
		bench.Row(a.b, "program: process start to first decision", bench.Median(own))
		bench.Row(a.b, "program: first decision without commits of muster's", first)
		if a.size == "large" { // on small repositories the start of the process alone takes longer than a clone
			bench.Row(a.b, "program: first decision / git clone, as above", bench.Median(own)/bench.Median(clone))
		}
	})
}

// BenchmarkPeak runs the program as it is shipped, with its own clock, through
// its start and fifteen ticks, each with a dispatch; and, on a branch without commits of
// muster's, through its start alone.
func BenchmarkPeak(b *testing.B) {
	inArenas(b, func(a *arena) {
		a.simulate(time.Now())
		a.onPoll(func() {
			a.buildkite.AdvanceTo(time.Now())
			a.build(1, time.Hour)
		})
		m := a.muster(a.binary, "muster", "--dry-run")
		m.await("dry run: dispatched")
		first, _ := m.memory()
		check(a.b, m.Process.Kill())
		a.age()
		m = a.muster(a.binary, "muster", "--interval=1s")
		for range 15 {
			m.await("msg=dispatched")
		}
		peak, _ := m.memory()
		bench.Row(a.b, "program: peak memory", peak)
		bench.Row(a.b, "program: peak memory without commits of muster's", first)
		bench.Row(a.b, "program: bytes sent by the 15th push", float64(a.pushed.Load()))
	})
}

// BenchmarkTicks runs the program through many ticks, each of which
// dispatches and retires, and looks at its memory and at the repository.
func BenchmarkTicks(b *testing.B) {
	const ordered = "Operation: dispatch"
	inArenas(b, func(a *arena) {
		a.age()
		a.simulate(start.Add(-15 * time.Second))
		cluster := &simulation.Cluster{Buildkite: a.buildkite, BuildkiteCluster: a.queue,
			Fate: simulation.Faults{}.Fates([2]time.Duration{10 * time.Second, 20 * time.Second}, rand.New(rand.NewPCG(1, 1)))}
		syncer, err := gitops.New(gitops.Config{URL: a.git.URL + "/fleet.git"})
		check(a.b, err)
		began, resume := make(chan struct{}), make(chan struct{})
		defer close(resume)
		a.onPoll(func() {
			select {
			case began <- struct{}{}:
				<-resume
			case <-a.b.Context().Done():
				return
			}
			head, err := syncer.Head(context.Background())
			if err == nil {
				err = cluster.Sync(head.Tree, "overlays/default")
			}
			if err != nil {
				panic(err)
			}
			a.buildkite.Advance(15 * time.Second)
			a.build(1, 40*time.Second)
		})
		orders, commits, loose := a.commits(ordered), a.commits(""), a.loose()
		m := a.muster(os.Args[0], "ticking")
		var early, late float64
		for tick := range *bench.Ticks + 1 {
			if !m.read(func(string) bool { return false }, began) {
				a.b.Fatalf("muster ended before tick %d:\n%s", tick, &m.log)
			}
			if _, late = m.memory(); tick == *bench.Ticks/10 {
				early = late
			}
			if tick < *bench.Ticks {
				resume <- struct{}{}
			}
		}
		check(a.b, m.Process.Kill())
		_ = m.Wait()
		bench.Row(a.b, "program: memory growth over the ticks, each with a push", late-early)
		a.growth(a.commits(ordered)-orders, a.commits("")-commits, a.loose()-loose)
	})
}

// BenchmarkCrowd dispatches into an overlay in which ten thousand dispatches
// are alive: what that sends, and what it takes of memory.
func BenchmarkCrowd(b *testing.B) {
	const crowd = 10_000
	inArenas(b, func(a *arena) {
		if a.size != "large" {
			return
		}
		a.age()
		now := time.Now()
		a.simulate(now)
		a.build(crowd+1, time.Hour)
		head, err := gitops.New(gitops.Config{URL: a.git.URL + "/fleet.git"})
		check(a.b, err)
		at, err := head.Head(context.Background())
		check(a.b, err)
		loaded, err := fleet.NewLoader("overlays").Load(at.Tree)
		check(a.b, err)
		var dispatches []plan.Dispatch
		for i := range crowd { // a multiplication by an odd number gives each its own ID
			dispatches = append(dispatches, plan.Dispatch{ID: fmt.Sprintf("default-%08x", uint32(i)*2_654_435_761), Purpose: plan.ForDemand, Agents: 1,
				At: now.UTC().Truncate(time.Second), NotAfter: now.UTC().Truncate(time.Second).Add(15 * time.Minute), IdleTimeout: 5 * time.Minute})
		}
		_, changes, err := loaded[0].Add(dispatches)
		check(a.b, err)
		_, err = a.repo.Commit("Dispatch many\n", now, changes...)
		check(a.b, err)
		a.onPoll(func() { a.buildkite.AdvanceTo(time.Now()) }) // the start takes longer than clocks may differ
		m := a.muster(a.binary, "muster", "--interval=2s")
		m.await("msg=dispatched")
		peak, _ := m.memory()
		bench.Row(a.b, "10,000 live dispatches: bytes sent by one more", float64(a.pushed.Load()))
		bench.Row(a.b, "10,000 live dispatches: peak memory", peak)
	})
}
