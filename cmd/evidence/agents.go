package evidence

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Agent is an agent to start, in the words of buildkite-agent start. All take the default idle time-out if they have
// none, so that they exit if live is killed.
type Agent struct {
	Name                string   // a word
	Slugs               []string // of the pipelines whose jobs it may take
	Tags                []string
	Priority            int
	AfterJob            bool
	IdleTimeout, Uptime time.Duration
	// The hook agent-startup takes Hook, and then fails if HookFails.
	Hook      time.Duration
	HookFails bool
}

// Title returns the value of --name.
func (a Agent) Title() string { return "%hostname-muster-live-" + a.Name }

// Process is an agent that was started.
type Process interface {
	// Exited returns the exit code and the time; false while the process runs.
	Exited() (code int, at time.Time, exited bool)
	// Hooked returns the time at which the hook has ended; false if it has not.
	Hooked() (at time.Time, hooked bool)
	// Freeze stops the process as it is, Stop lets the agent cancel its job and disconnect, also after Freeze, and Kill
	// kills it. None waits.
	Freeze()
	Stop()
	Kill()
}

// The times of agents: the idle time-out of one and of all others, the uptime of one, and the duration of a hook.
const (
	shortIdle  = 20 * time.Second
	longIdle   = 10 * time.Minute
	uptime     = 15 * time.Second
	hookTime   = 20 * time.Second
	lostWithin = 4 * time.Minute
)

// agentsOf returns the agents of a run.
func agentsOf(id string) []Agent {
	agent := func(name, role string, a Agent) Agent {
		a.Name = name
		for _, part := range parts {
			a.Slugs = append(a.Slugs, prefix+id+"-"+part)
		}
		a.Tags = []string{"queue=" + prefix + id, roleTag + "=" + role, anyTag + "=" + name}
		if a.IdleTimeout == 0 {
			a.IdleTimeout = longIdle
		}
		return a
	}
	return []Agent{
		agent("low", "priority", Agent{Priority: 1}),
		agent("high", "priority", Agent{Priority: 9}),
		agent("pass", "pass", Agent{AfterJob: true}),
		agent("fail", "fail", Agent{AfterJob: true}),
		agent("idle", "idle", Agent{IdleTimeout: shortIdle}),
		agent("uptime", "uptime", Agent{Uptime: uptime}),
		agent("hook", "hook", Agent{AfterJob: true, Hook: hookTime}),
		agent("hookfails", "hook", Agent{HookFails: true}),
		agent("busy", "busy", Agent{AfterJob: true}),
		agent("lost", "lost", Agent{}),
	}
}

// started is an agent that was started.
type started struct {
	Agent
	process Process
	record  record // as it was last listed; nil if it never was
	early   bool   // it was listed before it had connected
	polls   int    // before its hook had ended
	frozen  time.Time
}

func (a *started) id() string { return a.record.text("id") }

// agentBeliefs are the beliefs that need agents.
var agentBeliefs = []string{
	"agent-connects-in-time", "agent-idle-timeout", "agent-lingers-briefly", "agent-lost", "agent-name",
	"agent-never-connected", "agent-one-job", "agent-priority", "agent-startup-hook", "agent-uptime", "metrics-age", "rest-agent-paused",
}

// The time between two polls of agents and jobs, and the number of polls.
const (
	pollPause = 6 * time.Second
	mostPolls = 25
)

// watch starts agents and checks what becomes of them.
func (w *writer) watch(ctx context.Context) {
	if w.Write.Start == nil {
		w.missing(w.Write.NoAgents, agentBeliefs...)
		return
	}
	w.Doing("watching agents")
	for _, a := range agentsOf(w.Write.ID) {
		process, err := w.Write.Start(ctx, a)
		if err != nil {
			w.missing("an agent cannot be started", agentBeliefs...)
			return
		}
		w.agents[a.Name] = &started{Agent: a, process: process}
	}
	var jobs map[string][]record
	for range mostPolls {
		err := w.listAgents(ctx)
		if err == nil {
			jobs, err = w.jobsOf(ctx, "builds?branch="+w.name)
		}
		w.notice(jobs)
		if err == nil && w.builds[partBlocked] == "" && w.agents["low"].record != nil && w.agents["high"].record != nil {
			err = w.build(ctx, partBlocked)
		}
		if err != nil {
			w.missing(reason(err), agentBeliefs...)
			return
		}
		if lost := w.agents["lost"]; lost.record != nil && lost.frozen.IsZero() {
			lost.process.Freeze()
			lost.frozen = w.Clock.Now()
		}
		if code, exited := w.exited(); exited {
			w.missing(fmt.Sprintf("the agents exit with code %d and do not connect", code), agentBeliefs...)
			return
		}
		if w.settled(jobs) {
			break
		}
		if w.Clock.Sleep(ctx, pollPause) != nil {
			return
		}
	}
	w.oneJob(jobs)
	w.idle()
	w.uptime(jobs)
	w.hooks()
	w.names()
	w.priority(jobs)
	w.pauseAgent(ctx)
}

// listAgents reads the agents of the run.
func (w *writer) listAgents(ctx context.Context) error {
	listed, _, _, err := w.list(ctx, "agents?cluster_queue_id="+w.queue, 1)
	for _, a := range w.agents {
		if _, hooked := a.process.Hooked(); !hooked {
			a.polls++
		}
		for _, r := range listed {
			if tags, _ := r.texts("meta_data"); slices.Contains(tags, anyTag+"="+a.Name) && slices.Contains(tags, "queue="+w.name) {
				a.record = r
				a.early = a.early || r.time("connected_at").IsZero()
			}
		}
	}
	return err
}

// notice keeps the agents of jobs that were in no list.
func (w *writer) notice(jobs map[string][]record) {
	for _, list := range jobs {
		for _, j := range list {
			agent := j.object("agent")
			tags, _ := agent.texts("meta_data")
			for _, a := range w.agents {
				if a.record == nil && slices.Contains(tags, anyTag+"="+a.Name) && slices.Contains(tags, "queue="+w.name) {
					a.record = agent
				}
			}
		}
	}
}

// exited reports whether all agents have exited without connecting, and a code.
func (w *writer) exited() (code int, all bool) {
	for _, a := range w.agents {
		c, _, exited := a.process.Exited()
		if !exited || a.record != nil {
			return 0, false
		}
		code = c
	}
	return code, true
}

// settled reports whether nothing further is expected of the agents, except for the one that is lost.
func (w *writer) settled(jobs map[string][]record) bool {
	for _, name := range []string{"pass", "fail", "idle", "uptime", "hookfails"} {
		if _, _, exited := w.agents[name].process.Exited(); !exited {
			return false
		}
	}
	running := func(role string) bool {
		return slices.ContainsFunc(jobs[role], func(j record) bool { return j.text("state") == "running" })
	}
	return w.agents["hook"].record != nil && !w.agents["lost"].frozen.IsZero() && len(jobs["priority"]) > 0 && ended(jobs["priority"][0]) && running("busy")
}

// taken returns the jobs of a role that an agent has taken.
func taken(jobs []record, by *started) []record {
	return slices.DeleteFunc(slices.Clone(jobs), func(j record) bool { return by.record == nil || j.object("agent").text("id") != by.id() })
}

// lingerTime is the longest time between the end of a job and of its agent.
const lingerTime = 90 * time.Second

func (w *writer) oneJob(jobs map[string][]record) {
	var one, lingers tally
	for _, name := range []string{"pass", "fail"} {
		a := w.agents[name]
		had := taken(jobs[name], a)
		if len(had) == 0 || !ended(had[0]) {
			continue
		}
		code, at, exited := a.process.Exited()
		one.add(len(had) == 1 && code == 0, "an agent has taken %d jobs, the first with the state %s, and exits with code %d", len(had), word(had[0].text("state")), code)
		if !exited {
			at = w.Clock.Now()
		}
		if over := at.Sub(had[0].time("finished_at")); len(had) == 1 && (exited || over > lingerTime) {
			lingers.add(over <= lingerTime+slack/2, "an agent is there %s after its job", over.Round(time.Second))
		}
	}
	w.found["agent-one-job"] = one.finding("agent", "with one job that passes or fails, and code 0", "no agent was seen with a job")
	w.found["agent-lingers-briefly"] = lingers.finding("agent", "that exited in time", "no agent was seen with a job that ended")
}

func (w *writer) idle() {
	const id = "agent-idle-timeout"
	a := w.agents["idle"]
	code, at, exited := a.process.Exited()
	since := a.record.time("connected_at")
	switch took := at.Sub(since).Round(time.Second); {
	case a.record == nil:
		w.missing("the agent did not connect", id)
	case !exited:
		w.found[id] = contradicted("an agent without a job has not exited %s after it connected", w.Clock.Now().Sub(since).Round(time.Second))
	case code != 0 || took < shortIdle-2*time.Second:
		w.found[id] = contradicted("an agent without a job exits with code %d after %s, with a time-out of %s", code, took, shortIdle)
	default:
		w.found[id] = confirmed("code 0 after %s, with a time-out of %s", took, shortIdle)
	}
}

func (w *writer) uptime(jobs map[string][]record) {
	const id = "agent-uptime"
	a := w.agents["uptime"]
	had := taken(jobs["uptime"], a)
	_, at, exited := a.process.Exited()
	switch {
	case len(had) == 0 || !had[0].time("started_at").Before(a.record.time("connected_at").Add(uptime)):
		w.missing("the agent did not get a job within its uptime", id)
	case len(had) > 1:
		w.found[id] = contradicted("an agent has taken another job after its uptime")
	case !exited:
		w.found[id] = contradicted("an agent has not exited after its job, which ended after its uptime")
	case had[0].time("finished_at").IsZero() || at.Before(had[0].time("finished_at").Add(-2*time.Second)):
		w.found[id] = contradicted("an agent exits before its job has ended (%s)", word(had[0].text("state")))
	default:
		w.found[id] = confirmed("it exits %s after its job, which ended after its uptime, and leaves another", at.Sub(had[0].time("finished_at")).Round(time.Second))
	}
}

func (w *writer) hooks() {
	const never, hook, connects = "agent-never-connected", "agent-startup-hook", "agent-connects-in-time"
	waits, fails := w.agents["hook"], w.agents["hookfails"]
	code, _, exited := fails.process.Exited()
	at, hooked := waits.process.Hooked()
	connected, registered := waits.record.time("connected_at"), waits.record.time("created_at")
	switch {
	case fails.record != nil && !fails.record.time("connected_at").IsZero():
		w.found[hook] = contradicted("an agent has connected although its hook fails")
	case !exited || code == 0:
		w.found[hook] = contradicted("an agent whose hook fails does not exit with an error")
	case !hooked || connected.IsZero():
		w.missing("the agent with a hook did not connect", hook)
	case connected.Before(at.Add(-2*time.Second)) || registered.After(at.Add(-hookTime+slack/2)):
		w.found[hook] = contradicted("an agent connects before its hook has ended, or registers later")
	default:
		w.found[hook] = confirmed("one agent connects after its hook, and one whose hook fails exits with code %d", code)
	}
	switch early := connected.Sub(at); {
	case !hooked:
		w.missing("no agent has run a hook", connects, never)
	case connected.IsZero() && w.Clock.Now().Sub(at) > time.Minute:
		_, _, exited := waits.process.Exited()
		if exited {
			w.found[connects] = confirmed("it has exited")
		} else {
			w.found[connects] = contradicted("an agent has neither connected nor exited a minute after its hook")
		}
	case early > 47*time.Second:
		w.found[connects] = contradicted("an agent connects %s after its hook", early.Round(time.Second))
	default:
		w.found[connects] = confirmed("it connects %s after its hook", max(0, early).Round(time.Second))
	}
	switch {
	case waits.early:
		w.found[never] = contradicted("an agent that runs its hook is listed")
	case waits.polls > 1 && registered.Before(at.Add(-pollPause)):
		w.missingConfirmed(never, "an agent that runs its hook is not listed")
	default:
		w.missing("no list was read while an agent ran its hook", never)
	}
}

func (w *writer) names() {
	var t tally
	for _, a := range w.agents {
		if a.record != nil {
			t.add(a.record.text("name") == strings.ReplaceAll(a.Title(), "%hostname", w.Write.Host), "the name of an agent does not have the name of its host in place of %%hostname")
		}
	}
	w.found["agent-name"] = t.finding("agent", "with the host's name", "no agent was listed")
}

func (w *writer) priority(jobs map[string][]record) {
	const id = "agent-priority"
	switch job := jobs["priority"]; {
	case len(job) == 0 || job[0].object("agent") == nil:
		w.missing("the job was not taken", id)
	case job[0].object("agent").text("id") != w.agents["high"].id():
		w.found[id] = contradicted("the agent with the lower priority gets the job")
	default:
		w.found[id] = confirmed("of two idle agents, the one with the higher priority gets the job")
	}
}

// pauseAgent pauses an agent of the run.
func (w *writer) pauseAgent(ctx context.Context) {
	const id = "rest-agent-paused"
	low := w.agents["low"]
	if low.record == nil {
		w.missing("the agent did not connect", id)
		return
	}
	if !slices.Contains(w.o.scopes, "write_agents") {
		w.missing("needs the scope write_agents, with --write", id)
		return
	}
	if _, err := w.request(ctx, http.MethodPut, "agents/"+low.id()+"/pause", map[string]any{"note": marker(w.Write.ID), "timeout_in_minutes": 15}); err != nil {
		w.missing("the agent cannot be paused: "+reason(err), id)
		return
	}
	err := w.until(ctx, longestLag, func() (bool, error) {
		err := w.listAgents(ctx)
		return low.record.kind("paused") == "true", err
	})
	w.judge(err, id, "paused is true of the agent that was paused", "paused is %s of an agent that was paused", low.record.kind("paused"))
}

// later checks what takes minutes: an agent that is lost, and the age of counts.
func (w *writer) later(ctx context.Context) {
	lost := w.agents["lost"]
	if lost == nil || lost.frozen.IsZero() {
		w.missing("the agent did not connect", "agent-lost", "metrics-age")
		return
	}
	w.Doing("waiting until Buildkite notices that an agent is lost")
	if w.Clock.Sleep(ctx, lost.frozen.Add(lostWithin+slack/2).Sub(w.Clock.Now())) != nil {
		return
	}
	lost.record = nil
	if err := w.listAgents(ctx); err != nil {
		w.missing(reason(err), "agent-lost", "metrics-age")
		return
	}
	if lost.record != nil {
		w.found["agent-lost"] = contradicted("an agent without heartbeats is listed %s later", w.Clock.Now().Sub(lost.frozen).Round(time.Second))
	} else {
		w.found["agent-lost"] = confirmed("an agent without heartbeats is not listed %s later", w.Clock.Now().Sub(lost.frozen).Round(time.Second))
	}
	w.counts(ctx)
}

// countsAge is the greatest age of the counts in the metrics.
const countsAge = 30 * time.Second

// counts compares the metrics of the run's queue with the list, half a minute after its last change.
func (w *writer) counts(ctx context.Context) {
	const id = "metrics-age"
	list := func() (string, int, error) {
		all, _, _, err := w.list(ctx, "agents?cluster_queue_id="+w.queue, 1)
		ids := map[string]bool{}
		for _, a := range all {
			if _, queue, ok := place(a); ok && queue == w.queue {
				ids[a.text("id")] = true
			}
		}
		return fmt.Sprint(slices.Sorted(maps.Keys(ids))), len(ids), err
	}
	before, n, err := list()
	if err == nil {
		err = w.Clock.Sleep(ctx, countsAge+time.Second)
	}
	var x exchange
	if err == nil {
		x, err = w.agentAPI(ctx, http.MethodGet, "metrics", nil)
	}
	after := ""
	if err == nil {
		after, _, err = list()
	}
	counted, ok := decode(x.body).object("agents").object("queues").object(w.name)["total"].(float64)
	switch {
	case err != nil:
		w.missing(reason(err), id)
	case before != after || n == 0:
		w.missing("the agents of the queue have changed, or none is left", id)
	case !ok:
		w.found[id] = contradicted("the metrics do not count the queue, which is minutes old")
	case int(counted) != n:
		w.found[id] = contradicted("%d agents are counted, and %d listed for half a minute", int(counted), n)
	default:
		w.found[id] = confirmed("%d agents are counted, as many as were listed for half a minute", n)
	}
}
