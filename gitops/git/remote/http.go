package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"muster/gitops/branch"
)

// sessionTransport sends the requests of a session of go-git, to the URLs that git would send them to.
// It follows redirects, and returns an error for a response that is not git's protocol. It closes the
// body of a session's last response with the session, because go-git leaves those of pushes open.
// Sessions send one request at a time.
type sessionTransport struct {
	next    http.RoundTripper
	address branch.Address
	// base is that of the connection. A redirect changes it.
	base *string
	// censor removes secrets from messages of the host before they are cut.
	censor func(string) string
	last   io.Closer
	// offered are the capabilities that the server offers.
	offered []string
}

// RoundTrip implements [http.RoundTripper].
func (t *sessionTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	service, tail := path.Base(request.URL.Path), path.Base(request.URL.Path)
	expected := "application/x-" + service + "-result"
	initial := request.Method == http.MethodGet // of the advertisement
	if initial {
		service = request.URL.Query().Get("service")
		expected = "application/x-" + service + "-advertisement"
		tail = "info/refs?service=" + service
		if strings.Contains(*t.base, "?") { // remote-curl.c, discover_refs
			tail = strings.Replace(tail, "?", "&", 1)
		}
	}
	response, at, err := t.follow(request, *t.base+tail, initial)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(notGit(response, expected, t.censor), refused(response, t.censor)); err != nil {
		return nil, err
	}
	base, ok := strings.CutSuffix(at, tail) // as remote-curl.c, update_url_from_redirect
	if !ok {
		_ = response.Body.Close()
		return nil, fmt.Errorf("the address redirects to %s, which is no address of a repository", shown(at))
	}
	*t.base = base
	if initial {
		t.readCapabilities(response)
	}
	response.Request = request // so that go-git keeps its endpoint
	response.Body = drainedBody{response.Body}
	t.last = response.Body
	return response, nil
}

// follow sends a request to a URL, and returns the response and the URL that it is from. Like git, it
// follows redirects of the initial request only (git-config(1), http.followRedirects), but none to
// another host or port.
func (t *sessionTransport) follow(request *http.Request, at string, initial bool) (*http.Response, string, error) {
	const most = 10
	for n := 0; ; n++ {
		to, err := url.Parse(at)
		if err != nil {
			return nil, "", errors.New("the repository's address is not a URL")
		}
		sent := request.Clone(request.Context())
		sent.URL, sent.Host = to, to.Host
		response, err := t.next.RoundTrip(sent)
		if err != nil || !initial || n == most || !isRedirect(response) {
			return response, at, err
		}
		_ = response.Body.Close()
		next, err := response.Location()
		if err != nil {
			return nil, "", errors.New("the git host redirects to no valid URL")
		}
		at = next.String()
		if next, err := branch.ParseAddress(at); err != nil || !t.address.SameOrigin(next) {
			return nil, "", fmt.Errorf("the address redirects to %s, and redirects to another host or port are not followed: use that address, or check whether the host requires a login", shown(at))
		}
	}
}

// isRedirect reports whether a response redirects a request.
func isRedirect(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return response.Header.Get("Location") != ""
	}
	return false
}

// shown returns the target of a redirect without what may be secret in it. Unlike [branch.ParseAddress], it
// accepts any URL, such as that of a login page.
func shown(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return "an invalid URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	text := u.String()
	for _, request := range []string{"/info/refs", "/" + transport.UploadPackServiceName, "/" + transport.ReceivePackServiceName} {
		text = strings.TrimSuffix(text, request)
	}
	return text
}

// readCapabilities reads the capabilities from the first line of an advertisement.
func (t *sessionTransport) readCapabilities(response *http.Response) {
	beginning, _ := peek(response, 4096) // all of a shorter body
	_, line, _ := bytes.Cut(beginning, []byte{0})
	line, _, _ = bytes.Cut(line, []byte("\n"))
	t.offered = strings.Fields(string(line))
}

// peek returns the beginning of a body, which can still be read. The error is [io.EOF] if the body is
// shorter.
func peek(response *http.Response, size int) ([]byte, error) {
	body := bufio.NewReaderSize(response.Body, size)
	beginning, err := body.Peek(size)
	response.Body = struct {
		io.Reader
		io.Closer
	}{body, response.Body}
	return beginning, err
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
	transport *sessionTransport
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
	transport *sessionTransport
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
func (c *Connection) openHTTP(ctx context.Context) (*sessionTransport, *transport.Endpoint, githttp.AuthMethod, error) {
	pool, err := c.pool.get(c.Credentials.CAFile)
	if err != nil {
		return nil, nil, nil, err
	}
	username, password := c.Address.User, c.Address.Password
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
	c.base = cmp.Or(c.base, c.Address.Base())
	base, err := url.Parse(c.base)
	if err != nil {
		return nil, nil, nil, err
	}
	// Without the path, which go-git decodes after the first request and never encodes: sessionTransport
	// sends each request to where it belongs.
	endpoint := &transport.Endpoint{Protocol: base.Scheme, Host: strings.TrimSuffix(base.Host, ":"+base.Port())}
	endpoint.Port, _ = strconv.Atoi(base.Port()) // none is zero
	t := &sessionTransport{next: c.Traffic.Transport(pool), address: c.Address, base: &c.base, censor: c.Secrets.censor}
	if password == "" && username == "" {
		return t, endpoint, nil, nil
	}
	if username == "" {
		username = "git" // servers that ignore the name reject an empty one
	}
	return t, endpoint, &githttp.BasicAuth{Username: username, Password: password}, nil
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
	if caFile != "" {
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
