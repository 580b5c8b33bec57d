package git

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	// have is a commit that is here, of which unchanged objects are not sent
	// and changed ones as deltas; zero for none.
	have plumbing.Hash
	// depth is how many commits are sent; zero for all.
	depth  int
	filter packp.Filter
	// most is the number of objects above which the answer is not read; zero
	// for no limit.
	most uint32
}

var (
	// errFilter says that the server does not allow a filter.
	errFilter = errors.New("the server does not allow this filter")
	// errTooMany says that an answer has more objects than were expected.
	errTooMany = errors.New("the server would send too many objects")
	// errUnknownHave says that the server no longer knows the commit that is here.
	errUnknownHave = errors.New("the server does not know the last commit any more")
)

// exact is the filter that sends the objects asked for and none that they
// refer to.
const exact = packp.Filter("tree:0")

// fetch sends one request and returns the pack that answers it. session is an
// open one to use, or nil. An answer that breaks off is asked for once more:
// reading changes nothing, and servers and proxies end connections that they
// have kept for long.
func (r *Branch) fetch(ctx context.Context, session transport.UploadPackSession, q request) ([]byte, error) {
	data, err := r.fetchOnce(ctx, session, q)
	if ctx.Err() == nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)) {
		return r.fetchOnce(ctx, nil, q)
	}
	return data, err
}

func (r *Branch) fetchOnce(ctx context.Context, session transport.UploadPackSession, q request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	if session == nil {
		var err error
		session, err = r.openUpload(ctx)
		if err != nil {
			return nil, err
		}
		defer session.Close()
	}
	response, err := session.UploadPack(ctx, r.uploadRequest(q))
	if err != nil {
		return nil, explainFetch(plain(err))
	}
	defer response.Close()
	if !q.have.IsZero() && len(response.ACKs) == 0 {
		return nil, errUnknownHave
	}
	var from io.Reader = response
	switch {
	case r.caps.Supports(capability.Sideband64k):
		from = sideband.NewDemuxer(sideband.Sideband64k, response)
	case r.caps.Supports(capability.Sideband):
		from = sideband.NewDemuxer(sideband.Sideband, response)
	}
	data, err := readPack(from, q.most)
	if err != nil {
		if s, ok := session.(*stream); ok {
			err = s.explainWith(err)
		}
		return nil, explainFetch(err)
	}
	return data, nil
}

// mostAheadBytes bounds an answer that may be refused for its size.
const mostAheadBytes = 16 << 20

// readPack reads a pack, unless its header says that it is too large.
func readPack(from io.Reader, most uint32) ([]byte, error) {
	header := make([]byte, 12) // "PACK", the version, the number of objects
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	if count := binary.BigEndian.Uint32(header[8:]); most > 0 && count > most {
		return nil, fmt.Errorf("%w: %d", errTooMany, count)
	}
	if most > 0 {
		from = io.LimitReader(from, mostAheadBytes+1)
	}
	data := bytes.NewBuffer(header)
	if _, err := data.ReadFrom(from); err != nil {
		return nil, err
	}
	if most > 0 && data.Len() > mostAheadBytes {
		return nil, fmt.Errorf("%w: they have more than %d bytes", errTooMany, mostAheadBytes)
	}
	return data.Bytes(), nil
}

func (r *Branch) uploadRequest(q request) *packp.UploadPackRequest {
	u := packp.NewUploadPackRequestFromCapabilities(r.caps)
	u.Wants = q.wants
	for _, c := range []capability.Capability{capability.NoProgress, capability.Shallow} {
		if r.caps.Supports(c) {
			_ = u.Capabilities.Set(c)
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
		if r.mode != whole {
			u.Shallows = []plumbing.Hash{q.have}
		}
		// Without thin-pack a server does not take a shallow commit for
		// something to make deltas on, and sends every tree again. go-git
		// leaves the capability out because its own stores want whole packs.
		_ = u.Capabilities.Set(capability.ThinPack)
	}
	return u
}

// explainFetch tells the refusals apart that another request can get around.
func explainFetch(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "filter"):
		return fmt.Errorf("%w: %s", errFilter, oneLine(text))
	case strings.Contains(text, "not our ref"):
		return fmt.Errorf("%w: %s", errNotOurs, oneLine(text))
	}
	return err
}
