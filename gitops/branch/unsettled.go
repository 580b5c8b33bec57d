package branch

import (
	"context"
	"fmt"
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
	// Unchanged reports that the branch has been read after the push, and was at Before.
	Unchanged bool
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
)

// Landed returns the last commit of the push if the branch with this head contains it, and otherwise
// nothing. An error means that the result is still unknown.
//
// A commit without a known identifier is recognized by its parent and its message, which contains all
// inputs of a decision.
func (u *Unsettled) Landed(ctx context.Context, history History, head string) (string, error) {
	switch head {
	case u.After:
		return u.After, nil
	case u.Before:
		return "", u // a mirror may lag behind, or the server still processes the push
	}
	for c, err := range history.Commits(ctx, head, Limit{Commits: maxSince, Known: u.Before}) {
		switch {
		case err != nil:
			return "", err
		case c.ID == u.After:
			return c.ID, nil
		case c.ID == u.Before:
			return "", nil
		case u.made(c):
			return c.ID, nil
		}
	}
	return "", nil
}

// made reports whether a commit is that of a push whose identifier is unknown.
func (u *Unsettled) made(c Commit) bool {
	return u.After == "" && len(c.Parents) == 1 && c.Parents[0] == u.Before && strings.TrimRight(c.Message, "\n") == strings.TrimRight(u.Message, "\n")
}

// Settling returns a context to read the branch after a push, also if that of the push has ended.
func Settling(ctx context.Context) (context.Context, context.CancelFunc) {
	patience := settleTimeout
	if ctx.Err() != nil {
		patience /= 3 // somebody waits for the end of the process
	}
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// Settle returns the last commit of a push if it has landed, although it failed with u.Err. It reads the
// branch, also if ctx has ended: head returns its head, and history has its commits. The error is
// [ErrMoved] if others have moved the branch instead, and otherwise u with what is known by then.
func (u *Unsettled) Settle(ctx context.Context, head func(context.Context) (string, error), history History) (string, error) {
	ctx, cancel := Settling(ctx)
	defer cancel()
	at, err := head(ctx)
	if err != nil {
		u.Err = fmt.Errorf("%w (whether the commits are in the branch could not be read: %w)", u.Err, err)
		return "", u
	}
	commit, err := u.Landed(ctx, history, at)
	switch {
	case commit != "":
		return commit, nil
	case at == u.Before:
		u.Unchanged = true
		return "", u
	case err != nil:
		u.Err = fmt.Errorf("%w: %w (whether the commits are in the branch could not be read: %w)", ErrMoved, u.Err, err)
		return "", u
	}
	return "", fmt.Errorf("%w: %w", ErrMoved, u.Err)
}
