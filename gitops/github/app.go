// Package github uses GitHub's own API: tokens of a GitHub App, which are also
// passwords for git, and commits made through the API, which GitHub signs and
// shows as verified.
package github

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/gitops/git/remote"
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
	// contents is the token's permission for files: read, write or empty.
	contents string
}

// fresh is the minimum remaining time of a token that is returned: longer than any use of it.
const fresh = 5 * time.Minute

// Password returns the App as a source of passwords for git over https.
func (a *App) Password() remote.PasswordFunc {
	return func(ctx context.Context) (string, string, error) {
		token, err := a.Token(ctx)
		return "x-access-token", token, err
	}
}

// Token returns a token of the installation that is valid for at least five minutes.
func (a *App) Token(ctx context.Context) (string, error) {
	if token := a.kept(); token != "" {
		return token, nil
	}
	client, err := newClient(a.API, a.Client, tokens{get: func(context.Context) (string, error) { return a.identity() }})
	if err != nil {
		return "", fmt.Errorf("getting a token for the GitHub App: %w", err)
	}
	token, _, err := client.Apps.CreateInstallationToken(ctx, a.Installation, nil)
	if err != nil {
		return "", fmt.Errorf("getting a token for installation %d of the GitHub App %s: %w", a.Installation, a.ID, explain(err))
	}
	if token.GetToken() == "" || token.ExpiresAt == nil {
		return "", errors.New("getting a token for the GitHub App: GitHub's response has none")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token, a.until, a.contents = token.GetToken(), token.ExpiresAt.Time, token.GetPermissions().GetContents()
	return a.token, nil
}

// kept returns the last token if it is valid for long enough, and otherwise an empty string. It does not
// wait for requests to GitHub, which are sent without the lock.
func (a *App) kept() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Now().Add(fresh).Before(a.until) {
		return a.token
	}
	return ""
}

// Refused drops a token that GitHub rejects, as after it was revoked. The result is whether another one
// is available.
func (a *App) Refused(token string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token == a.token {
		a.token = ""
	}
	return true
}

// MayWrite returns an error unless the installation may write contents of its repositories, which each
// token states (docs.github.com/rest/apps, "Create an installation access token for an app":
// permissions). The App may still not be installed on this repository, or its branch be protected.
func (a *App) MayWrite(ctx context.Context) error {
	if _, err := a.Token(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.contents != "write" {
		return fmt.Errorf("the GitHub App %s may not write (permission contents: %s): give it \"Contents: Read and write\", and let the owner of the repository accept that", a.ID, cmp.Or(a.contents, "none"))
	}
	return nil
}

// identity returns a JSON web token of the App, signed with its key: docs.github.com, "Generating a JSON
// Web Token for a GitHub App".
func (a *App) identity() (string, error) {
	key, err := readKey(a.PrivateKeyFile)
	if err != nil {
		return "", err
	}
	now := a.Now()
	// A minute back, for clocks that differ; ten minutes is the most.
	claims, _ := json.Marshal(map[string]any{ // numbers and a text can always be written
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(8 * time.Minute).Unix(), "iss": a.ID,
	})
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("signing as the GitHub App: %w", err)
	}
	return signed + "." + encode(signature), nil
}

// readKey reads an RSA key in PKCS #1 or PKCS #8.
func readKey(file string) (*rsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the GitHub App's key: %w", err)
	}
	if block, _ := pem.Decode(text); block == nil {
		return nil, fmt.Errorf("reading the GitHub App's key: %s is not a PEM file", file)
	}
	parsed, _ := ssh.ParseRawPrivateKey(text)
	if key, ok := parsed.(*rsa.PrivateKey); ok {
		return key, nil
	}
	return nil, fmt.Errorf("reading the GitHub App's key: %s has no RSA key", file)
}
