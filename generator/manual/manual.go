// Package manual makes the commits by which a person changes what muster does: another
// setting, a pause, a dispatch that is taken back, a circuit breaker that is closed. It
// reads the fleet as it is and returns what to change; nothing is written here.
package manual

import (
	"slices"
	"strings"

	"muster/generator/history"
	"muster/generator/ledger"
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
// Its @mentions and keywords are escaped: it notifies no person and closes no issue.
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

// Proposal is the title and the text of a pull request with the edit, by the rules of
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

// Same reports whether two edits do the same in the same words.
func (e Edit) Same(other Edit) bool {
	return e.Subject == other.Subject && slices.Equal(e.Says, other.Says)
}
