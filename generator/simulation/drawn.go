package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// DrawnLoads is the number of drawn workloads: their seeds are 1 to 100. They were fixed before any rule of muster
// was tuned on them, and are not to be exchanged for others.
const DrawnLoads = 100

// Startups are the kinds of start-up times of drawn workloads: warm nodes, the default, and new nodes.
var Startups = [][2]time.Duration{
	{8 * time.Second, 20 * time.Second}, {25 * time.Second, 70 * time.Second}, {time.Minute, 4 * time.Minute},
}

// organisation is what a drawn workload is made from.
type organisation struct {
	jobsADay           float64
	zones              []float64 // hours ahead of Greenwich
	from, to           float64   // the working day
	night, weekend     float64   // how busy it is then, of 1
	cron, queue        time.Duration
	cronJobs, batch    int
	cancelled, failing float64 // shares of builds and of steps
	pipelines          []pipeline
	start              int // day of the week, 0 is Monday
	startup            [2]time.Duration
}

// pipeline is a kind of builds: stages that wait for each other.
type pipeline struct {
	uploads bool
	stages  []stage
}

// stage is a step with its number of jobs and their median duration, which they differ from by exp(spread).
type stage struct {
	jobs   int
	median time.Duration
	spread float64
}

func (p pipeline) jobs() (n int) {
	if p.uploads {
		n++
	}
	for _, s := range p.stages {
		n += s.jobs
	}
	return n
}

// drawOrganisation draws the organisation of a seed.
func drawOrganisation(seed uint64) organisation {
	r := rand.New(rand.NewPCG(seed, streamDrawn))
	between := func(least, most float64) float64 { return least + (most-least)*r.Float64() }
	logarithmic := func(least, most float64) float64 { return least * math.Pow(most/least, r.Float64()) }
	sometimes := func(share, least, most float64) float64 {
		if x := between(least, most); r.Float64() < share {
			return x
		}
		return 0
	}
	o := organisation{
		jobsADay: logarithmic(5, 5000), from: between(7, 10), night: between(0, 0.1), weekend: between(0, 0.25),
		cancelled: sometimes(0.5, 0.02, 0.3), failing: sometimes(0.7, 0.01, 0.1),
		start: r.IntN(7), startup: Startups[r.IntN(len(Startups))],
	}
	if o.to = o.from + between(7, 11); o.jobsADay > 1000 {
		o.start %= 5 // its one day is a working day
	}
	for range 1 + r.IntN(3) {
		o.zones = append(o.zones, float64(r.IntN(24)-11))
	}
	uploads, median := r.Float64(), logarithmic(20, 1200)
	for range 1 + r.IntN(6) {
		p := pipeline{uploads: r.Float64() < uploads}
		stages, fan := 1, 1
		switch r.IntN(4) {
		case 0: // a single job
		case 1: // fan-out
			fan = int(logarithmic(2, min(60, 2+o.jobsADay/10)))
		case 2: // wait steps around a fan-out
			stages, fan = 2+r.IntN(2), int(logarithmic(2, min(30, 2+o.jobsADay/10)))
		default: // a chain
			stages = 3 + r.IntN(8)
		}
		for i := range stages {
			s := stage{1, time.Duration(median * math.Exp(0.7*r.NormFloat64()) * float64(time.Second)), between(0.1, 0.8)}
			if i == stages/2 {
				s.jobs = fan
			}
			s.median = min(max(s.median, 10*time.Second), 40*time.Minute)
			p.stages = append(p.stages, s)
		}
		o.pipelines = append(o.pipelines, p)
	}
	if r.IntN(2) == 0 {
		o.cron, o.cronJobs = []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour}[r.IntN(3)], 1+int(o.jobsADay*between(0.002, 0.01))
	}
	if r.IntN(3) == 0 {
		o.queue, o.batch = time.Duration(between(0.5, 3)*float64(time.Hour)), 2+r.IntN(2+int(o.jobsADay/200))
	}
	return o
}

// busy is how busy the organisation is at a time after the start, 0 to 1.
func (o organisation) busy(hour float64) float64 {
	sum := 0.0
	for _, ahead := range o.zones {
		local := hour + ahead + 24*float64(o.start+7)
		share, h := o.night, math.Mod(local, 24)
		if h >= o.from && h < o.to {
			share = 1
		}
		if int(local/24)%7 >= 5 {
			share *= o.weekend
		}
		sum += share
	}
	return sum / float64(len(o.zones))
}

// Drawn returns the workload of a seed. All of its parameters are drawn: size, working hours, shapes and durations of
// builds, failures and the start-up time of agents. It is three days long, or one for more than 1,000 jobs a day.
func Drawn(seed uint64) Load {
	o := drawOrganisation(seed)
	l := Load{
		modelled: true,
		Name:     fmt.Sprintf("drawn-%d", seed), Length: 72 * time.Hour, startup: o.startup, start: Start().AddDate(0, 0, o.start),
		About: fmt.Sprintf("drawn: about %.0f jobs a working day, start-up %s to %s", o.jobsADay, o.startup[0], o.startup[1]),
		generate: func(g *generation) {
			g.random = rand.New(rand.NewPCG(g.random.Uint64(), seed))
			g.drawn(o)
		},
	}
	if o.jobsADay > 1000 {
		l.Length = 24 * time.Hour
	}
	return l
}

// drawn adds the builds of an organisation.
func (g *generation) drawn(o organisation) {
	jobs, open := 0, 0.0
	for _, p := range o.pipelines {
		jobs += p.jobs()
	}
	for hour := range 24 { // of a working day in all zones
		for _, ahead := range o.zones {
			if h := math.Mod(float64(hour)+ahead+24, 24); h >= o.from && h < o.to {
				open++
			} else {
				open += o.night
			}
		}
	}
	builds := o.jobsADay * float64(len(o.pipelines)) / float64(jobs)
	every := time.Duration(open / float64(len(o.zones)) / builds * float64(time.Hour))
	build := func(at time.Duration) { g.build(o, at) }
	g.thinned(every, o.busy, build)
	for at := o.cron; o.cron > 0 && at < g.length; at += o.cron {
		for range o.cronJobs {
			g.add(at+g.exponential(time.Second), g.step(o, o.pipelines[0].stages[0], 1))
		}
	}
	for at := o.queue; o.queue > 0 && at < g.length; at += o.queue {
		for n := 0; n < o.batch && o.busy(at.Hours()) > 0.3; n++ {
			build(at + g.exponential(2*time.Second))
		}
	}
}

// build adds a build of one of the pipelines.
func (g *generation) build(o organisation, at time.Duration) {
	n := g.random.IntN(len(o.pipelines))
	p := o.pipelines[n]
	var steps []fakebuildkite.Step
	for i, s := range p.stages {
		if i > 0 {
			steps = append(steps, wait())
		}
		steps = append(steps, g.step(o, s, s.jobs))
	}
	cancelled := g.random.Float64() < o.cancelled
	if p.uploads {
		for i := range steps {
			steps[i].Label, steps[i].Retries = fmt.Sprintf("uploaded %d", i+1), retries
		}
		steps = []fakebuildkite.Step{{Label: "upload", Duration: g.within(4*time.Second, 12*time.Second), Uploads: steps}}
	}
	g.add(at, steps...)
	added := &g.arrivals[len(g.arrivals)-1]
	added.Build.Pipeline = fmt.Sprintf("pipeline-%d", n+1)
	if cancelled {
		added.Cancel = time.Second + g.exponential(5*time.Minute)
	}
}

func (g *generation) step(o organisation, s stage, jobs int) fakebuildkite.Step {
	d := time.Duration(float64(s.median) * math.Exp(s.spread*g.random.NormFloat64())).Truncate(time.Second)
	step := fakebuildkite.Step{Parallelism: jobs, Duration: min(max(d, 5*time.Second), 2*time.Hour)}
	if g.random.Float64() < o.failing {
		step.Fail = 1
	}
	return step
}
