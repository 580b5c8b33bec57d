package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// Request is a request to upload-pack.
type Request struct {
	Wants []plumbing.Hash
	// Have is a commit that the client has: the server does not send its objects, and may send
	// deltas on them. Zero means none.
	Have plumbing.Hash
	// Shallow reports whether the client lacks the parents of Have.
	Shallow bool
	// Edge are further commits that the client has without their parents. They are ancestors of
	// Have, and deltas are made only on objects of the pack.
	Edge []plumbing.Hash
	// Closed reports whether the client lacks Have itself, so that it must not be a delta's base.
	Closed bool
	// Depth is the number of commits; zero means all.
	Depth  int
	Filter packp.Filter
	// Max is the number of objects above which the pack is not read; zero means no limit.
	Max uint32
}

var (
	// ErrNotOurs is returned if the server does not send an object by its identifier.
	ErrNotOurs = errors.New("the server sends only what its branches point at")
	// ErrFilter is returned if the server does not allow a filter.
	ErrFilter = errors.New("the server does not allow this filter")
	// ErrTooMany is returned if a pack has more objects than expected.
	ErrTooMany = errors.New("the server would send too many objects")
	// ErrUnknownHave is returned if the server no longer has the client's commit.
	ErrUnknownHave = errors.New("the server no longer has the last commit that was read")
)

// Exact is the filter that sends the requested objects and none that they refer to.
const Exact = packp.Filter("tree:0")

// Fetch sends one request and returns the pack of the answer, which the caller closes. session is
// an open session to use, or nil. Fetch repeats the request once if the answer is cut short:
// reading changes nothing, and servers and proxies close connections that are open for long.
func (c *Connection) Fetch(ctx context.Context, session transport.UploadPackSession, q Request) (*Download, error) {
	data, err := c.fetchOnce(ctx, session, q)
	// The request had no thin-pack. Some hosts report that, others only a status.
	refused := len(q.Edge) > 0 && RefusesRequest(err)
	if err != nil && !c.AlwaysThin && (refused || NeedsThinPack.Match(err.Error())) {
		c.AlwaysThin = true
		data, err = c.fetchOnce(ctx, nil, q)
		c.AlwaysThin = err == nil
	}
	if ctx.Err() == nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
		return c.fetchOnce(ctx, nil, q)
	}
	return data, err
}

func (c *Connection) fetchOnce(ctx context.Context, session transport.UploadPackSession, q Request) (*Download, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
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
		return nil, recognise(Plain(err), q)
	}
	defer response.Close()
	if !q.Have.IsZero() && len(response.ACKs) == 0 {
		return nil, ErrUnknownHave
	}
	var from io.Reader = response
	switch {
	case c.Caps.Supports(capability.Sideband64k):
		from = sideband.NewDemuxer(sideband.Sideband64k, response)
	case c.Caps.Supports(capability.Sideband):
		from = sideband.NewDemuxer(sideband.Sideband, response)
	}
	data, err := c.ReadPack(from, q.Max)
	if err != nil {
		if s, ok := session.(*stream); ok {
			err = s.explainWith(err)
		}
		return nil, recognise(err, q)
	}
	return data, nil
}

// uploadRequest returns go-git's form of a request.
func (c *Connection) uploadRequest(q Request) *packp.UploadPackRequest {
	u := packp.NewUploadPackRequestFromCapabilities(c.Caps)
	u.Wants = q.Wants
	for _, wanted := range []capability.Capability{capability.NoProgress, capability.Shallow} {
		if c.Caps.Supports(wanted) {
			_ = u.Capabilities.Set(wanted)
		}
	}
	if q.Filter != "" {
		_ = u.Capabilities.Set(capability.Filter)
		u.Filter = q.Filter
	}
	if q.Depth > 0 {
		u.Depth = packp.DepthCommits(q.Depth)
	}
	if !q.Have.IsZero() {
		u.Haves = []plumbing.Hash{q.Have}
		u.Shallows = slices.Clone(q.Edge)
		if q.Shallow {
			u.Shallows = append(u.Shallows, q.Have)
		}
		// Without thin-pack a server makes no deltas on a shallow commit, and sends every tree
		// again. The client lacks the parents of the edge.
		if (len(q.Edge) > 0 || q.Closed) && !c.AlwaysThin {
			u.Capabilities.Delete(capability.ThinPack)
		}
	}
	return u
}

// recognise returns [ErrFilter] or [ErrNotOurs] for a refusal that another request can avoid. The
// status of a request with a filter may be about the filter: a request without it shows that.
func recognise(err error, q Request) error {
	text := err.Error()
	switch {
	case NeedsThinPack.Match(text):
		return err
	case RefusesFilter.Match(text):
		return fmt.Errorf("%w: %w", ErrFilter, err)
	case RefusesObject.Match(text):
		return fmt.Errorf("%w: %w", ErrNotOurs, err)
	case q.Filter != "" && RefusesRequest(err):
		return fmt.Errorf("%w: %w", ErrFilter, err)
	}
	return err
}
