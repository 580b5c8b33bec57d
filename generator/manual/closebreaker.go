package manual

import (
	"fmt"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// CloseBreaker closes the circuit breaker of an overlay, for example after its cause was removed: the
// next tick orders as if no order had failed.
func CloseBreaker(o *fleet.Overlay) (Edit, error) {
	if err := o.Err(); err != nil {
		return Edit{}, err
	}
	b := o.State.Breaker
	if b.Equal(plan.Breaker{}) {
		return Edit{Notes: []string{"The circuit breaker of " + o.Name + " is closed, and no order has failed."}}, nil
	}
	state := o.State
	state.Breaker = plan.Breaker{}
	e := Edit{Subject: o.Name + ": close the circuit breaker", Changes: o.WriteState(state), Operation: operation(ledger.CloseBreaker, o)}
	e.Operation.Failures = b.Failures
	open := "open"
	if !b.Open() {
		open = "closed"
	}
	e.Says = []string{fmt.Sprintf("It was %s after %s, the last of which was %s (%s).", open, ledger.Count(b.Failures, "failed order"), b.Dispatch, b.Cause)}
	e.Notes = []string{"The next tick orders agents for all pending jobs. If the cause persists, " + ledger.Count(plan.Tolerance, "failed order") + " in a row open it again."}
	return e, nil
}
