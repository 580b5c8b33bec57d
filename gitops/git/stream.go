package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// stream is one run of git-upload-pack or git-receive-pack at the other end
// of a pipe: a process here, one behind ssh, or a git daemon. It is a
// [transport.UploadPackSession] and a [transport.ReceivePackSession].
//
// go-git has the same for ssh and for files, but it takes no context until
// the connection stands (a server that accepts and then is silent holds it
// for ever), reads the user's ssh configuration, and drops what the server
// says on its standard error.
type stream struct {
	ctx    context.Context
	in     io.WriteCloser
	out    io.Reader
	said   *tail
	wait   func() error // waits for the other side to end
	abort  func()       // makes it end
	adv    *packp.AdvRefs
	ran    bool
	closed bool
}

// openStream connects to service, and offers it a version of the protocol, as
// in "version=2"; empty: version 0. Everything the stream does later also ends
// with ctx.
func (r *Branch) openStream(ctx context.Context, service, version string) (*stream, error) {
	switch r.address.endpoint.Protocol {
	case "ssh":
		return r.openSSH(ctx, service, version)
	case "git":
		return r.openDaemon(ctx, service, version)
	}
	return r.openProcess(ctx, service, version)
}

// versionVariable is where git looks for the versions that a client offers.
const versionVariable = "GIT_PROTOCOL"

func (r *Branch) openProcess(ctx context.Context, service, version string) (*stream, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, git, strings.TrimPrefix(service, "git-"), r.address.endpoint.Path)
	s := &stream{ctx: ctx, said: &tail{}, abort: cancel}
	cmd.Stderr = s.said
	cmd.Env = append(cmd.Environ(), versionVariable+"="+version)
	if s.in, err = cmd.StdinPipe(); err == nil {
		s.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.wait = sync.OnceValue(func() error { defer cancel(); return cmd.Wait() })
	return s, nil
}

func (r *Branch) openDaemon(ctx context.Context, service, version string) (*stream, error) {
	conn, err := r.dial(ctx, 9418)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s := &stream{ctx: ctx, in: halfClose{conn}, out: conn, said: &tail{}, abort: func() { conn.Close() }}
	s.wait = func() error { stop(); return conn.Close() }
	request := packp.GitProtoRequest{RequestCommand: service, Pathname: r.address.endpoint.Path, Host: r.address.endpoint.Host}
	if version != "" {
		request.ExtraParams = []string{version}
	}
	if err := request.Encode(conn); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// halfClose keeps a connection open for reading when writing is over: git's
// protocol says itself where it ends.
type halfClose struct{ net.Conn }

func (halfClose) Close() error { return nil }

func (r *Branch) dial(ctx context.Context, port int) (net.Conn, error) {
	if r.address.endpoint.Port != 0 {
		port = r.address.endpoint.Port
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(strings.Trim(r.address.endpoint.Host, "[]"), strconv.Itoa(port)))
}

func (r *Branch) openSSH(ctx context.Context, service, version string) (*stream, error) {
	config, err := r.sshConfig()
	if err != nil {
		return nil, err
	}
	conn, err := r.dial(ctx, 22)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	name := net.JoinHostPort(strings.Trim(r.address.endpoint.Host, "[]"), portOf(conn))
	link, channels, requests, err := ssh.NewClientConn(conn, name, config)
	if err != nil {
		stop()
		conn.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, explainSSH(err, name)
	}
	client := ssh.NewClient(link, channels, requests)
	session, err := client.NewSession()
	if err != nil {
		stop()
		client.Close()
		return nil, err
	}
	s := &stream{ctx: ctx, said: &tail{}, abort: func() { client.Close() }}
	session.Stderr = s.said
	s.wait = sync.OnceValue(func() error {
		defer stop()
		defer client.Close()
		return session.Wait()
	})
	if s.in, err = session.StdinPipe(); err == nil {
		s.out, err = session.StdoutPipe()
	}
	if err == nil && version != "" {
		// A server that does not take the variable answers in version 0.
		_ = session.Setenv(versionVariable, version)
	}
	if err == nil {
		err = session.Start(service + " " + quoteShell(r.address.endpoint.Path))
	}
	if err != nil {
		stop()
		client.Close()
		return nil, err
	}
	return s, nil
}

func portOf(conn net.Conn) string {
	_, port, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return "22"
	}
	return port
}

// sshConfig reads the key and the known hosts again each time.
func (r *Branch) sshConfig() (*ssh.ClientConfig, error) {
	c := r.config.Credentials
	key, err := os.ReadFile(c.SSHKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the ssh key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) {
			return nil, fmt.Errorf("reading the ssh key %s: it has a passphrase; use a deploy key without one", c.SSHKeyFile)
		}
		return nil, fmt.Errorf("reading the ssh key %s: it is no private key that OpenSSH writes", c.SSHKeyFile)
	}
	hosts, err := knownhosts.NewDB(c.SSHKnownHostsFile)
	if err != nil {
		return nil, fmt.Errorf("reading the known hosts: %w", err)
	}
	port := r.address.endpoint.Port
	if port == 0 {
		port = 22
	}
	user := r.address.username
	if user == "" {
		user = "git"
	}
	return &ssh.ClientConfig{
		User:            user,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: hosts.HostKeyCallback(),
		// Only the kinds of key that the file holds for this host: a server
		// offers one of several, and another kind would look unknown.
		HostKeyAlgorithms: hosts.HostKeyAlgorithms(net.JoinHostPort(strings.Trim(r.address.endpoint.Host, "[]"), strconv.Itoa(port))),
	}, nil
}

func explainSSH(err error, host string) error {
	switch {
	case knownhosts.IsHostKeyChanged(err):
		return fmt.Errorf("the host key of %s is not the one in the known hosts file: if the server changed it, replace its line there: %w", host, err)
	case knownhosts.IsHostUnknown(err):
		return fmt.Errorf("the host key of %s is unknown: add the output of ssh-keyscan, once checked, to the known hosts file: %w", host, err)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("the server does not accept the ssh key: add its public half to the repository as a key that may write: %w", err)
	}
	return err
}

// quoteShell makes text one word for the shell that sshd starts, as git does.
func quoteShell(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(text) + "'"
}

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
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	s.adv = adv
	return adv, nil
}

// explain finds out why the other side said nothing that could be read.
func (s *stream) explain(err error) error {
	if over := s.ctx.Err(); over != nil {
		return fmt.Errorf("%w: %w", over, err)
	}
	var line *pktline.ErrorLine
	if !errors.As(err, &line) {
		s.abort()
		_ = s.wait()
	}
	said := s.said.String()
	if line != nil {
		said = line.Text
	}
	lower := strings.ToLower(said)
	for _, phrase := range []string{"not appear to be a git repository", "repository not found", "does not exist", "no such", "could not be found", "not found"} {
		if strings.Contains(lower, phrase) {
			return fmt.Errorf("%w: %s", transport.ErrRepositoryNotFound, oneLine(said))
		}
	}
	if said != "" {
		return fmt.Errorf("the server says: %s", oneLine(said))
	}
	return err
}

// explainWith keeps err, which the caller looks into, and adds what the other
// side said.
func (s *stream) explainWith(err error) error {
	if over := s.ctx.Err(); over != nil {
		return fmt.Errorf("%w: %w", over, err)
	}
	if said := oneLine(s.said.String()); said != "" {
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

// Close ends the session, politely if nothing was asked for.
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

// tail keeps the last of what was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4096
	t.text = append(t.text, p...)
	if len(t.text) > most {
		t.text = append([]byte(nil), t.text[len(t.text)-most:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
