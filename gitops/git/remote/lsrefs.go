package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// In version 0 of git's protocol, which is go-git's, a server lists all refs first: with 100,000 pull
// requests 6 MB each time. In version 2, the command ls-refs requests only the branch
// (gitprotocol-v2). It is used if the list is known to be long. The first request of a connection
// is in version 0, which follows redirects.

const (
	// longList is the number of refs from which a list is long.
	longList = 100
	// maxFailures is the number of consecutive failures after which version 2 is not used any
	// more. A single failure may be an outage.
	maxFailures = 3
	// usualTimeout is a multiple of the time that servers need for a branch.
	usualTimeout = 15 * time.Second
	// versionTwo requests version 2: in a header over HTTP, otherwise in a variable of the
	// environment.
	versionTwo = "version=2"
	// maxRefs limits a response in bytes. Refs that begin like the branch's name are part of it,
	// but sorted after it.
	maxRefs = 1 << 20
)

// lsRefs reads only the head of a branch, from a server with a long list. After a failure, the caller
// uses version 0, which explains it.
func (c *Connection) lsRefs(ctx context.Context, branch string) (plumbing.Hash, bool) {
	if !c.manyRefs || c.failures == maxFailures {
		return plumbing.ZeroHash, false
	}
	// Much less than the time for both versions together.
	bounded, cancel := context.WithTimeout(ctx, min(c.Timeout, usualTimeout)/4)
	defer cancel()
	head, err := c.askLsRefs(bounded, "refs/heads/"+branch)
	if err == nil {
		c.failures = 0
		return head, !head.IsZero()
	}
	if ctx.Err() == nil {
		c.failures++
	}
	level, text := slog.LevelDebug, "reading the branch alone failed, reading all refs"
	if c.failures == maxFailures {
		level, text = slog.LevelWarn, "the server lists all of its refs on every read: hide the refs that are not needed, or enable version 2 of git's protocol"
	}
	c.Log.Log(ctx, level, text, "repository", c.Address.String(), "reason", c.Printable(err.Error()))
	return plumbing.ZeroHash, false
}

// askLsRefs requests one ref by its full name; zero if the ref does not exist.
func (c *Connection) askLsRefs(ctx context.Context, name string) (head plumbing.Hash, err error) {
	err = c.ListRefs(ctx, name, func(ref string, at plumbing.Hash) bool {
		if ref == name {
			head = at
		}
		return ref != name
	})
	return head, err
}

// ListRefs requests the refs whose names begin with a prefix, in version 2 of the protocol. It calls each for the
// refs in the response, until that returns false.
func (c *Connection) ListRefs(ctx context.Context, prefix string, each func(name string, at plumbing.Hash) bool) error {
	var question bytes.Buffer
	pkt := pktline.NewEncoder(&question)
	_ = pkt.EncodeString("command=ls-refs\n") // a buffer takes everything
	question.WriteString("0001")              // between capabilities and arguments
	_ = pkt.EncodeString("ref-prefix " + prefix + "\n")
	_ = pkt.Flush()
	ask := c.askStream
	if c.OverHTTP() {
		ask = c.askHTTP
	}
	return ask(ctx, question.Bytes(), func(answer io.Reader) error { return readRefs(answer, each) })
}

// readRefs reads the response to ls-refs to its end, or until each returns false.
func readRefs(answer io.Reader, each func(name string, at plumbing.Hash) bool) error {
	lines := pktline.NewScanner(io.LimitReader(answer, maxRefs))
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		if line == "" { // a flush: the end
			return nil
		}
		hash, rest, _ := strings.Cut(line, " ")
		if !plumbing.IsHash(hash) {
			return fmt.Errorf("the answer is not in version 2: it begins with %.20q", line)
		}
		if ref, _, _ := strings.Cut(rest, " "); !each(ref, plumbing.NewHash(hash)) {
			return nil
		}
	}
	return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

// askHTTP sends the request without a discovery request: the server is stateless, and the endpoint is
// known.
func (c *Connection) askHTTP(ctx context.Context, question []byte, read func(io.Reader) error) error {
	t, endpoint, auth, err := c.openHTTP(ctx)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String()+"/"+transport.UploadPackServiceName, bytes.NewReader(question))
	if err != nil {
		return err
	}
	request.Header = http.Header{
		"Git-Protocol": {versionTwo},
		"Content-Type": {"application/x-git-upload-pack-request"},
		"Accept":       {"application/x-git-upload-pack-result"},
		"User-Agent":   {capability.DefaultAgent()}, // as go-git's requests have
		// Without a value it is not sent, but lets net/http.Transport repeat the request if the
		// server has just closed the connection.
		"Idempotency-Key": {},
	}
	if auth != nil {
		auth.SetAuth(request)
	}
	response, err := (&http.Client{Transport: t}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return errors.New(response.Status)
	}
	return read(response.Body)
}

// askStream sends the request over ssh or a pipe.
func (c *Connection) askStream(ctx context.Context, question []byte, read func(io.Reader) error) error {
	s, err := c.openStream(ctx, transport.UploadPackServiceName, versionTwo)
	if err != nil {
		return err
	}
	defer s.Close()
	// The server's capabilities, up to a flush.
	lines := pktline.NewScanner(s.out)
	for first := true; ; first = false {
		if !lines.Scan() {
			return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
		}
		line := string(bytes.TrimSpace(lines.Bytes()))
		if first && line != "version 2" {
			return fmt.Errorf("the answer is not in version 2: it begins with %.20q", line)
		}
		if line == "" {
			break
		}
	}
	if _, err := s.in.Write(question); err != nil {
		return err
	}
	return read(s.out)
}
