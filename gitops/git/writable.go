package git

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// Writable asks the server whether it would let this user move the branch, by a push
// that its rules judge and that moves nothing: from the commit before the head to the
// head. git's own receive-pack asks its hooks, where protection and permissions are,
// before it compares where the branch is (builtin/receive-pack.c, execute_commands), and
// then finds that it is elsewhere.
//
// A [branch.Refused] has the words of a server that would not. [branch.ErrUnproven] says
// that the server may be pushed to, and does not tell whether its rules let a commit pass:
// another program than git may compare first, and a branch of one commit has none before
// it. What rules require of a commit itself, as a signature, shows with the first push.
func (b *Branch) Writable(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(ctx); err != nil {
		b.reset()
		return b.fail("reading", err)
	}
	return b.failPush(b.tryMove(ctx))
}

// tryMove asks for the branch to be moved to where it is, from where it was.
func (b *Branch) tryMove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.server.Timeout)
	defer cancel()
	session, adv, err := b.taker.Advertised(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	switch at, err := remote.FindBranch(adv, b.name); {
	case err != nil:
		return err
	case at != b.store.head:
		return fmt.Errorf("%w: somebody pushes just now", branch.ErrUnproven)
	case b.store.prior.IsZero():
		return fmt.Errorf("%w: the branch has one commit", branch.ErrUnproven)
	}
	nothing, err := writePack(nil, false)
	if err != nil {
		return err
	}
	request := updateRequest(adv.Capabilities)
	request.Capabilities.Delete(capability.Atomic) // for its words are the same whatever failed
	report, message, err := requestUpdate(ctx, session, request, target{b.name, b.store.prior}, b.store.head, nothing)
	switch {
	case err == nil:
		return nil
	case comparesOnly(err) && hooksFirst(adv):
		return nil
	case comparesOnly(err):
		return branch.ErrUnproven
	case isAnswer(report, err):
		return attempt{err: err, answered: true, serverMessage: message}.refusal(b.taker)
	}
	return err
}

// comparesOnly reports whether a push failed for nothing but where the branch is.
func comparesOnly(err error) bool {
	var a *remote.Answer
	return !errors.As(err, &a) && (remote.StaleHead.Match(err.Error()) || remote.LockedByPush.Match(err.Error()))
}

// isLocked reports whether a push left the branch where it was for nothing but a lock.
func isLocked(err error) bool {
	var refused *branch.Refused
	return errors.As(err, &refused) && remote.LockedByPush.Match(refused.Message)
}

// hooksFirst reports whether the server advertises an agent that runs hooks before it compares
// the head.
func hooksFirst(adv *packp.AdvRefs) bool {
	return slices.ContainsFunc(adv.Capabilities.Get(capability.Agent), remote.HooksFirst.Match)
}
