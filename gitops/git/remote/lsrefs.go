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

// SettleTimeout bounds the reading of the branch after a push that failed,
// also when the push's own context is over.
const SettleTimeout = 15 * time.Second

// A server that is asked in version 0 of git's protocol, which is go-git's,
// lists every ref it has before anything else: with 100,000 pull requests 6 MB
// each time. Version 2 can ask for the branch alone, with the command ls-refs
// (gitprotocol-v2). Servers whose list is known to be long are asked so. The first
// request of a connection is always in version 0, which follows redirects.

const (
	// longList is the number of refs above which a list is long.
	longList = 100
	// maxFailures is how often in a row a server may fail to answer in version
	// 2 before it is not asked so any more. A single failure may be an outage.
	maxFailures = 3
	// versionTwo is how a client says that it understands version 2: in a
	// header over http, in a variable of the environment elsewhere.
	versionTwo = "version=2"
	// maxRefs bounds an answer, in bytes. Refs that begin like the branch's
	// name come with it, but sorted after it.
	maxRefs = 1 << 20
)

// lsRefs reads the head of one branch and nothing else, from a server with a
// long list. What fails here is left to asking in version 0, which explains it.
func (c *Connection) lsRefs(ctx context.Context, branch string) (plumbing.Hash, bool) {
	if !c.manyRefs || c.failures == maxFailures {
		return plumbing.ZeroHash, false
	}
	// Much less than there is for both ways of asking together.
	bounded, cancel := context.WithTimeout(ctx, min(c.Timeout, SettleTimeout)/4)
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
func (c *Connection) askLsRefs(ctx context.Context, name string) (plumbing.Hash, error) {
	var question bytes.Buffer
	pkt := pktline.NewEncoder(&question)
	_ = pkt.EncodeString("command=ls-refs\n") // a buffer takes everything
	question.WriteString("0001")              // between capabilities and arguments
	_ = pkt.EncodeString("ref-prefix " + name + "\n")
	_ = pkt.Flush()
	ask := c.askStream
	if c.OverHTTP() {
		ask = c.askHTTP
	}
	var head plumbing.Hash
	err := ask(ctx, question.Bytes(), func(answer io.Reader) error {
		var err error
		head, err = findRef(answer, name)
		return err
	})
	return head, err
}

// findRef reads the answer to ls-refs up to the ref of that name, or to its
// end.
func findRef(answer io.Reader, name string) (plumbing.Hash, error) {
	lines := pktline.NewScanner(io.LimitReader(answer, maxRefs))
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		if line == "" { // a flush: the end
			return plumbing.ZeroHash, nil
		}
		hash, rest, _ := strings.Cut(line, " ")
		if !plumbing.IsHash(hash) {
			return plumbing.ZeroHash, fmt.Errorf("the answer is not in version 2: it begins with %.20q", line)
		}
		if ref, _, _ := strings.Cut(rest, " "); ref == name {
			return plumbing.NewHash(hash), nil
		}
	}
	return plumbing.ZeroHash, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

// askHTTP asks without the discovery request that comes first elsewhere: the
// server keeps no state between requests, and it is known where they go.
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
		// Not sent without a value: it says that asking twice does no harm, for
		// when the server has just closed the connection (net/http.Transport).
		"Idempotency-Key": {},
	}
	if auth != nil {
		auth.SetAuth(request)
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: t, CheckRedirect: noRedirect}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return read(response.Body)
}

// askStream asks over ssh, the git protocol or a pipe.
func (c *Connection) askStream(ctx context.Context, question []byte, read func(io.Reader) error) error {
	s, err := c.openStream(ctx, transport.UploadPackServiceName, versionTwo)
	if err != nil {
		return err
	}
	defer s.Close()
	// What the server can do, up to a flush.
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
