package explanation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator/condition"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// situation is an overlay at a moment at which nothing was done.
type situation struct {
	overlay *fleet.Overlay
	at      time.Time
	// before and after are the nearest polls of its queue that git knows; nil: none.
	before, after *ledger.Entry
	// decision is what the files of the moment make of the last poll.
	decision plan.Decision
}

// decide makes the decision of the moment, on what was last known of Buildkite. What the
// last poll led to is among the files, so that it is not ordered again.
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

// full reports whether no agent more was allowed.
func (m *situation) full() bool { return m.decision.Sum.Room == 0 }

// waiting returns since when the oldest job was runnable that was pending both at the moment and
// at the next poll, and how many jobs were pending at that poll. since is zero if git records no
// such job.
func (m *situation) waiting() (since time.Time, pending int) {
	if m.after == nil {
		return time.Time{}, 0
	}
	n, d := oldest(m.after.Observation, m.overlay.Name)
	if d == nil || d.Oldest.After(m.at) {
		return time.Time{}, n
	}
	return *d.Oldest, n
}

// why is the answer: what stood in the way, then whether jobs were waiting at all.
func (m *situation) why() []string {
	reason, sure := m.reason()
	all := append([]string{reason}, m.demand()...)
	o := condition.Overlay{Name: m.overlay.Name, Decision: &m.decision, Suspended: m.decision.Suspended, Now: m.at}
	if m.before != nil {
		o.Polled, o.Recorded = m.before.Observation.At, m.overlay.State.Breaker
	}
	if c, _ := condition.Find(o.Conditions(), condition.AgentsArriving); c.Message != "" && c.Reason != condition.BreakerOpen {
		all = append([]string{strings.ToUpper(c.Message[:1]) + c.Message[1:] + "."}, all...)
		if c.Abnormal() {
			all = append(all, c.Remedy)
		}
	}
	if since, _ := m.waiting(); !sure && !since.IsZero() {
		all = append(all, "Why they were not seen earlier git does not tell: muster commits nothing when it does nothing. Perhaps it had not polled yet, did not run, or Buildkite or git did not answer. See its log and its metrics.")
	}
	return all
}

// reason is what stood in the way of more agents, and whether that is known to have been
// so at the moment, and not only at the last poll.
func (m *situation) reason() (text string, sure bool) {
	d, s := m.decision, m.decision.Sum
	switch code := d.Suspended.Code; {
	case m.overlay.Err() != nil:
		return "Its files were invalid, so nothing was dispatched: " + m.overlay.Suspended.Finding + ".", true
	case code == plan.Paused && !m.overlay.Policy.Paused && d.OverriddenUntil != nil:
		return fmt.Sprintf("It was paused by an override of its policy, until %s.", d.OverriddenUntil.UTC().Format(time.RFC3339)), true
	case code == plan.Paused:
		return "It was paused: its policy says paused: true.", true
	case code == plan.BreakerOpen:
		b := m.overlay.State.Breaker
		when := fmt.Sprintf("The next probe was due at %s.", b.NextProbe().UTC().Format(time.RFC3339))
		if d.Suspended.NextProbe == nil {
			when = "What became of the last agents was not known yet, so no probe was due."
		}
		return fmt.Sprintf("The circuit breaker was open, so only one agent at a time is sent as a probe: the last failed order is %[2]s (%[1]s). %[3]s", b.Cause, b.Dispatch, when), true
	case d.Suspended.Active() && m.before == nil:
		return fmt.Sprintf("Nothing is dispatched for it: %s.", d.Suspended), true
	case d.Suspended.Active():
		return fmt.Sprintf("At the last poll, nothing could be dispatched for it: %s.", d.Suspended), false
	case m.full() && s.Max == 0:
		return "Its policy has max 0: no agent is allowed.", true
	case m.full():
		return fmt.Sprintf("It had as many agents as max allows: %d of %d, %d of them in flight; %d more were stopping.", s.Current, s.Max, s.InFlight, s.Stopping), true
	case s.MaxPerHour > 0 && s.LeftThisHour == 0:
		return fmt.Sprintf("maxPerHour was used up: %d agents had been ordered in the hour before.", s.MaxPerHour), true
	case s.MaxAtFirst > 0 && s.LeftAtFirst == 0:
		return fmt.Sprintf("No agent of it had registered by the last poll. Until one does, at most %d are in flight, and one at a time once an order is overdue or has failed.", plan.FirstAgents), false
	case m.before == nil:
		return "Git contains no poll of its queue before this moment: muster had done nothing for it yet.", false
	case s.Dispatch > 0:
		return fmt.Sprintf("By the last poll and the files of the moment, %d would have been dispatched. muster had not polled since the files changed, or could not.", s.Dispatch), false
	case s.Pending > 0 && s.InFlight > 0:
		return fmt.Sprintf("Enough agents were on their way: %d in flight and %d idle, for %s, at the last poll.", s.InFlight, s.Idle, ledger.Count(s.Pending, "pending job")), false
	case s.Pending > 0:
		return fmt.Sprintf("At the last poll, %s had %s or were assigned to other overlays.", ledger.Count(s.Pending, "pending job"), ledger.Count(s.Idle, "idle agent")), false
	}
	return "At the last poll, no job was pending that its agents can take.", false
}

// demand says whether jobs were waiting at the moment, by the next poll.
func (m *situation) demand() []string {
	since, pending := m.waiting()
	if m.after == nil {
		return []string{"Git contains no later poll. muster plan shows which jobs are waiting now."}
	}
	look := m.after.Observation.At.UTC().Format(time.RFC3339)
	switch _, d := oldest(m.after.Observation, m.overlay.Name); {
	case !since.IsZero():
		return []string{fmt.Sprintf("Jobs were waiting: the next poll, at %s, counted %d pending, the oldest runnable since %s.", look, pending, since.UTC().Format(time.RFC3339))}
	case d != nil:
		return []string{fmt.Sprintf("No job is known to have waited: those pending at the next poll, at %s, became runnable later, from %s on.", look, d.Oldest.UTC().Format(time.RFC3339))}
	}
	return []string{fmt.Sprintf("No job is known to have waited: at the next poll, at %s, none was pending.", look)}
}

// inFlight are the dispatches in git whose agents could still come.
func (m *situation) inFlight() []InFlight {
	var seen map[string]plan.Seen
	if m.before != nil {
		for _, s := range m.before.Observation.Overlays {
			if s.Overlay == m.overlay.Name {
				seen = s.Dispatches
			}
		}
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
	op := func(row *history.Row, which string) {
		if row != nil {
			what := string(row.Operation)
			if row.Agents > 0 {
				what += " " + ledger.Count(row.Agents, "agent")
			}
			all = append(all, Event{At: row.At.UTC(), What: fmt.Sprintf("%s commit: %s (%s), %.7s", which, what, row.Why, row.Commit)})
		}
	}
	if last := p.last[m.overlay.Name]; m.before != nil && (last == nil || m.before.Commit != last.Commit) {
		op(last, "its last")
		all = append(all, Event{At: m.before.Observation.At.UTC(), What: fmt.Sprintf("the last poll of its queue, in commit %.7s", m.before.Commit)})
	} else {
		op(last, "its last poll and")
	}
	if since, _ := m.waiting(); !since.IsZero() {
		all = append(all, Event{At: since.UTC(), What: "a job became runnable; the next poll lists it as pending"})
	}
	all = append(all, Event{At: m.at, What: "the time that you asked for"})
	if next := p.next[m.overlay.Name]; m.after != nil && (next == nil || m.after.Commit != next.Commit) {
		all = append(all, Event{At: m.after.Observation.At.UTC(), What: fmt.Sprintf("the next poll of its queue, in commit %.7s", m.after.Commit)})
		op(next, "its next")
	} else {
		op(next, "its next poll and")
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all
}
