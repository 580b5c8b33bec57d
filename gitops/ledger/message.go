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
// decision which is not in the parent's tree. The last trailer keeps Buildkite,
// GitHub and GitLab from building the commit: a build per scaling decision would
// be a loop (buildkite.com/docs/pipelines/configure/skipping). The version is
// muster's own.
func Message(act Act, version string) string {
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
	trailer(keyCI, "[skip ci]")
	return fmt.Sprintf("%s\n\n%s\n", Text(act), strings.Join(trailers, "\n"))
}

// Text is what an act's message says to people: the subject, an empty line, and
// the reasons.
func Text(act Act) string {
	d := act.Decision
	var subject, body string
	switch act.Kind {
	case Repair:
		subject, body = repairSubject(act), repairProse(act)
	case Dispatch:
		subject, body = dispatchSubject(d), dispatchProse(d)
	case Retire:
		subject, body = retireSubject(d.Retire), retireProse(d)
	}
	return fmt.Sprintf("%s: %s\n\n%s", d.Overlay, subject, body)
}
