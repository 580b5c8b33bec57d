package generator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops/branch"
)

// drawMore draws what real agents and people do beyond a theme's faults, from
// dice of its own: the rest of a seed's world stays what it was.
func drawMore(s *shape) {
	r := rand.New(rand.NewPCG(s.seed, 5))
	s.linger = []simulation.Linger{simulation.Streaming, simulation.Polling, simulation.OldStreaming}[r.IntN(3)]
	r.IntN(2) // a draw that nothing uses any more: the others stay as they were
	has := func(theme string) bool {
		return (s.theme == theme || s.theme == "everything") && r.IntN(2) == 0
	}
	if has("network") {
		s.rates.refusals, s.rates.lost = upTo(r, 4), upTo(r, 10)
	}
	if has("people") {
		s.rates.edits = 1 + upTo(r, 8)
		s.clusters = s.inCluster && r.IntN(2) == 0
	}
	if has("queues") {
		s.rates.fleeting = upTo(r, 12)
	}
	if has("queues") {
		s.namesake = drawNamesake(r, s.overlays[0])
	}
	if has("cluster") {
		s.rates.warmDeaths = 1 + r.IntN(2)
	}
	if has("people") {
		s.rates.tampers = 1 + upTo(r, 15)
		s.patches = r.IntN(2) == 0
	}
	if has("cluster") {
		s.rates.twin = upTo(r, 0.2)
	}
	if s.clusters {
		for _, o := range s.overlays {
			o.spec.cluster = "ci"
		}
	}
	s.metrics = drawMetrics(s.seed)
	drawStacks(s)
	drawHooks(s)
}

// home is the Buildkite cluster that policies name where nobody edits them.
func (w *scenario) home() string {
	if w.clusters {
		return "ci"
	}
	return ""
}

// beginMore plans those faults.
func (w *scenario) beginMore() {
	r := rand.New(rand.NewPCG(w.seed, 6))
	until := func(longest time.Duration) time.Time {
		t := w.server.Now().Add(time.Second + time.Duration(r.Int64N(int64(longest))))
		if end := scenarioStart().Add(w.length); t.After(end) {
			return end
		}
		return t
	}
	w.work.each(w, r, w.rates.refusals, func() func() {
		return func() {
			t := until(7 * time.Minute)
			w.trace("Buildkite refuses agents until %s", t.Format("15:04:05"))
			w.server.RefuseAgents(w.server.Now(), t)
		}
	})
	w.work.each(w, r, w.rates.lost, func() func() {
		return func() {
			t := until(time.Minute)
			w.trace("answers to registering are lost until %s", t.Format("15:04:05"))
			w.server.LoseAnswers(w.server.Now(), t)
		}
	})
	w.work.each(w, r, w.rates.edits, func() func() { return func() { w.editPolicy(r) } })
	w.beginTampering()
	w.work.each(w, r, w.rates.fleeting, func() func() {
		queue := w.queues()[r.IntN(len(w.queues()))]
		spec := fakebuildkite.Build{Cluster: w.cluster, Steps: []fakebuildkite.Step{{
			Agents: w.work.rules(w, r, queue), Parallelism: 1 + r.IntN(6), Duration: w.work.duration(r),
		}}}
		after := time.Duration(r.Int64N(int64(time.Minute)))
		return func() {
			id := w.server.CreateBuild(spec)
			w.server.At(w.server.Now().Add(after), func() { w.server.CancelBuild(id) })
		}
	})
	for range w.rates.warmDeaths {
		k, after := w.overlays[r.IntN(len(w.overlays))].kube, time.Duration(r.Int64N(int64(40*time.Second)))
		from, length := time.Duration(r.Int64N(int64(w.length))), time.Duration(r.Int64N(int64(time.Hour)))
		w.at(from, func() { w.trace("%s: warm pool dies after %s", k.overlay, after); k.warmDies = 1 + after })
		w.at(from+length, func() { w.trace("%s: warm pool lives", k.overlay); k.warmDies = 0 })
	}
}

// editPolicy is a person who changes a policy while agents live by the old one.
func (w *scenario) editPolicy(r *rand.Rand) {
	o := w.overlays[r.IntN(len(w.overlays))]
	p := &o.spec
	switch r.IntN(8) {
	case 0:
		p.idle = time.Duration(30+r.IntN(570)) * time.Second
	case 1, 2:
		p.upkeepIdle = []time.Duration{10 * time.Minute, 20 * time.Minute, time.Hour, 4 * time.Hour}[r.IntN(4)]
	case 3:
		p.lookahead = 50 * r.IntN(3)
	case 4:
		p.lease = time.Duration(3+r.IntN(13)) * time.Minute
	case 5:
		if w.clusters {
			w.audit.writeOffInFlight(o)
			w.editCluster(o, time.Duration(r.Int64N(int64(5*time.Minute))))
		}
	case 6:
		w.audit.writeOffInFlight(o)
		w.editTags(o, r)
	case 7:
		p.max = max(p.min, p.max+r.IntN(11)-5)
	}
	o.note(w.since())
	w.edit(fmt.Sprintf("policy of %s: %v %+v", o.name, o.tags, *p), branch.Change{Path: o.path() + "/scaling.yaml", Content: o.policyText()})
}

// editCluster moves an overlay to another cluster of Buildkite, and back: first
// the policy, and somewhat later the agents' token.
func (w *scenario) editCluster(o *overlay, token time.Duration) {
	to, id := "second", w.second
	if o.spec.cluster == to {
		to, id = "ci", w.cluster
	}
	o.spec.cluster = to
	w.server.At(w.server.Now().Add(token), func() {
		if o.spec.cluster == to {
			w.trace("%s: the token is of %s", o.name, to)
			o.kube.BuildkiteCluster = id
		}
	})
}

// editTags gives an overlay a tag that jobs ask for soon after, or takes it back,
// or one that it had from the first.
func (w *scenario) editTags(o *overlay, r *rand.Rand) {
	const tag = "team=x"
	jobs, after, dice := 1+r.IntN(4), time.Duration(r.Int64N(int64(5*time.Minute))), r.IntN(3)
	switch i := slices.Index(o.tags, tag); {
	case i >= 0:
		o.tags = slices.Delete(slices.Clone(o.tags), i, i+1)
	case dice == 0 && len(o.tags) > 0:
		o.tags = o.tags[:len(o.tags)-1]
	default:
		o.tags = append(slices.Clone(o.tags), tag)
		w.server.At(w.server.Now().Add(after), func() {
			w.server.CreateBuild(fakebuildkite.Build{Cluster: w.cluster, Steps: []fakebuildkite.Step{{
				Agents: []string{"queue=" + o.spec.queue, tag}, Parallelism: jobs, Duration: time.Minute,
			}}})
		})
	}
}

// drawNamesake draws an overlay of another fleet of the same organisation, with the
// name of one of this fleet's, and in its queue or in another.
func drawNamesake(r *rand.Rand, of *overlay) *overlay {
	return &overlay{name: of.name, spec: policy{
		queue: []string{of.spec.queue, "other"}[r.IntN(2)], min: r.IntN(3), max: 3 + r.IntN(10), buffer: r.IntN(3),
		lease: 5 * time.Minute, idle: 2 * time.Minute, upkeepIdle: 30 * time.Minute,
	}}
}

// addNamesake adds the other fleet: its repository, its muster and its cluster.
func (w *scenario) addNamesake() {
	o := w.namesake
	if o == nil {
		return
	}
	repo := newFleet(w.server.Now, files([]*overlay{o}))
	repo.edit("begins the other fleet", branch.Change{Path: "README.md", Content: []byte("Another fleet.\n")})
	w.others = &kube{
		Cluster: simulation.Cluster{
			Buildkite: w.server, BuildkiteCluster: w.cluster,
			Registered: func(p *simulation.Pod) { w.foreign[p.Agent] = true },
		},
		fleet: repo, overlay: o.path(), random: rand.New(rand.NewPCG(w.seed, 300)), lag: 30 * time.Second,
		startup: [2]time.Duration{10 * time.Second, 40 * time.Second}, onProblem: w.audit.fail,
		linger: w.linger, lingers: rand.New(rand.NewPCG(w.seed, 301)),
	}
	w.others.start()
	m := &muster{w: w, name: "muster of the other fleet", repo: repo, next: scenarioStart(), good: scenarioStart()}
	m.start()
	w.other = m
	repo.seen = func(pushed []*commit) {
		for _, c := range pushed {
			if c.operation != nil {
				w.audit.checkFleet(m, c, o.name)
			}
		}
	}
}
