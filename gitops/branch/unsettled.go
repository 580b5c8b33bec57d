package branch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unsettled is the error of a push whose result is unknown: the server may have received it, and may
// still process it. [Unsettled.Landed] finds out the result as soon as the branch can be read.
type Unsettled struct {
	// Before is the commit that the push moves the branch from.
	Before string
	// After is the identifier of the last commit of the push. It is empty if the server determines
	// it; the push then has one commit with this Message.
	After, Message string
	// Err is why the result is unknown. It includes [ErrMoved] if the branch is not at Before.
	Err error
}

// Error returns the text of Err.
func (u *Unsettled) Error() string { return u.Err.Error() }

// Unwrap returns Err.
func (u *Unsettled) Unwrap() error { return u.Err }

const (
	// settleTimeout limits the time to read the branch after a push whose result is unknown.
	settleTimeout = 15 * time.Second
	// maxSince limits the commits after Before that are searched.
	maxSince = 10_000
	// maxPending limits the pushes that are kept: if no push in a row has a result, the older ones failed.
	maxPending = 32
)

// Landed returns the last commit of the push if the branch with this head contains it, and nothing if it
// does not. The error is u if the head does not show the result: a mirror may lag behind, the server may
// still process the push, or the branch was rewritten. Any other error is one of reading.
//
// A commit without a known identifier is recognized by its parent and its message, which contains all
// inputs of a decision.
func (u *Unsettled) Landed(ctx context.Context, history History, head string) (string, error) {
	switch head {
	case u.After:
		return u.After, nil
	case u.Before:
		return "", u
	}
	// Commits are sorted by their times. So commits before Before may precede those after it.
	next := map[string]bool{head: true} // those that may be after Before
	before := map[string]bool{u.Before: true}
	seen := false
	for c, err := range history.Commits(ctx, head, Limit{Commits: maxSince, Known: u.Before}) {
		if err != nil {
			return "", err
		}
		if !before[c.ID] && (c.ID == u.After || u.made(c)) {
			return c.ID, nil
		}
		delete(next, c.ID)
		for _, parent := range c.Parents {
			seen = seen || parent == u.Before
			if before[c.ID] {
				before[parent] = true
				delete(next, parent)
			} else if !before[parent] {
				next[parent] = true
			}
		}
		if len(next) == 0 {
			break
		}
	}
	if !seen {
		return "", u
	}
	return "", nil
}

// made reports whether a commit is that of a push whose identifier is unknown.
func (u *Unsettled) made(c Commit) bool {
	return u.After == "" && len(c.Parents) == 1 && c.Parents[0] == u.Before && strings.TrimRight(c.Message, "\n") == strings.TrimRight(u.Message, "\n")
}

// Answer is a server's response to a push that failed. The zero value means that the response was lost, or
// is one that does not show the result.
type Answer struct {
	// Refused is the error of the push if the branch has not moved.
	Refused *Refused
	// NotMoved reports that the server did not move the branch. It is false for the response of a proxy,
	// which may have lost that of the server.
	NotMoved bool
}

// Settle returns the last commit of a push if it has landed, although it failed with u.Err. It reads the
// branch, also if ctx has ended: head returns its head, and history has its commits. The error is
// [ErrMoved] if others have moved the branch instead, that of the answer if nobody has, and otherwise u
// with what is known by then. If the server reports that it did not move the branch, the error is never u.
func (u *Unsettled) Settle(
	ctx context.Context, answer Answer, head func(context.Context) (string, error), history History,
) (string, error) {
	patience := settleTimeout
	if ctx.Err() != nil {
		patience /= 3 // somebody waits for the end of the process
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	at, err := head(ctx)
	switch {
	case err != nil && answer.NotMoved:
		return "", fmt.Errorf("%w (the branch could not be read after it: %w)", u.Err, err)
	case err != nil:
		u.Err = fmt.Errorf("%w (whether the commits are in the branch could not be read: %w)", u.Err, err)
		return "", u
	case at == u.Before && answer.Refused != nil:
		return "", answer.Refused
	case at == u.Before && answer.NotMoved:
		return "", u.Err
	case at == u.Before:
		return "", u
	case answer.NotMoved:
		return "", fmt.Errorf("%w: %w", ErrMoved, u.Err)
	}
	commit, err := u.Landed(ctx, history, at)
	switch {
	case commit != "":
		return commit, nil
	case errors.Is(err, u):
		u.Err = fmt.Errorf("%w: %w (whether it contains the commits is unknown: its head %.12s is not after %.12s)", ErrMoved, u.Err, at, u.Before)
		return "", u
	case err != nil:
		u.Err = fmt.Errorf("%w: %w (whether the commits are in the branch could not be read: %w)", ErrMoved, u.Err, err)
		return "", u
	}
	return "", fmt.Errorf("%w: %w", ErrMoved, u.Err)
}

// Pending are pushes whose results are unknown, the oldest first. The zero value is none.
type Pending[T any] struct {
	pushes []PendingPush[T]
	// head is a head that does not show their results; empty: unknown.
	head string
}

// PendingPush is a push whose result is unknown, with a value of its caller.
type PendingPush[T any] struct {
	*Unsettled
	Value T
}

// Add adds a push whose result is unknown.
func (p *Pending[T]) Add(u *Unsettled, value T) {
	p.pushes = append(p.pushes, PendingPush[T]{u, value})
	p.pushes = p.pushes[max(0, len(p.pushes)-maxPending):]
	p.head = ""
}

// Len returns the number of pushes.
func (p *Pending[T]) Len() int { return len(p.pushes) }

// Settle removes the pushes whose results the head shows, and returns those that have landed, with After. An
// error means that the history cannot be read; the pushes that had landed by then are returned, too.
func (p *Pending[T]) Settle(ctx context.Context, history History, head string) ([]PendingPush[T], error) {
	if p.head == head {
		return nil, nil
	}
	var landed, unknown []PendingPush[T]
	moved := map[string]bool{} // the commits from which a push has moved the branch: no other one can have
	settled := func(u PendingPush[T]) bool { return moved[u.Before] }
	for i, u := range p.pushes {
		if settled(u) {
			continue
		}
		commit, err := u.Landed(ctx, history, head)
		switch {
		case commit != "":
			u.After, moved[u.Before] = commit, true
			landed = append(landed, u)
			unknown = slices.DeleteFunc(unknown, settled)
		case errors.Is(err, u.Unsettled):
			unknown = append(unknown, u)
		case err != nil:
			p.pushes = slices.DeleteFunc(append(unknown, p.pushes[i:]...), settled)
			return landed, fmt.Errorf("finding out whether a push has landed: %w", err)
		}
	}
	p.pushes, p.head = unknown, head
	return landed, nil
}
