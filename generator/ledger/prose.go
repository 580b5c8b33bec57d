package ledger

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
)

// The text of a commit is for a person on call: what was done, why so many agents, and what to check
// after a failure.

func dispatchSubject(d plan.Decision) string {
	if d.Trial {
		return "dispatch 1 agent as a trial"
	}
	return "dispatch " + Count(d.Figures.Dispatch, "agent")
}

func dispatchProse(d plan.Decision) string {
	s := d.Figures
	var text []string
	say := func(format string, args ...any) { text = append(text, fmt.Sprintf(format, args...)) }
	if d.Trial {
		say("The circuit breaker is open: %s.", failures(d.State.Breaker))
		say("This agent is a trial. More agents are dispatched when it registers and takes a job.")
	}
	if d.Schedule != "" {
		say("Schedule %q is in force: min %d, max %d, buffer %d.", safe(d.Schedule), s.Min, s.Max, s.Buffer)
	}
	if d.OverriddenUntil != nil {
		say("An override is in force until %s: min %d, max %d, buffer %d.", d.OverriddenUntil.Format(time.RFC3339), s.Min, s.Max, s.Buffer)
	}
	steps := d.Steps()
	dispatch := steps[plan.StepDispatch]
	wanted := d.Figures.Wanted()
	say("%s.", sentence(demandClause(d)))
	say("%s.", sentence(supplyClause(d)))
	if wanted > s.Missing {
		say("The minimum of %d requires %s.", s.Min, Count(wanted, "agent"))
	}
	text = append(text, busySentence(s), roomSentence(s), otherQueueSentence(d))
	for _, l := range s.Limits {
		text = append(text, l.Sentence())
	}
	if wanted > dispatch.Value {
		say("%s%s needed, but only %d%s dispatched.", sentence(Count(wanted, "agent")), are(wanted), dispatch.Value, are(dispatch.Value))
	}
	switch jobs := Count(len(d.Dispatch), "Job"); {
	case s.Demand > 0 && s.WarmPool > 0:
		say("%s%s for jobs and %d for the warm pool, in %s.", sentence(Count(s.Demand, "agent")), are(s.Demand), s.WarmPool, jobs)
	case len(d.Dispatch) > 1:
		say("They are dispatched in %s, each with at most %d agents.", jobs, plan.JobAgents)
	}
	text = append(text, reuseSentence(d))
	for _, u := range d.Observation.Unmatched {
		why := fmt.Sprintf("no overlay has all of the rules %s. The nearest one lacks %s.", quoted(u.Rules), quoted(u.Missing))
		if u.Unclustered {
			why = fmt.Sprintf("the jobs with the rules %s are in no cluster, and the queue is in one.", quoted(u.Rules))
		}
		say("%s%s unmatched: %s", sentence(Count(u.Jobs, "job")), are(u.Jobs), why)
	}
	return wrap(strings.Join(text, " ")) // empty sentences disappear
}

// demandClause returns the demand, as in "14 jobs are pending".
func demandClause(d plan.Decision) string {
	s := d.Figures
	demand := Count(s.Pending, "job") + are(s.Pending) + " pending"
	if s.OtherOverlays > 0 {
		demand += fmt.Sprintf(", and %d of them%s assigned to %s", s.OtherOverlays, are(s.OtherOverlays), others(d))
	}
	if s.Lookahead > 0 {
		demand += "; look-ahead adds " + Count(s.Lookahead, "upcoming job")
	}
	if s.Buffer > 0 {
		demand += fmt.Sprintf("; the buffer adds %s", Count(s.Buffer, "idle agent"))
	}
	return demand
}

// others returns the names of the other overlays that can take jobs of this one.
func others(d plan.Decision) string {
	var names []string
	for _, group := range d.Observation.Jobs {
		if !slices.Contains(group.Overlays, d.Overlay) || group.Pending == 0 {
			continue
		}
		for _, name := range group.Overlays {
			if name != d.Overlay && !slices.Contains(names, safe(name)) {
				names = append(names, safe(name))
			}
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "other overlays of the queue"
	case 1:
		return "the overlay " + names[0]
	}
	return "the overlays " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// supplyClause describes the existing agents, those of them that do not count, and the
// number of missing agents, as in "2 agents are idle and none is in flight, so 3 are
// missing".
func supplyClause(d plan.Decision) string {
	s := d.Figures
	supply := "no agent is idle or in flight"
	if s.Idle > 0 || s.InFlight > 0 {
		inFlight := fmt.Sprintf("%d%s", s.InFlight, are(s.InFlight))
		if s.InFlight == 0 {
			inFlight = "none is"
		}
		supply = Count(s.Idle, "agent") + are(s.Idle) + " idle and " + inFlight + " in flight"
	}
	var not []string
	if s.Replacing > 0 {
		why := "close to the idle time-out of the warm pool"
		if d.Observation.Capacity(d.Overlay).Reusable > 0 {
			why = "close to the idle time-out or the uptime, or of an older template,"
		}
		not = append(not, fmt.Sprintf("%s %s and %s not count", Count(s.Replacing, "idle agent")+are(s.Replacing), why, Pick(s.Replacing, "does", "do")))
	}
	if s.Overdue > 0 {
		not = append(not, fmt.Sprintf("%d in flight%s overdue, more than %s after the order, and %s not count", s.Overdue, are(s.Overdue), span(time.Duration(s.OverdueAfter)*time.Second), Pick(s.Overdue, "does", "do")))
	}
	if s.NonMatching > 0 {
		not = append(not, fmt.Sprintf("%d of them cannot serve these jobs because of their tags", s.NonMatching))
	}
	if len(not) > 0 {
		supply += ", but " + strings.Join(not, ", and ")
	}
	if s.Missing > 0 {
		supply += fmt.Sprintf(", so %d%s missing", s.Missing, are(s.Missing))
	}
	return supply
}

// busySentence returns the numbers of busy agents of the overlay and of the queue; empty if none is busy.
func busySentence(s plan.Figures) string {
	switch {
	case s.Busy == 0 && s.QueueBusy == 0:
		return ""
	case s.QueueBusy <= s.Busy:
		return fmt.Sprintf("%s of this overlay%s busy.", sentence(Count(s.Busy, "agent")), are(s.Busy))
	case s.Busy == 0:
		return fmt.Sprintf("%s of the queue%s busy; none of them belongs to this overlay.", sentence(Count(s.QueueBusy, "agent")), are(s.QueueBusy))
	}
	return fmt.Sprintf("%s of the queue%s busy; %d of them %s to this overlay.", sentence(Count(s.QueueBusy, "agent")), are(s.QueueBusy), s.Busy, Pick(s.Busy, "belongs", "belong"))
}

// roomSentence returns how many more agents max allows.
func roomSentence(s plan.Figures) string {
	current := Count(s.Current, "agent") + " (idle, busy or in flight)"
	if s.Current == 0 {
		current = "no agent yet"
	}
	if s.Stopping > 0 {
		current += fmt.Sprintf(", and %d more that%s stopping", s.Stopping, are(s.Stopping))
	}
	return fmt.Sprintf("The overlay has %s: the maximum of %d allows %d more.", current, s.Max, s.Room)
}

// otherQueueSentence returns how many agents an edit of the policy left behind; empty if it left
// none.
func otherQueueSentence(d plan.Decision) string {
	n := d.Observation.Capacity(d.Overlay).OtherQueue
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s in another queue or cluster than the policy says, and %s as stopping.",
		sentence(Count(n, "agent"))+are(n), Pick(n, "counts", "count"))
}

// retireSubject returns the subject of a retirement with its outcome: it differs for a dispatch
// whose agents did not register.
func retireSubject(all []Order) string {
	return "retire " + Count(len(all), "dispatch") + ", " + OutcomeOf(all)
}

// OutcomeOf returns what became of retired or withdrawn dispatches, as in "5 of its 8 agents registered";
// empty without dispatches.
func OutcomeOf(all []Order) string {
	if len(all) == 0 {
		return ""
	}
	agents, registered, stale, copied := 0, 0, 0, 0
	idle, tags := 0, 0
	for _, o := range all {
		agents += o.Agents
		registered += o.Registered
		if o.Failure == plan.NoJobTaken {
			idle++
		}
		if o.WrongTags {
			tags++
		}
		if o.Stale {
			stale++
		}
		if o.Copied {
			copied++
		}
	}
	its := Pick(len(all), "its", "their")
	whose := func(n int) string {
		if n == len(all) {
			return its + " agents"
		}
		return fmt.Sprintf("the agents of %d of them", n)
	}
	switch {
	case copied == len(all):
		return Pick(len(all), "a copy", "copies") + " of another overlay's"
	case tags > 0:
		return whose(tags) + " have the wrong tags"
	case idle > 0:
		return whose(idle) + " took no job"
	case all[0].Reason == plan.Withdrawn:
		return its + Pick(len(all), " template", " templates") + " changed before an agent registered"
	case stale == len(all):
		return its + Pick(len(all), " lease", " leases") + " expired long ago"
	case registered == 0 && agents == 1:
		return its + " agent did not register"
	case registered == 0:
		return "none of " + its + " " + Count(agents, "agent") + " registered"
	case registered == agents && agents == 1:
		return its + " agent registered"
	case registered == agents:
		return "all " + Count(agents, "agent") + " registered"
	}
	return fmt.Sprintf("%d of %s %s registered", registered, its, Count(agents, "agent"))
}

func withdrawSubject(all []Order) string {
	return "withdraw " + Count(len(all), "dispatch") + ", " + OutcomeOf(all)
}

// stale reports whether a dispatch is so old that muster did not ask Buildkite about its agents.
// Otherwise no registered agent would be a failure.
func stale(r plan.Retirement) bool {
	return r.Reason == plan.Expired && r.Registered == 0 && r.Failure == "" && !r.Withdrawn
}

// outcomeLines returns a sentence for each dispatch.
func outcomeLines(all []Order) string {
	var lines []string
	for _, o := range all {
		lines = append(lines, wrap(outcomeSentence(o)))
	}
	return strings.Join(lines, "\n")
}

func withdrawProse(all []Order) string {
	return outcomeLines(all) + "\n\n" + wrap("No syncer applies a withdrawn manifest any more, so that a refused Job does not block others. The agents count as in flight until the lease expires: a Job may have started just before.")
}

func retireProse(op Draft) string {
	d, all := op.Decision, op.orders()
	what := Pick(len(all), "The manifest is", "The manifests are")
	paragraphs := []string{outcomeLines(all), wrap(what + " removed from git, so that no syncer runs the Job again. Running agents are not affected.")}
	ids := Unregistered(op.Retirements())
	if command := DeletePending(ids); command != "" {
		paragraphs = append(paragraphs, wrap("A scheduled pod that cannot start, for example because its image cannot be pulled, uses its node until activeDeadlineSeconds expires. "+
			"This command deletes the pods of "+Pick(len(ids), "the Job "+ids[0], "the Jobs")+" that have not started, and no others:")+"\n  "+command)
	}
	if d.Closes {
		paragraphs = append(paragraphs, wrap("The circuit breaker closes: the last order did not fail. muster dispatches agents as needed again."))
	}
	if b := d.State.Breaker; b.Failures > 0 {
		paragraphs = append(paragraphs, wrap(breakerSentence(d)), whatToCheck(d))
	}
	return strings.Join(paragraphs, "\n\n")
}

// Unregistered returns the expired dispatches with agents that did not register. Copies of another
// overlay's dispatches are not among them: their Jobs have the same names.
func Unregistered(all []plan.Retirement) []string {
	var ids []string
	for _, r := range all {
		if r.Reason == plan.Expired && r.Registered < r.Agents && !r.Copied {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// DeletePending returns the command that deletes the pods of dispatches that have not started; empty
// without dispatches. A person runs it, because muster has no access to clusters, and no deadline of
// Kubernetes excludes pods that have started. It does not delete the Job, whose other pods may be
// agents with a job.
func DeletePending(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	selector := "muster.dev/dispatch=" + ids[0]
	if len(ids) > 1 {
		selector = "'muster.dev/dispatch in (" + strings.Join(ids, ",") + ")'"
	}
	return "kubectl delete pods -A -l " + selector + " --field-selector status.phase=Pending"
}

// outcomeSentence returns the outcome of one dispatch.
func outcomeSentence(r Order) string {
	switch {
	case r.Copied:
		return fmt.Sprintf("%s is a copy of another overlay's dispatch: that overlay decides on its agents.", r.ID)
	case r.WrongTags:
		return fmt.Sprintf("The agents of %s registered without some of the tags that muster wrote: they can take none of the jobs that they were dispatched for.", r.ID)
	case r.Failure == plan.NoJobTaken:
		return fmt.Sprintf("The agents of %s registered and disconnected without a job: jobs that match their tags were pending, or it was long before their idle time-out.", r.ID)
	case r.Reason == plan.Withdrawn:
		return fmt.Sprintf("%s is withdrawn: the template has changed since it was ordered, and %s.", r.ID, Pick(r.Agents, "its one agent has not registered", fmt.Sprintf("none of its %d agents has registered", r.Agents)))
	case r.Stale:
		return fmt.Sprintf("The lease of %s expired so long ago that muster did not ask Buildkite about its %s.", r.ID, Count(r.Agents, "agent"))
	case r.Registered == 0:
		return fmt.Sprintf("The lease of %s expired: %s.", r.ID, Pick(r.Agents, "its one agent did not register", fmt.Sprintf("none of its %d agents registered", r.Agents)))
	case r.Reason == plan.AllRegistered:
		return fmt.Sprintf("%s has started: %s registered.", r.ID, Pick(r.Agents, "its one agent", fmt.Sprintf("all its %d agents", r.Agents)))
	}
	return fmt.Sprintf("The lease of %s expired: %d of its %s registered.", r.ID, r.Registered, Count(r.Agents, "agent"))
}

// breakerSentence returns the number of consecutive failures and their consequence.
func breakerSentence(d plan.Decision) string {
	b, now := d.State.Breaker, d.At()
	how := failures(b)
	if b.At.Equal(now) { // found just now
		switch {
		case wrongTags(d):
			how = "one order whose agents have the wrong tags is enough"
		case b.Failures > plan.Tolerance:
			how = fmt.Sprintf("the order of %s failed too", b.Dispatch)
		default:
			how = fmt.Sprintf("the order of %s failed, number %d in a row", b.Dispatch, b.Failures)
		}
	}
	if !b.Open() {
		return fmt.Sprintf("%s. After %d failed orders in a row, the circuit breaker opens, and muster sends only trials.", sentence(how), plan.Tolerance)
	}
	state := "stays open"
	if b.At.Equal(now) && b.Failures == plan.Tolerance {
		state = "opens"
	}
	return fmt.Sprintf("The circuit breaker %s: %s. muster sends the next trial (one agent) at %s or later, if an agent is needed then.", state, how, b.NextTrial().UTC().Format(time.RFC3339))
}

// wrongTags reports whether the last failed order is retired now, and its agents registered with the wrong
// tags.
func wrongTags(d plan.Decision) bool {
	return slices.ContainsFunc(d.Retire, func(r plan.Retirement) bool { return r.ID == d.State.Breaker.Dispatch && r.WrongTags > 0 })
}

// failures describes the failures of an overlay's last orders. It omits their number once the
// breaker is open: one order whose agents have the wrong tags opens it like three other failed
// orders.
func failures(b plan.Breaker) string {
	switch {
	case b.Failures == 1:
		return fmt.Sprintf("the order of %s failed before this one (%s)", b.Dispatch, b.Cause)
	case b.Open():
		return fmt.Sprintf("the last orders failed, most recently %s (%s)", b.Dispatch, b.Cause)
	}
	return fmt.Sprintf("%d orders in a row failed, most recently %s (%s)", b.Failures, b.Dispatch, b.Cause)
}

// whatToCheck returns what a person should check.
func whatToCheck(d plan.Decision) string {
	b := d.State.Breaker
	check := "Check: does the syncer apply this overlay? Do the pods start (image, quota, nodes, Secret)? Do their agents reach Buildkite, in the right cluster and queue?"
	switch {
	case wrongTags(d):
		check = "Check: does the template's command pass $MUSTER_AGENT_TAGS on? Does the image set tags of its own?"
	case b.Cause == plan.NoJobTaken:
		check = "Check: do the agents' tags match the jobs in Buildkite (queue, cluster)? Why do the agents exit (their log, the pods' exit codes)? Is the queue paused?"
	}
	return wrap(check) + "\n  kubectl get jobs,pods -A -l muster.dev/dispatch=" + b.Dispatch
}

func repairSubject(a Draft) string {
	if len(a.Faults) != 1 {
		return "repair dispatches/"
	}
	how := "edited"
	if strings.HasPrefix(a.Faults[0].Problem, "was deleted") {
		how = "deleted"
	}
	return "repair dispatches/, " + a.Faults[0].File + " was " + how + " by hand"
}

// repairProse returns what was edited by hand, how it is restored, and the commits that may have done
// it.
func repairProse(a Draft) string {
	lines := []string{wrap("Somebody else changed files that belong to muster:")}
	faults := a.Faults
	if len(faults) == 0 {
		for _, c := range a.Changes {
			faults = append(faults, Fault{File: path.Base(c.Path), Problem: "was changed"})
		}
	}
	for _, f := range faults {
		lines = append(lines, hanging("  ", safe(f.File)+" "+safe(f.Problem)+". "+sentence(restored(a, f))+"."))
	}
	paragraphs := []string{strings.Join(lines, "\n"), suspectsProse(a)}
	return strings.Join(append(paragraphs, wrap("This commit neither orders nor stops agents.")), "\n\n")
}

// restored returns how the operation repairs a file.
func restored(a Draft, f Fault) string {
	if f.Withdrawn {
		return "no syncer applies it any more, and the agents of its order count as in flight until the lease expires"
	}
	for _, c := range a.Changes {
		if strings.HasSuffix(c.Path, "/"+f.File) && c.Content == nil {
			return "it is removed"
		}
	}
	return "it is written again"
}

// maxSuspects is the maximum number of commits that a repair lists.
const maxSuspects = 3

// suspectsProse lists the commits that may have caused a repair.
func suspectsProse(a Draft) string {
	switch {
	case a.SuspectsUnknown:
		return wrap("Which commit changed them is not known: the log of the branch could not be read.")
	case len(a.Suspects) == 0:
		return wrap("Which commit changed them is not known: the log has no commit of anybody else since muster's last commit to this overlay.")
	}
	lines := []string{wrap("Commits of others since muster's last commit to this overlay, the newest first. One of them probably changed the files:")}
	for _, s := range a.Suspects[:min(len(a.Suspects), maxSuspects)] {
		lines = append(lines, hanging("  ", fmt.Sprintf("%.12s by %s: %s", safe(s.Commit), safe(s.Author), safe(s.Subject))))
	}
	if more := len(a.Suspects) - maxSuspects; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// reuseSentence describes for how long the dispatched agents take jobs; empty if they are not
// reusable.
func reuseSentence(d plan.Decision) string {
	idle, uptime := map[plan.Purpose]time.Duration{}, time.Duration(0)
	for _, x := range d.Dispatch {
		if x.Uptime > 0 {
			idle[x.Purpose], uptime = x.IdleTimeout, x.Uptime
		}
	}
	jobs, pool := idle[plan.ForDemand], idle[plan.ForWarmPool]
	until := ""
	switch {
	case uptime == 0:
		return ""
	case jobs > 0 && pool > 0 && pool < uptime:
		until = fmt.Sprintf(" until idle for %s, those of the warm pool for %s,", span(jobs), span(pool))
	case jobs > 0 && pool > 0:
		until = fmt.Sprintf(" until idle for %s, those of the warm pool however long they are idle,", span(jobs))
	case jobs > 0:
		until = fmt.Sprintf(" until idle for %s,", span(jobs))
	case pool < uptime:
		until = fmt.Sprintf(" until idle for %s,", span(pool))
	}
	return fmt.Sprintf("%s jobs%s for %s at most.", Pick(d.Figures.Dispatch, "The agent dispatched takes", "The agents dispatched take"), until, span(uptime))
}
