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

// login is what a helper gave.
type login struct {
	username, password string
	// description is what it gave, to be approved or rejected.
	description string
	approved    bool
}

// authenticated does something that begins with a question to the server. Where
// that wants a password and none was configured, the helper is asked, as git does:
// only then, and again when the server no longer takes what it gave. The helper is
// told what became of it.
func (c *connection) authenticated(ctx context.Context, do func() error) error {
	err := do()
	if errors.Is(err, transport.ErrAuthenticationRequired) && c.endpoint != nil && !sameOrigin(c.address.endpoint, c.endpoint) {
		return fmt.Errorf("the address leads to %s, which asks for a user name and a password (401), and those for one host are not sent to another: use that address", address{endpoint: c.endpoint})
	}
	if errors.Is(err, transport.ErrAuthenticationRequired) && c.credentials.Password != nil && c.credentials.Refused != nil && c.credentials.Refused(c.sent) {
		return do()
	}
	if c.credentials.Helper == nil || c.credentials.Password != nil || !c.overHTTP() {
		return err
	}
	if errors.Is(err, transport.ErrAuthenticationRequired) {
		c.reject(ctx)
		if c.login = c.fill(ctx); c.login == nil {
			return err
		}
		err = do()
	}
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired):
		c.reject(ctx)
		c.refused = true
	case err == nil && c.login != nil && !c.login.approved:
		c.login.approved = true
		c.tell(ctx, "approve", c.login.description)
	}
	return err
}

// fill asks the helper; nil when it has nothing.
func (c *connection) fill(ctx context.Context) *login {
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

// reject tells the helper that what it gave is of no use, and forgets it.
func (c *connection) reject(ctx context.Context) {
	if c.login != nil {
		c.tell(ctx, "reject", c.login.description)
		c.login = nil
	}
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
