package condition

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"muster/generator/plan"
)

// Overlay is what the conditions of an overlay are computed from.
type Overlay struct {
	Name string
	// Decision is the decision at the time of the last poll; nil if muster could not decide.
	Decision *plan.Decision
	// Suspended is why nothing is ordered. It may be more recent than the decision.
	Suspended plan.Suspension
	// Now is the time of the conditions, and Polled that of the poll; zero if the poll is new. If
	// the poll is old, because git records no later one, agents may have registered since. Then
	// Recorded, the circuit breaker in git, tells which orders have failed.
	Now, Polled time.Time
	Recorded    plan.Breaker
	// Repair is the subject of muster's last repair, and Repaired its time; both may be zero.
	Repair   string
	Repaired time.Time
	// StateError is why state.yaml is ignored; empty if it is valid.
	StateError string
}

// RepairShown is how long after a repair an overlay counts as drifted, so that people who look
// within a few minutes see it.
const RepairShown = 15 * time.Minute

// Conditions returns the conditions of the overlay: one of each type that concerns overlays, in a
// fixed order, and one of Degraded for each reason. LastTransitionTime is set only if the decision
// contains it.
func (o Overlay) Conditions() []Condition {
	all := append([]Condition{o.suspended(), o.push(), o.agentsArriving(), o.scalingLimited(), o.jobsServed(), o.drifted()}, o.degraded()...)
	all = WithoutSymptoms(all)
	if arriving, limited := all[2], &all[3]; arriving.Reason == NotRecorded && limited.Abnormal() {
		limited.Remedy = "Run muster plan first: if agents do not register, a higher max only orders more of them. " + limited.Remedy
	}
	ready := Normal(Ready)
	if o.Decision == nil {
		ready = notDecided(Ready)
	}
	if all[2].Reason == NotRecorded {
		ready.Status, ready.Reason = Unknown, NotRecorded
	}
	for _, c := range all[:3] {
		if c.Abnormal() {
			c.Type, c.Status = Ready, False
			ready = c
			break
		}
	}
	all = append([]Condition{ready}, all...)
	for i := range all {
		all[i].Overlay = o.Name
		if o.outdated() && all[i].Abnormal() && all[i].OfPoll() {
			all[i].Message += ", as of the last poll in git at " + o.Polled.UTC().Format(time.RFC3339)
		}
		if all[i].Type == JobsServed && o.Decision != nil {
			all[i].Queue = o.Decision.Queue
		}
	}
	return all
}

func (o Overlay) suspended() Condition {
	c := Normal(Suspended)
	switch s := o.Suspended; s.Code {
	case "", plan.BreakerOpen, plan.AgentsCannotWork, plan.PushRefused: // conditions of their own
	default:
		c.Status, c.Reason, c.Message, c.Remedy = True, string(s.Code), details(s), remedies[string(s.Code)]
	}
	return c
}

// details returns a suspension in words, without those of its code.
func details(s plan.Suspension) string {
	_, details, _ := strings.Cut(s.String(), ": ")
	return details
}

func (o Overlay) push() Condition {
	c := Normal(PushAccepted)
	if o.Suspended.Code == plan.PushRefused {
		c.Status, c.Reason, c.Message, c.Remedy = False, Refused, o.Suspended.Finding, remedies[Refused]
	}
	return c
}

// agentsArriving describes whether the agents that were ordered register. muster sees no pods: a
// missing Secret, an image that cannot be pulled, a full quota and a suspended syncer look the
// same.
func (o Overlay) agentsArriving() Condition {
	if o.Decision == nil && !o.Recorded.Open() || o.Suspended.Code == plan.Invalid {
		return notDecided(AgentsArriving)
	}
	c := Normal(AgentsArriving)
	var a plan.Arrival
	b := o.Recorded
	if o.Decision != nil {
		a = o.Decision.Arrival
	}
	if o.Decision != nil && !o.outdated() {
		b = o.Decision.State.Breaker
	} else {
		a.FailedOrders = b.Failures
	}
	overdue := ""
	if a.Agents > 0 {
		overdue = fmt.Sprintf("%d of %s registered, the oldest order is %d min old", a.Registered, count(a.Agents, "agent"), o.Now.Sub(a.Ordered)/time.Minute)
	}
	switch {
	case b.Open():
		c.Status, c.Reason, c.Message = False, BreakerOpen, "the circuit breaker is open: "+failedOrders(b)
		if next := o.Suspended.NextTrial; next != nil {
			c.Message += "; next trial at " + next.UTC().Format(time.RFC3339)
		}
		c.LastTransitionTime = b.At
	case o.Suspended.Code == plan.AgentsCannotWork:
		c.Status, c.Reason, c.Message = False, string(plan.AgentsCannotWork), details(o.Suspended)
		return c.WithRemedy()
	case a.FailedOrders > 0:
		c.Status, c.Reason, c.Message = False, OrdersFailed, failedOrders(b)
		c.LastTransitionTime = b.At
	case overdue != "" && o.outdated():
		c.Status, c.Reason = Unknown, NotRecorded
		c.Message = fmt.Sprintf("git records no poll since %s: of %s ordered %d min ago, %d had registered then",
			o.Polled.UTC().Format(time.RFC3339), count(a.Agents, "agent"), o.Now.Sub(a.Ordered)/time.Minute, a.Registered)
		c.Remedy = remedies[NotRecorded]
		return c
	case overdue != "":
		c.Status, c.Reason, c.Message = False, Overdue, overdue
		if a.NewTemplate {
			c.Message += "; agents of an earlier template did, but none since the template changed"
		}
	default:
		return c
	}
	c.Remedy = remedies[c.Reason]
	if c.Reason != Overdue {
		c.Remedy = cmp.Or(remedies[string(b.Cause)], c.Remedy)
	}
	if c.Reason == Overdue && a.NewTemplate {
		c.Remedy = "The template has changed: look at that commit first (git log -3 -- base " + quoted("overlays/"+o.Name+"/template") + "). " + c.Remedy
	}
	if c.Reason == Overdue && a.Registered > 0 {
		c.Remedy = "Some agents of these orders have registered, so the others may wait for room: check first which pods are Pending (nodes, quota). " + c.Remedy
	}
	c.Remedy = strings.ReplaceAll(c.Remedy, "=NAME", "="+plan.Slug(o.Name))
	switch c.Reason {
	case BreakerOpen:
		c.Remedy += " After the repair, run muster close-breaker, or wait for the next trial: a successful trial closes the circuit breaker."
	case OrdersFailed:
		c.Remedy += " After the repair, run muster close-breaker, or wait until an agent of the next order registers."
	}
	return c
}

// OutdatedAfter is the age from which a poll is outdated: agents may have registered since.
const OutdatedAfter = time.Minute

func (o Overlay) outdated() bool { return !o.Polled.IsZero() && o.Now.Sub(o.Polled) > OutdatedAfter }

// failedOrders returns how many orders failed in a row, and how, as in "the last 2 orders failed:
// 0 of 16 agents registered".
func failedOrders(b plan.Breaker) string {
	how := b.Cause.String()
	if b.Open() && b.Cause == plan.NoJobTaken { // a single order may have opened the circuit breaker
		return "the last orders failed: " + how
	}
	if b.Cause == plan.NeverRegistered && b.Agents > 0 {
		how = "0 of " + count(b.Agents, "agent") + " registered"
	}
	if b.Failures == 1 {
		return "the last order failed: " + how
	}
	return fmt.Sprintf("the last %d orders failed: %s", b.Failures, how)
}

func (o Overlay) scalingLimited() Condition {
	if o.Decision == nil {
		return notDecided(ScalingLimited)
	}
	c, s := Normal(ScalingLimited), o.Decision.Figures
	for _, l := range o.Decision.Limits() {
		why := l.Why
		switch l.Name {
		case "max":
			c.Reason, why = MaxReached, fmt.Sprintf("max is %d", s.Max)
			if name := o.Decision.Schedule; name != "" {
				why += fmt.Sprintf(" while the schedule %q is in force", name)
				c.Remedy = "Nothing, if the schedule is right. An override takes precedence over it: muster set NAME max=N --for 2h."
			}
			why += fmt.Sprintf(", and %d are connected or in flight", s.Current+s.Stopping)
			if s.Stopping > 0 {
				why += fmt.Sprintf(", %d of them stopping or paused in Buildkite", s.Stopping)
				c.Remedy = "Look at the queue's agents in Buildkite first: paused ones take no job and count until somebody resumes or stops them. " + cmp.Or(c.Remedy, remedies[MaxReached])
			}
		case "maxPerHour":
			c.Reason = HourlyLimitReached
		default:
			continue
		}
		c.Status, c.Message = True, fmt.Sprintf("%s fewer than needed: %s", count(l.Agents, "agent"), why)
		c.Remedy = cmp.Or(c.Remedy, remedies[c.Reason])
		return c
	}
	return c
}

func (o Overlay) jobsServed() Condition {
	if o.Decision == nil {
		return notDecided(JobsServed)
	}
	c := Normal(JobsServed)
	var groups []string
	for _, u := range o.Decision.Observation.Unmatched {
		groups = append(groups, fmt.Sprintf("%d with the agent query rules %q (%s), for example %q", u.Jobs, u.Rules, u.Why(), u.Example))
	}
	if len(groups) > 0 {
		c.Status, c.Reason, c.Remedy = False, NoMatch, remedies[NoMatch]
		c.Message = "jobs match no overlay of the queue: " + strings.Join(groups, "; ")
	}
	return c
}

func (o Overlay) drifted() Condition {
	c := Normal(Drifted)
	if !o.Repaired.IsZero() && !o.Now.Before(o.Repaired) && o.Now.Sub(o.Repaired) < RepairShown {
		c.Status, c.Reason, c.Remedy = True, EditedByHand, remedies[EditedByHand]
		c.Message = fmt.Sprintf("muster repaired a manual edit at %s: %s", o.Repaired.UTC().Format(time.RFC3339), o.Repair)
		c.LastTransitionTime = o.Repaired
	}
	return c
}

func (o Overlay) degraded() []Condition {
	var found []Condition
	if o.StateError != "" {
		found = append(found, Condition{Reason: StateInvalid, Message: o.StateError})
	}
	if o.Decision != nil {
		s := o.Decision.Observation.Capacity(o.Name)
		if s.OtherQueue > 0 {
			found = append(found, Condition{Reason: AgentsInOtherQueue, Message: fmt.Sprintf("%s of another queue or cluster than the policy says: they count against max until they disconnect%s", count(s.OtherQueue, "agent"), where(s.Misplaced))})
		}
		if s.OtherFleets > 0 {
			found = append(found, ServedByOther(s.OtherFleets))
		}
	}
	return DegradedBy(found...)
}

// ServedByOther returns the problem of an overlay whose queue agents of another muster serve.
func ServedByOther(agents int) Condition {
	return Condition{Reason: OtherMuster, Message: fmt.Sprintf("the queue has agents of another muster: %s connected. They count neither for min nor against max, and both musters order agents for the same jobs", count(agents, "is", "are"))}.WithRemedy()
}

// where describes where an agent is and which tags it lacks, as in ` (for example in the queue "default"
// of the cluster "ci", without the tags ["queue=linux"])`; empty if that is unknown.
func where(m *plan.Misplaced) string {
	if m == nil {
		return ""
	}
	text := fmt.Sprintf(" (for example in the queue %q", m.Queue)
	if m.Cluster != "" {
		text += fmt.Sprintf(" of the cluster %q", m.Cluster)
	}
	if len(m.Missing) > 0 {
		text += fmt.Sprintf(", without the tags %q", m.Missing)
	}
	return text + ")"
}

// count returns a number with its noun, whose plural ends in s unless it is given.
func count(n int, noun string, plural ...string) string {
	switch {
	case n == 1:
	case len(plural) > 0:
		noun = plural[0]
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
