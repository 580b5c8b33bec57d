package explanation

import (
	"fmt"
	"slices"
	"time"

	"muster/generator/condition"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// situation is an overlay at a moment at which nothing was done.
type situation struct {
	overlay *fleet.Overlay
	at      time.Time
	// before and after are the nearest polls of its queue in git; nil without one.
	before, after *ledger.Operation
	// decision is the decision by the files of the moment and the last poll.
	decision plan.Decision
	// repair is the last commit that repaired the overlay, or nil.
	repair *ledger.Operation
}

// decide makes the decision of the moment, by the last poll. What that poll led to is among the
// files, so it is not ordered again.
func (m *situation) decide(commit string, all []fleet.Overlay) {
	o := plan.Observation{Queue: m.overlay.Policy.Queue}
	if m.before != nil {
		o = m.before.Observation
	}
	o.At, o.Until = m.at, time.Time{}
	for _, d := range plan.Decide(commit, fleet.Decidable(all), o) {
		if d.Overlay == m.overlay.Name {
			m.decision = d
		}
	}
}

// full reports whether max allowed no more agents.
func (m *situation) full() bool { return m.decision.Figures.Room == 0 }

// waiting returns since when the oldest job was runnable that was pending both at the moment and
// at the next poll, and how many jobs were pending at that poll. since is zero if git records no
// such job.
func (m *situation) waiting() (since time.Time, pending int) {
	if m.after == nil {
		return time.Time{}, 0
	}
	pending, _ = m.after.Observation.Count(m.overlay.Name)
	if since = m.after.Observation.Oldest(m.overlay.Name); since.After(m.at) {
		return time.Time{}, pending
	}
	return since, pending
}

// conditions returns the conditions of the moment that are abnormal, or for which git records too
// little. commit is the newest commit of the moment, and all are the overlays in it.
func (m *situation) conditions(commit string, all []fleet.Overlay) []condition.Condition {
	var poll *plan.Observation
	if m.before != nil {
		poll = &m.before.Observation
	}
	o := condition.InGit(m.overlay.Overlay, fleet.Decidable(all), commit, poll, m.at)
	if err := m.overlay.InvalidState(); err != nil {
		o.StateError = err.Error()
	}
	if m.repair != nil {
		o.Repair, o.Repaired = m.repair.Subject(), m.repair.At
	}
	return condition.ProblemsInGit(o.Conditions())
}

// why returns what the conditions do not say: what limited the order, and whether jobs were pending.
func (m *situation) why(conditions []condition.Condition) []string {
	var all []string
	reason, sure := m.reason(conditions)
	if reason != "" {
		all = append(all, reason)
	}
	all = append(all, m.demand()...)
	if since, _ := m.waiting(); !sure && !since.IsZero() {
		all = append(all, "Git does not record why muster did not order for them earlier: it commits nothing when it does nothing. Perhaps it had not polled yet, did not run, or Buildkite or git did not answer: see its log and metrics.")
	}
	return all
}

// reason returns why no more agents were ordered, or an empty text if a condition is the reason,
// and whether that was certainly so at the moment, and not only at the last poll.
func (m *situation) reason(conditions []condition.Condition) (text string, sure bool) {
	s := m.decision.Figures
	used, certain := s.Used()
	for _, c := range conditions {
		switch {
		case c.Type == condition.Suspended, c.Type == condition.ScalingLimited, c.Reason == condition.BreakerOpen, c.Reason == string(plan.AgentsCannotWork):
			return "", !c.OfPoll() || m.full() || certain
		}
	}
	switch {
	case m.full():
		return fmt.Sprintf("No more agents were allowed: max was %d, and %d were connected or in flight.", s.Max, s.Current+s.Stopping), true
	case used != "":
		return used, certain
	case m.before == nil:
		return "Git contains no poll of its queue before this time: muster had done nothing for it yet.", false
	case s.Dispatch > 0:
		return fmt.Sprintf("By the last poll and the files at that time, %d would have been ordered: muster had not polled since the files changed, or could not.", s.Dispatch), false
	case s.Pending > 0:
		return fmt.Sprintf("At the last poll, there were %s, %s and %s in flight.", ledger.Count(s.Pending, "pending job"), ledger.Count(s.Idle, "idle agent"), ledger.Count(s.InFlight, "agent")), false
	}
	return "At the last poll, no job was pending that its agents can take.", false
}

// demand says whether jobs were waiting at the moment, by the next poll.
func (m *situation) demand() []string {
	since, pending := m.waiting()
	if m.after == nil {
		return []string{"Git contains no later poll. muster plan shows which jobs are pending now."}
	}
	next := m.after.Observation.At.UTC().Format(time.RFC3339)
	switch oldest := m.after.Observation.Oldest(m.overlay.Name); {
	case !since.IsZero():
		return []string{fmt.Sprintf("Jobs were pending: the next poll, at %s, counted %d pending, the oldest runnable since %s.", next, pending, since.UTC().Format(time.RFC3339))}
	case !oldest.IsZero():
		return []string{fmt.Sprintf("No job is known to have waited: those pending at the next poll, at %s, became runnable later, from %s on.", next, oldest.UTC().Format(time.RFC3339))}
	}
	return []string{fmt.Sprintf("No job is known to have waited: at the next poll, at %s, none was pending.", next)}
}

// inFlight are the dispatches in git whose agents could still come.
func (m *situation) inFlight() []InFlight {
	var seen map[string]plan.Observed
	if m.before != nil {
		seen = m.before.Observation.Capacity(m.overlay.Name).Dispatches
	}
	var all []InFlight
	for _, d := range m.overlay.Dispatches {
		if n := d.Agents - seen[d.ID].Registered.Below(d.Agents); n > 0 && !d.Expired(m.at) {
			all = append(all, InFlight{ID: d.ID, Agents: n, Ordered: d.At.UTC(), NotAfter: d.NotAfter.UTC()})
		}
	}
	return all
}

// timeline is what is known around the moment.
func (m *situation) timeline(p *past) []Event {
	var all []Event
	op := func(row *ledger.Operation, which string) {
		if row != nil {
			what := string(row.Kind)
			if row.Agents() > 0 {
				what += " " + ledger.Count(row.Agents(), "agent")
			}
			all = append(all, Event{At: row.At.UTC(), What: fmt.Sprintf("%s commit: %s (%s), %.7s", which, what, row.Why, row.ID)})
		}
	}
	if last := p.last[m.overlay.Name]; m.before != nil && (last == nil || m.before.ID != last.ID) {
		op(last, "its last")
		all = append(all, Event{At: m.before.Observation.At.UTC(), What: fmt.Sprintf("the last poll of its queue, in commit %.7s", m.before.ID)})
	} else {
		op(last, "its last poll and")
	}
	if since, _ := m.waiting(); !since.IsZero() {
		all = append(all, Event{At: since.UTC(), What: "a job became runnable; the next poll lists it as pending"})
	}
	all = append(all, Event{At: m.at, What: "the time that you asked for"})
	if next := p.next[m.overlay.Name]; m.after != nil && (next == nil || m.after.ID != next.ID) {
		all = append(all, Event{At: m.after.Observation.At.UTC(), What: fmt.Sprintf("the next poll of its queue, in commit %.7s", m.after.ID)})
		op(next, "its next")
	} else {
		op(next, "its next poll and")
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all
}
