package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
)

// Errors for which a caller may have a remedy. Their texts contain none.
var (
	// ErrNoSSHKey is returned if a configuration has no private key for ssh.
	ErrNoSSHKey = errors.New("a repository over ssh needs a private key")
	// ErrNoKnownHosts is returned if a configuration has no host keys for ssh.
	ErrNoKnownHosts = errors.New("a repository over ssh needs the server's host keys")
	// ErrUnknownHost is returned if a host for ssh has no address. Its name may be defined in
	// ~/.ssh/config, which this package does not read.
	ErrUnknownHost = errors.New("a host alias of ~/.ssh/config needs the ssh program, which is not used")
	// ErrNoPassword is returned if the server requires a password and the configuration has none.
	ErrNoPassword = errors.New("the server requires a user name and a password (401), and none was given")
	// ErrEmpty is returned if the repository has no branches.
	ErrEmpty = errors.New("the repository is empty")
)

// censored is an error whose text contains no secrets. [errors.Is] compares it with its cause, which
// it does not expose.
type censored struct {
	text  string
	cause error
}

func (e *censored) Error() string { return e.text }

// Is reports whether the cause is target.
func (e *censored) Is(target error) bool { return errors.Is(e.cause, target) }

// As finds a [branch.Refused], whose message is censored, or an [fs.PathError].
func (e *censored) As(target any) bool {
	switch target := target.(type) {
	case **branch.Refused:
		return errors.As(e.cause, target)
	case **fs.PathError:
		return errors.As(e.cause, target)
	}
	return false
}

// Fail returns an error with the operation, the repository and the cause in one line, without secrets.
// Every error leaves the package through it.
func (c *Connection) Fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, transport.ErrAuthenticationRequired) && c.Credentials.Password == nil && c.Address.User == "" && !c.refused {
		err = fmt.Errorf("%w%s", ErrNoPassword, c.rest(err, transport.ErrAuthenticationRequired))
	}
	text := fmt.Sprintf("%s %s: %s", doing, c.Address, c.explain(err))
	message := &censored{text: c.Secrets.censor(text), cause: err}
	if wait := WaitOf(err); wait > 0 {
		return &branch.Limited{Err: message, Wait: wait}
	}
	return message
}

// explain returns the text of an error and a remedy in one line.
func (c *Connection) explain(err error) string {
	message := c.Printable(err.Error())
	if errors.Is(err, exec.ErrNotFound) {
		return "a repository on this machine is read by the git binary, which is not installed: " + message
	}
	if problem := branch.NetworkProblem(err, c.Address.HostPort(), trustAuthority); problem != "" {
		if errors.Is(err, ErrUnknownHost) {
			problem += "; " + ErrUnknownHost.Error()
		}
		return c.Printable(problem)
	}
	var data *packp.ErrUnexpectedData
	if errors.As(err, &data) && strings.Contains(string(data.Data), "object-format=sha256") {
		return "the repository's object format is SHA-256, which is not supported: use a SHA-1 repository"
	}
	if c.Address.Host == "" && errors.Is(err, transport.ErrRepositoryNotFound) {
		return "there is no git repository: check the path"
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
	return message
}

// trustAuthority is the remedy for a certificate of an unknown authority.
const trustAuthority = "name the file of the authority in --git-ca-file"

// rest returns the text of err without that of its cause, after a colon; empty if there is no more.
func (c *Connection) rest(err, cause error) string {
	rest := c.Printable(strings.TrimPrefix(err.Error(), cause.Error()+": "))
	if rest == "" || rest == cause.Error() {
		return ""
	}
	return ": " + rest
}

// longestMessage is the maximum number of bytes of a host's message in an error.
const longestMessage = 600

// Printable censors text of others and returns it in one line.
func (c *Connection) Printable(text string) string {
	return branch.OneLine(c.Secrets.censor(text), longestMessage)
}

// Plain unwraps errors of go-git and net/http, which [errors.Is] does not.
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
