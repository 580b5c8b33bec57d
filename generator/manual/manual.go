// Package manual makes the commits by which people control muster: they change settings, pause
// overlays, withdraw dispatches and close circuit breakers. It returns changes, and writes nothing.
package manual

import (
	"slices"
	"strings"

	"muster/generator/fleet"
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
	// Operation is the operation of [Cancel] and [CloseBreaker], without its base and the version of
	// muster. It has no kind for other edits.
	Operation ledger.Operation
}

// Message returns the message of a commit on base, with a reason, which may be empty. It has the trailers
// of the operation, if there is one. version is the version of muster. Mentions and keywords are escaped,
// so that it notifies nobody and closes no issue.
func (e Edit) Message(base, version, reason string) string {
	var trailers []string
	if o := e.Operation; o.Kind != "" {
		o.Base, o.Version = base, version
		trailers = o.Trailers()
	}
	return e.message(trailers, reason)
}

// ProposedMessage is Message for a commit of a pull request. It has no trailers of an operation: the merge
// may make another commit of it, with another parent.
func (e Edit) ProposedMessage(reason string) string { return e.message(nil, reason) }

func (e Edit) message(trailers []string, reason string) string {
	text := ledger.Plain(e.Subject) + "\n"
	if len(e.Says) > 0 {
		text += "\n" + strings.Join(plain(e.Says), "\n") + "\n"
	}
	if reason = ledger.Plain(reason); reason != "" {
		trailers = append(trailers, history.ReasonTrailer+": "+reason)
	}
	if len(trailers) > 0 {
		text += "\n" + strings.Join(trailers, "\n") + "\n"
	}
	return text
}

// With returns an edit that also does what another one of the same overlay does. It is not an operation of a command.
func (e Edit) With(other Edit, err error) (Edit, error) {
	if e.Subject == "" {
		e.Subject = other.Subject
	}
	e.Changes = append(e.Changes, other.Changes...)
	e.Says = append(e.Says, other.Says...)
	e.Notes = append(e.Notes, other.Notes...)
	return e, err
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

// operation returns an operation on an overlay.
func operation(kind ledger.Kind, o *fleet.Overlay) ledger.Operation {
	return ledger.Operation{Kind: kind, Path: o.Path, Overlay: o.Name, Identity: o.State.Identity.ID}
}

func plain(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, ledger.Plain(line))
	}
	return all
}

// Join returns one edit of several overlays. Edits with the same operation have one subject. The edits must be of
// policies: an operation with trailers concerns one overlay.
func Join(overlays []string, edits []Edit) Edit {
	if len(edits) == 1 {
		return edits[0]
	}
	var joined Edit
	var names, actions []string
	common := map[string]int{}
	for _, e := range edits {
		for _, note := range e.Notes {
			common[note]++
		}
	}
	for i, e := range edits {
		if len(e.Changes) > 0 {
			names = append(names, overlays[i])
			action := strings.TrimPrefix(e.Subject, overlays[i]+": ")
			if !slices.Contains(actions, action) {
				actions = append(actions, action)
			}
		}
		for _, says := range e.Says {
			joined.Says = append(joined.Says, overlays[i]+": "+says)
		}
		for _, note := range e.Notes {
			if common[note] < len(edits) && !strings.HasPrefix(note, overlays[i]+" ") {
				note = overlays[i] + ": " + note
			}
			if !slices.Contains(joined.Notes, note) {
				joined.Notes = append(joined.Notes, note)
			}
		}
		joined.Changes = append(joined.Changes, e.Changes...)
	}
	if len(names) == 0 {
		return joined
	}
	const width = 72
	joined.Subject = strings.Join(names, ", ") + ": " + strings.Join(actions, ", ")
	if len(joined.Subject) > width {
		joined.Subject = ledger.Count(len(names), "overlay") + ": " + strings.Join(actions, ", ")
	}
	return joined
}

// Same reports whether two edits have the same subject and changes.
func (e Edit) Same(other Edit) bool {
	return e.Subject == other.Subject && slices.Equal(e.Says, other.Says)
}
