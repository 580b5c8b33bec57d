package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"muster/gitops/branch"
	"muster/gitops/git/remote"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// attempt is the result of sending a push.
type attempt struct {
	// err is nil only if the server has reported that it moved the branch.
	err error
	// sent reports whether the server may have received the push.
	sent bool
	// answered reports whether err is the server's response, and not a lost connection.
	answered bool
	// denied reports whether the server has reported that it did not move the branch.
	denied bool
	// serverMessage is the server's further output, which may have several lines.
	serverMessage string
	// unreliable reports whether the server may report success for a conflicting push
	// ([remote.UnreliableReport]).
	unreliable bool
}

// target is the branch that a push moves, and its expected head; zero if it must not exist.
type target struct {
	name string
	old  plumbing.Hash
}

// send pushes objects and moves a branch to head, if it is at its expected head.
func (b *Branch) send(ctx context.Context, to target, head plumbing.Hash, objects []newObject) attempt {
	ctx, cancel := context.WithTimeout(ctx, b.taker.Timeout)
	defer cancel()
	// The server of pushes, since a replica for reading may lag behind.
	session, adv, err := b.taker.Advertised(ctx)
	if err != nil {
		return attempt{err: err}
	}
	defer session.Close()
	if err := b.stillAt(adv, to); err != nil {
		return attempt{err: err}
	}
	if !adv.Capabilities.Supports(capability.ReportStatus) {
		return attempt{err: errors.New("the server does not report the result of a push (report-status), which is required")}
	}
	data := writePack(objects, !adv.Capabilities.Supports(noThin))
	report, message, err := requestUpdate(ctx, session, updateRequest(adv.Capabilities), to, head, data)
	denied := report != nil && report.UnpackStatus == "ok" && report.Error() != nil
	var a *remote.Answer
	if errors.As(err, &a) && remote.RateLimited.MatchStatus(a.Status) {
		return attempt{err: err} // the server has not processed it
	}
	return attempt{
		err:           err,
		sent:          true,
		answered:      err != nil && isAnswer(report, err),
		denied:        denied,
		serverMessage: message,
		unreliable:    remote.UnreliableReport.MatchMissing(adv.Capabilities),
	}
}

// stillAt returns an error if a branch is not at its expected head.
func (b *Branch) stillAt(adv *packp.AdvRefs, to target) error {
	at, err := remote.FindBranch(adv, to.name)
	switch {
	case to.old.IsZero() && err == nil:
		return fmt.Errorf("the branch %s exists already", to.name)
	case to.old.IsZero():
		return nil
	case err != nil:
		return err
	case at != to.old:
		b.seen = at
		return branch.ErrMoved
	}
	return nil
}

// noThin is the capability of a server that accepts no deltas on its own objects.
const noThin = capability.Capability("no-thin")

func updateRequest(caps *capability.List) *packp.ReferenceUpdateRequest {
	request := packp.NewReferenceUpdateRequestFromCapabilities(caps)
	for _, c := range []capability.Capability{capability.Sideband64k, capability.Atomic} {
		if caps.Supports(c) {
			_ = request.Capabilities.Set(c)
		}
	}
	return request
}

// requestUpdate sends the request to move a branch, with a pack. It returns the server's report and its
// further output. The error is nil only if the server has reported that it moved the branch.
func requestUpdate(
	ctx context.Context, session transport.ReceivePackSession, request *packp.ReferenceUpdateRequest,
	to target, head plumbing.Hash, pack []byte,
) (report *packp.ReportStatus, message string, err error) {
	progress := &remote.Tail{}
	ref := plumbing.NewBranchReferenceName(to.name)
	request.Progress = progress
	request.Commands = []*packp.Command{{Name: ref, Old: to.old, New: head}}
	request.Packfile = io.NopCloser(bytes.NewReader(pack))
	report, err = session.ReceivePack(ctx, request)
	if err = remote.Plain(err); err == nil {
		err = confirmed(report, ref)
	}
	return report, progress.String(), err
}

// isAnswer reports whether the error of a push is the server's response, and not a lost connection.
func isAnswer(report *packp.ReportStatus, err error) bool {
	if report != nil && report.Error() != nil || errors.Is(err, transport.ErrAuthorizationFailed) {
		return true
	}
	var a *remote.Answer
	if errors.As(err, &a) {
		return a.Status < 500 && !a.Limits()
	}
	// The sideband's channel for errors, by which a server ends everything.
	return strings.HasPrefix(err.Error(), "unexpected error: ")
}

// confirmed returns nil if the server has reported that it moved the branch.
func confirmed(report *packp.ReportStatus, ref plumbing.ReferenceName) error {
	if report != nil {
		for _, status := range report.CommandStatuses {
			if status.ReferenceName == ref {
				return status.Error()
			}
		}
	}
	return errors.New("the server did not report the result of the push")
}

// refusal returns the server's response with its message.
func (a attempt) refusal(server *remote.Connection) *branch.Refused {
	var words []string
	if a.serverMessage != "" {
		words = append(words, remote.LastLines(a.serverMessage))
	}
	words = append(words, a.err.Error())
	return &branch.Refused{Message: server.Printable(strings.Join(words, "; "))}
}

// Limits implements [branch.Writer]: one push has any number of commits of any size.
func (b *Branch) Limits() branch.Limits { return branch.Limits{} }

// Push pushes a chain of commits on top of parent, all or none, and returns the last one as the new
// head, also if others have pushed on top of it. It leaves out commits that change nothing. If none
// remains, it pushes nothing and returns parent.
//
// The branch moves only from parent. [branch.ErrMoved] is a conflict, and a [branch.Refused] means that
// the server rejected the commits. A [branch.Unsettled] means that it is unknown whether the branch
// contains them. After any other error it does not.
//
// The same commits on the same parent have the same identifiers, so a retry after an error cannot
// commit twice.
func (b *Branch) Push(ctx context.Context, parent branch.Head, commits []branch.Draft) (branch.Head, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store.head.IsZero() || parent.Commit != b.store.head.String() {
		return branch.Head{}, b.failPush(fmt.Errorf("%w: it is no longer at %.12s", branch.ErrMoved, parent.Commit))
	}
	b.seen = plumbing.ZeroHash
	here, made := b.store.head, newBuilder(ctx, b.store, b.author)
	head, root, err := made.chain(commits)
	if err != nil {
		return branch.Head{}, b.fail("writing a commit for", b.moved(ctx, here, err))
	}
	if head == b.store.head {
		return b.head(ctx), nil
	}
	err = b.move(ctx, target{b.name, here}, head, made.list)
	var unsettled *branch.Unsettled
	if errors.As(err, &unsettled) {
		unsettled.Err = b.failPush(unsettled.Err)
		return branch.Head{}, unsettled
	}
	if err != nil {
		return branch.Head{}, b.failPush(err)
	}
	b.store.adopt(made, head, root)
	return b.head(ctx), nil
}

// Push retries if another writer has locked the branch, which is usually about to move.
const (
	lockTries = 6
	lockPause = 500 * time.Millisecond
)

// move sends objects and moves the branch to head.
func (b *Branch) move(ctx context.Context, to target, head plumbing.Hash, objects []newObject) error {
	for try := 1; ; try++ {
		err := b.settle(ctx, to, head, b.send(ctx, to, head, objects))
		if try == lockTries || !isLocked(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockPause):
		}
	}
}

// settle returns the error of a push, and nil if the branch contains head. Unless the branch can be read if
// that is necessary to find out, the next Head starts over.
func (b *Branch) settle(ctx context.Context, to target, head plumbing.Hash, result attempt) error {
	switch {
	case result.err == nil && result.unreliable:
		result.err = errors.New("the server reported success, but did not move the branch")
	case result.err == nil, !result.sent:
		return result.err
	}
	answer := branch.Answer{NotMoved: result.denied}
	if result.answered {
		answer.Refused = result.refusal(b.taker)
	}
	b.mu.Unlock() // for the history
	defer b.mu.Lock()
	u := &branch.Unsettled{Before: to.old.String(), After: head.String(), Err: result.err}
	_, err := u.Settle(ctx, answer, func(ctx context.Context) (string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		at, err := b.pollHead(ctx, to.name)
		switch {
		case to.old.IsZero() && errors.Is(err, remote.ErrNoBranch):
			return plumbing.ZeroHash.String(), nil
		case err != nil:
			b.reset()
			return "", errors.New(b.server.Printable(err.Error()))
		case result.denied && at != to.old && to.name == b.name: // the next refresh starts there
			b.seen = at
		}
		return at.String(), nil
	}, b)
	return err
}

// pollHead reads only the head of a branch.
func (b *Branch) pollHead(ctx context.Context, name string) (plumbing.Hash, error) {
	head, session, err := b.server.HeadOf(ctx, name)
	if session != nil {
		session.Close()
	}
	return head, err
}

// Propose pushes a chain of commits on top of parent to a new branch, for people to review. It returns
// the last commit and the server's output, such as where to open a pull request. It fails if the branch
// exists; a [branch.Refused] means that the server rejected the commits.
func (b *Branch) Propose(
	ctx context.Context, parent branch.Head, commits []branch.Draft, name string,
) (commit, output string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := plumbing.NewBranchReferenceName(name).Validate(); err != nil {
		return "", "", b.failPush(fmt.Errorf("the branch %q: %w", name, err))
	}
	if b.store.head.IsZero() || parent.Commit != b.store.head.String() {
		return "", "", b.failPush(fmt.Errorf("%w: it is no longer at %.12s", branch.ErrMoved, parent.Commit))
	}
	made := newBuilder(ctx, b.store, b.author)
	head, _, err := made.chain(commits)
	if err != nil {
		return "", "", b.fail("writing a commit for", err)
	}
	to := target{name: name}
	result := b.send(ctx, to, head, made.list)
	if err := b.settle(ctx, to, head, result); err != nil {
		return "", "", b.failPush(err)
	}
	return head.String(), b.server.Printable(result.serverMessage), nil
}

// Move requests a server to move a branch from one commit to another, with a pack of the objects that it lacks. A zero
// commit means that the branch does not exist. The error is nil only if the server has reported that it moved the
// branch. Move reports whether an error is the server's response.
func Move(ctx context.Context, server *remote.Connection, name string, old, head plumbing.Hash, pack []byte) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	session, adv, err := server.Advertised(ctx)
	if err != nil {
		return false, err
	}
	defer session.Close()
	report, _, err := requestUpdate(ctx, session, updateRequest(adv.Capabilities), target{name, old}, head, pack)
	return err != nil && isAnswer(report, err), err
}
