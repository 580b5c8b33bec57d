package git

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

func (c *connection) openHTTPUpload(ctx context.Context) (transport.UploadPackSession, error) {
	client, endpoint, auth, err := c.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(client).NewUploadPackSession(endpoint, auth)
	return httpUpload{session, client}, err
}

func (c *connection) openHTTPReceive(ctx context.Context) (transport.ReceivePackSession, error) {
	client, endpoint, auth, err := c.openHTTP(ctx)
	if err != nil {
		return nil, err
	}
	session, err := githttp.NewClient(client).NewReceivePackSession(endpoint, auth)
	return httpReceive{session, client}, err
}

// httpUpload and httpReceive are go-git's sessions, which leave response
// bodies open, with a Close that does not.
type httpUpload struct {
	transport.UploadPackSession
	client *http.Client
}

// Close ends the session and frees its connections.
func (s httpUpload) Close() error { return closeHTTP(s.UploadPackSession, s.client) }

type httpReceive struct {
	transport.ReceivePackSession
	client *http.Client
}

// Close ends the session and frees its connections.
func (s httpReceive) Close() error { return closeHTTP(s.ReceivePackSession, s.client) }

func closeHTTP(session io.Closer, client *http.Client) error {
	err := session.Close()
	if bodies, ok := client.Transport.(*bodies); ok {
		bodies.close()
	}
	return err
}

// openHTTP returns what one session over http needs: a client, where its
// requests go, and what they authenticate with (nil: nothing). go-git's own
// client is made anew for each session, over connections of the pool, so that
// nothing is installed into go-git's global table of protocols.
func (c *connection) openHTTP(ctx context.Context) (*http.Client, *transport.Endpoint, githttp.AuthMethod, error) {
	pool, err := c.pool.get(c.credentials.CAFile)
	if err != nil {
		return nil, nil, nil, err
	}
	username, password := c.address.username, c.address.password
	if c.credentials.Password != nil {
		username, password, err = c.credentials.Password(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
	} else if c.login != nil {
		username, password = c.login.username, c.login.password
	}
	c.sent = password
	c.secrets.add(password)
	if password != "" {
		c.secrets.add(base64.StdEncoding.EncodeToString([]byte(username + ":" + password)))
	} else if len(username) >= 20 { // a token given as the user name
		c.secrets.add(username)
	}
	// The discovery request may be redirected; go-git writes where to into the
	// endpoint, and the requests that follow go there.
	if c.endpoint == nil {
		endpoint := *c.address.endpoint
		c.endpoint = &endpoint
	}
	client := &http.Client{Transport: &bodies{next: c.traffic.Transport(pool), censor: c.secrets.censor}}
	if password == "" && username == "" || !sameOrigin(c.address.endpoint, c.endpoint) {
		return client, c.endpoint, nil, nil
	}
	if username == "" {
		username = "git" // servers that look at the password alone refuse an empty name
	}
	return client, c.endpoint, &githttp.BasicAuth{Username: username, Password: password}, nil
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
