package ledger

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"muster/generator/plan"
)

// The text of a commit is for a person on call: what was done, why so many agents, and what to check
// after a failure.

// subjectWidth is the number of columns of a subject, if the overlay's name permits it.
const subjectWidth = 72

// subject returns an operation with its reason or outcome in parentheses, as in "default: dispatch 12 agents
// (14 pending, 2 idle)". Details are added while there is room.
func subject(overlay, what string, why []string, details ...string) string {
	line := func(words []string) string {
		if len(words) == 0 {
			return overlay + ": " + what
		}
		return fmt.Sprintf("%s: %s (%s)", overlay, what, strings.Join(words, ", "))
	}
	text := line(why)
	for n := range details {
		longer := line(slices.Concat(why, details[:n+1]))
		if utf8.RuneCountInString(longer) > subjectWidth {
			break
		}
		text = longer
	}
	return text
}

func dispatchSubject(d plan.Decision) string {
	if d.Trial {
		return subject(d.Overlay, "dispatch 1 agent", []string{"trial, the circuit breaker is open"})
	}
	s := d.Figures
	var why, supply []string
	add := func(to *[]string, format string, n int) {
		if n > 0 {
			*to = append(*to, fmt.Sprintf(format, n))
		}
	}
	add(&why, "%d pending", s.Pending-s.OtherOverlays)
	add(&why, "%d upcoming", s.Lookahead)
	add(&why, "buffer %d", s.Buffer)
	if s.Wanted() > s.Missing {
		why = append(why, fmt.Sprintf("min %d", s.Min))
	}
	if limit := s.Binding(); limit != "" {
		why = append(why, limit)
	}
	add(&supply, "%d idle", s.Idle-s.Replacing)
	add(&supply, "%d in flight", s.InFlight-s.Overdue)
	return subject(d.Overlay, "dispatch "+Count(s.Dispatch, "agent"), why, supply...)
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
	text = append(text, reuseSentence(d), GapsSentence(d))
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
		demand += "; look-ahead adds " + Count(s.Lookahead, "upcoming job") + expectedClause(d)
	}
	if s.Buffer > 0 {
		demand += fmt.Sprintf("; the buffer adds %s", Count(s.Buffer, "idle agent"))
	}
	return demand
}

// expectedClause reports that some of the jobs that the overlay looks ahead to do not exist yet; empty if all exist.
func expectedClause(d plan.Decision) string {
	for _, group := range d.Observation.Jobs {
		for _, stage := range group.Stages {
			if stage.Expected && stage.Jobs > 0 && slices.Contains(group.Overlays, d.Overlay) {
				return ", including jobs that first steps are expected to upload"
			}
		}
	}
	return ""
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
		current = "no agent now"
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

// OutcomeOf returns what became of retired or withdrawn orders, as in "5 of 8 registered, failed 2 of 3"; empty
// without orders. failures is the number of consecutive failed orders afterwards.
func OutcomeOf(all []Order, failures int) string {
	text := outcome(all)
	switch {
	case !anyFailed(all) || failures == 0:
		return text
	case failures < plan.Tolerance:
		return fmt.Sprintf("%s, failed %d of %d", text, failures, plan.Tolerance)
	}
	return text + ", circuit breaker open"
}

func anyFailed(all []Order) bool {
	return slices.ContainsFunc(all, func(o Order) bool { return o.Failure != "" })
}

// outcome is [OutcomeOf] without failures.
func outcome(all []Order) string {
	if len(all) == 0 {
		return ""
	}
	agents, registered := 0, 0
	for _, o := range all {
		agents, registered = agents+o.Agents, registered+o.Registered
	}
	some := func(is func(Order) bool) bool { return slices.ContainsFunc(all, is) }
	switch {
	case !some(func(o Order) bool { return !o.Copied }):
		return Pick(len(all), "copy", "copies") + " of another overlay's"
	case all[0].Reason == plan.Withdrawn:
		return "template changed before an agent registered"
	case some(func(o Order) bool { return o.WrongTags }):
		return "agents with wrong tags"
	case some(func(o Order) bool { return o.Failure == plan.NoJobTaken }):
		return "agents took no job"
	case !some(func(o Order) bool { return !o.Stale }):
		return "expired long ago"
	case registered == agents:
		return Count(agents, "agent") + " registered"
	}
	return fmt.Sprintf("%d of %d registered", registered, agents)
}

func endSubject(op Draft) string {
	all, d := op.orders(), op.Decision
	why := []string{outcome(all)}
	switch b := d.State.Breaker; {
	case op.Kind != Retire:
	case d.Closes:
		why = append(why, "circuit breaker closes")
	case anyFailed(all) && b.Open():
		why = append(why, "circuit breaker "+breakerState(d))
	case anyFailed(all) && b.Failures > 0:
		why = append(why, fmt.Sprintf("failed %d of %d", b.Failures, plan.Tolerance))
	}
	return subject(d.Overlay, string(op.Kind)+" "+Count(len(all), "order"), why)
}

// CancelSubject returns the subject of a commit that cancels orders.
func CancelSubject(overlay string, orders []Order) string {
	agents, what, why := 0, "withdraw ", "cancelled"
	for _, o := range orders {
		agents += o.Agents
		if o.NeverCreated {
			what, why = "retire ", "never created"
		}
	}
	return subject(overlay, what+Count(len(orders), "order"), []string{Count(agents, "agent"), why})
}

// stale reports whether a dispatch is so old that muster did not ask Buildkite about its agents.
// Otherwise no registered agent would be a failure.
func stale(r plan.Retirement) bool {
	return r.Reason == plan.Expired && r.Registered == 0 && r.Failure == "" && !r.Withdrawn
}

// outcomeLines returns a sentence for each order, except those that the subject describes completely.
func outcomeLines(all []Order) (lines []string) {
	for _, o := range all {
		if text := outcomeSentence(o, len(all) == 1); text != "" {
			lines = append(lines, wrap(text))
		}
	}
	return lines
}

func retireProse(op Draft) string {
	d := op.Decision
	var paragraphs []string
	if lines := outcomeLines(op.orders()); len(lines) > 0 {
		paragraphs = append(paragraphs, strings.Join(lines, "\n"))
	}
	ids := Unregistered(op.Retirements())
	if command := DeletePending(ids); command != "" {
		paragraphs = append(paragraphs, wrap("A scheduled pod that cannot start, for example because its image cannot be pulled, uses its node until activeDeadlineSeconds expires. "+
			"This command deletes the pods of "+Pick(len(ids), "the Job "+ids[0], "the Jobs")+" that have not started, and no others:")+"\n  "+command)
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

// outcomeSentence returns the outcome of one order, without the numbers if it is the only one, because they are
// in the subject; empty if all its agents registered or its template changed.
func outcomeSentence(r Order, only bool) string {
	switch {
	case r.Copied:
		return fmt.Sprintf("%s is a copy of another overlay's dispatch: that overlay decides on its agents.", r.ID)
	case r.WrongTags:
		return fmt.Sprintf("The agents of %s registered without some of the tags that muster wrote: they can take none of the jobs that they were dispatched for.", r.ID)
	case r.Failure == plan.NoJobTaken:
		return fmt.Sprintf("The agents of %s registered and disconnected without a job: jobs that match their tags were pending, or it was long before their idle time-out.", r.ID)
	case r.Reason == plan.Withdrawn, r.Reason == plan.AllRegistered:
		return ""
	case r.Stale:
		return fmt.Sprintf("The lease of %s expired so long ago that muster did not ask Buildkite about its %s.", r.ID, Count(r.Agents, "agent"))
	case only:
		return fmt.Sprintf("The lease of %s expired.", r.ID)
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
	return fmt.Sprintf("The circuit breaker %s: %s. muster sends the next trial (one agent) at %s or later, if an agent is needed then.", breakerState(d), how, b.NextTrial().UTC().Format(time.RFC3339))
}

// breakerState returns what a decision does to a circuit breaker that is open after it.
func breakerState(d plan.Decision) string {
	if b := d.State.Breaker; b.At.Equal(d.At()) && b.Failures == plan.Tolerance {
		return "opens"
	}
	return "stays open"
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
	var why []string
	if len(a.Faults) == 1 {
		how := "edited"
		if strings.HasPrefix(a.Faults[0].Problem, "was deleted") {
			how = "deleted"
		}
		why = []string{safe(a.Faults[0].File) + " was " + how + " by hand"}
	}
	return subject(a.Decision.Overlay, "repair dispatches/", why)
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
	return strings.Join(lines, "\n") + "\n\n" + suspectsProse(a)
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

// GapsSentence describes from which gaps between jobs the idle time of the dispatched agents was chosen; empty if it
// was not.
func GapsSentence(d plan.Decision) string {
	gaps := d.State.Gaps
	if d.Figures.Demand == 0 || gaps.Len() < plan.MinGaps || !d.State.StartupTimes.Known() {
		return ""
	}
	idle := d.Dispatch[0].IdleTimeout // those for demand come first
	return fmt.Sprintf("This idle time is chosen from start-up times and %d recent gaps between jobs: %d were at most %s.", gaps.Len(), gaps.Within(idle), span(idle))
}
