// Package manual makes the commits by which a person changes what muster does: another
// setting, a pause, a dispatch that is taken back, a circuit breaker that is closed. It
// reads the fleet as it is and returns what to change; nothing is written here.
package manual

import (
	"fmt"
	"slices"
	"strings"

	"muster/generator/history"
	"muster/gitops/branch"
)

// Edit is one commit that a person asks for.
type Edit struct {
	// Subject is the first line of its message.
	Subject string
	// Says is what changes, a line each, for the message and for the person.
	Says []string
	// Notes are what comes of it, and what it does not do, for the person alone.
	Notes []string
	// Changes are the files that are written and removed. None: there is nothing to do,
	// and Notes say why.
	Changes []branch.Change
}

// Message is the commit message. The reason, which may be empty, is one line of it.
func (e Edit) Message(reason string) string {
	text := e.Subject + "\n"
	if len(e.Says) > 0 {
		text += "\n" + strings.Join(e.Says, "\n") + "\n"
	}
	if reason = strings.Join(strings.Fields(reason), " "); reason != "" {
		text += "\n" + history.ReasonTrailer + ": " + reason + "\n"
	}
	return text
}

// Same reports whether two edits do the same in the same words.
func (e Edit) Same(other Edit) bool {
	return e.Subject == other.Subject && slices.Equal(e.Says, other.Says)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
