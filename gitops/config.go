// Package gitops is the fleet repository as muster uses it: the commit at the
// tip of one branch, what that commit holds, and a way to put commits on top
// of it.
//
// It speaks git's own protocol through go-git's plumbing and keeps no clone
// and no worktree. Reading costs one request while the branch has not moved;
// when it has, only what the overlays need is fetched. Writing sends exactly
// the new blobs, trees and commits, and the branch moves from the old tip to
// the new one by compare-and-swap: it is never forced, and a push is never
// reported as done unless the server has said so.
//
// A repository is reached over https, http, ssh, git, or a path on this
// machine. Only a path needs the git binary.
package gitops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Config says which repository is used and as whom. URL is required.
type Config struct {
	// URL is the repository's address in any form git accepts: https, http,
	// ssh and git URLs, user@host:path, file URLs, and plain paths.
	URL string
	// Branch is the branch that is read and written; empty means main.
	Branch string
	// Overlays is the directory that is read ahead, with everything below it;
	// empty means overlays. Everything else is read when it is asked for.
	Overlays string
	// AuthorName and AuthorEmail are the author and committer of every commit;
	// empty means muster and muster@localhost.
	AuthorName, AuthorEmail string
	// Credentials are how the server is convinced, and how it is.
	Credentials Credentials
	// Sign makes the signature of a commit; nil leaves commits unsigned.
	Sign Signer
	// Timeout bounds each exchange with the server; zero means two minutes.
	Timeout time.Duration
	// Log is told once about each way in which reading is more expensive than
	// it could be; nil discards.
	Log *slog.Logger
}

// Credentials are how the server is convinced of who writes, and how muster
// is convinced of the server. Everything is read again for each connection,
// so that what rotates needs no restart. The zero value is nobody, or who the
// URL says.
type Credentials struct {
	// Password is asked for the user name and the password or token of http
	// and https; nil means those in the URL, or none.
	Password PasswordFunc
	// CAFile holds further certificate authorities for https, in PEM, beside
	// those of the system.
	CAFile string
	// SSHKeyFile is the private key for ssh, in any form OpenSSH writes,
	// without a passphrase.
	SSHKeyFile string
	// SSHKnownHostsFile holds the server's host keys, as OpenSSH's
	// known_hosts; it may list several for one host. Required for ssh.
	SSHKnownHostsFile string
}

// PasswordFunc returns a user name and a password or token that are good now.
type PasswordFunc func(ctx context.Context) (username, password string, err error)

// Signer returns the armored signature of a commit, which it is given as git
// stores it. at is the commit's time; the same commit and time should give
// the same signature, or else the commit's identifier changes between tries.
type Signer func(commit []byte, at time.Time) (signature string, err error)

// StaticPassword returns a user name and password that never change.
func StaticPassword(username, password string) PasswordFunc {
	return func(context.Context) (string, string, error) { return username, password, nil }
}

// PasswordFile returns a password that is read from a file each time, without
// the line break at its end.
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

const (
	defaultTimeout = 2 * time.Minute
	// settleTimeout bounds the look at the branch after a push that went
	// wrong, also when the push's own context is over.
	settleTimeout = 15 * time.Second
)

// withDefaults fills in what was left out and checks the rest.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		field *string
		value string
	}{{&c.Branch, "main"}, {&c.Overlays, "overlays"}, {&c.AuthorName, "muster"}, {&c.AuthorEmail, "muster@localhost"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Overlays = path.Clean(c.Overlays)
	if err := CheckPath(c.Overlays); err != nil {
		return c, fmt.Errorf("the overlays directory: %w", err)
	}
	c.Branch = strings.TrimPrefix(c.Branch, "refs/heads/")
	if err := plumbing.NewBranchReferenceName(c.Branch).Validate(); err != nil {
		return c, fmt.Errorf("%q is not a name of a git branch", c.Branch)
	}
	for _, who := range []string{c.AuthorName, c.AuthorEmail} {
		if strings.ContainsAny(who, "<>\n\x00") || strings.TrimSpace(who) != who {
			return c, fmt.Errorf("author %q: a name or address must be one line without < and >", who)
		}
	}
	if c.Timeout < 0 {
		return c, errors.New("the time-out for git must be positive")
	}
	return c, nil
}

// CheckPath says why p must not be written: it is not a clean path from the
// top of the repository, or it is git's own.
func CheckPath(p string) error {
	if p == "" || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
		return fmt.Errorf("path %q must be relative, clean and inside the repository", p)
	}
	for part := range strings.SplitSeq(p, "/") {
		lower := strings.ToLower(strings.TrimRight(part, ". "))
		if lower == ".git" || lower == "git~1" || strings.ContainsAny(part, "\x00\n\\") {
			return fmt.Errorf("path %q has a part that git forbids: %q", p, part)
		}
	}
	return nil
}
