package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
)

// Credentials authenticate client and server. Files are read for each connection, so that rotated
// credentials need no restart. The zero value uses only the user in the URL.
type Credentials struct {
	// Password returns the user name and the password or token for http and https. If nil, those in
	// the URL are used, if any.
	Password PasswordFunc
	// Refused is called with a password from Password that the server rejects. It reports whether
	// another may be available by now; then the request is retried once. Nil means that none is.
	Refused func(password string) bool
	// CAFile is a file with certificate authorities for https, in PEM, in addition to those of the
	// system.
	CAFile string
	// NetrcFile contains user names and passwords in the format of curl's netrc. It is read if the
	// server requires a password and Password is nil. It may be empty or missing.
	NetrcFile string
	// Helper returns a user name and a password, like git's credential helpers. It is called if the
	// server requires a password, Password is nil and NetrcFile has no password that the server
	// accepts. Nil means no helper.
	Helper HelperFunc
	// SSHProgram runs ssh with the user's own settings, keys and known hosts. If it is nil, this
	// package connects with the fields below.
	SSHProgram SSHFunc
	// SSHKeyFile is the private key for ssh, in a format of OpenSSH, without a passphrase. A
	// certificate in a file of that name with -cert.pub is offered too. Ssh requires SSHKeyFile,
	// SSHAgent or SSHProgram.
	SSHKeyFile string
	// SSHAgent is the socket of an ssh-agent, whose keys are used if SSHKeyFile is empty.
	SSHAgent string
	// SSHKnownHostsFile contains host keys and certificate authorities, in the format of OpenSSH's
	// known_hosts. Ssh without SSHProgram requires it.
	SSHKnownHostsFile string
}

// PasswordFunc returns a user name and a password or token that are valid now.
type PasswordFunc func(ctx context.Context) (username, password string, err error)

// StaticPassword returns a user name and password that never change.
func StaticPassword(username, password string) PasswordFunc {
	return func(context.Context) (string, string, error) { return username, password, nil }
}

// PasswordFile returns a password that is read from a file each time, without the final line break.
func PasswordFile(username, file string) PasswordFunc {
	return func(context.Context) (string, string, error) {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("reading the password for git: %w", err)
		}
		password := strings.TrimRight(string(content), "\r\n")
		if password == "" {
			return "", "", fmt.Errorf("reading the password for git: %s is empty", file)
		}
		return username, password, nil
	}
}

// HelperFunc returns the command `git credential ACTION`, where the action is fill, approve or reject
// (git-credential(1)). The caller decides about its environment and prompts.
type HelperFunc func(ctx context.Context, action string) *exec.Cmd

// login is the user name and the password of a helper or of the netrc file.
type login struct {
	username, password string
	// description is the output of a helper, to approve or reject it; empty for the netrc file.
	description string
	approved    bool
}

// authenticated calls do, which begins with a request to the server. If the server requires a
// password and none is configured, authenticated reads the netrc file and then calls the helper, as
// git does. It repeats this only when the server no longer accepts what they returned. It reports
// to the helper whether the password was accepted.
func (c *Connection) authenticated(ctx context.Context, do func() error) error {
	err := do()
	if errors.Is(err, transport.ErrAuthenticationRequired) && c.Credentials.Password != nil && c.Credentials.Refused != nil && c.Credentials.Refused(c.sent) {
		return do()
	}
	if c.Credentials.Password != nil || !c.OverHTTP() {
		return err
	}
	for _, ask := range []func(context.Context) *login{c.netrc, c.fill} {
		if !errors.Is(err, transport.ErrAuthenticationRequired) {
			break
		}
		c.reject(ctx)
		if c.login = ask(ctx); c.login != nil {
			err = do()
		}
	}
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired):
		c.reject(ctx)
	case err == nil && c.login != nil && !c.login.approved:
		c.login.approved = true
		c.runHelper(ctx, "approve", c.login.description)
	}
	return err
}

// fill returns the helper's login; nil if no helper is set or the helper has no login.
func (c *Connection) fill(ctx context.Context) *login {
	if c.Credentials.Helper == nil {
		return nil
	}
	a := c.Address
	description := fmt.Sprintf("protocol=%s\nhost=%s\npath=%s\n", a.Scheme, a.HostPort(), strings.Trim(a.Path, "/"))
	if a.User != "" {
		description += "username=" + a.User + "\n"
	}
	answer := c.runHelper(ctx, "fill", description)
	given := &login{description: answer}
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch key {
		case "username":
			given.username = value
		case "password":
			given.password = value
		}
	}
	if given.password == "" {
		return nil
	}
	return given
}

// reject drops a rejected login, and notifies the helper if the login is the helper's.
func (c *Connection) reject(ctx context.Context) {
	switch {
	case c.login == nil:
		return
	case c.login.description == "":
		c.wrong = c.login
	default:
		c.runHelper(ctx, "reject", c.login.description)
	}
	c.login, c.refused = nil, true
}

// runHelper runs the helper, and returns nothing if it fails: the server's error is reported then.
func (c *Connection) runHelper(ctx context.Context, action, description string) string {
	cmd := c.Credentials.Helper(ctx, action)
	cmd.Stdin = strings.NewReader(description + "\n")
	cmd.WaitDelay = leftBehind
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		c.Log.Debug("git credential "+action+" failed", "repository", c.Address.String(), "err", err)
		return ""
	}
	return out.String()
}

// secrets are the passwords and tokens in use, which errors and logs must not contain.
type secrets struct {
	list []string
	// Address are the secrets in the address, which are always censored.
	Address []string
}

// Add adds a secret. Only the last few are kept: an error is about the latest connections.
func (s *secrets) Add(text string) {
	const most = 8
	if text == "" || slices.Contains(s.list, text) {
		return
	}
	if len(s.list) == most {
		s.list = s.list[1:]
	}
	s.list = append(s.list, text)
}

// censor replaces every secret in text; see [branch.Censor].
func (s *secrets) censor(text string) string {
	return branch.Censor(text, slices.Concat(s.list, s.Address)...)
}
