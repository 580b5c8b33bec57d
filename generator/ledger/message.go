package ledger

import (
	"fmt"
	"strings"
)

// The keys of the trailers, in the order in which they are written.
const (
	keyOverlay     = "Overlay"
	keyAct         = "Act"
	keyDispatch    = "Dispatch"
	keyAgents      = "Agents"
	keyObservation = "Observation"
	keyMuster      = "Muster"
	keyCI          = "CI"
)

// Message renders the commit message of an act: a subject with its outcome, the
// reasons with their arithmetic, and trailers that hold every input of the
// decision which is not in the parent's tree. The last trailer keeps CI from
// building the commit. The version is muster's own.
func Message(act Act, version string) string { return Style{}.Message(act, version) }

// Message renders the commit message of an act as [Message] does, in this style.
func (s Style) Message(act Act, version string) string {
	var trailers []string
	trailer := func(key, value string) { trailers = append(trailers, key+": "+value) }
	trailer(keyOverlay, act.Path)
	trailer(keyAct, string(act.Kind))
	if act.Kind != Repair {
		ids, agents := act.Dispatches()
		if act.Kind == Dispatch {
			agents = act.Decision.Sum.Dispatch
		}
		for _, id := range ids {
			trailer(keyDispatch, id)
		}
		trailer(keyAgents, fmt.Sprint(agents))
	}
	trailer(keyObservation, encodeObservation(act.Decision.Observation))
	trailer(keyMuster, version)
	trailers = append(trailers, s.trailers()...)
	return fmt.Sprintf("%s\n\n%s\n", Text(act), strings.Join(trailers, "\n"))
}

// Text is what an act's message says to people: the subject, an empty line, and
// the reasons.
func Text(act Act) string {
	d := act.Decision
	var body string
	switch act.Kind {
	case Repair:
		body = repairProse(act)
	case Dispatch:
		body = dispatchProse(d)
	case Retire:
		body = retireProse(d)
	}
	return fmt.Sprintf("%s: %s\n\n%s", d.Overlay, summary(act), body)
}

// summary says what was done, as the subject does behind the overlay's name.
func summary(act Act) string {
	switch act.Kind {
	case Repair:
		return repairSubject(act)
	case Dispatch:
		return dispatchSubject(act.Decision)
	case Retire:
		return retireSubject(act.Decision.Retire)
	}
	return ""
}
