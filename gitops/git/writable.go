package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
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
	said := &remote.Tail{}
	request := updateRequest(adv.Capabilities, said)
	request.Capabilities.Delete(capability.Atomic) // for its words are the same whatever failed
	ref := plumbing.NewBranchReferenceName(b.name)
	request.Commands = []*packp.Command{{Name: ref, Old: b.store.prior, New: b.store.head}}
	request.Packfile = io.NopCloser(bytes.NewReader(nothing))
	report, err := session.ReceivePack(ctx, request)
	if err = remote.Plain(err); err == nil {
		err = confirmed(report, ref)
	}
	switch {
	case err == nil:
		return nil
	case comparesOnly(err) && isGit(adv):
		return nil
	case comparesOnly(err):
		return branch.ErrUnproven
	case isAnswer(report, err):
		return attempt{err: err, answered: true, said: said.String()}.refusal(b.taker)
	}
	return err
}

// compared is what servers say of a branch that is not where a push expects it: git
// (builtin/receive-pack.c, refs.c), JGit (ReceivePack.java) and go-git (receive_pack.go).
var compared = regexp.MustCompile(`failed to update ref|incorrect old value|cannot lock ref|failed to lock|reference .*(has changed|already exists)|invalid old id|lock failure|transaction failed|non-fast-forward|stale info`)

// comparesOnly reports whether a push failed for nothing but where the branch is.
func comparesOnly(err error) bool {
	var a *remote.Answer
	return !errors.As(err, &a) && compared.MatchString(strings.ToLower(err.Error()))
}

// locked is what servers say of a branch that they cannot lock, or have just failed to move:
// JGit (ReceiveCommand.java), git (refs/files-backend.c, and builtin/receive-pack.c to 2.49).
var locked = regexp.MustCompile(`failed to lock|cannot lock ref|lock failure|failed to update ref`)

// isLocked reports whether a push left the branch where it was for nothing but a lock.
func isLocked(err error) bool {
	var refused *branch.Refused
	return errors.As(err, &refused) && locked.MatchString(strings.ToLower(refused.Message))
}

// isGit reports whether it is git itself that takes pushes, by the agent that it says
// it is, as in git/2.39.5. GitHub says git/github-..., and is another program.
func isGit(adv *packp.AdvRefs) bool {
	for _, agent := range adv.Capabilities.Get(capability.Agent) {
		if ownGit.MatchString(agent) {
			return true
		}
	}
	return false
}

var ownGit = regexp.MustCompile(`^git/[0-9]`)
