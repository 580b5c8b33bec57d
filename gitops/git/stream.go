package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// stream is one run of git-upload-pack or git-receive-pack at the other end
// of a pipe: a process here, one behind ssh, or a git daemon. It is a
// [transport.UploadPackSession] and a [transport.ReceivePackSession].
//
// go-git has the same for ssh and for files, but it takes no context until
// the connection is made (a server that accepts and then says nothing blocks it
// for ever), reads the user's ssh configuration, and drops what the server
// says on its standard error.
type stream struct {
	ctx   context.Context
	in    io.WriteCloser
	out   io.Reader
	said  *tail
	wait  func() error // waits for the other side to end
	abort func()       // makes it end
	// program is what else than the server may have said something; empty: nothing.
	program string
	adv     *packp.AdvRefs
	ran     bool
	closed  bool
}

// openStream connects to service, and offers it a version of the protocol, as
// in "version=2"; empty: version 0. Everything the stream does later also ends
// with ctx.
func (c *connection) openStream(ctx context.Context, service, version string) (*stream, error) {
	open := c.openProcess
	switch c.address.endpoint.Protocol {
	case "ssh":
		open = c.openSSH
	case "git":
		open = c.openDaemon
	}
	s, err := open(ctx, service, version)
	c.traffic.Session(err)
	if err != nil {
		return nil, err
	}
	s.in, s.out = c.traffic.Writer(s.in), c.traffic.Reader(s.out)
	return s, nil
}

// versionVariable is where git looks for the versions that a client offers.
const versionVariable = "GIT_PROTOCOL"

// AdvertisedReferences is [stream.AdvertisedReferencesContext].
func (s *stream) AdvertisedReferences() (*packp.AdvRefs, error) {
	return s.AdvertisedReferencesContext(context.Background())
}

// AdvertisedReferencesContext reads what the other side offers. An empty
// repository offers no references.
func (s *stream) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	if s.adv != nil {
		return s.adv, nil
	}
	adv := packp.NewAdvRefs()
	if err := adv.Decode(s.out); err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		return nil, s.explain(err)
	}
	s.adv = adv
	return adv, nil
}

// explain returns why the answer of the other side could not be read.
func (s *stream) explain(err error) error {
	if over := s.ctx.Err(); over != nil {
		return fmt.Errorf("%w: %w", over, err)
	}
	var line *pktline.ErrorLine
	if !errors.As(err, &line) {
		s.abort()
		_ = s.wait()
	}
	said := lastLines(s.said.String())
	if line != nil {
		said = strings.TrimSpace(line.Text)
	}
	lower := strings.ToLower(said)
	for _, phrase := range []string{"not appear to be a git repository", "repository not found", "does not exist", "no such", "could not be found", "not found"} {
		if strings.Contains(lower, phrase) {
			return fmt.Errorf("%w: %s", transport.ErrRepositoryNotFound, said)
		}
	}
	if said != "" {
		who := "the server"
		if s.program != "" {
			who = s.program
		}
		return fmt.Errorf("%s says: %s", who, said)
	}
	return err
}

// explainWith adds to err, which stays in the chain, what the other side said.
func (s *stream) explainWith(err error) error {
	if over := s.ctx.Err(); over != nil {
		return fmt.Errorf("%w: %w", over, err)
	}
	if said := lastLines(s.said.String()); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// UploadPack sends a request for objects and returns the answer, whose pack
// is read from it.
func (s *stream) UploadPack(ctx context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if _, err := s.AdvertisedReferencesContext(ctx); err != nil {
		return nil, err
	}
	s.ran = true
	if err := request.UploadRequest.Encode(s.in); err != nil {
		return nil, s.explain(err)
	}
	if err := request.UploadHaves.Encode(s.in, false); err != nil {
		return nil, s.explain(err)
	}
	if err := pktline.NewEncoder(s.in).EncodeString("done\n"); err != nil {
		return nil, s.explain(err)
	}
	if err := s.in.Close(); err != nil {
		return nil, err
	}
	response := packp.NewUploadPackResponse(request)
	if err := response.Decode(io.NopCloser(s.out)); err != nil {
		return nil, s.explainWith(err)
	}
	return response, nil
}

// ReceivePack sends commands and a pack, and returns the server's report.
func (s *stream) ReceivePack(ctx context.Context, request *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if _, err := s.AdvertisedReferencesContext(ctx); err != nil {
		return nil, err
	}
	s.ran = true
	if err := request.Encode(s.in); err != nil {
		return nil, s.explain(err)
	}
	if err := s.in.Close(); err != nil {
		return nil, err
	}
	out := s.out
	if request.Capabilities.Supports(capability.Sideband64k) {
		demux := sideband.NewDemuxer(sideband.Sideband64k, s.out)
		demux.Progress = request.Progress
		out = demux
	}
	report := packp.NewReportStatus()
	if err := report.Decode(out); err != nil {
		return nil, s.explainWith(err)
	}
	// Hooks run after the report; the other side ends when they have.
	if _, err := io.Copy(io.Discard, s.out); err != nil {
		return report, nil
	}
	return report, report.Error()
}

// Close ends the session. If nothing was asked for, it says so to the other side
// and waits for it.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if !s.ran {
		_, _ = s.in.Write(pktline.FlushPkt)
	}
	_ = s.in.Close()
	if !s.ran && s.adv != nil {
		_ = s.wait()
		return nil
	}
	s.abort()
	_ = s.wait()
	return nil
}
