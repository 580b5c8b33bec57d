package ledger

import (
	"fmt"
	"strings"
)

// The keys of the trailers, in the order in which they are written.
const (
	keyOverlay     = "Overlay"
	keyOperation   = "Operation"
	keyDispatch    = "Dispatch"
	keyAgents      = "Agents"
	keyObservation = "Observation"
	keyMuster      = "Muster"
	keyCI          = "CI"
)

// Message renders the commit message of an operation: a subject with its outcome, the reasons with
// their arithmetic, and trailers with every input of the decision that is not in the parent's tree.
// The last trailer keeps CI from building the commit. version is the version of muster.
func Message(op Operation, version string) string { return Style{}.Message(op, version) }

// Message renders the commit message of an operation like [Message], in this style.
func (s Style) Message(op Operation, version string) string {
	var trailers []string
	trailer := func(key, value string) { trailers = append(trailers, key+": "+value) }
	trailer(keyOverlay, op.Path)
	trailer(keyOperation, string(op.Kind))
	if op.Kind != Repair {
		ids, agents := op.Dispatches()
		if op.Kind == Dispatch {
			agents = op.Decision.Figures.Dispatch
		}
		for _, id := range ids {
			trailer(keyDispatch, id)
		}
		trailer(keyAgents, fmt.Sprint(agents))
	}
	trailer(keyObservation, encodeObservation(op.Decision.Observation))
	trailer(keyMuster, version)
	trailers = append(trailers, s.trailers()...)
	return fmt.Sprintf("%s\n\n%s\n", Text(op), strings.Join(trailers, "\n"))
}

// Text returns the part of an operation's message for people: the subject, an empty line, and the
// reasons.
func Text(op Operation) string {
	d := op.Decision
	var summary, body string
	switch op.Kind {
	case Repair:
		summary, body = repairSubject(op), repairProse(op)
	case Dispatch:
		summary, body = dispatchSubject(d), dispatchProse(d)
	case Retire:
		summary, body = retireSubject(d.Retire), retireProse(d)
	}
	return fmt.Sprintf("%s: %s\n\n%s", d.Overlay, summary, body)
}
