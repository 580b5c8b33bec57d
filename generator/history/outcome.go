package history

import (
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// dispatchOutcome is the outcome of one dispatch according to the newer commits, which are read first.
type dispatchOutcome struct {
	registered plan.IndexSet
	hadJob     int
	first      time.Time // zero if unknown
	all        time.Time // zero if unknown
	retired    bool
	unasked    bool
	polled     time.Time     // the last poll that the log contains of it
	unused     plan.IndexSet // had registered, and disconnected before the retirement without a job
}

// outcomes contains the dispatches whose order has not been read yet: normally no more than are in git
// at once. Forged commits may retire dispatches that were never ordered, so the number is bounded:
// the older half is forgotten.
type outcomes struct{ recent, older map[string]*dispatchOutcome }

// maxFates bounds each half.
const maxFates = 50_000

// of returns the outcome of a dispatch, which is new if nothing is known.
func (f *outcomes) of(id string) *dispatchOutcome {
	if x := f.recent[id]; x != nil {
		return x
	}
	x := f.older[id]
	if x == nil {
		x = &dispatchOutcome{}
	}
	delete(f.older, id)
	if f.recent == nil || len(f.recent) >= maxFates {
		f.recent, f.older = map[string]*dispatchOutcome{}, f.recent
	}
	f.recent[id] = x
	return x
}

// take removes and returns the outcome of a dispatch.
func (f *outcomes) take(id string) dispatchOutcome {
	x := f.of(id)
	delete(f.recent, id)
	return *x
}

// note adds the dispatches of an operation: those in its observation, and those that it retires.
func (f *outcomes) note(e *ledger.Operation) {
	for _, s := range e.Observation.Overlays {
		for id, seen := range s.Dispatches {
			f.of(id).see(seen, e.Observation.At)
		}
	}
	if e.Kind != ledger.Retire {
		return
	}
	for _, order := range e.Orders {
		x := f.of(order.ID)
		if !x.retired {
			x.retired, x.unasked, x.unused = true, order.Stale, unused(e, order.ID)
		}
	}
}

// unused returns the agents of a retired dispatch that had registered and disconnected, if none of
// them is known to have had a job.
func unused(e *ledger.Operation, id string) plan.IndexSet {
	for _, s := range e.Observation.Overlays {
		if seen, ok := s.Dispatches[id]; ok && seen.HadJob == 0 && seen.Connected == 0 {
			return seen.Registered
		}
	}
	return plan.IndexSet{}
}

// see adds the observation of an older commit. The newest commit has the most registrations. Times
// are best in the commit of a process that has polled all the while.
func (x *dispatchOutcome) see(s plan.Observed, at time.Time) {
	if at.After(x.polled) {
		x.polled = at
	}
	if x.registered.IsZero() {
		x.registered = s.Registered
	}
	x.hadJob = max(x.hadJob, s.HadJob)
	if s.FirstAt != nil && (x.first.IsZero() || s.FirstAt.Before(x.first)) {
		x.first = *s.FirstAt
	}
	if s.RegisteredAt != nil && s.RegisteredAt.After(x.all) {
		x.all = *s.RegisteredAt
	}
}

// longestLease is the longest lease of a policy and the grace after it: no dispatch is in flight for
// longer.
const longestLease = 24*time.Hour + plan.Grace

// outcome returns the outcome of an order, and forgets its dispatches. now is the current time.
func (f *outcomes) outcome(e *ledger.Operation, now time.Time) *ledger.Outcome {
	o := &ledger.Outcome{State: ledger.Retired}
	ordered := e.Observation.At
	if e.Observation.Until.After(ordered) {
		ordered = e.Observation.Until
	}
	var first, all time.Time
	retired, allKnown := 0, len(e.Orders) > 0
	for _, order := range e.Orders {
		x := f.take(order.ID)
		registered := x.registered.Below(order.Agents)
		o.Registered += registered
		o.HadJob += min(x.hadJob, registered)
		if x.hadJob == 0 {
			o.Unused += x.unused.Below(order.Agents)
		}
		over := !order.NotAfter.IsZero() && x.polled.After(order.NotAfter.Add(plan.Grace))
		if x.retired || over || registered == order.Agents { // or its retirement waits for others
			retired++
		}
		if x.unasked {
			o.State = ledger.OutcomeUnknown
		}
		if !x.first.IsZero() && (first.IsZero() || x.first.Before(first)) {
			first = x.first
		}
		// After a restart, registeredAt is the time of the order: the true time is unknown.
		allKnown = allKnown && x.all.After(ordered)
		if x.all.After(all) {
			all = x.all
		}
	}
	if retired < len(e.Orders) {
		o.State = ledger.InFlight
		if now.Sub(e.At) > longestLease {
			o.State = ledger.OutcomeUnknown
		}
	}
	o.FirstAfter = seconds(ordered, first)
	if allKnown {
		o.AllAfter = seconds(ordered, all)
	}
	return o
}

// seconds returns the seconds between two times; nil if the later one is unknown.
func seconds(from, to time.Time) *int {
	if to.IsZero() || to.Before(from) {
		return nil
	}
	n := int(to.Sub(from) / time.Second)
	return &n
}
