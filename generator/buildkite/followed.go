package buildkite

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"muster/generator/plan"
)

// listedJob is a job that the Stacks API has listed, until it has ended: what became of
// it says where agents have come.
type listedJob struct {
	queue    string
	rules    []string
	started  bool      // an agent has it
	reserved bool      // by a stack, whose own agent takes it
	told     time.Time // when its state was last told
}

const (
	// statesTogether is how many jobs one request names (docs apis/agent_api/stacks.md
	// "Get job states").
	statesTogether = 1000
	// untoldFor is when a job is given up whose state is not told: it was deleted.
	untoldFor = time.Hour
)

// follow says which of the jobs that were listed before have been taken by an agent. What
// it remembers changes only where all could be read.
func (k *Stacks) follow(ctx context.Context, at time.Time, reading *stackReading) ([]stackRun, error) {
	listed := map[*stackCluster]map[string]*stackJob{}
	for _, c := range k.clusters {
		listed[c] = map[string]*stackJob{}
	}
	for i := range reading.jobs {
		j := &reading.jobs[i]
		listed[j.of][string(j.ID)] = j
	}
	states := map[*stackCluster]map[string]string{}
	for _, c := range k.clusters {
		var ids []string
		for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
			if listed[c][id] == nil {
				ids = append(ids, id)
			}
		}
		var err error
		if states[c], err = k.states(ctx, c, ids); err != nil {
			return nil, err
		}
	}
	var runs []stackRun
	for _, c := range k.clusters {
		for id, j := range listed[c] {
			c.list(id, j, at)
		}
		for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
			if listed[c][id] != nil {
				continue
			}
			if run, taken := c.settle(id, states[c][id], at); taken {
				runs = append(runs, run)
			}
		}
	}
	return runs, nil
}

// stackRun is a job that an agent has taken, and the cluster whose stack listed it.
type stackRun struct {
	plan.Run
	of *stackCluster
}

// states asks for the states of jobs. One that is not answered has none.
func (k *Stacks) states(ctx context.Context, c *stackCluster, ids []string) (map[string]string, error) {
	all := map[string]string{}
	if len(ids) == 0 {
		return all, nil
	}
	token, err := agentToken(c.token)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(ids, statesTogether) {
		var answer struct {
			States map[string]text `json:"states"`
		}
		if err := k.askPaced(ctx, c, scopeStackStates, http.MethodPost, "stacks/"+c.key+"/jobs/get-states", token, map[string]any{"job_uuids": some}, &answer); err != nil {
			c.registered = false // it may be that it is not known any more
			return nil, err
		}
		for id, state := range answer.States {
			all[id] = string(state)
		}
	}
	return all, nil
}

// list notes that a job waits for an agent; one that had been given to an agent was given
// back.
func (c *stackCluster) list(id string, j *stackJob, at time.Time) {
	known := c.jobs[id]
	if known == nil {
		known = &listedJob{queue: j.queue}
		for _, rule := range j.Rules {
			if rule != "*" {
				known.rules = append(known.rules, rule)
			}
		}
		c.jobs[id] = known
	}
	known.started, known.told = false, at
}

// settle goes by the state of a job that is not listed any more (docs
// pipelines/configure/defining_steps.md "Job states"; passed and failed are what REST calls
// finished). False: no agent has taken it, as far as is known. One that is assigned may still
// be refused by its agent, and one that was cancelled before anybody saw that it had an
// agent is taken for one that had none.
func (c *stackCluster) settle(id, state string, at time.Time) (run stackRun, taken bool) {
	j := c.jobs[id]
	running := false
	switch state {
	case "accepted", "running", "canceling", "timing_out":
		running, j.started, j.told = true, j.started || state != "canceling", at
	case "finished", "passed", "failed", "timed_out":
		j.started = true
		delete(c.jobs, id)
	case "reserved":
		j.reserved, j.told = true, at
	case "canceled", "expired", "skipped", "broken":
		delete(c.jobs, id)
	case "":
		if running = j.started; at.Sub(j.told) > untoldFor {
			running = false
			delete(c.jobs, id)
		}
	default: // it waits for something, or that is not known
		j.told = at
	}
	if !j.started || j.reserved {
		return run, false
	}
	return stackRun{plan.Run{ID: id, Queue: j.queue, Rules: j.rules, Running: running}, c}, true
}
