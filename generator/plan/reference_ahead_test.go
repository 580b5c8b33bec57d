package plan

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

// fresh is "the policy's share of the upcoming jobs", of those that were not looked
// ahead to before, less those of this share for which agents were dispatched "in part";
// and of those of stages what is dispatched if it is not there.
func (r *reference) fresh(i int, upcoming, before []int) int {
	o := r.overlays[i]
	share := func(n int) int { return int(o.Policy.Lookahead * float64(n)) }
	part := 0
	for _, j := range r.snapshot.Jobs {
		if j.State == JobUpcoming && r.looksAhead(j) == i && r.moment(j) == momentUnknown && !r.lookedAhead(j) && !j.Created.After(o.State.InPart.Until) {
			part++
		}
	}
	_, more, held := r.stages(i)
	return share(upcoming[i]-before[i]) - min(share(part), o.State.InPart.Agents) + more + held
}

// lookedAhead: "`state.yaml` remembers the creation of the newest job that was looked
// ahead to, and what any overlay that could take the job remembers counts".
func (r *reference) lookedAhead(j Job) bool {
	return slices.ContainsFunc(r.overlays, func(o *refOverlay) bool { return o.canTake(j) && !j.Created.After(o.State.LookedAhead) })
}

// What is known of when an upcoming job can run.
const (
	momentUnknown = iota
	momentLater   // "no demand yet"
	momentDue
)

// lead: "75 seconds, or where the lease goes by boots what nine of ten took, and a tick", the
// longest of the overlays that look ahead to the job.
func (r *reference) lead(j Job) (longest time.Duration) {
	for _, o := range r.overlays {
		if o.Policy.Lookahead == 0 || !o.canTake(j) {
			continue
		}
		lead := 75 * time.Second
		var seconds []int
		for _, part := range strings.Fields(o.State.Boots.String()) {
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

// moment: a job "is looked ahead to once it is due within boot and transport",
// and "once agents were dispatched for a stage, it stays due".
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

// dispatchedFor: "what any overlay that could take the jobs remembers counts".
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

// lookAheadAgain: "Look-ahead dispatches once for an upcoming job: [...] Idle agents
// and those in flight serve it all the same." So what was looked ahead to before
// asks for as many of them as pending jobs and buffers leave, and no more: else
// the buffer would be filled again instead, and "made again on what it has just
// ordered, it orders nothing" would not hold.
//
// "So do those of another overlay that could take every job that this one looks
// ahead to": byOthers.
func (r *reference) lookAheadAgain(upcoming, before []int) (again, byOthers []int) {
	s := &reference{overlays: r.overlays}
	for _, a := range r.agents {
		there := *a
		s.agents = append(s.agents, &there)
	}
	s.askAgain(r, wantJob)
	s.employAll()
	for i := range r.overlays {
		_, _, held := r.stages(i)
		s.ask(wantAhead, i, held)
	}
	s.employAll()
	held := s.servedAhead()
	s.wants = slices.DeleteFunc(s.wants, func(w *refWant) bool { return w.kind == wantAhead && w.by < 0 })
	for i, o := range r.overlays {
		s.ask(wantBuffer, i, o.Policy.Buffer)
	}
	s.employAll()
	for i, o := range r.overlays {
		jobs, _, _ := r.stages(i)
		s.ask(wantAhead, i, int(o.Policy.Lookahead*float64(upcoming[i]))+jobs-r.fresh(i, upcoming, before))
	}
	s.employAll()
	again = s.servedAhead()
	// What is still to be found are agents for look-ahead alone.
	s.wants = slices.DeleteFunc(s.wants, func(w *refWant) bool { return w.kind != wantJob && w.by < 0 })
	for i := range r.overlays {
		again[i] -= held[i]
		s.ask(wantAhead, i, r.fresh(i, upcoming, before)-held[i])
	}
	s.employAll()
	own := s.servedAhead()
	for i := range r.overlays {
		for k := range r.overlays {
			if i != k && r.takesAllAhead(i, k) {
				s.others = append(s.others, [2]int{i, k})
			}
		}
	}
	s.employAll()
	byOthers = s.servedAhead()
	for i := range byOthers {
		byOthers[i] -= own[i]
	}
	return again, byOthers
}
