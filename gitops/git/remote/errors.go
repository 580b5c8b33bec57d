package remote

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
)

// Errors that a caller may know a remedy for. Their texts say what is wrong, and
// leave it to the caller to say where that can be changed.
var (
	// ErrNoAddress says that a configuration has no URL.
	ErrNoAddress = errors.New("the repository's address is missing")
	// ErrNoSSHKey says that a configuration has no private key for ssh.
	ErrNoSSHKey = errors.New("a repository over ssh needs a private key")
	// ErrNoKnownHosts says that a configuration has no host keys for ssh.
	ErrNoKnownHosts = errors.New("a repository over ssh needs the server's host keys")
	// ErrUnknownHost says that a host for ssh has no address. It may be a name that only
	// ~/.ssh/config knows, which this package does not read.
	ErrUnknownHost = errors.New("a name that only ~/.ssh/config knows is known to the ssh program alone, which is not in use")
	// ErrNoPassword says that the server asks for a password, and that the
	// configuration has none.
	ErrNoPassword = errors.New("the server asks for a user name and a password (401), and none was given")
	// ErrEmpty says that the repository has no branch at all.
	ErrEmpty = errors.New("the repository is empty")
)

// censored is an error whose text is without secrets. It can be compared with
// its cause, but shows nothing of it.
type censored struct {
	text  string
	cause error
}

func (e *censored) Error() string { return e.text }

// Is reports what the cause would.
func (e *censored) Is(target error) bool { return errors.Is(e.cause, target) }

// As finds a refusal, whose message was censored when it was made.
func (e *censored) As(target any) bool {
	refused, ok := target.(**branch.Refused)
	return ok && errors.As(e.cause, refused)
}

// Fail is how every error leaves the package: what was done, on which
// repository, and in one line what is wrong, without secrets.
func (c *Connection) Fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, transport.ErrAuthenticationRequired) && c.Credentials.Password == nil && c.Address.username == "" && !c.refused {
		err = fmt.Errorf("%w%s", ErrNoPassword, c.rest(err, transport.ErrAuthenticationRequired))
	}
	text := fmt.Sprintf("%s %s: %s", doing, c.Address, c.explain(err))
	said := &censored{text: c.Secrets.censor(text), cause: err}
	if wait := WaitOf(err); wait > 0 {
		return held{said, wait}
	}
	return said
}

// explain says in one line what is wrong and what can be done about it.
func (c *Connection) explain(err error) string {
	said := c.Printable(err.Error())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time: " + said
	case errors.Is(err, exec.ErrNotFound):
		return "a repository on this machine is read by the git binary, which is not installed: " + said
	}
	var data *packp.ErrUnexpectedData
	if errors.As(err, &data) && strings.Contains(string(data.Data), "object-format=sha256") {
		return "the repository's object format is SHA-256, which is not supported: use a SHA-1 repository"
	}
	for _, known := range []struct {
		cause error
		text  string
	}{
		{transport.ErrAuthenticationRequired, "the server does not accept the user name and password (401): check them, and that the token has not expired"},
		{transport.ErrAuthorizationFailed, "the server does not allow this user to do that (403): give the user write access to the repository"},
		{transport.ErrRepositoryNotFound, "repository not found, or these credentials have no access"},
	} {
		if errors.Is(err, known.cause) {
			return known.text + c.rest(err, known.cause)
		}
	}
	return said
}

// rest is what err says beyond its cause, behind a colon; empty: nothing.
func (c *Connection) rest(err, cause error) string {
	rest := c.Printable(strings.TrimPrefix(err.Error(), cause.Error()+": "))
	if rest == "" || rest == cause.Error() {
		return ""
	}
	return ": " + rest
}

// Printable makes text that came from elsewhere fit to be shown.
func (c *Connection) Printable(text string) string { return oneLine(c.Secrets.censor(text)) }

// Plain removes the wrapping of go-git and net/http from an error, which hides what is
// in it from [errors.Is].
func Plain(err error) error {
	var unexpected *plumbing.UnexpectedError
	var permanent *plumbing.PermanentError
	switch {
	case errors.As(err, &unexpected):
		err = unexpected.Err
	case errors.As(err, &permanent):
		err = permanent.Err
	}
	var a *Answer
	if errors.As(err, &a) { // net/http repeats the address
		return a
	}
	return err
}

// oneLine makes text that came from elsewhere fit to be printed: one line of
// bounded length without control and format characters.
func oneLine(text string) string {
	const most = 600
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) { // Cf turns text around, or hides it
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
