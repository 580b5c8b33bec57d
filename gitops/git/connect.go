package git

import (
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

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// openUpload begins a session for reading, and openReceive one for writing.
// Closing it frees everything that it holds.
func (r *Branch) openUpload(ctx context.Context) (transport.UploadPackSession, error) {
	if !r.overHTTP() {
		return r.openStream(ctx, transport.UploadPackServiceName, "")
	}
	client, endpoint, auth, err := r.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(client).NewUploadPackSession(endpoint, auth)
	return httpUpload{session, client}, err
}

func (r *Branch) openReceive(ctx context.Context) (transport.ReceivePackSession, error) {
	if !r.overHTTP() {
		return r.openStream(ctx, transport.ReceivePackServiceName, "")
	}
	client, endpoint, auth, err := r.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(client).NewReceivePackSession(endpoint, auth)
	return httpReceive{session, client}, err
}

func (r *Branch) overHTTP() bool {
	return strings.HasPrefix(r.address.endpoint.Protocol, "http")
}

// httpUpload and httpReceive are go-git's sessions, which leave response
// bodies open, with a Close that does not.
type httpUpload struct {
	transport.UploadPackSession
	client *http.Client
}

func (s httpUpload) Close() error { return closeHTTP(s.UploadPackSession, s.client) }

type httpReceive struct {
	transport.ReceivePackSession
	client *http.Client
}

func (s httpReceive) Close() error { return closeHTTP(s.ReceivePackSession, s.client) }

func closeHTTP(session io.Closer, client *http.Client) error {
	err := session.Close()
	if bodies, ok := client.Transport.(*bodies); ok {
		bodies.close()
	}
	return err
}

// openHTTP returns what one session over http needs. go-git's own client is
// made anew for each, over connections that the repository keeps: nothing is
// installed into go-git's global table of protocols.
func (r *Branch) openHTTP(ctx context.Context) (*http.Client, *transport.Endpoint, githttp.AuthMethod, error) {
	connections, err := r.connections()
	if err != nil {
		return nil, nil, nil, err
	}
	username, password := r.address.username, r.address.password
	if r.config.Credentials.Password != nil {
		username, password, err = r.config.Credentials.Password(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
	}
	r.remember(password)
	if password != "" {
		r.remember(base64.StdEncoding.EncodeToString([]byte(username + ":" + password)))
	} else if len(username) >= 20 { // a token given as the user name
		r.remember(username)
	}
	// The discovery request may be redirected; go-git writes where to into the
	// endpoint, and the requests that follow go there.
	if r.endpoint == nil {
		endpoint := *r.address.endpoint
		r.endpoint = &endpoint
	}
	client := &http.Client{Transport: &bodies{next: connections}}
	if password == "" && username == "" || !sameOrigin(r.address.endpoint, r.endpoint) {
		return client, r.endpoint, nil, nil
	}
	if username == "" {
		username = "git" // servers that look at the password alone refuse an empty name
	}
	return client, r.endpoint, &githttp.BasicAuth{Username: username, Password: password}, nil
}

// sameOrigin reports whether what was given for one endpoint may be sent to
// another: the same host, and never from https to http.
func sameOrigin(from, to *transport.Endpoint) bool {
	return from.Host == to.Host && (from.Protocol == to.Protocol && from.Port == to.Port || from.Protocol == "http" && to.Protocol == "https")
}

// connections returns the pool of connections, a new one when the certificate
// authorities have changed.
func (r *Branch) connections() (*http.Transport, error) {
	var authorities []byte
	if file := r.config.Credentials.CAFile; file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate authorities: %w", err)
		}
		authorities = content
	}
	r.poolMu.Lock()
	defer r.poolMu.Unlock()
	if r.pool != nil && string(authorities) == r.poolAuthorities {
		return r.pool, nil
	}
	if r.pool != nil {
		r.pool.CloseIdleConnections()
	}
	pool := &http.Transport{
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
			return nil, fmt.Errorf("reading the certificate authorities: %s holds no certificate in PEM", r.config.Credentials.CAFile)
		}
		pool.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	r.pool, r.poolAuthorities = pool, string(authorities)
	return pool, nil
}

// bodies is a transport that knows which response bodies are still open. They
// are read to their end when closed, so that the connection can be used again.
type bodies struct {
	next http.RoundTripper
	mu   sync.Mutex
	open []io.ReadCloser
}

// RoundTrip passes the request on.
func (b *bodies) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil && response.Body != nil {
		response.Body = &drained{ReadCloser: response.Body}
		b.mu.Lock()
		b.open = append(b.open, response.Body)
		b.mu.Unlock()
	}
	return response, err
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
