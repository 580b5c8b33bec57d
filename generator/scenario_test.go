package generator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// scenarioStart is a Monday.
func scenarioStart() time.Time { return time.Date(2026, time.January, 5, 6, 0, 0, 0, time.UTC) }

// shape is a scenario: everything that a seed determines and that does not change.
type shape struct {
	seed           uint64
	theme          string
	length         time.Duration // of the part with faults
	every          time.Duration // between two ticks of a muster
	musters        int
	http           bool // the real client asks, not a shortcut
	inCluster      bool // of Buildkite
	overlays       []*overlay
	rates          rates
	work           work
	instant        bool          // a back-off takes no time
	stagger        time.Duration // between the musters' first ticks
	perPage        int
	userLimit      int    // requests a minute; zero is no limit
	shuffle        uint64 // salt of the order in which things are listed
	linger         simulation.Linger
	namesake       *overlay // of another fleet of the organisation
	clusters       bool     // Buildkite has a second one, with the same queues
	patches        bool     // syncers patch Jobs that are there
	metrics        metricsShape
	stacks         bool // the Stacks API tells the jobs
	agentTokenOnly bool // there is no API token beside
	hooks          hookShape
	noLoops        bool // ticks come at set times alone, as several musters must share them
}

// overlay is an overlay and what its people ask for now.
type overlay struct {
	name   string
	tags   []string // further tags, sorted
	first  []string // those of the beginning
	spec   policy
	kube   *kube
	most   int    // the highest max there ever was
	least  int    // the highest min and buffer there ever were
	edges  int    // how often the policy was changed
	before policy // what it was since the last change
	since  time.Duration
	turns  float64 // agents that the idle time-outs of the warm pool have ended by then, at most
	broken int     // files of it that a person has broken
	fixed  time.Time
}

// policy is scaling.yaml.
type policy struct {
	queue, cluster                      string
	min, max, buffer, priority, perHour int
	lookahead                           int // percent
	lease, idle, upkeepIdle             time.Duration
	paused                              bool
	reuse                               reuse
	auto                                bool // the lease goes by boots
	schedule                            schedule
}

// schedule is a window of one and a half hours each day; zero max is none.
type schedule struct{ from, min, max, buffer int }

func (o *overlay) path() string { return "overlays/" + o.name }

func (o *overlay) policyText() []byte {
	p := o.spec
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: %s\n", p.queue)
	if p.cluster != "" {
		fmt.Fprintf(&b, "  cluster: %s\n", p.cluster)
	}
	if len(o.tags) > 0 {
		b.WriteString("  tags:\n")
		for _, t := range o.tags {
			key, value, _ := strings.Cut(t, "=")
			fmt.Fprintf(&b, "    %s: %s\n", key, value)
		}
	}
	fmt.Fprintf(&b, "  min: %d\n  max: %d\n  buffer: %d\n  lookahead: %.2f\n  priority: %d\n  maxPerHour: %d\n  paused: %t\n",
		p.min, p.max, p.buffer, float64(p.lookahead)/100, p.priority, p.perHour, p.paused)
	fmt.Fprintf(&b, "  lease: %s\n  idleTimeout: %s\n  warmIdleTimeout: %s\n", p.leaseText(), p.idle, p.upkeepIdle)
	if p.reuse.uptime > 0 {
		fmt.Fprintf(&b, "  reuse: %s\n", p.reuse.text())
	}
	if c := p.schedule; c.max > 0 {
		fmt.Fprintf(&b, "  schedules:\n  - name: busy @canary-team fixes acme/x#1\n    days: [Mon, Tue, Wed, Thu, Fri, Sat, Sun]\n    from: \"%02d:00\"\n    to: \"%02d:30\"\n    timeZone: Europe/Berlin\n    min: %d\n    max: %d\n    buffer: %d\n",
			c.from, (c.from+1)%24, c.min, c.max, c.buffer)
	}
	return []byte(b.String())
}

// note keeps the highest numbers that the policy ever had; it is called with the
// time since the start when the policy has changed.
func (o *overlay) note(now time.Duration) {
	o.turns += o.turnsUntil(now)
	o.before, o.since = o.spec, now
	o.most = max(o.most, o.spec.max, o.spec.schedule.max)
	o.least = max(o.least, o.spec.min+o.spec.buffer, o.spec.schedule.min+o.spec.schedule.buffer)
	o.edges++
}

// turnsUntil is how many agents of the warm pool leave idle at most, from the last
// change of the policy until now: all of them once in each idle time-out, less the
// time by which they are replaced early.
func (o *overlay) turnsUntil(now time.Duration) float64 {
	idle := o.before.upkeepIdle
	if idle == 0 {
		return 0
	}
	if o.before.reuse.uptime > 0 {
		idle = min(idle, o.before.reuse.uptime)
	}
	lead := max(idle/12, min(5*time.Minute, idle/2)) + idle/6
	kept := max(o.before.min+o.before.buffer, o.before.schedule.min+o.before.schedule.buffer)
	return float64(kept) * float64(now-o.since) / float64(idle-lead)
}

const agentJob = `apiVersion: batch/v1
kind: Job
metadata: {name: agent, namespace: buildkite, annotations: {argocd.argoproj.io/sync-options: "Prune=false,Delete=false", kustomize.toolkit.fluxcd.io/prune: disabled}}
spec:
  completionMode: Indexed
  completions: 1
  parallelism: 1
  backoffLimitPerIndex: 0
  ttlSecondsAfterFinished: 3600
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: agent
          image: "buildkite/agent:3"
          env:
            - {name: TAGS, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['muster.dev/agent-tags']"}}}
            - {name: NOT_AFTER, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['muster.dev/not-after']"}}}
`

const kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: %s\n"

// files is a fleet repository with these overlays.
func files(overlays []*overlay) map[string][]byte {
	all := map[string][]byte{
		"README.md":               []byte("A fleet.\n"),
		"base/job.yaml":           []byte(agentJob),
		"base/kustomization.yaml": fmt.Appendf(nil, kustomization, "[job.yaml]"),
	}
	for _, o := range overlays {
		all[o.path()+"/scaling.yaml"] = o.policyText()
		all[o.path()+"/configmap.yaml"] = fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: buildkite}\n", o.name)
		all[o.path()+"/kustomization.yaml"] = fmt.Appendf(nil, kustomization, "[configmap.yaml, dispatches]")
		all[o.path()+"/template/kustomization.yaml"] = fmt.Appendf(nil, kustomization, "[../../../base]")
		all[o.path()+"/dispatches/kustomization.yaml"] = fmt.Appendf(nil, kustomization, "[]")
	}
	return all
}

// scenario is a fleet with everything around it. One goroutine plays it: whatever
// a seed draws happens in the same order each time.
type scenario struct {
	shape
	server  *fakebuildkite.Server
	cluster string // Buildkite's
	second  string // another cluster of Buildkite, if there is one
	fleet   *fleetRepository
	musters []*muster
	other   *muster // of another fleet, or nil
	others  *kube   // and its cluster
	faults  *rand.Rand
	order   *rand.Rand // of listings
	now     rates      // the current faults
	audit   *audit
	lines   []string
	foreign map[string]bool
	healed  time.Time
	counted *rand.Rand                // dice of the metrics' faults
	hooked  *rand.Rand                // dice of the webhooks' faults
	seen    map[string]int            // how often faults occurred, by name
	pauses  map[string][][2]time.Time // of queues; an open one ends in zero
}

// startScenario returns a scenario whose audit fails the test.
func startScenario(t testing.TB, s shape) *scenario {
	t.Helper()
	var w *scenario
	w = newScenario(s, func(text string) { t.Errorf("seed %d (%s): %s\n%s", s.seed, s.theme, text, w.story()) })
	return w
}

func newScenario(s shape, fail func(text string)) *scenario {
	w := &scenario{
		shape: s, now: s.rates, foreign: map[string]bool{}, seen: map[string]int{}, pauses: map[string][][2]time.Time{},
		faults: rand.New(rand.NewPCG(s.seed, 2)), order: rand.New(rand.NewPCG(s.seed, 1000+s.shuffle)),
	}
	w.server = fakebuildkite.New(fakebuildkite.Options{
		Token: leaktest.BuildkiteToken, Now: scenarioStart(), UserLimit: s.userLimit,
		MetricsPoll: s.metrics.poll, MetricsAge: s.metrics.age, OnAgentEnd: w.agentEnded, BeforeRequest: w.drift,
		BlockedUnfinished: s.seed%2 == 1,
	})
	if s.inCluster {
		w.cluster = w.server.AddCluster("ci")
		for _, key := range append(w.queues(), "other") {
			w.server.AddQueue(w.cluster, key)
		}
		if s.clusters {
			w.second = w.server.AddCluster("second")
			for _, key := range w.queues() {
				w.server.AddQueue(w.second, key)
			}
		}
	}
	w.beginMetrics()
	w.fleet = newFleet(w.server.Now, files(s.overlays))
	w.audit = newAudit(w, fail)
	w.fleet.seen = func(pushed []*commit) {
		w.audit.pushed(pushed)
		w.notifyPush(pushed)
	}
	for i, o := range s.overlays {
		o.note(0)
		o.edges, o.first = 0, o.tags
		o.kube = &kube{
			Cluster: simulation.Cluster{
				Buildkite: w.server, BuildkiteCluster: w.cluster, Nodes: s.rates.nodes, Skew: s.rates.skew, Registered: w.audit.registered, Patches: s.patches,
			},
			fleet: w.fleet, overlay: o.path(), random: rand.New(rand.NewPCG(s.seed, 100+uint64(i))),
			linger: s.linger, lingers: rand.New(rand.NewPCG(s.seed, 200+uint64(i))),
			twin: s.rates.twin, twins: rand.New(rand.NewPCG(s.seed, 300+uint64(i))),
			lag: s.rates.lag, startup: s.rates.startup, noShow: s.rates.noShow, crash: s.rates.crashPod, onProblem: w.audit.fail,
			tampered: map[string]bool{},
		}
		o.kube.start()
	}
	for i := range s.musters {
		w.musters = append(w.musters, w.newMuster(i))
	}
	w.addNamesake()
	w.beginHooks()
	s.work.begin(w)
	w.beginFaults()
	return w
}

// queues are the keys of the queues that overlays serve, each once.
func (s shape) queues() []string {
	var keys []string
	for _, o := range s.overlays {
		if !slices.Contains(keys, o.spec.queue) {
			keys = append(keys, o.spec.queue)
		}
	}
	return keys
}

func (w *scenario) agentEnded(a fakebuildkite.AgentRecord) {
	w.audit.left(a)
	for _, o := range w.overlays {
		o.kube.AgentEnded(a)
	}
	if w.others != nil {
		w.others.AgentEnded(a)
	}
}

// at lets f happen so long after the start.
func (w *scenario) at(after time.Duration, f func()) { w.server.At(scenarioStart().Add(after), f) }

// since is the time since the start.
func (w *scenario) since() time.Duration { return w.server.Now().Sub(scenarioStart()) }

// trace keeps the last events for whoever must find out what went wrong.
func (w *scenario) trace(format string, args ...any) {
	if len(w.lines) >= 400 {
		w.lines = append(w.lines[:0], w.lines[200:]...)
	}
	w.lines = append(w.lines, w.server.Now().Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// edit is a person's commit.
func (w *scenario) edit(what string, changes ...branch.Change) {
	w.trace("person: %s", what)
	w.fleet.edit(what, changes...)
}

// play lets the musters tick until the end, or until done says so.
func (w *scenario) play(until time.Duration, done func() bool) {
	if w.looped() {
		w.playLoops(until, done)
		return
	}
	for {
		next := w.nextMuster()
		if next.next.Sub(scenarioStart()) >= until {
			w.server.AdvanceTo(scenarioStart().Add(until))
			return
		}
		w.server.AdvanceTo(next.next)
		next.tick()
		next.next = next.next.Add(w.every)
		for next.next.Before(w.server.Now()) {
			next.next = next.next.Add(w.every)
		}
		w.audit.tick()
		if done != nil && done() || w.audit.failed {
			return
		}
	}
}

// nextMuster is the one that does something next.
func (w *scenario) nextMuster() *muster {
	all := w.musters
	if w.other != nil {
		all = append(slices.Clone(all), w.other)
	}
	return slices.MinFunc(all, func(a, b *muster) int { return a.next.Compare(b.next) })
}
