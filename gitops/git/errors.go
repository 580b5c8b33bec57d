package git

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// Refused says that the server did not take a push although the branch had
// not moved: a protected branch, a hook, a quota.
type Refused struct {
	// Message is what the server said, in its own words, in one line.
	Message string
}

// Error returns the server's words behind this package's.
func (e *Refused) Error() string { return "the server refused the push: " + e.Message }

var (
	// ErrNoAddress says that a configuration has no URL.
	ErrNoAddress = errors.New("the repository's address is missing")
	// ErrNoSSHKey says that a configuration has no private key for ssh.
	ErrNoSSHKey = errors.New("a repository over ssh needs a private key")
	// ErrNoKnownHosts says that a configuration has no host keys for ssh.
	ErrNoKnownHosts = errors.New("a repository over ssh needs the server's host keys")
	// ErrNoPassword says that the server asks for a password, and the
	// configuration has none.
	ErrNoPassword = errors.New("the server asks for a user name and a password (401), and none was given")
	// ErrEmpty says that the repository has no branch at all.
	ErrEmpty = errors.New("the repository is empty")
)

// errNotOurs says that the server would not send an object by its name.
var errNotOurs = errors.New("the server sends only what its branches point at")

// censored is an error whose text has had its secrets taken out. It can be
// compared with what it was made from, but gives nothing of it away.
type censored struct {
	text  string
	cause error
}

func (e *censored) Error() string { return e.text }

// Is reports what the cause would.
func (e *censored) Is(target error) bool { return errors.Is(e.cause, target) }

// As finds a refusal, whose message was censored when it was made.
func (e *censored) As(target any) bool {
	refused, ok := target.(**Refused)
	return ok && errors.As(e.cause, refused)
}

// censor takes every secret out of text, also in the forms that a URL gives it.
func (r *Branch) censor(text string) string {
	r.secretsMu.Lock()
	defer r.secretsMu.Unlock()
	for _, secret := range r.secrets {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:]} {
			if form != "" {
				text = strings.ReplaceAll(text, form, "[secret]")
			}
		}
	}
	return text
}

// remember keeps a secret in mind so that it can be censored. The last few
// are enough: an error speaks of the connection it came from.
func (r *Branch) remember(secret string) {
	if secret == "" {
		return
	}
	r.secretsMu.Lock()
	defer r.secretsMu.Unlock()
	for _, known := range r.secrets {
		if known == secret {
			return
		}
	}
	const most = 8
	if len(r.secrets) == most {
		r.secrets = r.secrets[1:]
	}
	r.secrets = append(r.secrets, secret)
}

// fail is how every error leaves the package: what was done, on which
// repository, and in one line what is wrong, without secrets.
func (r *Branch) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, transport.ErrAuthenticationRequired) && r.config.Credentials.Password == nil && r.address.username == "" {
		err = fmt.Errorf("%w: %w", ErrNoPassword, err)
	}
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		err = fmt.Errorf("%w: %w", ErrEmpty, err)
	}
	text := fmt.Sprintf("%s %s: %s", doing, r.address, r.explain(err))
	return &censored{text: r.censor(text), cause: err}
}

// explain says in one line what a person can do about err.
func (r *Branch) explain(err error) string {
	said := func(base error) string {
		rest := oneLine(strings.TrimPrefix(strings.TrimPrefix(err.Error(), ErrNoPassword.Error()+": "), base.Error()+": "))
		if rest == "" || rest == base.Error() {
			return ""
		}
		return ": " + rest
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time: " + oneLine(err.Error())
	case errors.Is(err, ErrNoPassword):
		return ErrNoPassword.Error() + said(transport.ErrAuthenticationRequired)
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return "the server does not accept the user name and password (401); check them, and that the token has not expired" + said(transport.ErrAuthenticationRequired)
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return "the server does not allow this user to do that (403); give it write access to the repository" + said(transport.ErrAuthorizationFailed)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return "there is no such repository, or these credentials may not see it" + said(transport.ErrRepositoryNotFound)
	case errors.Is(err, ErrEmpty):
		return fmt.Sprintf("%s: push a first commit to branch %q", ErrEmpty, r.config.Branch)
	case errors.Is(err, exec.ErrNotFound):
		return "a repository on this machine is read by the git binary, which is not installed: " + oneLine(err.Error())
	}
	var data *packp.ErrUnexpectedData
	if errors.As(err, &data) && strings.Contains(string(data.Data), "object-format=sha256") {
		return "the repository's object format is SHA-256, which is not supported: use a SHA-1 repository"
	}
	return oneLine(err.Error())
}

// plain takes go-git's wrapping off an error, which hides what is in it from
// [errors.Is].
func plain(err error) error {
	var unexpected *plumbing.UnexpectedError
	if errors.As(err, &unexpected) {
		return unexpected.Err
	}
	var permanent *plumbing.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Err
	}
	return err
}

// oneLine makes text that came from elsewhere fit to be printed: one line of
// bounded length without control characters.
func oneLine(text string) string {
	const most = 600
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
