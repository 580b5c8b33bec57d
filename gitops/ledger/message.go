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
	d := act.Decision
	var subject, body string
	var trailers []string
	trailer := func(key, value string) { trailers = append(trailers, key+": "+value) }
	trailer(keyOverlay, act.Path)
	trailer(keyAct, string(act.Kind))
	switch act.Kind {
	case Repair:
		subject, body = repairSubject(act), repairProse(act)
	case Dispatch:
		subject, body = dispatchSubject(d), dispatchProse(d)
		for _, x := range d.Dispatch {
			trailer(keyDispatch, x.ID)
		}
		trailer(keyAgents, fmt.Sprint(d.Sum.Dispatch))
	case Retire:
		subject, body = retireSubject(d.Retire), retireProse(d)
		agents := 0
		for _, r := range d.Retire {
			trailer(keyDispatch, r.ID)
			agents += r.Agents
		}
		trailer(keyAgents, fmt.Sprint(agents))
	}
	trailer(keyObservation, encodeObservation(d.Observation))
	trailer(keyMuster, version)
	trailer(keyCI, "[skip ci]")
	return fmt.Sprintf("%s: %s\n\n%s\n\n%s\n", d.Overlay, subject, body, strings.Join(trailers, "\n"))
}
