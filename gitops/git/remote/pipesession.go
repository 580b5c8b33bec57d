package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// stream is one run of git-upload-pack or git-receive-pack at the other end of a pipe: a local
// process, or one over ssh. It is a [transport.UploadPackSession] and a
// [transport.ReceivePackSession].
//
// go-git's own transports for ssh and files accept no context while they connect (a silent server
// blocks them forever), read the user's ssh configuration, and drop the server's standard error.
type stream struct {
	ctx    context.Context
	in     io.WriteCloser
	out    io.Reader
	stderr *Tail
	wait   func() error // waits for the end of the other side
	abort  func()       // ends the other side
	// program is a program other than the server that writes to stderr; it may be empty.
	program string
	adv     *packp.AdvRefs
	ran     bool
	closed  bool
}

// openStream connects to a service and requests a version of the protocol, as in "version=2"; empty
// means version 0. The stream ends with ctx.
func (c *Connection) openStream(ctx context.Context, service, version string) (*stream, error) {
	open := c.openProcess
	switch c.Address.Scheme {
	case "ssh":
		open = c.openSSH
	case "git":
		open = c.openDaemon
	}
	s, err := open(ctx, service, version)
	c.Traffic.Session(err)
	if err != nil {
		return nil, err
	}
	s.in, s.out = c.Traffic.Writer(s.in), c.Traffic.Reader(s.out)
	return s, nil
}

// versionVariable is the variable by which a client requests a version (git(1)).
const versionVariable = "GIT_PROTOCOL"

// AdvertisedReferences is [stream.AdvertisedReferencesContext].
func (s *stream) AdvertisedReferences() (*packp.AdvRefs, error) {
	return s.AdvertisedReferencesContext(context.Background())
}

// AdvertisedReferencesContext reads the advertisement, which has no references if the repository is
// empty.
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

// explain returns why the response could not be read.
func (s *stream) explain(err error) error {
	if over := s.ctx.Err(); over != nil {
		return fmt.Errorf("%w: %w", over, err)
	}
	var line *pktline.ErrorLine
	if !errors.As(err, &line) {
		s.abort()
		_ = s.wait()
	}
	message := LastLines(s.stderr.String())
	if line != nil {
		message = strings.TrimSpace(line.Text)
	}
	if NotFound.Match(message) {
		return fmt.Errorf("%w: %s", transport.ErrRepositoryNotFound, message)
	}
	if problem := openSSHProblem(message); problem != nil && s.program == "ssh" {
		return problem
	}
	if message != "" {
		who := "the server"
		if s.program != "" {
			who = s.program
		}
		return fmt.Errorf("%s says: %s%s", who, message, openSSHRemedy(message))
	}
	return err
}

// explainWith wraps err with the other side's standard error.
func (s *stream) explainWith(err error) error {
	if over := s.ctx.Err(); over != nil {
		return fmt.Errorf("%w: %w", over, err)
	}
	if message := LastLines(s.stderr.String()); message != "" {
		return fmt.Errorf("%w: %s", err, message)
	}
	return err
}

// UploadPack sends a request for objects and returns the response, from which the pack is read.
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
	// Hooks run after the report, and the other side ends with them.
	if _, err := io.Copy(io.Discard, s.out); err != nil {
		return report, nil
	}
	return report, report.Error()
}

// Close ends the session. Without a request, it sends a flush and waits for the other side.
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

// run starts the program at the other end of the stream. The stream ends it.
func (s *stream) run(cmd *exec.Cmd) (*stream, error) {
	cmd.Stderr = s.stderr
	var err error
	if s.in, err = cmd.StdinPipe(); err == nil {
		s.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.abort()
		return nil, err
	}
	s.wait = sync.OnceValue(func() error { defer s.abort(); return cmd.Wait() })
	return s, nil
}
