package notify

import (
	"errors"

	"muster/gitops/branch"
)

// Landing reports which pushes have landed, from the responses to their writer. It is not safe for
// concurrent use. The zero value reports to nobody.
type Landing struct {
	// Landed is called with each push that has landed.
	Landed func(Push)
	unsure string // the head before a push whose response was lost; empty if none was lost
}

// Pushed records the result of a push of changes onto the head before: a new head, or an error.
func (l *Landing) Pushed(before, after string, changes []branch.Change, err error) {
	var refused *branch.Refused
	switch {
	case err == nil:
		l.unsure = ""
		l.notify(listed(before, after, changes))
	case errors.Is(err, branch.ErrMoved), errors.Is(err, branch.ErrInvalid), errors.As(err, &refused):
		// It has not landed.
	default:
		l.unsure = before
	}
}

// Seen records the head of the branch. If the head has changed since a push whose response was lost,
// that push or another has landed.
func (l *Landing) Seen(head string) {
	if l.unsure == "" || head == l.unsure {
		return
	}
	before := l.unsure
	l.unsure = ""
	l.notify(Push{Before: before, After: head, Unlisted: true})
}

func (l *Landing) notify(p Push) {
	if l.Landed != nil {
		l.Landed(p)
	}
}

// listed returns a push with its files. A file that was written and then removed is in both lists.
func listed(before, after string, changes []branch.Change) Push {
	p := Push{Before: before, After: after}
	for _, c := range changes {
		if c.Content == nil {
			p.Removed = append(p.Removed, c.Path)
		} else {
			p.Written = append(p.Written, c.Path)
		}
	}
	p.Written, p.Removed = union(p.Written, nil), union(p.Removed, nil)
	return p.bounded()
}
