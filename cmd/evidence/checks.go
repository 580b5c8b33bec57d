package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/plan"
)

// check compares a belief with the observations.
type check struct {
	id      string
	sources []source
	compare func(*observations) finding
}

// finding returns the result of a check; [Unreachable] if a source was not read.
func (o *observations) finding(c check) finding {
	for _, s := range c.sources {
		if why := o.absent[s]; why != "" {
			return unreachable(why)
		}
	}
	return c.compare(o)
}

// Sources of several checks.
var (
	builds = []source{sourceNewest, sourceActive, sourceFinished, sourceBlocked}
	agents = []source{sourceAgents}
	both   = slices.Concat(agents, builds)
)

// checks are the checks of Buildkite, by service and ID.
var checks = []check{
	{"agent-cluster", builds, checkAgentCluster},
	{"agent-never-connected", agents, checkNeverConnected},
	{"agent-queue", []source{sourceAgents, sourceQueues}, checkAgentQueue},
	{"agent-rules", slices.Concat(both, []source{sourceQueues}), checkAgentRules},

	{"metrics-counts", []source{sourceMetrics, sourceAgents, sourceQueues}, checkMetricsCounts},
	{"metrics-poll-duration", []source{sourceMetrics}, checkPollDuration},
	{"stacks-not-found", []source{sourceStack}, checkNoStack},

	{"rest-agent-has-job", both, checkAgentHasJob},
	{"rest-agent-job", both, checkAgentJob},
	{"rest-agent-last-job", both, checkLastJob},
	{"rest-agent-page", []source{sourceQueue}, checkAgentPage},
	{"rest-agent-paused", agents, checkAgentPaused},
	{"rest-agent-tags", agents, checkAgentTags},
	{"rest-agents-listed", both, checkAgentsListed},
	{"rest-agents-order", []source{sourceAgents, sourceAgain}, checkAgentsOrder},
	{"rest-agents-queue-filter", []source{sourceAgents, sourceQueue}, checkQueueFilter},
	{"rest-blocked-builds", []source{sourceBlocked}, checkBlocked},
	{"rest-blocked-finished-at", []source{sourceBlocked}, checkBlockedFinished},
	{"rest-continue-on-failure", builds, checkContinueOnFailure},
	{"rest-date", nil, checkDate},
	{"rest-default-queue", slices.Concat(both, []source{sourceClusters}), checkDefaultQueue},
	{"rest-finished-from", []source{sourceFinished}, checkFinishedFrom},
	{"rest-hosted-queue", []source{sourceAgents, sourceQueues}, checkHosted},
	{"rest-job-agent", builds, checkJobAgent},
	{"rest-job-cluster", builds, checkJobCluster},
	{"rest-job-limited", slices.Concat(both, []source{sourceQueues}), checkLimited},
	{"rest-job-order", builds, checkJobOrder},
	{"rest-job-page", builds, checkJobPage},
	{"rest-job-rules", builds, checkJobRules},
	{"rest-job-runnable-at", builds, checkRunnableAt},
	{"rest-job-states", builds, checkJobStates},
	{"rest-job-uploaded", builds, checkUploaded},
	{"rest-limit-headers", nil, checkLimitHeaders},
	{"rest-limit-refusal", nil, checkLimitRefusal},
	{"rest-limits", nil, checkLimits},
	{"rest-paging", agents, checkPaging},
	{"rest-queue-paused", []source{sourceQueues}, checkQueuePaused},
	{"rest-token-expiry", []source{sourceTokens}, checkTokenExpiry},
	{"rest-token-status", []source{sourceInvalid}, checkTokenStatus},
	{"rest-unfinished-builds", builds, checkUnfinished},
}

// slack is the time within which two readings may differ because something has changed.
const slack = 10 * time.Second

// jobOf is a job in a build.
type jobOf struct{ build, job record }

// scripts returns the jobs for agents of builds, by their identifiers. Later builds replace earlier ones.
func scripts(lists ...[]record) map[string]jobOf {
	all := map[string]jobOf{}
	for _, b := range slices.Concat(lists...) {
		for _, j := range b.jobs() {
			if j.text("type") == "script" {
				all[j.text("id")] = jobOf{b, j}
			}
		}
	}
	return all
}

// latest returns the builds as they were last read.
func (o *observations) latest() []record {
	all := map[string]record{}
	for _, b := range slices.Concat(o.newest, o.active, o.finished, o.blocked) {
		all[b.text("id")] = b
	}
	return slices.Collect(maps.Values(all))
}

// jobs returns the jobs for agents, in the order of their identifiers.
func (o *observations) jobs() (all []jobOf) {
	found := scripts(o.latest())
	for _, id := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[id])
	}
	return all
}

// heldThroughout returns the jobs that the same agent has in builds that were read before and after the agents, by
// the agent's identifier.
func (o *observations) heldThroughout() map[string]jobOf {
	held := map[string]jobOf{}
	before := scripts(o.newest)
	for id, j := range scripts(o.active) {
		agent := j.job.object("agent").text("id")
		if was, ok := before[id]; ok && occupied(j.job) && occupied(was.job) && agent != "" && agent == was.job.object("agent").text("id") {
			held[agent] = j
		}
	}
	return held
}

func (o *observations) agentsByID() map[string]record {
	all := map[string]record{}
	for _, a := range o.agents {
		all[a.text("id")] = a
	}
	return all
}

func (o *observations) queuesByID() map[string]record {
	all := map[string]record{}
	for _, q := range o.queues {
		all[q.text("id")] = q
	}
	return all
}

// States of jobs: docs pipelines/configure/defining_steps.md "Job states".
var (
	occupiedStates = []string{"assigned", "accepted", "running", "canceling", "timing_out"}
	endedStates    = []string{"passed", "failed", "finished", "canceled", "timed_out", "skipped", "broken", "expired"}
	limitedStates  = []string{"limiting", "limited", "platform_limiting", "platform_limited"}
	otherStates    = []string{"pending", "waiting", "waiting_failed", "blocked", "blocked_failed", "unblocked", "unblocked_failed", "scheduled", "reserved"}
)

func occupied(job record) bool { return slices.Contains(occupiedStates, job.text("state")) }
func ended(job record) bool    { return slices.Contains(endedStates, job.text("state")) }

// tagsOf returns the tags of an agent in a cluster, with its queue.
func (o *observations) tagsOf(agent record) []string {
	tags, _ := agent.texts("meta_data")
	if _, named := plan.TagValue(tags, plan.TagQueue); !named {
		_, queue, _ := place(agent)
		tags = append(slices.Clone(tags), plan.TagQueue+"="+o.queuesByID()[queue].text("key"))
	}
	return tags
}

func checkAgentCluster(o *observations) finding {
	var t tally
	for _, j := range o.jobs() {
		if cluster, _, ok := place(j.job.object("agent")); ok && j.job.text("cluster_id") != "" {
			t.add(cluster == j.job.text("cluster_id"), "an agent has a job of another cluster")
		}
	}
	return t.finding("job", "with an agent of the same cluster", "no job with an agent in a cluster is listed")
}

func checkNeverConnected(o *observations) finding {
	for _, a := range o.agents {
		if a.kind("connected_at") == "null" {
			return contradicted("an agent without a time in connected_at is listed")
		}
	}
	return unreachable("no agent is known that has registered but not connected")
}

func checkAgentQueue(o *observations) finding {
	var t tally
	queues := o.queuesByID()
	for _, a := range o.agents {
		cluster, queue, ok := place(a)
		if !ok || !slices.Contains(slices.Collect(maps.Values(o.home)), cluster) {
			continue
		}
		tags, _ := a.texts("meta_data")
		named := 0
		for _, tag := range tags {
			if strings.HasPrefix(tag, plan.TagQueue+"=") {
				named++
			}
		}
		switch {
		case queues[queue] == nil:
			t.add(false, "an agent is in a queue that its cluster does not list")
		default:
			t.add(named <= 1, "an agent has %d tags of a queue", named)
		}
	}
	return t.finding("agent", "in one listed queue each", "no agent in a cluster is listed")
}

func checkAgentRules(o *observations) finding {
	var t tally
	agents := o.agentsByID()
	for id, j := range o.heldThroughout() {
		a, listed := agents[id]
		rules, ok := j.job.texts("agent_query_rules")
		_, tagged := a.texts("meta_data")
		if _, _, placed := place(a); listed && ok && tagged && placed {
			rules = slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == "*" })
			t.add(plan.Satisfies(o.tagsOf(a), rules), "an agent runs a job with a rule that its tags do not satisfy")
		}
	}
	return t.finding("agent", "with a tag for each rule of its job", "no listed agent has a job")
}

func checkMetricsCounts(o *observations) finding {
	m := decode(o.metrics.body)
	for list, counts := range map[string][]string{"agents": {"idle", "total"}, "jobs": {"scheduled", "running"}} {
		queues := m.object(list).object("queues")
		if queues == nil {
			return contradicted("%s.queues is %s", list, m.object(list).kind("queues"))
		}
		for key := range queues {
			for _, count := range counts {
				if kind := queues.object(key).kind(count); kind != "a number" {
					return contradicted("%s of a queue in %s is %s", count, list, kind)
				}
			}
		}
	}
	name := m.object("cluster").text("name")
	if name == "" {
		return unreachable("the metrics name no cluster: the agent token may be of no cluster")
	}
	differ, queues := 0, 0
	for _, c := range o.clusters {
		for _, q := range o.queues {
			if c.text("name") != name || o.home[q.text("id")] != c.text("id") {
				continue
			}
			listed := 0
			for _, a := range o.agents {
				if _, queue, _ := place(a); queue == q.text("id") {
					listed++
				}
			}
			total, _ := m.object("agents").object("queues").object(q.text("key"))["total"].(float64)
			if queues++; int(total) != listed {
				differ++
			}
		}
	}
	switch {
	case queues == 0 || !o.whole:
		return unreachable("the agents of the cluster that the metrics name were not all read")
	case differ > 0:
		return unreachable(fmt.Sprintf("the agents of %d of %d queues differ from the list, which may be the age of the counts", differ, queues))
	}
	return confirmed("the agents of %d queues equal the list; jobs are counted, too", queues)
}

func checkPollDuration(o *observations) finding {
	const header = "Buildkite-Agent-Metrics-Poll-Duration"
	value := o.metrics.header.Get(header)
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return contradicted("the header is absent or has no number of seconds")
	}
	return confirmed("%d seconds", n)
}

func checkNoStack(o *observations) finding {
	switch o.stack.status {
	case http.StatusNotFound:
	case http.StatusUnauthorized, http.StatusForbidden: // such as a token that may only read metrics
		return unreachable("the agent token may not use stacks")
	default:
		return contradicted("a stack that does not exist has the status %d", o.stack.status)
	}
	return confirmed("a stack that does not exist has the status 404")
}

func checkAgentHasJob(o *observations) finding {
	var t tally
	agents := o.agentsByID()
	for id, j := range o.heldThroughout() {
		if a, listed := agents[id]; listed {
			t.add(a.object("job").text("id") == j.job.text("id"), "an agent lacks the job that builds show before and after")
		}
	}
	return t.finding("agent", "with the job that builds show before and after", "no agent had the same job throughout")
}

func checkAgentJob(o *observations) finding {
	var t tally
	jobs := scripts(o.latest())
	for _, a := range o.agents {
		job := a.object("job")
		known, listed := jobs[job.text("id")]
		if job == nil || !listed || ended(job) {
			continue
		}
		finished := known.job.time("finished_at")
		late := !finished.IsZero() && finished.Before(o.agentsAt.Add(-slack))
		t.add(!late, "an agent has a job, not in a final state, that ended earlier")
	}
	return t.finding("agent", "with a job that had not ended", "no listed agent has a job")
}

func checkLastJob(o *observations) finding {
	var t tally
	agents := o.agentsByID()
	for _, j := range o.jobs() {
		finished := j.job.time("finished_at")
		a, listed := agents[j.job.object("agent").text("id")]
		if listed && ended(j.job) && !finished.IsZero() && finished.Before(o.agentsAt.Add(-slack)) {
			t.add(!a.time("last_job_finished_at").Before(finished.Add(-2*time.Second)), "last_job_finished_at of an agent is %s, or before its job ended", a.kind("last_job_finished_at"))
		}
	}
	return t.finding("ended job", "whose agent has last_job_finished_at", "no connected agent has finished a job")
}

func checkAgentPage(o *observations) finding {
	var t tally
	for _, a := range o.ofQueue {
		_, _, ok := place(a)
		t.add(ok, "the page of an agent of a queue has no identifiers of cluster and queue (web_url is %s)", a.kind("web_url"))
	}
	return t.finding("agent", "of a queue with such an address", "no agent in a queue of a cluster is listed")
}

func checkAgentPaused(o *observations) finding {
	paused, has := 0, 0
	for _, a := range o.agents {
		switch a.kind("paused") {
		case "absent":
			continue
		case "true":
			paused++
		case "false":
		default:
			return contradicted("paused of an agent is %s", a.kind("paused"))
		}
		has++
	}
	switch {
	case paused > 0:
		return confirmed("%d of %d agents have paused: true", paused, len(o.agents))
	case has > 0:
		return unreachable("no agent is paused; each has paused: false")
	}
	return unreachable("no listed agent has the field paused")
}

func checkAgentTags(o *observations) finding {
	var t tally
	for _, a := range o.agents {
		tags, ok := a.texts("meta_data")
		if ok && len(tags) == 0 {
			continue
		}
		pairs := !slices.ContainsFunc(tags, func(tag string) bool { return !strings.Contains(tag, "=") })
		t.add(ok && pairs, "meta_data of an agent is %s, or has an entry without =", a.kind("meta_data"))
	}
	return t.finding("agent", "with tags as key=value", "no listed agent has tags")
}

func checkAgentsListed(o *observations) finding {
	var t tally
	agents := o.agentsByID()
	for _, a := range o.agents {
		if state := a.text("connection_state"); state != "connected" && state != "stopping" {
			return contradicted("an agent with the state %s is listed", word(state))
		}
	}
	for id := range o.heldThroughout() {
		if o.whole {
			t.add(agents[id] != nil, "an agent that runs a job is not listed")
		}
	}
	return t.finding("busy agent", "listed, and none that is neither connected nor stopping", "no agent ran the same job throughout")
}

func checkAgentsOrder(o *observations) finding {
	positions := map[string]int{}
	for i, a := range o.agents {
		positions[a.text("id")] = i
	}
	last, common := -1, 0
	for _, a := range o.again {
		i, listed := positions[a.text("id")]
		if !listed {
			continue
		}
		if i < last {
			return contradicted("the order of agents has changed between two readings")
		}
		last, common = i, common+1
	}
	if common < 2 {
		return unreachable("fewer than two agents are listed")
	}
	return confirmed("%d agents in the same order when read again", common)
}

func checkQueueFilter(o *observations) finding {
	other := false
	for _, a := range o.agents {
		if _, queue, ok := place(a); ok && queue != o.queue {
			other = true
		}
	}
	var t tally
	for _, a := range o.ofQueue {
		if _, queue, ok := place(a); ok {
			t.add(queue == o.queue, "an agent of another queue is listed")
		}
	}
	if !other && t.bad == "" {
		return unreachable("all agents are in one queue")
	}
	return t.finding("agent", "of the queue, and none of another", "no agent in a queue of a cluster is listed")
}

func checkBlocked(o *observations) finding {
	var t tally
	for _, b := range o.blocked {
		t.add(b.kind("blocked") == "true" && b.text("state") != "blocked", "a build with the state %s and blocked: %s is listed", word(b.text("state")), b.kind("blocked"))
	}
	return t.finding("build", "with blocked: true and its last state", "no build is blocked")
}

func checkBlockedFinished(o *observations) finding {
	var t tally
	for _, b := range o.blocked {
		if b.kind("blocked") == "true" {
			t.add(!b.time("finished_at").IsZero(), "finished_at of a blocked build is %s", b.kind("finished_at"))
		}
	}
	return t.finding("blocked build", "with finished_at", "no build is blocked")
}

func checkContinueOnFailure(o *observations) finding {
	var t tally
	for _, b := range o.latest() {
		failed := false
		for _, j := range b.jobs() {
			switch j.text("type") {
			case "script":
				failed = failed || j.text("state") == "failed" && j.kind("soft_failed") != "true" && j.kind("retried") != "true"
			case "waiter":
				if failed && slices.Contains([]string{"passed", "finished"}, j.text("state")) {
					t.add(j.kind("continue_on_failure") == "true", "continue_on_failure is %s of a wait step that passed behind a failed job", j.kind("continue_on_failure"))
				}
			}
		}
	}
	return t.finding("wait step", "that passed behind a failed job, with the field", "no wait step passed behind a failed job")
}

func checkDate(o *observations) finding {
	var t tally
	for _, x := range o.exchanges {
		date, err := http.ParseTime(x.header.Get("Date"))
		near := err == nil && !date.Before(x.sent.Add(-3*time.Second)) && !date.After(x.received.Add(2*time.Second)) // Date has whole seconds
		t.add(near, "Date is absent, or differs from the clock of this machine by more than two seconds")
	}
	return t.finding("response", "with the time of this machine's clock", "nothing was read")
}

func checkDefaultQueue(o *observations) finding {
	defaults := map[string]string{}
	for _, c := range o.clusters {
		defaults[c.text("id")] = c.text("default_queue_id")
	}
	var t tally
	for _, j := range o.jobs() {
		rules, ok := j.job.texts("agent_query_rules")
		_, named := plan.TagValue(rules, plan.TagQueue)
		if queue := j.job.text("cluster_queue_id"); ok && !named && queue != "" && defaults[j.job.text("cluster_id")] != "" {
			t.add(queue == defaults[j.job.text("cluster_id")], "a job that names no queue is in another queue")
		}
	}
	for _, a := range o.agents {
		tags, ok := a.texts("meta_data")
		_, named := plan.TagValue(tags, plan.TagQueue)
		if cluster, queue, placed := place(a); ok && !named && placed && defaults[cluster] != "" {
			t.add(queue == defaults[cluster], "an agent that names no queue is in another queue")
		}
	}
	return t.finding("record", "of jobs and agents that name no queue, in the default queue", "each job and agent names a queue")
}

func checkFinishedFrom(o *observations) finding {
	var t tally
	for _, b := range o.finished {
		_, jobs := b["jobs"].([]any)
		t.add(jobs && !b.time("finished_at").Before(o.since), "a build is listed that finished earlier, or whose jobs are %s", b.kind("jobs"))
	}
	return t.finding("build", "that finished in the last hour, with jobs", "no build finished in the last hour")
}

func checkHosted(o *observations) finding {
	ours := map[string]bool{} // queues with agents of muster
	for _, a := range o.agents {
		tags, _ := a.texts("meta_data")
		if _, ordered := plan.TagValue(tags, plan.TagDispatch); ordered {
			_, queue, _ := place(a)
			ours[queue] = true
		}
	}
	hosted := 0
	for _, q := range o.queues {
		kind, details := q.kind("hosted"), q.kind("hosted_agents")
		marked := kind == "true" || details == "an object"
		switch {
		case !slices.Contains([]string{"absent", "null", "true", "false"}, kind), !slices.Contains([]string{"absent", "null", "an object"}, details):
			return contradicted("hosted of a queue is %s, hosted_agents is %s", kind, details)
		case marked && ours[q.text("id")]:
			return contradicted("a queue with agents of muster has hosted: %s, and hosted_agents is %s", kind, details)
		case marked:
			hosted++
		}
	}
	if hosted == 0 || hosted == len(o.queues) {
		return unreachable(fmt.Sprintf("%d of %d queues are for hosted agents", hosted, len(o.queues)))
	}
	return confirmed("%d of %d queues are for hosted agents", hosted, len(o.queues))
}

func checkJobAgent(o *observations) finding {
	var t tally
	for _, j := range o.jobs() {
		agent := j.job.object("agent")
		if agent == nil && !slices.Contains([]string{"accepted", "running"}, j.job.text("state")) {
			continue
		}
		tags, ok := agent.texts("meta_data")
		t.add(ok && len(tags) > 0, "agent of a job with the state %s is %s, and its meta_data is %s", word(j.job.text("state")), j.job.kind("agent"), agent.kind("meta_data"))
	}
	return t.finding("job", "whose agent has meta_data", "no job with an agent is listed")
}

func checkJobCluster(o *observations) finding {
	var t tally
	for _, j := range o.jobs() {
		if j.job.text("cluster_queue_id") != "" {
			t.add(j.job.text("cluster_id") != "", "cluster_id of a job with a cluster_queue_id is %s", j.job.kind("cluster_id"))
		}
	}
	return t.finding("job", "with cluster_queue_id and cluster_id", "no job in a queue of a cluster is listed")
}

// checkLimited looks for jobs that are listed as runnable although an idle agent does not get them.
func checkLimited(o *observations) finding {
	queues := o.queuesByID()
	limited, held := 0, o.heldThroughout()
	since := o.agentsAt.Add(-time.Minute)
	before := scripts(o.newest)
	for id, j := range scripts(o.active) {
		runnable := j.job.time("runnable_at")
		scheduled := j.job.text("state") == "scheduled"
		if slices.Contains(limitedStates, j.job.text("state")) || scheduled && runnable.IsZero() {
			limited++
		}
		if !scheduled || runnable.IsZero() || runnable.After(since) || before[id].job.text("state") != "scheduled" {
			continue
		}
		rules, ok := j.job.texts("agent_query_rules")
		for _, a := range o.agents {
			_, queue, _ := place(a)
			_, busy := held[a.text("id")]
			free := slices.Contains([]string{"absent", "false"}, a.kind("paused")) && a.text("last_job_finished_at") == "" // otherwise it may be about to exit
			idle := a.text("connection_state") == "connected" && a.object("job") == nil && !busy && free && a.time("connected_at").Before(since)
			if ok && idle && queue == j.job.text("cluster_queue_id") && queues[queue].kind("dispatch_paused") == "false" && plan.Satisfies(o.tagsOf(a), rules) {
				return contradicted("a scheduled job with runnable_at waits for more than a minute although an idle agent matches it")
			}
		}
	}
	if limited == 0 {
		return unreachable("no job waits for a limit")
	}
	return confirmed("jobs that wait in another state, or without runnable_at: %d; none with it waits for an agent that is idle", limited)
}

// checkUploaded looks for builds whose first job uploads others, and has passed. It contradicts the belief only if no
// build agrees: an upload may add nothing, or only steps that need no agent, and further jobs can upload, too.
func checkUploaded(o *observations) finding {
	var t tally
	for _, b := range o.latest() {
		jobs := slices.DeleteFunc(b.jobs(), func(j record) bool { return j.text("type") != "script" })
		if len(jobs) < 2 || jobs[0].text("state") != "passed" || !strings.Contains(jobs[0].text("command"), "pipeline upload") {
			continue
		}
		from, to := jobs[0].time("started_at"), jobs[0].time("finished_at").Add(time.Second)
		t.add(slices.ContainsFunc(jobs[1:], func(j record) bool {
			created := j.time("created_at")
			return created.After(from) && !created.After(to)
		}), "none of %d jobs of a build was created while the first one ran, which uploads jobs", len(jobs)-1)
	}
	if t.good > 0 {
		t.bad = ""
	}
	return t.finding("build", "with jobs that were created while the first one ran, which uploads jobs", "no build begins with a job that uploads others")
}

// checkJobOrder looks for wait steps that wait although nothing that is listed before them is unfinished. Jobs behind
// a wait step may have started, because steps with depends_on ignore it.
func checkJobOrder(o *observations) finding {
	var t tally
	for _, b := range o.active {
		unfinished := false
		for _, j := range b.jobs() {
			waits := j.text("state") == "waiting"
			if j.text("type") == "waiter" && waits {
				t.add(unfinished, "a wait step waits although nothing listed before it is unfinished")
			}
			unfinished = unfinished || waits || occupied(j) || slices.Contains(otherStates, j.text("state")) || slices.Contains(limitedStates, j.text("state"))
		}
	}
	return t.finding("waiting wait step", "behind unfinished jobs", "no build waits at a wait step")
}

func checkJobPage(o *observations) finding {
	var t tally
	address := fmt.Sprintf("https://buildkite.com/%s/", o.org)
	for _, j := range o.jobs() {
		number, _ := j.build["number"].(float64)
		pipeline, rest, _ := strings.Cut(strings.TrimPrefix(j.job.text("web_url"), address), "/")
		ok := strings.HasPrefix(j.job.text("web_url"), address) && pipeline != "" && rest == fmt.Sprintf("builds/%d#%s", int(number), j.job.text("id"))
		t.add(ok, "web_url of a job is %s, or another address", j.job.kind("web_url"))
	}
	return t.finding("job", "with such an address", "no job is listed")
}

func checkJobRules(o *observations) finding {
	var t tally
	for _, j := range o.jobs() {
		_, ok := j.job.texts("agent_query_rules")
		t.add(ok, "agent_query_rules of a job is %s", j.job.kind("agent_query_rules"))
	}
	return t.finding("job", "with agent_query_rules", "no job is listed")
}

func checkRunnableAt(o *observations) finding {
	var t tally
	for _, j := range o.jobs() {
		if j.job.text("started_at") != "" {
			t.add(!j.job.time("runnable_at").IsZero(), "runnable_at is %s of a job that has started", j.job.kind("runnable_at"))
		}
	}
	return t.finding("started job", "with runnable_at", "no job has started")
}

func checkJobStates(o *observations) finding {
	var t tally
	documented := slices.Concat(occupiedStates, endedStates, limitedStates, otherStates)
	for _, j := range o.jobs() {
		t.add(slices.Contains(documented, j.job.text("state")), "a job has the state %s", word(j.job.text("state")))
	}
	return t.finding("job", "in a documented state", "no job is listed")
}

// limits returns the two limits of a response; false if a header is absent.
func limits(h http.Header) (org, user int, ok bool) {
	number := func(name string) int {
		n, err := strconv.Atoi(h.Get(name))
		if err != nil {
			return -1
		}
		return n
	}
	org, user = number("RateLimit-Limit"), number("RateLimit-User-Limit")
	return org, user, min(org, user, number("RateLimit-Remaining"), number("RateLimit-User-Remaining")) >= 0
}

func checkLimitHeaders(o *observations) finding {
	var t tally
	for _, x := range o.exchanges {
		if x.status == http.StatusOK {
			_, _, ok := limits(x.header)
			t.add(ok, "a response lacks RateLimit-Limit, RateLimit-Remaining, or those of the user")
		}
	}
	return t.finding("response", "with both limits", "nothing was read")
}

func checkLimitRefusal(o *observations) finding {
	if o.refusal == nil {
		return unreachable("no request was refused")
	}
	body, h := decode(o.refusal.body), o.refusal.header
	header := cmp.Or(h.Get("RateLimit-Reset"), h.Get("RateLimit-User-Reset"))
	if _, err := strconv.Atoi(header); err != nil || body.kind("reset") != "a number" {
		return contradicted("reset of the body is %s, or the header of the reset is absent", body.kind("reset"))
	}
	return confirmed("429 with the reset in body and header")
}

func checkLimits(o *observations) finding {
	org, user, ok := limits(o.last.header)
	switch {
	case !ok:
		return unreachable("the last response lacks the limits")
	case org < 200 || user < 50:
		return contradicted("%d requests a minute for the organisation, %d for the user", org, user)
	}
	return confirmed("%d requests a minute for the organisation, %d for the user", org, user)
}

func checkPaging(o *observations) finding {
	if len(o.agents) < 2 {
		return unreachable("fewer than two agents are listed")
	}
	first := decodeList(o.first.body)
	link := o.first.header.Get("Link")
	switch {
	case len(first) != 1:
		return contradicted("a page of one agent has %d", len(first))
	case !hasNext(o.first.header) || !strings.Contains(link, "page=2"):
		return contradicted("Link of a page of one agent does not name the next page")
	}
	return confirmed("one of %d agents a page, with the next page in Link", len(o.agents))
}

func checkQueuePaused(o *observations) finding {
	paused := 0
	for _, q := range o.queues {
		switch q.kind("dispatch_paused") {
		case "true":
			paused++
		case "false":
		default:
			return contradicted("dispatch_paused of a queue is %s", q.kind("dispatch_paused"))
		}
	}
	if paused == 0 {
		return unreachable("no queue is paused; each has dispatch_paused: false")
	}
	return confirmed("%d of %d queues have dispatch_paused: true", paused, len(o.queues))
}

func checkTokenExpiry(o *observations) finding {
	var t tally
	for _, r := range slices.Concat([]record{o.token}, o.tokens) {
		valid := r.kind("expires_at") == "null" || r.has("expires_at") && !timeOfToken(r.text("expires_at")).IsZero()
		t.add(valid, "expires_at of a token is %s, or another form of a time", r.kind("expires_at"))
	}
	return t.finding("token", "with expires_at, the API token among them", "no token is listed")
}

// timeOfToken reads a time in the two forms of Buildkite's documentation.
func timeOfToken(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

func checkTokenStatus(o *observations) finding {
	switch {
	case o.invalid != http.StatusUnauthorized:
		return contradicted("an invalid token has the status %d", o.invalid)
	case o.scope == "":
		return confirmed("an invalid token has the status 401; this token has all scopes")
	case o.lacking != http.StatusForbidden:
		return contradicted("a token without %s has the status %d", o.scope, o.lacking)
	}
	return confirmed("an invalid token has the status 401, and one without %s 403", o.scope)
}

func checkUnfinished(o *observations) finding {
	later := map[string]bool{}
	for _, b := range slices.Concat(o.active, o.finished, o.blocked) {
		later[b.text("id")] = true
	}
	if !o.activeWhole || !o.finishedWhole {
		return unreachable("not all builds under way and of the last hour were read")
	}
	var t tally
	for _, b := range o.newest {
		if slices.ContainsFunc(b.jobs(), func(j record) bool {
			return j.text("type") == "script" && j.text("state") == "scheduled" && j.text("runnable_at") != ""
		}) {
			t.add(later[b.text("id")], "a build with a job for an agent is not listed (its state is %s)", word(b.text("state")))
		}
	}
	return t.finding("build", "with jobs for agents, all listed", "no job waits for an agent")
}
