package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"muster/gitops/branch"
)

// Push puts a chain of commits on tip in one push, all or none, and returns
// the new tip. Commits that change nothing are left out; when none is left,
// nothing is pushed and tip is returned.
//
// The branch moves only from tip: [branch.ErrMoved] says that another writer
// was first and nothing was written. A [Refused] says that the server would
// not have it. After any other error the branch has been read again where
// that was possible and did not hold the commits; success is only ever
// reported on the server's word.
//
// The same commits on the same tip have the same identifiers, so doing it
// again after an error cannot do it twice.
func (r *Branch) Push(ctx context.Context, tip branch.Tip, commits []branch.Draft) (branch.Tip, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head.IsZero() || tip.Commit != r.head.String() {
		return branch.Tip{}, r.fail("pushing to", fmt.Errorf("%w: it is no longer at %.12s", branch.ErrMoved, tip.Commit))
	}
	r.ahead = plumbing.ZeroHash
	b := newBuilder(ctx, r)
	head, root := r.head, r.root
	for _, c := range commits {
		var err error
		head, root, err = b.commit(head, root, c)
		if err != nil {
			return branch.Tip{}, r.fail("writing a commit for", err)
		}
	}
	if head == r.head {
		return r.tip(ctx), nil
	}
	sent, err := r.send(ctx, b, head)
	if err != nil && sent {
		err = r.settle(ctx, head, err)
	}
	if err != nil {
		return branch.Tip{}, r.fail("pushing to", err)
	}
	if r.ahead.IsZero() {
		r.adopt(b, head, root)
		return r.tip(ctx), nil
	}
	// The commits are in, and another writer's are on top of them already.
	if err := r.refresh(ctx); err != nil {
		r.reset()
		return branch.Tip{}, r.fail("reading", err)
	}
	return r.tip(ctx), nil
}

// adopt makes what was pushed the head that is held.
func (r *Branch) adopt(b *builder, head, root plumbing.Hash) {
	for h, t := range b.fresh {
		r.trees[h] = t
	}
	for h, content := range b.files {
		r.blobs[h] = content
	}
	r.head, r.root = head, root
	r.prune(root, r.config.ReadAhead)
}

// Writable reports whether the server would let this user push at all: it is
// asked for what comes before every push. A nil error does not promise that a
// protected branch or a hook lets a commit pass.
func (r *Branch) Writable(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	session, err := r.openReceive(ctx)
	if err == nil {
		defer session.Close()
		_, err = session.AdvertisedReferencesContext(ctx)
	}
	if err != nil {
		return r.fail("pushing to", err)
	}
	return nil
}

// notTaken is an error of a push that the server answered with a no.
type notTaken struct {
	err  error
	said string
}

func (e *notTaken) Error() string { return e.err.Error() }
func (e *notTaken) Unwrap() error { return e.err }

// send pushes the objects and moves the branch to head, if it still is where
// it was. Only a nil error means that the server said so. sent reports whether
// the server may have got the push.
func (r *Branch) send(ctx context.Context, b *builder, head plumbing.Hash) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	session, err := r.openReceive(ctx)
	if err != nil {
		return false, err
	}
	defer session.Close()
	// Asked of those who take the push, not of those who serve readers: these
	// may lag behind.
	adv, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return false, err
	}
	at, err := r.branch(adv)
	if err != nil {
		return false, err
	}
	if at != r.head {
		r.ahead = at
		return false, branch.ErrMoved
	}
	if !adv.Capabilities.Supports(capability.ReportStatus) {
		return false, errors.New("the server does not report what became of a push (report-status), which is required")
	}
	data, err := writePack(b.list, !adv.Capabilities.Supports(noThin))
	if err != nil {
		return false, err
	}
	said := &tail{}
	request := updateRequest(adv.Capabilities, said)
	name := plumbing.NewBranchReferenceName(r.config.Branch)
	request.Commands = []*packp.Command{{Name: name, Old: r.head, New: head}}
	request.Packfile = io.NopCloser(bytes.NewReader(data))
	report, err := session.ReceivePack(ctx, request)
	err = plain(err)
	if err == nil {
		err = confirmed(report, name)
	}
	if err != nil && isAnswer(report, err) {
		err = &notTaken{err: err, said: said.String()}
	}
	return true, err
}

// noThin is what a server says that takes no deltas on what it has.
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

// isAnswer reports whether a failed push has been answered, rather than lost
// on the way.
func isAnswer(report *packp.ReportStatus, err error) bool {
	if report != nil && report.Error() != nil || errors.Is(err, transport.ErrAuthorizationFailed) {
		return true
	}
	var status *githttp.Err
	if errors.As(err, &status) {
		return status.StatusCode() >= 400 && status.StatusCode() < 500
	}
	// The sideband's channel for errors, by which a server ends everything.
	return strings.HasPrefix(err.Error(), "unexpected error: ")
}

// confirmed reports whether the server says that it moved the branch.
func confirmed(report *packp.ReportStatus, name plumbing.ReferenceName) error {
	if report != nil {
		for _, status := range report.CommandStatuses {
			if status.ReferenceName == name {
				return status.Error()
			}
		}
	}
	return errors.New("the server did not say what became of the push")
}

// settle finds out what became of a push that ended in err, by reading the
// branch. It returns nil when the commits are in it: as its head, or below
// the head that it leaves in ahead.
func (r *Branch) settle(ctx context.Context, head plumbing.Hash, err error) error {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	at, readErr := r.look(look)
	switch {
	case readErr != nil:
		// The commits may be in the branch or not: the next Tip will tell.
		r.reset()
		return fmt.Errorf("%w (whether the commits are in the branch could not be read: %s)", err, oneLine(readErr.Error()))
	case at == head:
		return nil
	case at == r.head:
		return r.refusal(err)
	}
	r.ahead = at
	landed, readErr := r.contains(look, at, head)
	if landed && readErr == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", branch.ErrMoved, err)
}

// refusal makes an error of what the server said, if it did.
func (r *Branch) refusal(err error) error {
	var no *notTaken
	if !errors.As(err, &no) {
		return err
	}
	said := strings.Split(strings.ReplaceAll(no.said, "\r", "\n"), "\n")
	var words []string
	for _, line := range said {
		if line = strings.TrimSpace(line); line != "" {
			words = append(words, line)
		}
	}
	var status *githttp.Err
	if errors.As(err, &status) {
		words = append(words, status.Reason)
	}
	words = append(words, no.err.Error())
	return &Refused{Message: r.censor(oneLine(strings.Join(words, "; ")))}
}

// look reads the branch's head and nothing else.
func (r *Branch) look(ctx context.Context) (plumbing.Hash, error) {
	if head, ok := r.glance(ctx); ok {
		return head, nil
	}
	session, err := r.openUpload(ctx)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer session.Close()
	adv, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return r.branch(adv)
}

// contains reports whether commit is among the last commits up to head.
func (r *Branch) contains(ctx context.Context, head, commit plumbing.Hash) (bool, error) {
	const deep = 64
	q := request{wants: []plumbing.Hash{head}, have: r.head, depth: deep}
	if r.mode == partial {
		q.filter = exact
	}
	data, err := r.fetch(ctx, nil, q)
	if err != nil {
		return false, err
	}
	p, err := indexPack(data, r.held)
	if err != nil {
		return false, err
	}
	for at := head; ; {
		if at == commit {
			return true, nil
		}
		raw, ok, err := p.object(at)
		if err != nil || !ok {
			return false, err
		}
		if at, ok = parentOf(raw.data); !ok {
			return false, nil
		}
	}
}

// parentOf returns a raw commit's first parent.
func parentOf(commit []byte) (plumbing.Hash, bool) {
	const line = "\nparent "
	size := hex.EncodedLen(hashSize)
	header, _, _ := bytes.Cut(commit, []byte("\n\n"))
	at := bytes.Index(header, []byte(line))
	if at < 0 || at+len(line)+size > len(header) {
		return plumbing.ZeroHash, false
	}
	return plumbing.NewHash(string(header[at+len(line):][:size])), true
}
