package plan

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

// fresh is the policy's share of the new upcoming jobs, less the agents that "are
// subtracted until the share of the others is dispatched"; and of stages, the "share less
// these agents".
func (r *reference) fresh(i int, upcoming, before []int) int {
	o := r.overlays[i]
	share := func(n int) int { return int(o.Policy.Lookahead * float64(n)) }
	part := 0
	for _, j := range r.snapshot.Jobs {
		if j.State == JobUpcoming && r.looksAhead(j) == i && r.moment(j) == momentUnknown && !r.lookedAhead(j) && !j.Created.After(o.State.Partial.Until) {
			part++
		}
	}
	_, more, _ := r.stages(i)
	return share(upcoming[i]-before[i]) - min(share(part), o.State.Partial.Agents) + more
}

// lookedAhead: "`state.yaml` remembers the creation time of the newest job that was looked
// ahead to (`lookedAhead`). What any overlay that could take the job remembers counts."
func (r *reference) lookedAhead(j Job) bool {
	return slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.canTake(j) && !j.Created.After(o.State.LookedAhead) })
}

// What is known of when an upcoming job can run.
const (
	momentUnknown = iota
	momentLater   // "Until then its jobs are not demand"
	momentDue
)

// lead: "75 seconds, or with `lease: auto` and 20 known start-up times their 90th percentile
// and 8 seconds for a tick. The longest time of the overlays that look ahead and could take
// the job counts", in the queue for which the job counts.
func (r *reference) lead(j Job) (longest time.Duration) {
	first := r.looksAhead(j)
	for _, o := range r.overlays {
		if o.Policy.Lookahead == 0 || !o.canTake(j) || first >= 0 && o.Policy.Queue != r.overlays[first].Policy.Queue {
			continue
		}
		lead := 75 * time.Second
		var seconds []int
		for _, part := range strings.Fields(o.State.StartupTimes.String()) {
			var took, agents int
			fmt.Sscanf(part, "%d:%d", &took, &agents)
			seconds = append(seconds, slices.Repeat([]int{took}, agents)...)
		}
		if o.Policy.LeaseAuto && len(seconds) >= 20 {
			lead = time.Duration(seconds[(90*len(seconds)+99)/100-1]+8) * time.Second
		}
		longest = max(longest, lead)
	}
	return longest
}

// moment: a stage "is looked ahead to when it is due within start-up and transport", and
// "Once agents were dispatched for a stage, it stays due".
func (r *reference) moment(j Job) int {
	agents, _ := r.dispatchedFor(j)
	switch {
	case j.Stage != "" && agents > 0, !j.Due.IsZero() && j.Due.Sub(r.snapshot.At) <= r.lead(j):
		return momentDue
	case j.Due.IsZero():
		return momentUnknown
	}
	return momentLater
}

// nameOf is what `state.yaml` calls the jobs of a stage that are alike.
func nameOf(j Job) string {
	return (&class{cluster: j.Cluster, rules: slices.Compact(slices.Sorted(slices.Values(j.Rules)))}).stageName(j.Stage)
}

// dispatchedFor: "What any overlay that could take the jobs remembers counts."
func (r *reference) dispatchedFor(j Job) (agents int, since time.Time) {
	for _, o := range r.overlays {
		for _, a := range o.State.AheadOf {
			if o.canTake(j) && a.Stage == nameOf(j) {
				agents += a.Agents
				if a.At.After(since) {
					since = a.At
				}
			}
		}
	}
	return agents, since
}

// stages says how many agents the stages that an overlay looks ahead to ask for; how many
// of them nothing was dispatched for; and how many were, so shortly ago that "none can
// have idled out".
func (r *reference) stages(i int) (jobs, fresh, held int) {
	o := r.overlays[i]
	first, count := map[string]Job{}, map[string]int{}
	for _, j := range r.snapshot.Jobs {
		if j.State == JobUpcoming && r.looksAhead(j) == i && r.moment(j) == momentDue {
			first[nameOf(j)] = j
			count[nameOf(j)]++
		}
	}
	for name, j := range first {
		chance := sha256.Sum256([]byte(strings.TrimSpace(name)))
		share := int(o.Policy.Lookahead*float64(count[name]) + float64(chance[0])/256)
		agents, since := r.dispatchedFor(j)
		jobs += share
		fresh += max(0, share-agents)
		if r.snapshot.At.Sub(since) < 5*time.Minute {
			held += min(share, agents)
		}
	}
	return jobs, fresh, held
}

// lookAhead asks for what the overlays look ahead to.
func (r *reference) lookAhead(upcoming, before []int) {
	for i, o := range r.overlays {
		jobs, _, held := r.stages(i)
		fresh := r.fresh(i, upcoming, before)
		r.ask(wantHeld, i, held)
		r.ask(wantFresh, i, fresh)
		r.ask(wantAgain, i, int(o.Policy.Lookahead*float64(upcoming[i]))+jobs-fresh-held)
	}
}

// serveThere: "Agents that are connected or in flight serve in this order": "pending jobs",
// "look-ahead that lost an agent", "buffers", "look-ahead that agents were dispatched for
// before", "other look-ahead". Then "unused agents of another overlay of the queue that could
// take every job to which this overlay looks ahead serve its look-ahead, of step 2 first".
func (r *reference) serveThere() {
	for _, kind := range []int{wantJob, wantHeld, wantBuffer, wantAgain, wantFresh} {
		for r.turn = range r.overlays { // "by queue, priority and name"
			r.stage(0, len(r.agents), kind)
		}
	}
	for i := range r.overlays {
		for k := range r.overlays {
			if i != k && r.overlays[i].Policy.Queue == r.overlays[k].Policy.Queue && r.takesAllAhead(i, k) {
				r.others = append(r.others, [2]int{i, k})
			}
		}
	}
	for _, kind := range []int{wantHeld, wantFresh, wantBuffer} {
		for r.turn = range r.overlays { // "by queue, priority and name"
			r.stage(0, len(r.agents), kind)
		}
	}
	r.others = nil
	r.there, r.turn = len(r.agents), -1
}

// stage lets the agents from first to last serve what is asked for of these kinds. What is
// served of other kinds stays served.
func (r *reference) stage(first, last int, kinds ...int) {
	r.kinds = kinds
	for i := first; i < last; i++ {
		r.employ(i)
	}
}
