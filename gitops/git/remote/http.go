package remote

import (
	"bufio"
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
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// bodyTransport closes the body of a session's last response with the session, because go-git
// leaves those of pushes open. Sessions send one request at a time.
type bodyTransport struct {
	next http.RoundTripper
	// censor removes secrets from messages of the host before they are cut.
	censor func(string) string
	last   io.Closer
	// offered are the capabilities that the server offers.
	offered []string
}

// RoundTrip implements [http.RoundTripper].
func (t *bodyTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil {
		err = cmp.Or(webPage(response, t.censor), refused(response, t.censor))
	}
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(request.URL.Path, "/info/refs") {
		t.readCapabilities(response)
	}
	response.Body = drainedBody{response.Body}
	t.last = response.Body
	return response, nil
}

// readCapabilities reads the capabilities from the first line of an advertisement.
func (t *bodyTransport) readCapabilities(response *http.Response) {
	body := bufio.NewReaderSize(response.Body, 4096)
	beginning, _ := body.Peek(body.Size()) // all of a shorter body
	_, line, _ := bytes.Cut(beginning, []byte{0})
	line, _, _ = bytes.Cut(line, []byte("\n"))
	t.offered = strings.Fields(string(line))
	response.Body = struct {
		io.Reader
		io.Closer
	}{body, response.Body}
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
	return fmt.Errorf("the host answered with a web page%s instead of git's protocol: check the address, and whether it requires a login", called)
}

// drainedBody is a body that Close reads to its end, if that is near, so that the connection can
// be used again.
type drainedBody struct{ io.ReadCloser }

// Close drains and closes the body.
func (b drainedBody) Close() error {
	const near = 256 << 10
	_, _ = io.CopyN(io.Discard, b.ReadCloser, near)
	return b.ReadCloser.Close()
}

func (c *Connection) openHTTPUpload(ctx context.Context) (transport.UploadPackSession, error) {
	t, endpoint, auth, err := c.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(&http.Client{Transport: t}).NewUploadPackSession(endpoint, auth)
	return httpUpload{session, t}, err
}

func (c *Connection) openHTTPReceive(ctx context.Context) (transport.ReceivePackSession, error) {
	t, endpoint, auth, err := c.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(&http.Client{Transport: t}).NewReceivePackSession(endpoint, auth)
	return httpReceive{session, t}, err
}

// httpUpload is go-git's session, with all capabilities that the server offers. go-git removes
// those that its own stores do not use, but some hosts require them.
type httpUpload struct {
	transport.UploadPackSession
	transport *bodyTransport
}

// AdvertisedReferencesContext reads what the server offers.
func (s httpUpload) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	adv, err := s.UploadPackSession.AdvertisedReferencesContext(ctx)
	if err == nil {
		for _, name := range s.transport.offered {
			if NeedsCapability.MatchName(name) {
				_ = adv.Capabilities.Set(capability.Capability(name)) // it has no value
			}
		}
	}
	return adv, err
}

// httpReceive is go-git's session, with a Close that closes the response.
type httpReceive struct {
	transport.ReceivePackSession
	transport *bodyTransport
}

// Close ends the session and frees its connection.
func (s httpReceive) Close() error {
	if s.transport.last != nil {
		_ = s.transport.last.Close()
	}
	return s.ReceivePackSession.Close()
}

// openHTTP returns what one session over http needs: a transport, the endpoint of its requests, and
// their authentication (nil: no authentication). Each session gets a new client of go-git over
// connections of the pool, so that nothing is installed into go-git's global table of protocols.
func (c *Connection) openHTTP(ctx context.Context) (*bodyTransport, *transport.Endpoint, githttp.AuthMethod, error) {
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
	// go-git sets the endpoint to the target if the discovery request is redirected.
	if c.endpoint == nil {
		endpoint := *c.Address.Endpoint
		c.endpoint = &endpoint
	}
	t := &bodyTransport{next: c.Traffic.Transport(pool), censor: c.Secrets.censor}
	if password == "" && username == "" || !sameOrigin(c.Address.Endpoint, c.endpoint) {
		return t, c.endpoint, nil, nil
	}
	if username == "" {
		username = "git" // servers that ignore the name reject an empty one
	}
	return t, c.endpoint, &githttp.BasicAuth{Username: username, Password: password}, nil
}

// sameOrigin reports whether credentials for one endpoint may be sent to another: with the same host
// and port, or from http to https on their default ports. Another port may be another person's server.
func sameOrigin(from, to *transport.Endpoint) bool {
	if from.Host != to.Host {
		return false
	}
	if from.Protocol == to.Protocol {
		return port(from) == port(to)
	}
	return from.Protocol == "http" && to.Protocol == "https" && port(from) == 80 && port(to) == 443
}

// port returns an endpoint's port, for which go-git has zero if it is the default.
func port(e *transport.Endpoint) int {
	switch {
	case e.Port != 0:
		return e.Port
	case e.Protocol == "https":
		return 443
	}
	return 80
}

// pool keeps connections over http open between sessions. The zero value is an
// empty pool.
type pool struct {
	transport   *http.Transport
	authorities string // further certificate authorities in PEM
}

// get returns the transport for requests over the pool's connections. The pool starts over when the
// file of certificate authorities has changed. An empty caFile adds no authorities to those of the
// system.
func (p *pool) get(caFile string) (*http.Transport, error) {
	var authorities []byte
	if caFile != "" {
		var err error
		if authorities, err = os.ReadFile(caFile); err != nil {
			return nil, fmt.Errorf("reading the certificate authorities: %w", err)
		}
	}
	if p.transport != nil {
		if string(authorities) == p.authorities {
			return p.transport, nil
		}
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
