package git

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"muster/gitops/branch"
)

// Limits implements [branch.Writer]: one push has any number of commits of any size.
func (b *Branch) Limits() branch.Limits { return branch.Limits{} }

// Push puts a chain of commits on tip in one push, all or none, and returns
// the new tip. Commits that change nothing are left out; when none is left,
// nothing is pushed and tip is returned.
//
// The branch moves only from tip: [branch.ErrMoved] says that another writer
// was first and nothing was written, unless [branch.ErrUnsettled] is beside it. A [branch.Refused] says that the server did not
// accept the commits. After any other error the branch has been read again
// where that was possible and did not have the commits; success is only ever
// reported on the server's word.
//
// The same commits on the same tip have the same identifiers, so doing it
// again after an error cannot do it twice.
func (b *Branch) Push(ctx context.Context, tip branch.Tip, commits []branch.Draft) (branch.Tip, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store.head.IsZero() || tip.Commit != b.store.head.String() {
		return branch.Tip{}, b.failPush(fmt.Errorf("%w: it is no longer at %.12s", branch.ErrMoved, tip.Commit))
	}
	b.seen = plumbing.ZeroHash
	here, made := b.store.head, newBuilder(ctx, b.store, b.author)
	head, root, err := made.chain(commits)
	if err != nil {
		return branch.Tip{}, b.fail("writing a commit for", b.moved(ctx, here, err))
	}
	if head == b.store.head {
		return b.tip(ctx), nil
	}
	at, err := b.move(ctx, head, made.list)
	if err != nil {
		return branch.Tip{}, b.failPush(err)
	}
	if at == head {
		b.store.adopt(made, head, root)
		return b.tip(ctx), nil
	}
	// The commits are in, and another writer's are on top of them already.
	b.seen = at
	if err := b.refresh(ctx); err != nil {
		b.reset()
		return branch.Tip{}, b.fail("reading", err)
	}
	return b.tip(ctx), nil
}

// A branch that somebody else holds locked is about to move, mostly: it is tried again.
const (
	lockTries = 6
	lockPause = 500 * time.Millisecond
)

// move moves the branch to head, whose objects it sends, and returns where the
// branch is then: at head, or at a later commit of another writer.
func (b *Branch) move(ctx context.Context, head plumbing.Hash, objects []newObject) (plumbing.Hash, error) {
	for try := 1; ; try++ {
		at, err := b.moveOnce(ctx, head, objects)
		if try == lockTries || !isLocked(err) {
			return at, err
		}
		select {
		case <-ctx.Done():
			return at, err
		case <-time.After(lockPause):
		}
	}
}

func (b *Branch) moveOnce(ctx context.Context, head plumbing.Hash, objects []newObject) (plumbing.Hash, error) {
	result := b.send(ctx, target{b.name, b.store.head}, head, objects)
	switch {
	case result.err == nil && !result.unnamed:
		return head, nil
	case result.err == nil:
		result.err = errors.New("the server said that it moved the branch, and did not")
	case !result.sent:
		return plumbing.ZeroHash, result.err
	}
	// The server may have moved the branch before the error: only the branch
	// itself tells, also when ctx is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	at, err := b.look(ctx)
	if err != nil {
		// Whether the commits are in the branch is not known: the next Tip tells.
		b.reset()
		return plumbing.ZeroHash, fmt.Errorf("%w (whether the commits are in the branch could not be read: %s)", result.err, b.server.printable(err.Error()))
	}
	switch at {
	case head:
		return head, nil
	case b.store.head:
		return plumbing.ZeroHash, result.refusal(b.taker)
	}
	b.seen = at
	if result.denied {
		return plumbing.ZeroHash, fmt.Errorf("%w: %w", branch.ErrMoved, result.err)
	}
	switch in, err := b.store.contains(ctx, at, head); {
	case err != nil:
		return plumbing.ZeroHash, fmt.Errorf("%w: %w (%w: %s)", branch.ErrMoved, result.err, branch.ErrUnsettled, b.server.printable(err.Error()))
	case in:
		return at, nil
	}
	return plumbing.ZeroHash, fmt.Errorf("%w: %w", branch.ErrMoved, result.err)
}

// look reads the branch's head and nothing else.
func (b *Branch) look(ctx context.Context) (plumbing.Hash, error) {
	head, session, err := b.server.headOf(ctx, b.name)
	if session != nil {
		session.Close()
	}
	return head, err
}

// Propose puts a chain of commits on tip into a new branch, for people to review, and
// returns the last of them and what the server said besides, as where to open a pull
// request. The error says where there is such a branch already; a [branch.Refused]
// says that the server did not accept the commits.
func (b *Branch) Propose(ctx context.Context, tip branch.Tip, commits []branch.Draft, name string) (commit, said string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := plumbing.NewBranchReferenceName(name).Validate(); err != nil {
		return "", "", b.failPush(fmt.Errorf("the branch %q: %w", name, err))
	}
	if b.store.head.IsZero() || tip.Commit != b.store.head.String() {
		return "", "", b.failPush(fmt.Errorf("%w: it is no longer at %.12s", branch.ErrMoved, tip.Commit))
	}
	made := newBuilder(ctx, b.store, b.author)
	head, _, err := made.chain(commits)
	if err != nil {
		return "", "", b.fail("writing a commit for", err)
	}
	result := b.send(ctx, target{name: name}, head, made.list)
	if result.err != nil {
		return "", "", b.failPush(result.refusal(b.taker))
	}
	return head.String(), b.server.printable(result.said), nil
}
