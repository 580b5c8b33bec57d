package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops"
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
		{"muster/generator/plan", "^BenchmarkDecide$/^overlays=50$/^jobs=100000$", "allocs/op", "  allocations", "", 1, 5000},
		{"muster/generator/plan", "^BenchmarkQueues$/^queues=5000$", "ns/op", "decision over 5,000 queues and 60,000 jobs", " ms", 1e6, 0},
		{"muster/generator/plan", "^BenchmarkQueues$", "exponent", "  growth exponent of CPU time over 50, 500 and 5,000 queues", "", 1, 1.3},
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
