// Package manual makes the commits by which people control muster: they change settings, pause
// overlays, withdraw dispatches and close circuit breakers. It returns changes, and writes nothing.
package manual

import (
	"slices"
	"strings"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// Edit is one commit of a person.
type Edit struct {
	// Subject is the first line of its message.
	Subject string
	// Says are the changes, one line each, for the message and for the person.
	Says []string
	// Notes are consequences and limits, for the person only.
	Notes []string
	// Changes are the files that are written and removed. If it is empty, there is nothing to do, and
	// Notes contain the reason.
	Changes []branch.Change
}

// Message returns the commit message with a reason, which may be empty. Mentions and keywords are
// escaped, so that it notifies nobody and closes no issue.
func (e Edit) Message(reason string) string {
	text := ledger.Plain(e.Subject) + "\n"
	if len(e.Says) > 0 {
		text += "\n" + strings.Join(plain(e.Says), "\n") + "\n"
	}
	if reason = ledger.Plain(reason); reason != "" {
		text += "\n" + history.ReasonTrailer + ": " + reason + "\n"
	}
	return text
}

// Proposal returns the title and the text of a pull request with the edit, escaped as by
// [Edit.Message].
func (e Edit) Proposal(reason string) (title, text string) {
	text = strings.Join(plain(slices.Concat(e.Says, e.Notes)), "\n\n")
	if reason = ledger.Plain(reason); reason != "" {
		text += "\n\n" + history.ReasonTrailer + ": " + reason
	}
	return ledger.Plain(e.Subject), text
}

func plain(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, ledger.Plain(line))
	}
	return all
}

// Same reports whether two edits have the same subject and changes.
func (e Edit) Same(other Edit) bool {
	return e.Subject == other.Subject && slices.Equal(e.Says, other.Says)
}
