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
	// modelled reports that it models a real organisation.
	modelled bool
	// rough reports that the scenario of the workload has many faults.
	rough bool
	// startup is that of its agents; zero is the scenario's.
	startup [2]time.Duration
}

// DefaultLoad is the name of the default workload.
const DefaultLoad = "time-zones"

// Loads are the workloads that are known by name.
func Loads() []Load { return append(plainLoads(), modelled()...) }

// Generate makes the workload of a seed and a length; zero is the load's own.
func (l Load) Generate(seed uint64, length time.Duration) Workload {
	length = cmp.Or(length, l.Length, 24*time.Hour)
	g := &generation{random: rand.New(rand.NewPCG(seed, streamJobs)), length: length}
	l.generate(g)
	slices.SortStableFunc(g.arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return Workload{Name: l.Name, Start: l.start, Length: length, Arrivals: g.arrivals, Modelled: l.modelled}
}

// Scenario returns the scenario that the workload is meant for: w itself, or w with the tags that
// the jobs require, or with faults, unless w has its own;
// or with the start-up time of a drawn workload.
func (l Load) Scenario(w Scenario) Scenario {
	if len(l.tags) > 0 && len(w.Policy.Tags) == 0 {
		w.Policy.Tags = l.tags
	}
	if l.startup[1] > 0 {
		w.Startup = l.startup
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

// Loads of the kinds that real organisations have. What they are made of is invented;
// nothing of muster was tuned on them.

// modelled are the loads of that kind.
func modelled() []Load {
	loads := []Load{
		{Name: "merge-queue", About: "twelve builds of nine jobs at once each half hour by day, and a few between", generate: mergeQueue},
		{Name: "time-zones", About: "three offices, each with its own working day and lunch", generate: timeZones},
		{Name: "fan", About: "one job, then forty at once, then one, twelve times an hour by day", generate: fan},
		{Name: "short-busy", About: "for half an hour, five jobs a second of half a minute each", Length: 30 * time.Minute, generate: shortJobs(200 * time.Millisecond)},
		{Name: "short-calm", About: "a job of half a minute every two seconds, for four hours", Length: 4 * time.Hour, generate: shortJobs(2 * time.Second)},
		{Name: "long", About: "jobs of 40 minutes to two hours, one every ten minutes", generate: long},
		{Name: "cancelled", About: "builds that the next push cancels, a third of them", generate: cancelled},
		{Name: "herd", About: "five thousand jobs at once into a quiet queue", Length: 12 * time.Hour, generate: herd},
		{Name: "weekend", About: "a Saturday and a Sunday with little, and a Monday", Length: 72 * time.Hour, generate: weekend, start: Start().AddDate(0, 0, -2)},
		{Name: "tags", About: "jobs with many different rules, one in twenty for agents of others, gone five minutes later", generate: tagged, tags: []string{"os=linux", "arch=amd64", "size=large", "docker=true", "zone=a"}},
		{Name: "groups", About: "steady, and builds whose deployments share concurrency groups of one to three", generate: groups},
		{Name: "cron", About: "sixty jobs on the hour, ten each quarter, and little between", generate: cron},
		{Name: "chains", About: "builds of twelve steps, each after the one before", generate: chains},
		{Name: "long-chains", About: "builds of 24 steps of ten to thirty minutes, each about as long in every build", Length: 120 * time.Hour, generate: longChains},
	}
	for i := range loads {
		loads[i].modelled = true
	}
	return loads
}

// office is how busy people are at an hour of the day, 0 to 1: from nine to six, with lunch.
func office(hour float64) float64 {
	hour = math.Mod(hour+48, 24)
	bell := func(middle, width float64) float64 { return math.Exp(-math.Pow((hour-middle)/width, 2)) }
	return min(1, bell(11, 1.6)+bell(15.5, 2))
}

// thinned calls f as poisson does, and leaves out as many as a share of the time says.
func (g *generation) thinned(every time.Duration, share func(hour float64) float64, f func(at time.Duration)) {
	g.poisson(every, func(at time.Duration) {
		if g.random.Float64() < share(at.Hours()) {
			f(at)
		}
	})
}

func (g *generation) job(at time.Duration) { g.add(at, fakebuildkite.Step{Duration: g.some()}) }

// within is a duration between two others.
func (g *generation) within(least, most time.Duration) time.Duration {
	return (least + time.Duration(g.random.Int64N(int64(most-least)))).Truncate(time.Second)
}

func wait() fakebuildkite.Step { return fakebuildkite.Step{Type: fakebuildkite.Wait} }

func mergeQueue(g *generation) {
	for at := 8 * time.Hour; at < g.length; at += 30 * time.Minute {
		if hour := math.Mod(at.Hours(), 24); hour < 8 || hour >= 20 {
			continue
		}
		pulse := at + g.exponential(3*time.Minute)
		for range 12 {
			g.add(pulse+g.exponential(2*time.Second),
				fakebuildkite.Step{Parallelism: 8, Duration: g.some()}, wait(), fakebuildkite.Step{Duration: g.some()})
		}
	}
	g.thinned(2*time.Minute, office, g.job)
}

func timeZones(g *generation) {
	for _, ahead := range []float64{10, 1, -8} { // Sydney, Berlin, San Francisco, from Greenwich
		g.thinned(30*time.Second, func(hour float64) float64 { return office(hour + ahead) }, func(at time.Duration) {
			g.add(at, fakebuildkite.Step{Duration: g.some()}, fakebuildkite.Step{Parallelism: 1 + g.random.IntN(4), Duration: g.some()})
		})
	}
}

func fan(g *generation) {
	g.thinned(5*time.Minute, office, func(at time.Duration) {
		g.add(at, fakebuildkite.Step{Duration: g.within(time.Minute, 3*time.Minute)}, wait(),
			fakebuildkite.Step{Parallelism: 40, Duration: g.some()}, wait(), fakebuildkite.Step{Duration: g.within(30*time.Second, 2*time.Minute)})
	})
}

func shortJobs(every time.Duration) func(*generation) {
	return func(g *generation) {
		g.poisson(every, func(at time.Duration) {
			g.add(at, fakebuildkite.Step{Duration: g.within(15*time.Second, 45*time.Second)})
		})
	}
}

func long(g *generation) {
	g.poisson(10*time.Minute, func(at time.Duration) {
		g.add(at, fakebuildkite.Step{Duration: g.within(40*time.Minute, 2*time.Hour)})
	})
}

func cancelled(g *generation) {
	g.thinned(20*time.Second, office, func(at time.Duration) {
		g.add(at, fakebuildkite.Step{Parallelism: 3, Duration: g.some()}, wait(), fakebuildkite.Step{Duration: g.some()})
		if g.random.IntN(3) == 0 {
			g.arrivals[len(g.arrivals)-1].Cancel = time.Second + g.exponential(90*time.Second)
		}
	})
}

func herd(g *generation) {
	g.poisson(5*time.Minute, g.job)
	at := g.length / 3
	for range 100 {
		g.add(at+g.exponential(5*time.Second), fakebuildkite.Step{Parallelism: 50, Duration: g.some()})
	}
}

func weekend(g *generation) {
	g.thinned(20*time.Second, func(hour float64) float64 {
		if hour < 48 {
			return 0.02
		}
		return 0.03 + 0.97*office(hour)
	}, func(at time.Duration) {
		g.add(at, fakebuildkite.Step{Parallelism: 1 + g.random.IntN(3), Duration: g.some()})
	})
}

func tagged(g *generation) {
	asks := [][]string{
		nil, {"os=linux"}, {"os=linux", "arch=amd64"}, {"docker=true"}, {"size=large"}, {"os=*"}, {"zone=a", "docker=*"},
		{"os=linux", "arch=amd64", "size=large", "docker=true"}, {"arch=amd64", "zone=*"},
	}
	others := [][]string{{"os=macos"}, {"arch=arm64"}, {"size=small", "os=linux"}}
	g.poisson(steadily, func(at time.Duration) {
		if g.random.IntN(20) == 0 { // those agents' scaler takes its time
			g.add(at, fakebuildkite.Step{Duration: g.some(), Agents: others[g.random.IntN(len(others))]})
			g.arrivals[len(g.arrivals)-1].Cancel = 5 * time.Minute
			return
		}
		g.add(at, fakebuildkite.Step{Duration: g.some(), Agents: asks[g.random.IntN(len(asks))]})
	})
}

func groups(g *generation) {
	g.poisson(2*steadily, g.job)
	g.thinned(3*time.Minute, office, func(at time.Duration) {
		n := g.random.IntN(6)
		g.add(at, fakebuildkite.Step{Parallelism: 2, Duration: g.some()}, wait(), fakebuildkite.Step{
			Parallelism: 4, Duration: g.within(time.Minute, 3*time.Minute), ConcurrencyGroup: fmt.Sprintf("deploy-%d", n), Concurrency: 1 + n%3,
		})
	})
}

func cron(g *generation) {
	for at := time.Duration(0); at < g.length; at += 15 * time.Minute {
		n := 10
		if at%time.Hour == 0 {
			n = 60
		}
		for range n {
			g.add(at+g.exponential(time.Second), fakebuildkite.Step{Duration: g.some()})
		}
	}
	g.poisson(6*time.Minute, g.job)
}

func chains(g *generation) {
	g.thinned(2*time.Minute, office, func(at time.Duration) {
		g.chain(at, 12, func(int) time.Duration { return g.within(time.Minute, 5*time.Minute) })
	})
}

// chain adds a build of steps, each behind the one before.
func (g *generation) chain(at time.Duration, steps int, duration func(i int) time.Duration) {
	var all []fakebuildkite.Step
	for i := range steps {
		if i > 0 {
			all = append(all, wait())
		}
		all = append(all, fakebuildkite.Step{Duration: duration(i)})
	}
	g.add(at, all...)
}

func longChains(g *generation) {
	const steps = 24
	var usual [steps]time.Duration
	for i := range usual {
		usual[i] = g.within(10*time.Minute, 30*time.Minute)
	}
	g.thinned(20*time.Minute, office, func(at time.Duration) {
		g.chain(at, steps, func(i int) time.Duration { return g.within(usual[i]*19/20, usual[i]*21/20) })
	})
}
