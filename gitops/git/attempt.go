package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
)

// attempt is what became of sending a push.
type attempt struct {
	// err is nil only when the server said that it moved the branch.
	err error
	// sent says that the server may have got the push.
	sent bool
	// answered says that err is the server's answer, and not that of a
	// connection that was lost.
	answered bool
	// denied says that the server's report names the branch as not moved.
	denied bool
	// said is what the server said besides, over several lines.
	said string
	// unnamed says that the server does not name its program, so that its word that it
	// moved the branch is not enough: Dulwich gives it to one who was not first too
	// (dulwich 0.21, server.py, _apply_pack).
	unnamed bool
}

// target is the branch that a push moves, and where it must be; zero: it must not be
// there.
type target struct {
	name string
	old  plumbing.Hash
}

// send pushes objects and moves a branch to head, if it still is where it must be.
func (b *Branch) send(ctx context.Context, to target, head plumbing.Hash, objects []newObject) attempt {
	ctx, cancel := context.WithTimeout(ctx, b.taker.timeout)
	defer cancel()
	// Asked of those who take the push, not of those who serve readers: these
	// may lag behind.
	session, adv, err := b.taker.advertised(ctx)
	if err != nil {
		return attempt{err: err}
	}
	defer session.Close()
	if err := b.stillAt(adv, to); err != nil {
		return attempt{err: err}
	}
	if !adv.Capabilities.Supports(capability.ReportStatus) {
		return attempt{err: errors.New("the server does not report what became of a push (report-status), which is required")}
	}
	data, err := writePack(objects, !adv.Capabilities.Supports(noThin))
	if err != nil {
		return attempt{err: err}
	}
	said := &tail{}
	request := updateRequest(adv.Capabilities, said)
	ref := plumbing.NewBranchReferenceName(to.name)
	request.Commands = []*packp.Command{{Name: ref, Old: to.old, New: head}}
	request.Packfile = io.NopCloser(bytes.NewReader(data))
	report, err := session.ReceivePack(ctx, request)
	err = plain(err)
	denied := report != nil && report.UnpackStatus == "ok" && report.Error() != nil
	if err == nil {
		err = confirmed(report, ref)
	}
	var a *answer
	if errors.As(err, &a) && a.status == http.StatusTooManyRequests {
		return attempt{err: err} // it was counted, and not looked at
	}
	return attempt{err: err, sent: true, answered: err != nil && isAnswer(report, err), denied: denied, said: said.String(), unnamed: !adv.Capabilities.Supports(capability.Agent)}
}

// stillAt returns an error where a branch is not where a push expects it.
func (b *Branch) stillAt(adv *packp.AdvRefs, to target) error {
	at, err := findBranch(adv, to.name)
	switch {
	case to.old.IsZero() && err == nil:
		return fmt.Errorf("the branch %s is there already", to.name)
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

// noThin is the capability of a server that takes no deltas on what it has.
const noThin = capability.Capability("no-thin")

func updateRequest(caps *capability.List, progress io.Writer) *packp.ReferenceUpdateRequest {
	request := packp.NewReferenceUpdateRequestFromCapabilities(caps)
	for _, c := range []capability.Capability{capability.Sideband64k, capability.Atomic} {
		if caps.Supports(c) {
			_ = request.Capabilities.Set(c)
		}
	}
	request.Progress = progress
	return request
}

// isAnswer reports whether a push that failed was answered, rather than lost on
// the way.
func isAnswer(report *packp.ReportStatus, err error) bool {
	if report != nil && report.Error() != nil || errors.Is(err, transport.ErrAuthorizationFailed) {
		return true
	}
	var a *answer
	if errors.As(err, &a) {
		return a.status < 500 && !a.limits()
	}
	// The sideband's channel for errors, by which a server ends everything.
	return strings.HasPrefix(err.Error(), "unexpected error: ")
}

// confirmed returns nil if the server says that it moved the branch.
func confirmed(report *packp.ReportStatus, ref plumbing.ReferenceName) error {
	if report != nil {
		for _, status := range report.CommandStatuses {
			if status.ReferenceName == ref {
				return status.Error()
			}
		}
	}
	return errors.New("the server did not say what became of the push")
}

// refusal returns the error of a push that left the branch where it was: a
// [branch.Refused] with all of the server's words, if the server answered.
func (a attempt) refusal(server *connection) error {
	if !a.answered {
		return a.err
	}
	var words []string
	if a.said != "" {
		words = append(words, lastLines(a.said))
	}
	var said *answer
	if errors.As(a.err, &said) {
		words = append(words, said.Error())
	} else {
		words = append(words, a.err.Error())
	}
	return &branch.Refused{Message: server.printable(strings.Join(words, "; "))}
}
