// Package github is what GitHub has beside git itself: the tokens of a GitHub
// App, which are also passwords for git, and commits made through the API, which
// GitHub signs and shows as verified.
package github

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v50/github"

	"muster/gitops/git"
)

// App is an installation of a GitHub App. Its tokens last an hour and are
// replaced in time. The zero value is not usable: ID, Installation,
// PrivateKeyFile and Now are required.
type App struct {
	// ID is the App's identifier or client identifier.
	ID string
	// Installation is the identifier of the App's installation on the owner of
	// the repository.
	Installation int64
	// PrivateKeyFile is the App's key in PEM. It is read again for each token.
	PrivateKeyFile string
	// API is the address of GitHub's API; empty means https://api.github.com/.
	API string
	// Client makes the requests; nil means one with a time-out of a minute.
	Client *http.Client
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	token string
	until time.Time
}

// fresh is how long a token must last to be given out: longer than anything
// that is done with it.
const fresh = 5 * time.Minute

// Password returns the App as a source of passwords for git over https.
func (a *App) Password() git.PasswordFunc {
	return func(ctx context.Context) (string, string, error) {
		token, err := a.Token(ctx)
		return "x-access-token", token, err
	}
}

// Token returns a token of the installation that is good for five minutes or
// more.
func (a *App) Token(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" && a.Now().Add(fresh).Before(a.until) {
		return a.token, nil
	}
	client, err := newClient(a.API, a.Client, func(context.Context) (string, error) { return a.identity() })
	if err != nil {
		return "", fmt.Errorf("getting a token for the GitHub App: %w", err)
	}
	token, _, err := client.Apps.CreateInstallationToken(ctx, a.Installation, nil)
	if err != nil {
		return "", fmt.Errorf("getting a token for installation %d of the GitHub App %s: %w", a.Installation, a.ID, explain(err))
	}
	if token.GetToken() == "" || token.ExpiresAt == nil {
		return "", errors.New("getting a token for the GitHub App: GitHub's answer has none")
	}
	a.token, a.until = token.GetToken(), token.ExpiresAt.Time
	return a.token, nil
}

// identity is a JSON web token by which the App proves who it is, signed with
// its key: docs.github.com, "Generating a JSON Web Token for a GitHub App".
func (a *App) identity() (string, error) {
	key, err := readKey(a.PrivateKeyFile)
	if err != nil {
		return "", err
	}
	now := a.Now()
	var parts []string
	for _, part := range []any{
		map[string]string{"alg": "RS256", "typ": "JWT"},
		// A minute back, for clocks that differ; ten minutes is the most.
		map[string]any{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(8 * time.Minute).Unix(), "iss": a.ID},
	} {
		text, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(text))
	}
	signed := strings.Join(parts, ".")
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("signing as the GitHub App: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// readKey reads an RSA key in either form that is in use.
func readKey(file string) (*rsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the GitHub App's key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("reading the GitHub App's key: %s is not a PEM file", file)
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := any.(*rsa.PrivateKey); ok && err == nil {
		return key, nil
	}
	return nil, fmt.Errorf("reading the GitHub App's key: %s has no RSA key", file)
}

// newClient returns a client of the API that asks for its token at each
// request.
func newClient(api string, base *http.Client, token func(context.Context) (string, error)) (*github.Client, error) {
	if base == nil {
		base = &http.Client{Timeout: time.Minute}
	}
	next := base.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client := github.NewClient(&http.Client{
		Timeout:   base.Timeout,
		Transport: bearer{next: next, token: token},
		// A token must not follow to another host; GitHub's API moves nobody.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if api == "" {
		return client, nil
	}
	address, err := url.Parse(api)
	if err != nil || address.Host == "" || address.User != nil {
		return nil, errors.New("the address of GitHub's API is not a URL, as in https://github.example.com/api/v3/")
	}
	if !strings.HasSuffix(address.Path, "/") {
		address.Path += "/"
	}
	client.BaseURL = address
	return client, nil
}

type bearer struct {
	next  http.RoundTripper
	token func(context.Context) (string, error)
}

// RoundTrip adds the token.
func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := b.token(request.Context())
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(request)
}

// explain says in one line what GitHub answered. go-github knows GitHub's
// limits on content by a page that has since been renamed, so they are told
// by the status.
func explain(err error) error {
	var answer *github.ErrorResponse
	if !errors.As(err, &answer) || answer.Response == nil {
		return err
	}
	said := answer.Message
	for _, e := range answer.Errors {
		if e.Message != "" {
			said += "; " + e.Message
		}
	}
	said = strings.Join(strings.Fields(said), " ")
	status := answer.Response.StatusCode
	switch wait := answer.Response.Header.Get("Retry-After"); {
	case (status == http.StatusForbidden || status == http.StatusTooManyRequests) && wait != "":
		return answered{fmt.Sprintf("GitHub asks to wait %s seconds (%d: %s)", wait, status, said), answer}
	case status == http.StatusUnauthorized:
		return answered{fmt.Sprintf("GitHub does not accept the token or key (401: %s)", said), answer}
	case status == http.StatusNotFound:
		return answered{fmt.Sprintf("not found, or the App has no access (404: %s)", said), answer}
	}
	return answered{fmt.Sprintf("%d: %s", status, said), answer}
}

// answered is what GitHub answered, in one line of ours.
type answered struct {
	text string
	err  *github.ErrorResponse
}

func (a answered) Error() string { return a.text }
func (a answered) Unwrap() error { return a.err }
