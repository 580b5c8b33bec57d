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

// Writable checks whether the server lets this user move the branch, by a push that moves nothing: from
// the parent of the head to the head, or from no commit if the head has no parent. git's receive-pack runs hooks, which implement protection and
// permissions, before it compares the old head (builtin/receive-pack.c, execute_commands), and then
// rejects it.
//
// A [branch.Refused] contains the message of a server that does not. [branch.ErrUnproven] means that
// the user may push, but that the branch's rules are unknown: another program than git may compare
// first. Rules about a commit itself, such as a signature, show with the first push.
func (b *Branch) Writable(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(ctx); err != nil {
		b.reset()
		return b.fail("reading", err)
	}
	return b.failPush(b.tryMove(ctx))
}

// tryMove requests a move of the branch from its head's parent, if any, to its head.
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
		return fmt.Errorf("%w: another push is in progress", branch.ErrUnproven)
	}
	nothing := writePack(nil, false)
	request := updateRequest(adv.Capabilities)
	request.Capabilities.Delete(capability.Atomic) // with it, the message is the same for every failure
	report, message, err := requestUpdate(ctx, session, request, target{b.name, b.store.prior}, b.store.head, nothing)
	switch {
	case err == nil:
		return nil
	case comparesOnly(err) && hooksFirst(adv):
		return nil
	case comparesOnly(err):
		return branch.ErrUnproven
	case isAnswer(report, err):
		return attempt{err: err, serverMessage: message}.refusal(b.taker)
	}
	return err
}

// comparesOnly reports whether a push failed only because of the head.
func comparesOnly(err error) bool {
	var a *remote.Answer
	return !errors.As(err, &a) && (remote.StaleHead.Match(err.Error()) || remote.LockedByPush.Match(err.Error()))
}

// isLocked reports whether a push failed only because of a lock.
func isLocked(err error) bool {
	var refused *branch.Refused
	return errors.As(err, &refused) && remote.LockedByPush.Match(refused.Message)
}

// hooksFirst reports whether the server advertises an agent that runs hooks before it compares
// the head.
func hooksFirst(adv *packp.AdvRefs) bool {
	return slices.ContainsFunc(adv.Capabilities.Get(capability.Agent), remote.HooksFirst.Match)
}
