package notify

import (
	"errors"

	"muster/gitops/branch"
)

// Landing finds out which pushes have landed, from what their writer was answered. It
// is not safe for concurrent use. The zero value tells nobody.
type Landing struct {
	// Landed is called with each push that has landed.
	Landed func(Push)
	unsure string // the head before a push whose answer was lost; empty if no answer was lost
}

// Pushed says how a push of changes onto a head ended: with another head, or with an
// error.
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

// Seen says where the head of the branch is. Where it is no longer where a push
// whose answer was lost would have moved it from, that push has landed, or another.
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

// listed is a push with its files. What it wrote first and then removed is listed as
// both.
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
