package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

// HelperFunc makes the command `git credential ACTION`, where the action is fill,
// approve or reject: what git itself asks for a user name and a password
// (git-credential(1)). Its environment and what it may ask a person are the
// caller's.
type HelperFunc func(ctx context.Context, action string) *exec.Cmd

// login is what a helper gave, or the netrc file.
type login struct {
	username, password string
	// description is what a helper gave, to be approved or rejected; empty: it is the
	// file's.
	description string
	approved    bool
}

// authenticated does something that begins with a question to the server. Where
// that wants a password and none was configured, the netrc file is read and then the
// helper asked, as git does: only then, and again when the server no longer takes what
// they gave. The helper is told what became of it.
func (c *connection) authenticated(ctx context.Context, do func() error) error {
	err := do()
	if errors.Is(err, transport.ErrAuthenticationRequired) && c.endpoint != nil && !sameOrigin(c.address.endpoint, c.endpoint) {
		return fmt.Errorf("the address leads to %s, which asks for a user name and a password (401), and those for one host are not sent to another: use that address", address{endpoint: c.endpoint})
	}
	if errors.Is(err, transport.ErrAuthenticationRequired) && c.credentials.Password != nil && c.credentials.Refused != nil && c.credentials.Refused(c.sent) {
		return do()
	}
	if c.credentials.Password != nil || !c.overHTTP() {
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
		c.tell(ctx, "approve", c.login.description)
	}
	return err
}

// fill asks the helper; nil when there is none, or it has nothing.
func (c *connection) fill(ctx context.Context) *login {
	if c.credentials.Helper == nil {
		return nil
	}
	e := c.address.endpoint
	host := e.Host
	if e.Port != 0 {
		host = net.JoinHostPort(c.address.host(), strconv.Itoa(e.Port))
	}
	description := fmt.Sprintf("protocol=%s\nhost=%s\npath=%s\n", e.Protocol, host, strings.TrimPrefix(e.Path, "/"))
	if c.address.username != "" {
		description += "username=" + c.address.username + "\n"
	}
	answer := c.tell(ctx, "fill", description)
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

// reject forgets what is of no use, and tells the helper if it gave it.
func (c *connection) reject(ctx context.Context) {
	switch {
	case c.login == nil:
		return
	case c.login.description == "":
		c.wrong = c.login
	default:
		c.tell(ctx, "reject", c.login.description)
	}
	c.login, c.refused = nil, true
}

// tell runs the helper. One that fails has nothing to say: what the server said
// stands.
func (c *connection) tell(ctx context.Context, action, description string) string {
	cmd := c.credentials.Helper(ctx, action)
	cmd.Stdin = strings.NewReader(description + "\n")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		c.log.Debug("git credential "+action+" failed", "repository", c.address.String(), "err", err)
		return ""
	}
	return out.String()
}
