package simulation

import (
	"cmp"
	"slices"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/plan"
)

// Waits sums up how long jobs have waited from the moment they could run.
type Waits struct {
	Mean, P50, P95, Max time.Duration
}

// Measures are what one run came to.
type Measures struct {
	// Jobs are those that became runnable and that the agents match, retries
	// included. Unmatched are those that no agent could ever take, and Cancelled
	// those that were cancelled while they waited for one: they are not among Jobs.
	Jobs, Unmatched, Cancelled int
	// Wait is of the jobs that were served, Bound what it would have been at
	// the earliest: see [bound].
	Wait, Bound Waits
	// Agents is how many registered, Unused how many of them left without ever
	// having had a job, and NeverRegistered how many were started and never registered.
	Agents, Unused, NeverRegistered int
	// Idle is the time that all agents together waited for work.
	Idle time.Duration
	// Pods is the time that all pods together had a node, from their creation on: what
	// they cost.
	Pods time.Duration
	// Connected is the time that all agents together were connected, and ByHour that of
	// each hour of the run.
	Connected time.Duration
	ByHour    []time.Duration
	// Commits is how many commits were made; see [Operation].
	Commits int
	// Unserved jobs had not started when the run ended.
	Unserved int
	// Highest is the largest number of agents that were connected at once.
	Highest int
}

// PodsPerJob is what a job costs: the time of all pods, shared by the jobs.
func (m Measures) PodsPerJob() time.Duration { return m.Pods / time.Duration(max(1, m.Jobs)) }

// unserved counts the jobs that could have been served and were not.
func (r *run) unserved() int {
	n := 0
	mine := r.overlay.AgentTags()
	for _, j := range r.buildkite.Jobs() {
		if !j.Runnable.IsZero() && j.Started.IsZero() && j.Finished.IsZero() && plan.Satisfies(mine, j.Rules) {
			n++
		}
	}
	return n
}

func (r *run) measures(unserved int) Measures {
	stats := r.buildkite.Stats()
	m := Measures{
		Agents: stats.Agents, Unused: stats.Unused, NeverRegistered: r.neverRegistered, Idle: stats.Idle, Pods: r.podTime,
		Commits: r.commits, Unserved: unserved, Highest: highest(r.buildkite.Agents()),
	}
	m.Connected, m.ByHour = connected(r.buildkite.Agents(), r.start, r.buildkite.Now())
	mine := r.overlay.AgentTags()
	var served []fakebuildkite.JobRecord
	var waits []time.Duration
	for _, j := range r.buildkite.Jobs() {
		switch {
		case j.Runnable.IsZero():
		case !plan.Satisfies(mine, j.Rules):
			m.Unmatched++
		case j.Started.IsZero() && !j.Finished.IsZero():
			m.Cancelled++
		default:
			m.Jobs++
			if !j.Started.IsZero() {
				served = append(served, j)
				waits = append(waits, j.Started.Sub(j.Runnable))
			}
		}
	}
	m.Wait = SumUp(waits)
	m.Bound = SumUp(r.bound(served))
	return m
}

// connected sums up how long agents were there, by the hour since the start.
func connected(agents []fakebuildkite.AgentRecord, start, now time.Time) (all time.Duration, byHour []time.Duration) {
	byHour = make([]time.Duration, int(now.Sub(start)/time.Hour)+1)
	for _, a := range agents {
		end := cmp.Or(a.Ended, now)
		all += end.Sub(a.Connected)
		for from := a.Connected; from.Before(end); {
			hour := int(from.Sub(start) / time.Hour)
			to := start.Add(time.Duration(hour+1) * time.Hour)
			if end.Before(to) {
				to = end
			}
			byHour[hour] += to.Sub(from)
			from = to
		}
	}
	return all, byHour
}

// highest counts the agents that were there at once.
func highest(agents []fakebuildkite.AgentRecord) int {
	var comings, goings []time.Time
	for _, a := range agents {
		comings = append(comings, a.Connected)
		if !a.Ended.IsZero() {
			goings = append(goings, a.Ended)
		}
	}
	slices.SortFunc(comings, time.Time.Compare)
	slices.SortFunc(goings, time.Time.Compare)
	most, gone := 0, 0
	for i, at := range comings {
		for gone < len(goings) && !goings[gone].After(at) {
			gone++
		}
		most = max(most, i+1-gone)
	}
	return most
}

// SumUp summarizes waits, and sorts them; without waits the result is zero. A percentile is the
// smallest wait that this percentage of the jobs did not exceed.
func SumUp(waits []time.Duration) Waits {
	n := len(waits)
	if n == 0 {
		return Waits{}
	}
	slices.Sort(waits)
	var sum time.Duration
	for _, w := range waits {
		sum += w
	}
	at := func(percent int) time.Duration { return waits[(n*percent+99)/100-1] }
	return Waits{Mean: sum / time.Duration(n), P50: at(50), P95: at(95), Max: waits[n-1]}
}
