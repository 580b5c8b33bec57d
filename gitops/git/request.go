package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// request is what is asked of upload-pack.
type request struct {
	wants []plumbing.Hash
	// have is a commit that is here: objects that it has are not sent again, and
	// others may come as deltas on them. Zero for none.
	have plumbing.Hash
	// shallow says that the parents of have are not here.
	shallow bool
	// edge are further commits that are here without their parents. With one,
	// have is a commit that all of them come before, and deltas are made only on
	// what is sent.
	edge []plumbing.Hash
	// closed says that have itself is not here, so that nothing may come as deltas on it.
	closed bool
	// depth is how many commits are sent; zero for all.
	depth  int
	filter packp.Filter
	// most is the number of objects above which the answer is not read; zero
	// for no limit.
	most uint32
}

var (
	// errNotOurs says that the server would not send an object by its name.
	errNotOurs = errors.New("the server sends only what its branches point at")
	// errFilter says that the server does not allow a filter.
	errFilter = errors.New("the server does not allow this filter")
	// errTooMany says that an answer has more objects than were expected.
	errTooMany = errors.New("the server would send too many objects")
	// errUnknownHave says that the server no longer knows the commit that is here.
	errUnknownHave = errors.New("the server no longer has the last commit that was read")
)

// exact is the filter that sends the objects asked for and none that they
// refer to.
const exact = packp.Filter("tree:0")

// fetch sends one request and returns the pack that answers it, which the caller
// closes. session is an
// open one to use, or nil. An answer that breaks off is asked for once more:
// reading changes nothing, and servers and proxies end connections that they
// have kept for long.
func (c *connection) fetch(ctx context.Context, session transport.UploadPackSession, q request) (*download, error) {
	data, err := c.fetchOnce(ctx, session, q)
	var a *answer
	// It was left out of this request. Some say that it is missing, others a status alone.
	refused := len(q.edge) > 0 && errors.As(err, &a) && a.refusesRequest()
	if err != nil && !c.alwaysThin && (refused || strings.Contains(err.Error(), "thin-pack")) {
		c.alwaysThin = true
		data, err = c.fetchOnce(ctx, nil, q)
		c.alwaysThin = err == nil
	}
	if ctx.Err() == nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
		return c.fetchOnce(ctx, nil, q)
	}
	return data, err
}

func (c *connection) fetchOnce(ctx context.Context, session transport.UploadPackSession, q request) (*download, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if session == nil {
		var err error
		session, err = c.openUpload(ctx)
		if err != nil {
			return nil, err
		}
		defer session.Close()
	}
	response, err := session.UploadPack(ctx, c.uploadRequest(q))
	if err != nil {
		return nil, recognise(plain(err), q)
	}
	defer response.Close()
	if !q.have.IsZero() && len(response.ACKs) == 0 {
		return nil, errUnknownHave
	}
	var from io.Reader = response
	switch {
	case c.caps.Supports(capability.Sideband64k):
		from = sideband.NewDemuxer(sideband.Sideband64k, response)
	case c.caps.Supports(capability.Sideband):
		from = sideband.NewDemuxer(sideband.Sideband, response)
	}
	data, err := c.readPack(from, q.most)
	if err != nil {
		if s, ok := session.(*stream); ok {
			err = s.explainWith(err)
		}
		return nil, recognise(err, q)
	}
	return data, nil
}

// uploadRequest is the request as go-git writes it.
func (c *connection) uploadRequest(q request) *packp.UploadPackRequest {
	u := packp.NewUploadPackRequestFromCapabilities(c.caps)
	u.Wants = q.wants
	for _, wanted := range []capability.Capability{capability.NoProgress, capability.Shallow} {
		if c.caps.Supports(wanted) {
			_ = u.Capabilities.Set(wanted)
		}
	}
	if q.filter != "" {
		_ = u.Capabilities.Set(capability.Filter)
		u.Filter = q.filter
	}
	if q.depth > 0 {
		u.Depth = packp.DepthCommits(q.depth)
	}
	if !q.have.IsZero() {
		u.Haves = []plumbing.Hash{q.have}
		u.Shallows = slices.Clone(q.edge)
		if q.shallow {
			u.Shallows = append(u.Shallows, q.have)
		}
		// Without thin-pack a server does not take a shallow commit for
		// something to make deltas on, and sends every tree again. Those that all
		// of the edge come before are not here.
		if (len(q.edge) > 0 || q.closed) && !c.alwaysThin {
			u.Capabilities.Delete(capability.ThinPack)
		}
	}
	return u
}

// recognise makes errFilter and errNotOurs of the refusals that another request
// can avoid. A status that refuses a request with a filter may be about the filter:
// who asks without it finds out.
func recognise(err error, q request) error {
	text := err.Error()
	var a *answer
	switch {
	case strings.Contains(text, "thin-pack"):
		return err
	case strings.Contains(text, "filter"):
		return fmt.Errorf("%w: %w", errFilter, err)
	case strings.Contains(text, "not our ref"):
		return fmt.Errorf("%w: %w", errNotOurs, err)
	case q.filter != "" && errors.As(err, &a) && a.refusesRequest():
		return fmt.Errorf("%w: %w", errFilter, err)
	}
	return err
}
