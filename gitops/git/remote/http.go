package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// bodies is a transport that knows which response bodies are still open, and
// closes them with the session. A body is read to its end when it is closed, so
// that its connection can be used again.
type bodies struct {
	next http.RoundTripper
	// censor takes secrets out of what the host says, before that is cut.
	censor func(string) string
	mu     sync.Mutex
	open   []io.ReadCloser
	// offered is the advertisement of this session; nil if the session had no advertisement.
	offered *offered
}

// RoundTrip passes the request on.
func (b *bodies) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil {
		err = cmp.Or(webPage(response, b.censor), refused(response, b.censor))
	}
	if err != nil {
		return nil, err
	}
	b.note(request, response)
	response.Body = &drained{ReadCloser: response.Body}
	b.mu.Lock()
	b.open = append(b.open, response.Body)
	b.mu.Unlock()
	return response, nil
}

// webPage returns an error if the response is a web page instead of git's protocol: a login page, a
// proxy's page, or that of a path without a repository.
func webPage(response *http.Response, censor func(string) string) error {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if response.StatusCode != http.StatusOK || !strings.EqualFold(strings.TrimSpace(kind), "text/html") {
		return nil
	}
	called := wordsOf(response.Body, censor)
	if called != "" {
		called = " (" + called + ")"
	}
	return fmt.Errorf("the host answered with a web page%s and not as a git server does: check the address, and whether it asks for a login", called)
}

func (b *bodies) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range b.open {
		_ = body.Close()
	}
	b.open = nil
}

// drained is a body that is read to its end before it is closed, if that is
// near.
type drained struct {
	io.ReadCloser
	once sync.Once
	err  error
}

// Close drains and closes the body, once.
func (d *drained) Close() error {
	d.once.Do(func() {
		const near = 256 << 10
		_, _ = io.CopyN(io.Discard, d.ReadCloser, near)
		d.err = d.ReadCloser.Close()
	})
	return d.err
}

func (c *Connection) openHTTPUpload(ctx context.Context) (transport.UploadPackSession, error) {
	b, endpoint, auth, err := c.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(&http.Client{Transport: b}).NewUploadPackSession(endpoint, auth)
	return httpUpload{session, b}, err
}

func (c *Connection) openHTTPReceive(ctx context.Context) (transport.ReceivePackSession, error) {
	b, endpoint, auth, err := c.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(&http.Client{Transport: b}).NewReceivePackSession(endpoint, auth)
	return httpReceive{session, b}, err
}

// httpUpload and httpReceive are go-git's sessions, which leave response
// bodies open, with a Close that does not.
type httpUpload struct {
	transport.UploadPackSession
	bodies *bodies
}

// Close ends the session and frees its connections.
func (s httpUpload) Close() error {
	defer s.bodies.close()
	return s.UploadPackSession.Close()
}

type httpReceive struct {
	transport.ReceivePackSession
	bodies *bodies
}

// Close ends the session and frees its connections.
func (s httpReceive) Close() error {
	defer s.bodies.close()
	return s.ReceivePackSession.Close()
}

// openHTTP returns what one session over http needs: a transport, the endpoint of its requests, and
// their authentication (nil: no authentication). Each session gets a new client of go-git over
// connections of the pool, so that nothing is installed into go-git's global table of protocols.
func (c *Connection) openHTTP(ctx context.Context) (*bodies, *transport.Endpoint, githttp.AuthMethod, error) {
	pool, err := c.pool.get(c.Credentials.CAFile)
	if err != nil {
		return nil, nil, nil, err
	}
	username, password := c.Address.username, c.Address.Password
	if c.Credentials.Password != nil {
		username, password, err = c.Credentials.Password(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
	} else if c.login != nil {
		username, password = c.login.username, c.login.password
	}
	c.sent = password
	c.Secrets.Add(password)
	if password != "" {
		c.Secrets.Add(base64.StdEncoding.EncodeToString([]byte(username + ":" + password)))
	} else if len(username) >= 20 { // a token given as the user name
		c.Secrets.Add(username)
	}
	// The discovery request may be redirected; go-git writes where to into the
	// endpoint, and the requests that follow go there.
	if c.endpoint == nil {
		endpoint := *c.Address.Endpoint
		c.endpoint = &endpoint
	}
	b := &bodies{next: c.Traffic.Transport(pool), censor: c.Secrets.censor}
	if password == "" && username == "" || !sameOrigin(c.Address.Endpoint, c.endpoint) {
		return b, c.endpoint, nil, nil
	}
	if username == "" {
		username = "git" // servers that look at the password alone refuse an empty name
	}
	return b, c.endpoint, &githttp.BasicAuth{Username: username, Password: password}, nil
}

// sameOrigin reports whether credentials for one endpoint may be sent to
// another: the same host and port, or from http to https where both have their
// usual ports. Another port may be another person's server.
func sameOrigin(from, to *transport.Endpoint) bool {
	if from.Host != to.Host {
		return false
	}
	if from.Protocol == to.Protocol {
		return port(from) == port(to)
	}
	return from.Protocol == "http" && to.Protocol == "https" && port(from) == 80 && port(to) == 443
}

// port is an endpoint's port; go-git has zero for the usual one.
func port(e *transport.Endpoint) int {
	switch {
	case e.Port != 0:
		return e.Port
	case e.Protocol == "https":
		return 443
	}
	return 80
}

// go-git takes multi_ack, multi_ack_detailed and thin-pack out of what a server
// offers, since its own stores do not use them. Some hosts answer no request without
// them ([NeedsCapability]), so what was offered is kept here.

// maxOffered bounds what is kept of an advertisement, in bytes: its first lines, which
// have the capabilities.
const maxOffered = 4096

// offered is the body of an advertisement, whose beginning is kept as it is read.
type offered struct {
	io.ReadCloser
	first []byte
}

// Read implements [io.Reader].
func (o *offered) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.first = append(o.first, p[:min(n, maxOffered-len(o.first))]...)
	return n, err
}

// capabilities are all that were offered.
func (o *offered) capabilities() []string {
	lines := pktline.NewScanner(bytes.NewReader(o.first))
	for lines.Scan() {
		if _, caps, ok := bytes.Cut(lines.Bytes(), []byte{0}); ok {
			return strings.Fields(string(caps))
		}
	}
	return nil
}

// note keeps the beginning of an advertisement for reading.
func (b *bodies) note(request *http.Request, response *http.Response) {
	if strings.HasSuffix(request.URL.Path, "/info/refs") && response.StatusCode == http.StatusOK {
		b.offered = &offered{ReadCloser: response.Body}
		response.Body = b.offered
	}
}

// AdvertisedReferencesContext reads what the server offers, with what go-git leaves out.
func (s httpUpload) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	adv, err := s.UploadPackSession.AdvertisedReferencesContext(ctx)
	if err == nil && s.bodies.offered != nil {
		for _, name := range s.bodies.offered.capabilities() {
			if NeedsCapability.MatchName(name) {
				_ = adv.Capabilities.Set(capability.Capability(name)) // it has no value
			}
		}
	}
	return adv, err
}

// pool keeps connections over http open between sessions. The zero value is an
// empty pool.
type pool struct {
	transport   *http.Transport
	authorities string // further certificate authorities in PEM, as last read
}

// get returns the transport for requests over the pool's connections. The pool starts over when the
// file of certificate authorities has changed. An empty caFile adds no authorities to those of the
// system.
func (p *pool) get(caFile string) (*http.Transport, error) {
	var authorities []byte
	if caFile != "" {
		content, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authorities: %w", err)
		}
		authorities = content
	}
	if p.transport != nil && string(authorities) == p.authorities {
		return p.transport, nil
	}
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	made := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 30 * time.Second,
	}
	if len(authorities) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("reading the certificate authorities: %s has no certificate in PEM", caFile)
		}
		made.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	p.transport, p.authorities = made, string(authorities)
	return made, nil
}
