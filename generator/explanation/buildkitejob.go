package explanation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/generator/history"
	"muster/generator/ledger"
)

// job explains the wait of a Buildkite job. Git contains numbers of jobs and not their identifiers,
// except one example of unmatched jobs. If the time is known from which the job could run, job returns
// the first orders for jobs that were pending then. name is what the user wrote.
func (c Config) job(ctx context.Context, name, id string, at time.Time) ([]Explanation, error) {
	orders, older := map[string]*ledger.Operation{}, 0
	rows := history.Config{Overlays: c.Overlays, Now: c.Now}
	for row, err := range rows.Rows(c.log(ctx, "")) {
		if err != nil {
			return nil, err
		}
		if !row.ByMuster() {
			continue
		}
		if x, ok := unmatchedJob(name, id, &row); ok {
			return []Explanation{x}, nil
		}
		if row.At.Before(at) {
			if older++; older > deepBefore {
				break
			}
		} else if since := row.Observation.Oldest(row.Overlay); row.Kind == ledger.Dispatch && !at.IsZero() && !since.IsZero() && since.Before(at.Add(time.Second)) {
			orders[row.Overlay] = &row
		}
	}
	return served(name, at, orders), ctx.Err()
}

// unmatchedJob explains a job that an observation lists as unmatched.
func unmatchedJob(name, id string, e *ledger.Operation) (Explanation, bool) {
	for _, u := range e.Observation.Unmatched {
		if refersTo(u.Example) != (reference{jobName, id}) {
			continue
		}
		why := fmt.Sprintf("No overlay serves it: none has all of its rules %s, and the closest one lacks %s.", quoted(u.Rules), quoted(u.Missing))
		if u.Unclustered {
			why = fmt.Sprintf("No overlay serves it: its rules are %s, it is in no Buildkite cluster, and the queue is in one.", quoted(u.Rules))
		}
		return Explanation{Subject: "job " + name + ": no agent is ordered for it", At: e.At, Queue: e.Observation.Queue, Poll: e.Observation.At, Why: []string{
			why, fmt.Sprintf("Commit %.7s of %s contains that. Change the step's agent query rules, or an overlay's queue, cluster or tags.", e.ID, e.At.UTC().Format(time.RFC3339)),
		}}, true
	}
	return Explanation{}, false
}

// absentInGit explains that git does not contain an agent or another thing of Buildkite.
func absentInGit(name, kind string) []Explanation {
	if kind != "" {
		kind += " "
	}
	return []Explanation{{Subject: kind + name + ": git does not contain it", Why: []string{
		"muster's commits contain numbers of jobs and agents, and no identifier of Buildkite.",
		"An agent's page in Buildkite shows its name, a dispatch and an index: muster explain NAME. A job's page shows its agent.",
		"If a job is waiting, use its address, and its runnable_at in Buildkite's API as the time: muster explain JOB --at TIME.",
	}}}
}

// served returns the orders whose agents may have served a job.
func served(name string, at time.Time, orders map[string]*ledger.Operation) []Explanation {
	subject := "job " + name
	if at.IsZero() {
		return []Explanation{{Subject: subject + ": git does not contain it", Why: []string{
			"muster's commits contain numbers of jobs, and not their names.",
			"If an agent has taken it, the job's page in Buildkite shows the agent, whose tag dispatch= is the order: muster explain DISPATCH.",
			"If it is waiting, or to see the parts of its wait, use its runnable_at in Buildkite's API as the time: muster explain JOB --at TIME.",
		}}}
	}
	at = at.UTC()
	var all []Explanation
	for _, overlay := range slices.Sorted(maps.Keys(orders)) {
		x := orders[overlay]
		events := append(timeline(x), Event{At: at, What: "this job became runnable, according to --at"})
		slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
		why := []string{fmt.Sprintf("The first order of %s while jobs were pending that had been runnable since then: commit %.7s. If the job matches the overlay's rules, the order was for it and for other pending jobs.", overlay, x.ID)}
		if pending, _ := x.Observation.Count(overlay); pending > x.Agents() {
			why = append(why, fmt.Sprintf("It ordered %s for %s: later orders, or agents that became idle, served the others. muster explain %.7s prints why not more.", ledger.Count(x.Agents(), "agent"), ledger.Count(pending, "pending job"), x.ID))
		}
		why = append(why, "Git does not contain which agent took which job: the job's page in Buildkite shows its agent, whose tag dispatch= is the order. An agent that was connected already may have been faster.")
		all = append(all, Explanation{
			Subject: fmt.Sprintf("job %s: %s of %s", name, strings.Join(x.Dispatches(), " "), overlay),
			At:      at, Overlay: overlay, Queue: x.Queue, Commit: x, Poll: x.Observation.At, Timeline: events,
			Why: why,
		})
	}
	if len(all) == 0 {
		all = []Explanation{{Subject: subject + ": no order was made for it", At: at, Why: []string{
			"No order since then was made while jobs were pending that had been runnable for that long. A connected agent took it, or it is still pending, or no overlay serves it.",
			fmt.Sprintf("muster explain OVERLAY --at %s prints why nothing was ordered then.", at.Format(time.RFC3339)),
		}}}
	}
	return all
}
