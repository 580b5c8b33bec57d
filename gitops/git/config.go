// Package git is a git client for programs that read and write one branch: the
// commit at its head, its files, and a way to put commits on top of it.
//
// It speaks git's own protocol through go-git's plumbing and keeps no clone
// and no worktree. Reading costs one request while the branch has not moved;
// when it has, only what has changed in the directories in use is fetched.
// Writing sends exactly the new blobs, trees and commits, and the branch moves
// from the old tip to the new one by compare-and-swap: it is never forced, and
// a push is never reported as done unless the server has said so.
//
// A repository is reached over https, http, ssh, git, or a path on this
// machine. Only a path needs the git binary.
package git

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"muster/gitops/branch"
)

// Config says which branch of which repository is used, and as whom. URL and
// Branch are required, and to push also AuthorName and AuthorEmail.
type Config struct {
	// URL is the repository's address in any form git accepts: https, http,
	// ssh and git URLs, user@host:path, file URLs, and plain paths.
	URL string
	// PushURL is where pushes go; empty: to URL.
	PushURL string
	// Branch is the name of the branch, with or without refs/heads/. HEAD is what the
	// repository has checked out, to be read alone.
	Branch string
	// ReadAhead is a directory that is fetched, with everything below it,
	// before it is read, and kept as long as the branch has it. Everything else
	// is fetched when it is read. Empty means that nothing is fetched ahead.
	ReadAhead string
	// ReadFirst are directories that are fetched together with ReadAhead when
	// nothing is here yet, and like all others after that.
	ReadFirst []string
	// AuthorName and AuthorEmail are the author and committer of every commit.
	AuthorName, AuthorEmail string
	// Credentials are how client and server prove who they are.
	Credentials Credentials
	// Sign makes the signature of a commit; nil leaves commits unsigned.
	Sign Signer
	// Timeout bounds each exchange with the server; zero means two minutes.
	Timeout time.Duration
	// TempDir is a directory in which what the server sends is kept while it is in use,
	// in a file without a name, where it is larger than 4 MiB. Empty, or where no file
	// can be made, it is kept in memory, and of a server without partial clone more than
	// 32 MiB are refused.
	TempDir string
	// Log is told once about each way in which reading is more expensive than
	// it could be; nil discards.
	Log *slog.Logger
}

const (
	// DefaultTimeout is a [Config]'s Timeout where it is zero.
	DefaultTimeout = 2 * time.Minute
	// settleTimeout bounds the reading of the branch after a push that failed,
	// also when the push's own context is over.
	settleTimeout = 15 * time.Second
)

// withDefaults fills in what was left out and validates the rest.
func (c Config) withDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Timeout < 0 {
		return c, errors.New("the time-out for git must be positive")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	for _, dir := range append([]string{c.ReadAhead}, c.ReadFirst...) {
		if dir == "" {
			continue
		}
		if err := branch.CheckPath(dir); err != nil {
			return c, fmt.Errorf("the directories to read ahead: %w", err)
		}
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
	return c, nil
}
