package simulation

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// Workload is what arrives in a run.
type Workload struct {
	// Name is what the workload is called.
	Name string
	// Start is when the run begins; zero is [Start].
	Start time.Time
	// Length is how long builds come.
	Length time.Duration
	// Arrivals are the builds, by time.
	Arrivals []Arrival
	// Again returns the workload for another seed; nil if the workload has no generator.
	Again func(seed uint64) Workload
}

// Arrival is one build that comes At so long after the start. It is cancelled when it
// is Cancel old, unless it is over then; zero is never.
type Arrival struct {
	At, Cancel time.Duration
	Build      fakebuildkite.Build
}

// Jobs counts the command steps' jobs of all builds, without retries.
func (w Workload) Jobs() int {
	n := 0
	for _, a := range w.Arrivals {
		for _, s := range a.Build.Steps {
			if s.Type == fakebuildkite.Command {
				n += max(1, s.Parallelism)
			}
		}
	}
	return n
}

// Load is a kind of workload that can be generated.
type Load struct {
	Name, About string
	// Length is how long builds come, unless somebody says otherwise; zero is a day.
	Length   time.Duration
	generate func(g *generation)
	// tags are those of the policy that the jobs are meant for.
	tags []string
	// start is when it begins; zero is [Start].
	start time.Time
	// rough reports that the scenario of the workload has many faults.
	rough bool
}

// Loads are the workloads that are known by name.
func Loads() []Load { return append(plainLoads(), modelled()...) }

// plainLoads show one thing each.
func plainLoads() []Load {
	return []Load{
		{Name: "steady", About: "a job every 20 seconds on average, day and night", generate: steady},
		{Name: "diurnal", About: "builds with a wait step, few at night and many around three in the afternoon", generate: diurnal},
		{Name: "bursts", About: "a quiet queue that gets a thousand jobs at once, three times", generate: bursts},
		{Name: "flaky", About: "steady, with one job in five failing once and retried", generate: flaky},
		{Name: "limited", About: "steady, and builds of forty jobs in a concurrency group of five", generate: limited},
		{Name: "unsatisfiable", About: "steady, and every half hour a job that no agent matches", generate: unsatisfiable},
		{Name: "rough", About: "steady, with scarce and slow nodes, lost agents and failing ticks", generate: steady, rough: true},
	}
}

// Generate makes the workload of a seed and a length; zero is the load's own.
func (l Load) Generate(seed uint64, length time.Duration) Workload {
	length = cmp.Or(length, l.Length, 24*time.Hour)
	g := &generation{random: rand.New(rand.NewPCG(seed, streamJobs)), length: length}
	l.generate(g)
	slices.SortStableFunc(g.arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	again := func(seed uint64) Workload { return l.Generate(seed, length) }
	return Workload{Name: l.Name, Start: l.start, Length: length, Arrivals: g.arrivals, Again: again}
}

// Scenario returns the scenario that the workload is meant for: w itself, or w with the tags that
// the jobs require, or with faults, unless w has its own.
func (l Load) Scenario(w Scenario) Scenario {
	if len(l.tags) > 0 && len(w.Policy.Tags) == 0 {
		w.Policy.Tags = l.tags
	}
	if !l.rough {
		return w
	}
	w.Faults = Faults{
		Nodes: cmp.Or(w.Faults.Nodes, 18), NoShow: cmp.Or(w.Faults.NoShow, 0.01),
		SlowNode: 0.1, NodeTime: [2]time.Duration{time.Minute, 3 * time.Minute},
		Lost: 0.01, LostWithin: 5 * time.Minute,
	}
	w.BuildkiteFails, w.PushFails = 0.02, 0.02
	return w
}

// generation makes one workload.
type generation struct {
	random   *rand.Rand
	length   time.Duration
	arrivals []Arrival
}

// retries is how often Buildkite retries a job that failed or whose agent was
// lost.
const retries = 2

func (g *generation) add(at time.Duration, steps ...fakebuildkite.Step) {
	for i := range steps {
		steps[i].Retries = retries
		if steps[i].Label == "" {
			steps[i].Label = fmt.Sprintf("step %d", i+1)
		}
	}
	g.arrivals = append(g.arrivals, Arrival{At: at, Build: fakebuildkite.Build{Steps: steps}})
}

// poisson calls f at random times, every so often on average.
func (g *generation) poisson(every time.Duration, f func(at time.Duration)) {
	for at := g.exponential(every); at < g.length; at += g.exponential(every) {
		f(at)
	}
}

func (g *generation) exponential(mean time.Duration) time.Duration {
	return time.Duration(g.random.ExpFloat64() * float64(mean)).Truncate(time.Millisecond)
}

// some is a job's duration: most are short, a few long.
func (g *generation) some() time.Duration {
	minutes := 2.5 * math.Exp(0.8*g.random.NormFloat64())
	return max(20*time.Second, time.Duration(min(minutes, 30)*float64(time.Minute)).Truncate(time.Second))
}

const steadily = 20 * time.Second

func steady(g *generation) { g.poisson(steadily, g.job) }

func diurnal(g *generation) {
	busy := func(hour float64) float64 {
		return 0.05 + 0.95*math.Pow(math.Max(0, math.Cos((math.Mod(hour, 24)-15)/24*2*math.Pi)), 2)
	}
	g.thinned(20*time.Second, busy, func(at time.Duration) {
		g.add(at,
			fakebuildkite.Step{Duration: g.some()},
			fakebuildkite.Step{Parallelism: 1 + g.random.IntN(6), Duration: g.some()},
			wait(),
			fakebuildkite.Step{Duration: g.some()})
	})
}

func bursts(g *generation) {
	g.poisson(5*time.Minute, g.job)
	for i := range 3 {
		at := g.length*time.Duration(2*i+1)/6 + g.exponential(time.Minute)
		for range 20 {
			g.add(at, fakebuildkite.Step{Parallelism: 50, Duration: g.some()})
		}
	}
}

func flaky(g *generation) {
	g.poisson(steadily, func(at time.Duration) {
		step := fakebuildkite.Step{Duration: g.some()}
		if g.random.IntN(5) == 0 {
			step.Fail = 1
		}
		g.add(at, step)
	})
}

func limited(g *generation) {
	g.poisson(2*steadily, g.job)
	n := 0
	for at := 30 * time.Minute; at < g.length; at += 2 * time.Hour {
		n++
		g.add(at, fakebuildkite.Step{
			Parallelism: 40, Duration: 3 * time.Minute, ConcurrencyGroup: fmt.Sprintf("deploy-%d", n), Concurrency: 5,
		})
	}
}

func unsatisfiable(g *generation) {
	g.poisson(steadily, g.job)
	for at := 30 * time.Minute; at < g.length; at += 30 * time.Minute {
		g.add(at, fakebuildkite.Step{Duration: g.some(), Agents: []string{"os=beos"}})
	}
}
