package generator_test

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"muster/generator"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops/leaktest"
)

// audit observes a simulation and reports violations. It keeps its own books: from git, from the
// snapshots of each muster, and from what has happened, never from muster's own arithmetic.
//
// The books on agents. Each agent ordered is one index of a dispatch. In the
// end it has worked (one job, or several where its dispatch lets it stay), or it
// was lost: it never registered, or it exited without a job. The agents that have
// worked are never more than the jobs that became runnable; so "ordered no more
// than jobs, upkeep and losses" says that every loss has a cause outside:
//
//   - never registered: its pod did not start, its order was reverted, the syncer was down, there was
//     no node; the lease expired. The cluster records each.
//   - left without a job, ordered for upkeep: that is upkeep, at most min and
//     buffer once for each idle time-out (less the time of the relief), and once for
//     each job after which an agent that stays was idle again: another was kept for it.
//   - left without a job, ordered for a job: somebody else took the job (an
//     agent that is not muster's, one kept for upkeep, or one that stays and has had
//     another before), or it was cancelled
//     or reserved, or its queue was paused; or it was ordered for a job to come
//     (look-ahead); or a person withdrew an order that started anyway; or the circuit breaker of its
//     overlay no longer counted it, another overlay ordered in its place, and it registered anyway; or
//     it was overdue, and others were ordered.
//
// [audit.causes] counts the causes of the last kind, and [audit.checkUnused] asserts that they exist.
type audit struct {
	w      *scenario
	failed bool
	mute   bool // nothing is reported
	report func(text string)
	loader *fleet.Loader
	loaded [2]loadedTree // the last ones

	dispatches map[string]*order
	agents     map[string]*order // by agent
	orders     []*order          // in order
	reserved   int
	loose      int // agents too many that muster could not know of
	revivedAt  map[*overlay]time.Time
	forgotAt   map[*overlay]time.Time
	blocked    map[*overlay]time.Time // when it was last not sound, or no tick was good
	idled      [2]int                 // agents that left without a job: for demand, for upkeep
	idledPause int
	worked     [2]int
	lookahead  int
	again      int
	delayed    int
	astray     [2]int // agents that came with a token of another cluster than the jobs'
	swapped    int
	upcoming   map[string]bool // jobs that agents may have been ordered for in advance
	instead    map[string]int  // by queue: agents ordered in place of others that may still come
	doubled    int             // agents that came though others were ordered in their place
	overdue    int             // the same, because they were late
	opened     bool            // a circuit breaker was open at a commit
	commits    map[ledger.Kind]int
}

// order is a dispatch that was committed.
type order struct {
	plan.Dispatch
	overlay    *overlay
	registered map[int]bool
	agents     map[int]string // the last of each index
	exited     bool           // given up by a person
	retired    bool           // by a muster
	off        map[int]bool   // indexes that a breaker did not count on, so that others were ordered
	given      int            // agents that were late, so that others may have been ordered
}

func newAudit(w *scenario, report func(text string)) *audit {
	return &audit{
		w: w, report: report, loader: fleet.NewLoader("overlays"),
		dispatches: map[string]*order{}, agents: map[string]*order{}, revivedAt: map[*overlay]time.Time{},
		forgotAt: map[*overlay]time.Time{}, blocked: map[*overlay]time.Time{}, commits: map[ledger.Kind]int{}, instead: map[string]int{}, upcoming: map[string]bool{},
	}
}

// fail reports the first thing that must not be.
func (a *audit) fail(text string) {
	if a.mute || a.failed {
		return
	}
	a.failed = true
	a.w.trace("FAILED: %s", text)
	a.report(text)
}

func (a *audit) failf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }

// pushed is called with every push that landed.
func (a *audit) pushed(pushed []*commit) {
	if pushed[0].operation == nil {
		return
	}
	m := a.w.musters[slices.IndexFunc(a.w.musters, func(m *muster) bool { return m.name == pushed[0].who })]
	before := pushed[0].parent
	overlays := a.load(before.tree)
	demand, all := map[string]int{}, map[string]int{}
	for _, c := range pushed {
		a.commits[c.operation.Kind]++
		if found := leaktest.Committed(c.message()); len(found) > 0 {
			a.failf("the commit has %q:\n%s", found, c.message())
		}
		a.checkFiles(c)
		o := overlays[c.operation.Decision.Overlay]
		if c.operation.Kind != ledger.Repair {
			a.checkFleet(m, c, o.Name)
		}
		a.opened = a.opened || o.State.Breaker.Open()
		if o.State.Breaker.Open() && c.operation.Decision.Closes {
			a.checkClosing(c, o)
		}
		switch c.operation.Kind {
		case ledger.Dispatch:
			a.checkOrder(m, c, o)
			demand[o.Policy.Queue] += c.operation.Decision.Figures.Demand
			all[o.Policy.Queue] += c.operation.Decision.Figures.Dispatch
		case ledger.Retire:
			a.checkRetire(m, c, o)
		}
	}
	for _, queue := range a.w.queues() {
		if n := all[queue]; n > 0 {
			a.checkDemand(m, queue, demand[queue], n, overlays, pushed)
		}
	}
	for _, c := range pushed {
		if c.operation.Kind == ledger.Dispatch {
			a.book(c)
		}
	}
	a.checkTree(pushed[len(pushed)-1].tree, pushed)
}

// loadAll reads the overlays of a tree. The last ones are kept: a push is looked at before
// and after, and what is after one is before the next.
func (a *audit) loadAll(t *tree) []fleet.Overlay {
	for _, l := range a.loaded {
		if l.tree == t {
			return l.overlays
		}
	}
	overlays, err := a.loader.Load(t)
	if err != nil {
		a.failf("the tip cannot be loaded: %v", err)
	}
	a.loaded[0], a.loaded[1] = a.loaded[1], loadedTree{t, overlays}
	return overlays
}

// loadedTree are the overlays of a tree.
type loadedTree struct {
	tree     *tree
	overlays []fleet.Overlay
}

func (a *audit) load(t *tree) map[string]plan.Overlay {
	overlays := map[string]plan.Overlay{}
	for _, o := range a.loadAll(t) {
		overlays[o.Name] = o.Overlay
	}
	return overlays
}

// checkFiles asserts that a commit changes only what its kind may.
func (a *audit) checkFiles(c *commit) {
	seen := map[string]bool{}
	dir := c.operation.Path + "/dispatches"
	for _, x := range c.operation.Changes {
		if path.Dir(x.Path) != dir || seen[x.Path] {
			a.failf("%s of %s writes %s", c.operation.Kind, c.operation.Path, x.Path)
		}
		seen[x.Path] = true
		before, there := c.parent.tree.files[x.Path]
		_, isManifest := manifestID(x.Path)
		switch {
		case !isManifest && x.Content == nil && !there:
			a.failf("%s of %s removes %s, which is not there", c.operation.Kind, c.operation.Path, x.Path)
		case !isManifest:
		case c.operation.Kind == ledger.Dispatch && (there || x.Content == nil):
			a.failf("an order changes the manifest %s", x.Path)
		case c.operation.Kind != ledger.Dispatch && (!there || x.Content != nil):
			a.failf("a %s does more than remove %s (%d bytes before)", c.operation.Kind, x.Path, len(before))
		}
	}
}

// checkOrder asserts that an order follows the policy, given what muster can observe.
func (a *audit) checkOrder(m *muster, c *commit, o plan.Overlay) {
	d := c.operation.Decision
	p, _ := o.Policy.During(d.At())
	total := 0
	for _, x := range d.Dispatch {
		total += x.Agents
		if x.Agents > plan.JobAgents {
			a.failf("%s orders %d agents in one Job, at most %d", o.Name, x.Agents, plan.JobAgents)
		}
		if a.dispatches[x.ID] != nil {
			a.failf("the name %s is used twice", x.ID)
		}
	}
	if p.Paused || o.Suspended.Active() {
		a.failf("%s orders %d although paused %t, suspended %q", o.Name, total, p.Paused, o.Suspended)
	}
	for _, q := range m.snapshot.Queues {
		if q.Paused && q.Key == p.Queue && (p.Cluster == "" || p.Cluster == q.ClusterName) { // another cluster's may go on
			a.failf("%s orders %d although muster was told that the queue is paused", o.Name, total)
		}
	}
	if all := a.w.pauses[p.Queue]; a.w.pausedNow(p.Queue) && p.Cluster == a.w.home() && d.At().Sub(all[len(all)-1][0]) > 3*time.Minute {
		a.failf("%s orders %d although the queue has been paused for %s", o.Name, total, d.At().Sub(all[len(all)-1][0]))
	}
	own, starting := 0, a.starting(m, o, d.At())
	for _, x := range m.snapshot.Agents {
		if m.owns(x.Tags, o.Slug()) {
			own++
		}
	}
	own += m.unlisted(o.Slug())
	if own+starting+total > p.Max {
		a.failf("%s orders %d: with %d connected and %d starting that is above %d", o.Name, total, own, starting, p.Max)
	}
	// A retirement of the same push may open or close the breaker.
	if d.State.Breaker.Open() && (total != 1 || !d.Trial) {
		a.failf("%s orders %d though its breaker is open", o.Name, total)
	}
	if p.MaxPerHour > 0 {
		for _, x := range a.orders { // the hour ends at the time that the orders bear
			if x.overlay.name == o.Name && x.At.After(d.Dispatch[0].At.Add(-time.Hour)) && x.At.After(a.forgotAt[x.overlay]) {
				total += x.Agents
			}
		}
		if total > p.MaxPerHour {
			a.failf("%s orders %d agents within an hour, maxPerHour is %d", o.Name, total, p.MaxPerHour)
		}
	}
}

// owns reports whether an agent with the tags is of an overlay of the muster's fleet.
func (m *muster) owns(tags []string, slug string) bool {
	return tagOf(tags, "overlay") == slug && tagOf(tags, "muster") == m.repo.id(slug)
}

// unlisted counts an overlay's agents that are not in the list: those that run a job, and
// those that came and had theirs since the list and may linger, less than 90 seconds
// before the end of the look, or stay.
func (m *muster) unlisted(slug string) int {
	s, n := m.snapshot, 0
	end := later(s.At, s.Until)
	for _, g := range s.Sightings {
		stays := tagOf(g.Tags, "muster-uptime") != ""
		lately := g.Started.After(s.At) && (stays || end.Sub(g.Started) < 90*time.Second)
		if (g.Running || lately) && m.owns(g.Tags, slug) && !slices.ContainsFunc(s.Agents, func(x plan.Agent) bool { return x.ID == g.Agent }) {
			n++
		}
	}
	return n
}

// checkFleet demands that a muster counts each agent of its overlay, and none of
// another fleet whose overlay is called the same.
func (a *audit) checkFleet(m *muster, c *commit, name string) {
	for _, s := range c.operation.Decision.Observation.Overlays {
		if s.Overlay != name {
			continue
		}
		// A repair of an overlay without an identity writes none.
		if id, first := c.operation.Decision.State.Identity.ID, m.repo.id(name); c.operation.Decision.Overlay == name && first != "" && id != first {
			a.failf("%s: the identifier of %s is %q, and was %q", m.name, name, id, first)
		}
		own, namesakes := m.unlisted(name), 0
		for _, x := range m.snapshot.Agents {
			switch {
			case m.owns(x.Tags, name):
				own++
			case tagOf(x.Tags, "overlay") == name && tagOf(x.Tags, "queue") == c.operation.Decision.Queue && !a.w.clusters: // where another cluster has the queue too, they may be there
				namesakes++
			}
		}
		if s.Own+s.Stopping != own || s.OtherFleets > 0 && a.w.namesake == nil || s.OtherFleets < namesakes {
			a.failf("%s: %s counts %d agents and %d of a namesake; it was shown %d and at least %d", m.name, name, s.Own+s.Stopping, s.OtherFleets, own, namesakes)
		}
	}
}

// checkClosing asserts that the breaker closes for a reason: a registered agent after orders without
// any; otherwise an agent that has had a job, or one of the warm pool that is connected.
func (a *audit) checkClosing(c *commit, o plan.Overlay) {
	came, stays, worked := false, false, false
	for _, r := range a.w.server.Agents() {
		x := a.agents[r.ID]
		if x == nil || !slices.ContainsFunc(c.operation.Decision.Retire, func(d plan.Retirement) bool { return d.ID == x.ID }) {
			continue
		}
		came = true
		stays = stays || x.Purpose == plan.ForWarmPool && (r.Ended.IsZero() || c.operation.Decision.At().Before(r.Ended))
		worked = worked || r.Jobs > 0 || r.Job != ""
	}
	good := worked || stays
	if o.State.Breaker.Cause == plan.NeverRegistered {
		good = came
	}
	if !good {
		a.failf("%s: the breaker closes after %q, though agents came %t, stay %t, have had a job %t", o.Name, o.State.Breaker.Cause, came, stays, worked)
	}
}

// starting counts the agents that are ordered and not known to have come, their
// leases not over, as the muster can know it.
func (a *audit) starting(m *muster, o plan.Overlay, at time.Time) int {
	return a.startingOf(m, o, at, func(plan.Dispatch) bool { return true })
}

// useful counts those of them that will come to the cluster that the policy names: until
// they register, they count with the policy's tags, whatever they were ordered with
// (docs/reference/decision.md, "Agents in flight").
func (a *audit) useful(m *muster, o plan.Overlay, at time.Time) int {
	return a.startingOf(m, o, at, ofUse(o))
}

// ofUse reports whether agents of a dispatch are.
func ofUse(o plan.Overlay) func(plan.Dispatch) bool {
	return func(x plan.Dispatch) bool { return x.Cluster == o.Policy.Cluster }
}

func (a *audit) startingOf(m *muster, o plan.Overlay, at time.Time, of func(plan.Dispatch) bool) int {
	n := 0
	for _, x := range a.promised(o.Dispatches, a.w.byPath("overlays/"+o.Name)) {
		if at.After(x.NotAfter.Add(plan.Grace)) || !of(x) {
			continue
		}
		n += x.Agents
		for index := range m.known[x.ID] {
			if index < x.Agents {
				n--
			}
		}
	}
	return n
}

// checkDemand asserts that orders match the jobs in the muster's snapshot that are runnable, matched,
// and not served by an idle or in-flight agent.
func (a *audit) checkDemand(m *muster, queue string, ordered, all int, overlays map[string]plan.Overlay, pushed []*commit) {
	pending, idle, starting, off, trials, upkeep, share := 0, 0, 0, 0, 0, 0, 0.0
	after := a.load(pushed[len(pushed)-1].tree) // a breaker that opens now counts on nothing any more
	var serving []server
	equal := true
	for _, x := range a.w.overlays {
		o := overlays[x.name]
		if x.spec.queue != queue {
			continue
		}
		if o.Policy.Queue == "" {
			equal = false // its policy cannot be read: nobody knows of its agents
			continue
		}
		serving = append(serving, server{o.AgentTags(), o.Policy.Tags, a.w.clusterOf(o.Policy)})
		last := serving[len(serving)-1]
		equal = equal && slices.Equal(last.own, serving[0].own) && last.cluster == serving[0].cluster
		late := 0
		if !o.State.Breaker.Open() && !after[x.name].State.Breaker.Open() {
			late = a.giveUp(m, o, after[x.name].State, pushed)
			starting += a.useful(m, o, m.snapshot.At) - late
		} else if ordered > 0 {
			off += a.writeOff(m, o)
		}
		p, _ := o.Policy.During(m.snapshot.At)
		share = max(share, p.Lookahead)
		upkeep += p.Buffer + max(0, p.Min-a.own(m, o)+late)
	}
	waiting := 0
	for _, j := range m.snapshot.Jobs {
		if !slices.ContainsFunc(serving, func(s server) bool {
			return takes(s.tags, j.Rules) && (s.cluster == "" || j.Cluster == s.cluster)
		}) {
			continue
		}
		switch j.State {
		case plan.JobPending:
			pending++
		case plan.JobUpcoming:
			waiting++
			if share > 0 {
				a.upcoming[j.ID] = true
			}
		}
	}
	ahead := int(math.Ceil(float64(waiting)*share - 1e-9))
	running := map[string]bool{}
	for _, g := range m.snapshot.Sightings {
		running[g.Agent] = running[g.Agent] || g.Running
	}
	for _, x := range m.snapshot.Agents {
		if x.State != plan.AgentIdle || running[x.ID] || spent(x, m.snapshot.At) {
			continue
		}
		if slices.ContainsFunc(serving, func(s server) bool {
			return takes(x.Tags, append([]string{"queue=" + queue}, s.own...)) && (s.cluster == "" || x.Cluster == s.cluster)
		}) {
			idle++
		}
	}
	lookahead := 0
	for _, c := range pushed {
		if d := c.operation.Decision; c.operation.Kind == ledger.Dispatch && d.Queue == queue {
			upkeep += d.Figures.Replacing + d.Figures.Overdue
			lookahead += min(d.Figures.Lookahead, d.Figures.Demand)
			if d.Trial {
				trials++
			}
		}
	}
	if len(serving) == 1 {
		upkeep = all - ordered
	}
	most := pending + ahead
	instead := min(ordered, off)
	if equal {
		unserved, sure := max(0, pending-idle-starting), ordered-trials
		most = unserved + ahead
		instead = max(0, min(sure, unserved)-max(0, pending-idle-starting-off))
		// Several overlays may swap what is on its way: one that is starting is given
		// to its overlay's look-ahead or buffer, and another overlay orders for the job.
		lookahead = min(ahead, max(0, sure-unserved))
		a.swapped += max(0, sure-most)
	}
	a.lookahead += lookahead
	a.instead[queue] = min(a.instead[queue]+instead, off)
	if all > most+trials+upkeep || ordered > pending+ahead+trials {
		a.failf("queue %s: %d agents are ordered for %d jobs with %d ahead, %d idle and %d starting; %d in all\n%s", queue, ordered, pending, ahead, idle, starting, all, decisions(pushed))
	}
}

// writeOff counts the agents for jobs of an overlay that are in flight and not counted
// on, because its circuit breaker is open: "in-flight agents of the overlay do not count
// as supply, and its jobs go to the other overlays of the queue"
// (docs/reference/decision.md, "Circuit breaker"). After orders of which no agent registered,
// nothing in git or Buildkite tells whether those after them will.
func (a *audit) writeOff(m *muster, o plan.Overlay) (n int) {
	for _, d := range a.promised(o.Dispatches, a.w.byPath("overlays/"+o.Name)) {
		x := a.dispatches[d.ID]
		if x == nil || d.Purpose != plan.ForDemand || d.Cluster != o.Policy.Cluster || m.snapshot.At.After(d.NotAfter.Add(plan.Grace)) {
			continue
		}
		for index := range d.Agents {
			if !m.known[d.ID][index] && !x.registered[index] {
				x.off[index] = true
				n++
			}
		}
	}
	return n
}

// server is an overlay that serves a queue: its agents' tags, of which some are the
// policy's own, and their cluster; an empty one is any.
type server struct {
	tags, own []string
	cluster   string
}

// clusterOf is the cluster that a policy names, by its identifier.
func (w *scenario) clusterOf(p plan.Policy) string {
	switch p.Cluster {
	case "ci":
		return w.cluster
	case "second":
		return w.second
	}
	return ""
}

// spent reports whether an agent that a muster has ordered has had its one job, or, where
// it stays, its uptime: it lingers, and takes no other.
func spent(x plan.Agent, at time.Time) bool {
	if seconds, err := strconv.Atoi(tagOf(x.Tags, "muster-uptime")); err == nil {
		return at.Sub(x.Connected) >= time.Duration(seconds)*time.Second
	}
	return tagOf(x.Tags, "dispatch") != "" && !x.LastJobFinished.IsZero()
}

// own counts an overlay's agents as a muster knows them, but for those that another
// queue has: an edit of their manifest made them so.
func (a *audit) own(m *muster, o plan.Overlay) int {
	n := a.useful(m, o, m.snapshot.At)
	cluster := a.w.clusterOf(o.Policy)
	for _, x := range m.snapshot.Agents {
		if x.State != plan.AgentStopping && m.owns(x.Tags, o.Slug()) && takes(x.Tags, []string{"queue=" + o.Policy.Queue}) && !(x.State == plan.AgentIdle && spent(x, m.snapshot.At)) && (cluster == "" || x.Cluster == cluster) {
			n++
		}
	}
	return n
}

// decisions prints what was decided.
func decisions(pushed []*commit) string {
	var b strings.Builder
	for _, c := range pushed {
		d := c.operation.Decision
		fmt.Fprintf(&b, "%s %s: suspended %q trial %t sum %+v\n  jobs %+v\n  overlays %+v\n", d.Overlay, c.operation.Kind, d.Suspended.Code, d.Trial, d.Figures, d.Observation.Jobs, d.Observation.Overlays)
	}
	return b.String()
}

// takes reports whether an agent with the tags takes a job with the rules.
func takes(tags, rules []string) bool {
	return !slices.ContainsFunc(rules, func(rule string) bool {
		key, wild := strings.CutSuffix(rule, "*")
		return !slices.Contains(tags, rule) && !(wild && slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, key) }))
	})
}

// checkRetire demands a reason for each manifest that leaves git.
func (a *audit) checkRetire(m *muster, c *commit, o plan.Overlay) {
	for _, r := range c.operation.Decision.Retire {
		all := a.promised(o.Dispatches, a.w.byPath(c.operation.Path))
		i := slices.IndexFunc(all, func(x plan.Dispatch) bool { return x.ID == r.ID })
		if i < 0 {
			a.failf("%s retires %s, which is not there", o.Name, r.ID)
			return
		}
		x := all[i]
		if booked := a.dispatches[r.ID]; booked != nil {
			booked.retired = booked.retired || r.Reason != plan.Withdrawn
		}
		if r.Reason == plan.Withdrawn {
			a.checkWithdrawal(m, o, x)
			continue
		}
		if a.w.edited(c.parent.tree, c.operation.Path, r.ID) && slices.ContainsFunc(m.snapshot.Agents, func(g plan.Agent) bool { return tagOf(g.Tags, "dispatch") == r.ID }) {
			a.failf("%s retires %s, whose manifest was edited and whose agents are connected", o.Name, r.ID)
		}
		if c.operation.Decision.At().After(x.NotAfter.Add(plan.Grace)) {
			continue
		}
		for index := range x.Agents {
			if !m.known[x.ID][index] {
				a.failf("%s retires %s, though index %d was never seen and may still come", o.Name, r.ID, index)
			}
		}
	}
}

// checkWithdrawal asserts that no agent of a withdrawn order has registered, and that its template has
// changed.
func (a *audit) checkWithdrawal(m *muster, o plan.Overlay, x plan.Dispatch) {
	for _, other := range o.Dispatches {
		if other.At.Equal(x.At) && len(m.known[other.ID]) > 0 {
			a.failf("%s withdraws %s, though agents of %s have come", o.Name, x.ID, other.ID)
		}
	}
	if x.Template == o.Template {
		a.failf("%s withdraws %s, whose template has not changed", o.Name, x.ID)
	}
}

// checkTree asserts that the head is valid except for people's edits.
func (a *audit) checkTree(t *tree, pushed []*commit) {
	loaded := a.loadAll(t)
	for i, o := range loaded {
		x := a.w.byPath(o.Path)
		if err := loaded[i].Err(); err != nil {
			if x.broken == 0 {
				a.failf("the tip does not load: %v", err)
			}
			continue
		}
		if a.w.now.unreachable > 0 && !slices.ContainsFunc(pushed, func(c *commit) bool { return c.operation.Path == o.Path }) {
			continue // it may be suspended, because the log cannot be read
		}
		if err := loaded[i].InvalidState(); err != nil {
			a.failf("%s: after a push: %v", o.Name, err)
		}
		var list struct{ Resources []string }
		if err := yaml.Unmarshal(t.files[o.Path+"/dispatches/kustomization.yaml"], &list); err != nil {
			a.failf("%s: the list: %v", o.Name, err)
		}
		var there []string
		for _, name := range t.below(o.Path + "/dispatches") {
			if _, ok := manifestID(o.Path + "/dispatches/" + name); ok && strings.HasSuffix(name, ".yaml") {
				there = append(there, name)
			}
		}
		if !slices.Equal(list.Resources, there) {
			a.failf("%s lists %v and holds %v", o.Name, list.Resources, there)
		}
		a.checkState(o.Overlay, x, pushed)
	}
}

// checkState asserts that state.yaml contains the orders of the books after a push to the overlay: each one
// whose agents may still come, with the values that it was made with, and no other.
func (a *audit) checkState(o plan.Overlay, x *overlay, pushed []*commit) {
	at := slices.IndexFunc(pushed, func(c *commit) bool { return c.operation.Path == x.path() })
	if at < 0 || a.w.server.Now().Before(x.fixed.Add(time.Minute)) {
		return
	}
	now := pushed[at].operation.Decision.At()
	for _, d := range o.Dispatches {
		b := a.dispatches[d.ID]
		if b == nil || d.Agents != b.Agents || !d.At.Equal(b.At) || !d.NotAfter.Equal(b.NotAfter) || d.Purpose != b.Purpose || !slices.Equal(d.Tags, b.Tags) {
			a.failf("%s: the state has %+v, which was ordered as %+v", o.Name, d, b)
		}
	}
	for _, b := range a.orders {
		there := slices.ContainsFunc(o.Dispatches, func(d plan.Dispatch) bool { return d.ID == b.ID })
		if b.overlay == x && !there && !b.retired && !b.exited && !now.After(b.NotAfter.Add(plan.Grace)) && len(b.registered) < b.Agents {
			a.failf("%s: the state lacks %s, whose agents may still come", o.Name, b.ID)
		}
	}
}

// book enters an order.
func (a *audit) book(c *commit) {
	d := c.operation.Decision
	o := a.w.byPath(c.operation.Path)
	for _, x := range d.Dispatch {
		entry := &order{Dispatch: x, overlay: o, registered: map[int]bool{}, agents: map[int]string{}, off: map[int]bool{}}
		a.dispatches[x.ID] = entry
		a.orders = append(a.orders, entry)
	}
	if i := slices.IndexFunc(a.w.musters, func(m *muster) bool { return m.name == c.who }); i >= 0 {
		a.loose += a.w.musters[i].hidden
	}
}

// withdrawn is called before a person says that the agents of an order that have not
// come will not: they may come anyway.
func (a *audit) withdrawn(id string) {
	if x := a.dispatches[id]; x != nil && !x.exited {
		x.exited = true
		a.loose += x.Agents - len(x.registered)
	}
}

// writeOffInFlight counts the in-flight agents of an overlay as loose. It is called before a person
// breaks a file of the overlay, or gives its policy other tags or another cluster: the agents may then
// be of no use for the jobs that they were ordered for.
func (a *audit) writeOffInFlight(o *overlay) {
	for _, x := range a.orders {
		if x.overlay == o && !a.w.server.Now().After(x.NotAfter) {
			a.loose += x.Agents - len(x.registered)
		}
	}
}

func (a *audit) forget(o *overlay)  { a.forgotAt[o] = a.w.server.Now() }
func (a *audit) revived(o *overlay) { a.revivedAt[o] = a.w.server.Now() }

// registered is called when an agent has registered.
func (a *audit) registered(p *simulation.Pod) {
	x := a.dispatches[p.Job.Name]
	if x == nil {
		a.failf("the cluster runs %s, which was never ordered", p.Job.Name)
		return
	}
	if p.Double && x.registered[p.Index] { // nobody ordered it: it may take a job from one who was
		a.w.foreign[p.Agent] = true
		a.w.seen["twin"]++
		a.checkOverdue(p, x)
		return
	}
	if other := x.agents[p.Index]; x.overlay.kube.Pod(other) != nil {
		a.failf("%s has two agents of index %d at once", p.Job.Name, p.Index)
	}
	if x.registered[p.Index] && !p.Again && a.w.rates.deletions == 0 {
		a.failf("index %d of %s has come before, and its pod was not replaced", p.Index, p.Job.Name)
	}
	if p.Again || x.registered[p.Index] { // its pod was replaced, or its Job deleted and created again
		a.again++
	}
	if queue := x.overlay.spec.queue; x.off[p.Index] && a.instead[queue] > 0 {
		a.instead[queue]--
		a.doubled++
	}
	delete(x.off, p.Index)
	if !x.registered[p.Index] && x.given > 0 {
		x.given--
		a.overdue++
	}
	a.agents[p.Agent], x.agents[p.Index] = x, p.Agent
	x.registered[p.Index] = true
	if x.overlay.kube.BuildkiteCluster != a.w.cluster {
		a.astray[kindOf(x)]++
	}
	a.checkOverdue(p, x)
}

// lastConnect is how long an agent tries to connect once it has looked at its lease
// for the last time: ten times, every five seconds (docs/explanation/agent-job.md, "Late
// agents").
const lastConnect = 45 * time.Second

// checkOverdue demands that no agent connects when its index is presumed lost and
// others were ordered. Only one whose clock is slow can: by as much as its clock
// is, and by as long as it tries to connect.
func (a *audit) checkOverdue(p *simulation.Pod, x *order) {
	late := a.w.server.Now().Sub(p.Job.NotAfter)
	if late <= plan.Grace {
		return
	}
	if !a.w.foreign[p.Agent] {
		a.delayed++
	}
	if most := max(0, -a.w.rates.skew) + time.Second + lastConnect; late > most && !x.overlay.kube.NoHook {
		a.failf("%s-%d connects %s after its lease, %s at most is possible", p.Job.Name, p.Index, late, most)
	}
}

func kindOf(x *order) int {
	if x.Purpose == plan.ForWarmPool {
		return 1
	}
	return 0
}

// left is called when an agent has exited.
func (a *audit) left(r fakebuildkite.AgentRecord) {
	x := a.agents[r.ID]
	if x == nil {
		return
	}
	kind := kindOf(x)
	switch {
	case r.Jobs > 0 || r.Job != "":
		a.worked[kind]++
	case r.Reason == fakebuildkite.EndedIdle || r.Reason == fakebuildkite.EndedUptime:
		a.idled[kind]++
		if kind == 0 && a.pausedBetween(x.overlay.spec.queue, r.Connected, r.Ended) {
			a.idledPause++
		}
	}
}

func (a *audit) pausedBetween(queue string, from, to time.Time) bool {
	return slices.ContainsFunc(a.w.pauses[queue], func(p [2]time.Time) bool {
		return p[0].Before(to) && (p[1].IsZero() || p[1].After(from.Add(-time.Hour)))
	})
}

func (a *audit) tickFailed(m *muster, err error) {
	trouble := a.w.now
	quiet := trouble.unreachable+trouble.refused+trouble.moved+trouble.swallowed+trouble.overtaken+trouble.stale+
		trouble.broken+trouble.limited+trouble.half+trouble.hang+trouble.kill == 0
	if quiet && !errors.Is(err, generator.ErrConflicts) && !strings.Contains(err.Error(), "limit") {
		a.failf("%s: a tick fails for no reason: %v", m.name, err)
	}
}

func (a *audit) tickDone(m *muster, r generator.Result) {
	if r.Head.Commit != a.w.fleet.head().id {
		return // a mirror that lags behind, or somebody has been here since
	}
	for _, s := range r.Suspended {
		if o := a.w.byPath("overlays/" + s.Overlay); s.Why.Code == plan.Invalid && o.broken == 0 && !strings.Contains(s.Why.Finding, errUnreachable.Error()) && !a.w.recentlyBroken(o) {
			a.failf("%s: %s is suspended for no reason: %s", m.name, s.Overlay, s.Why)
		}
	}
}

// tick looks at the world between two ticks.
func (a *audit) tick() {
	now := a.w.server.Now()
	healthy := slices.ContainsFunc(a.w.musters, func(m *muster) bool { return now.Sub(m.good) < 10*time.Minute })
	t := a.w.fleet.head().tree
	for _, o := range a.w.overlays {
		if o.broken > 0 || !healthy {
			a.blocked[o] = now
		}
		if now.Sub(a.blocked[o]) < 20*time.Minute || now.Sub(a.revivedAt[o]) < 20*time.Minute {
			continue
		}
		for _, name := range t.below(o.path() + "/dispatches") {
			id, ok := manifestID(o.path() + "/dispatches/" + name)
			x := a.dispatches[id]
			if !ok || x == nil {
				continue
			}
			if !o.kube.Has(id) && o.kube.Created(id) && a.w.rates.deletions == 0 {
				a.failf("%s: the manifest of %s has outlived its Job", o.name, id)
			}
		}
	}
	if a.exact() {
		for _, o := range a.w.overlays {
			own := o.kube.Connected()
			for agent := range a.w.foreign {
				if o.kube.Pod(agent) != nil { // the second one of an index
					own--
				}
			}
			if own > o.most {
				a.failf("%s has %d agents, max was never above %d", o.name, own, o.most)
			}
		}
	}
}

// exact reports whether muster can know all that matters: nobody hides agents
// from it, withdraws its orders, runs them twice or late.
func (a *audit) exact() bool {
	r := a.w.rates
	return r.people+r.tampers+r.meddle+r.hidden+r.drains+r.deletions+r.crashPod == 0 && r.skew >= -plan.Grace
}

// cause is a reason outside of muster for which agents that were ordered for jobs leave without one.
type cause struct {
	name   string
	agents int
	// possible reports whether the scenario contains what leads to it.
	possible bool
}

// causes counts the agents that were ordered for jobs and may leave without one, by cause.
func (a *audit) causes() []cause {
	cancelled, foreign, upkeep, mixed, more := 0, 0, 0, 0, 0
	had := map[string]bool{} // agents
	for _, j := range a.w.server.Jobs() {
		again := had[j.Agent]
		had[j.Agent] = true
		switch x := a.agents[j.Agent]; {
		case j.Agent == "":
			if j.State == "canceled" && !j.Runnable.IsZero() {
				cancelled++
			}
		case a.w.foreign[j.Agent]:
			foreign++
		case x != nil && again:
			more++
		case x != nil && x.Purpose == plan.ForWarmPool:
			upkeep++
		case x != nil && a.servable(j) > 1 && (!a.w.sameTags() || x.toldOther()):
			mixed++
		}
	}
	r, k := a.w.rates, a.w.work
	some := func(has func(o *overlay) bool) bool { return slices.ContainsFunc(a.w.overlays, has) }
	ordered := func(has func(x *order) bool) bool { return slices.ContainsFunc(a.orders, has) }
	edited := r.people+r.policies+r.meddle+r.edits+r.tampers+r.reuses+r.templates+r.autos+r.crowds > 0
	return []cause{
		{"cancelled", cancelled, k.cancelled+r.fleeting > 0},
		{"by agents that are not muster's", foreign, k.foreign+r.twin > 0 || a.w.namesake != nil},
		{"by the warm pool", upkeep, some(func(o *overlay) bool { return o.least > 0 })},
		{"by reusable agents", more, ordered(func(x *order) bool { return x.Uptime > 0 })},
		{"by agents with other tags", mixed, len(a.w.overlays) > 1},
		{"reserved", a.reserved, k.reserved > 0},
		{"paused", a.idledPause, len(a.w.pauses) > 0},
		// "Look-ahead dispatches once for an upcoming job" (docs/reference/decision.md).
		{"ahead", min(a.lookahead, len(a.upcoming)), len(a.upcoming) > 0},
		{"unknowable", a.loose, edited || r.hidden > 0},
		{"replaced", a.again, r.drains+r.deletions+r.crashPod+r.twin+r.people+r.tampers > 0},
		{"late", a.delayed, r.skew < 0 || some(func(o *overlay) bool { return o.kube.NoHook })},
		{"in another cluster", a.astray[0], a.w.second != ""},
		{"swapped", a.swapped, len(a.w.overlays) > 1},
		{"presumed lost by the breaker", a.doubled, a.opened},
		{"overdue", a.overdue, r.autos > 0 || some(func(o *overlay) bool { return o.spec.auto })},
	}
}

// checkUnused asserts that agents which were ordered for jobs left without one only for causes that
// the scenario contains, and no more of them than these causes explain.
func (a *audit) checkUnused() {
	explained := 0
	for _, c := range a.causes() {
		explained += c.agents
		if c.agents > 0 && !c.possible {
			a.failf("%d agents are counted as unused because of %q, which the scenario does not contain", c.agents, c.name)
		}
	}
	if a.idled[0] > explained {
		a.failf("%d agents that were ordered for jobs left without one, at most %d should: %v", a.idled[0], explained, a.causes())
	}
}

// cameBack counts the jobs after which an agent that stays may have waited for another.
func (a *audit) cameBack() (n int) {
	for _, j := range a.w.server.Jobs() {
		if x := a.agents[j.Agent]; x != nil && x.Uptime > 0 && !j.Finished.IsZero() {
			n++
		}
	}
	return n
}

// toldOther reports whether the agents of an order were told other tags than the
// policy has when nobody edits it: they can take jobs that the agents of no other
// overlay could, and may take others in their place.
func (x *order) toldOther() bool {
	own := slices.DeleteFunc(slices.Clone(x.Tags), func(t string) bool {
		key, _, _ := strings.Cut(t, "=")
		return slices.Contains([]string{"queue", "overlay", "muster"}, key)
	})
	return !slices.Equal(own, x.overlay.first)
}

// servable is how many overlays could serve a job.
func (a *audit) servable(j fakebuildkite.JobRecord) int {
	n := 0
	for _, o := range a.w.overlays {
		if takes(append([]string{"queue=" + o.spec.queue}, o.tags...), j.Rules) {
			n++
		}
	}
	return n
}

// sameTags reports whether all overlays have the same tags.
func (s shape) sameTags() bool {
	return !slices.ContainsFunc(s.overlays, func(o *overlay) bool { return !slices.Equal(o.tags, s.overlays[0].tags) })
}
