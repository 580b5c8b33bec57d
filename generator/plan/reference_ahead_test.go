package plan

import "slices"

// fresh is "the policy's share of the upcoming jobs", of those that were not looked
// ahead to before, less those of this share for which agents were dispatched "in part".
func (r *reference) fresh(i int, upcoming, before []int) int {
	o := r.overlays[i]
	share := func(n int) int { return int(o.Policy.Lookahead * float64(n)) }
	part := 0
	for _, j := range r.snapshot.Jobs {
		if j.State == JobUpcoming && r.looksAhead(j) == i && !r.lookedAhead(j) && !j.Created.After(o.State.InPart.Until) {
			part++
		}
	}
	return share(upcoming[i]-before[i]) - min(share(part), o.State.InPart.Agents)
}

// lookedAhead: "`state.yaml` remembers the creation of the newest job that was looked
// ahead to, and what any overlay that could take the job remembers counts".
func (r *reference) lookedAhead(j Job) bool {
	return slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.canTake(j) && !j.Created.After(o.State.LookedAhead) })
}
