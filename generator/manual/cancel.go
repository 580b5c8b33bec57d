package manual

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// Cancel withdraws dispatches of one overlay: no syncer applies their manifests any more. Their agents
// count until the lease expires, because the cluster may have started them. If neverCreated, a person says
// that it has not: then they are removed, also those that are withdrawn already, and count no longer.
func Cancel(o *fleet.Overlay, ids []string, neverCreated bool) (Edit, error) {
	var todo, pruned []string
	var orders []ledger.Order
	var until time.Time
	var e Edit
	for _, id := range ids {
		at := slices.IndexFunc(o.Dispatches, func(d plan.Dispatch) bool { return d.ID == id })
		if at < 0 {
			return Edit{}, fmt.Errorf("%s has no dispatch %q", o.Name, id)
		}
		d := o.Dispatches[at]
		if d.Withdrawn && !neverCreated {
			e.Notes = append(e.Notes, id+" is already cancelled.")
			continue
		}
		todo, orders = append(todo, id), append(orders, ledger.Order{ID: id, Agents: d.Agents, NeverCreated: neverCreated, Copied: o.Copied(d)})
		e.Says = append(e.Says, fmt.Sprintf("%s of %s, ordered at %s", id, ledger.Count(d.Agents, "agent"), d.At.UTC().Format(time.RFC3339)))
		if !d.Withdrawn && !o.KeepsJob(d) {
			pruned = append(pruned, id)
		}
		if end := d.NotAfter.Add(plan.Grace); end.After(until) {
			until = end
		}
	}
	if len(todo) == 0 {
		return e, nil
	}
	withdraw := o.Cancel
	if neverCreated {
		withdraw = o.Forget
	}
	_, changes, err := withdraw(todo)
	if err != nil {
		return Edit{}, err
	}
	e.Changes = changes
	e.Operation = operation(ledger.Cancel, o)
	e.Operation.Orders = orders
	e.Subject = ledger.CancelSubject(o.Name, orders)
	if neverCreated {
		e.Notes = append(e.Notes, "Their agents no longer count. If the cluster has created a Job of them after all, max may be exceeded, and jobs may get two agents.",
			"muster then orders agents for jobs that are still pending. To prevent that: muster pause "+o.Name+".")
		return e, nil
	}
	job := "A Job that the cluster has created stays, because its annotations prevent Argo CD and Flux from deleting it: its agents continue. To delete pods that have not started: " + ledger.DeletePending(todo)
	if len(pruned) > 0 {
		job = "A syncer that prunes deletes the Job of " + strings.Join(pruned, ", ") + " with all its pods, because an annotation that prevents this is missing: agents that run a job are terminated."
	}
	e.Notes = append(e.Notes, job,
		fmt.Sprintf("The cluster may have started some of them by now: they count as in flight until they register or %s, so that nothing is ordered twice. If it has created no Job of them: --never-created.", until.UTC().Format(time.RFC3339)),
		"muster then orders agents for jobs that are still pending. To prevent that: muster pause "+o.Name+".")
	return e, nil
}
