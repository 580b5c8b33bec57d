// Package git is a git client for programs that read and write one branch: the
// commit at its head, its files, and a way to put commits on top of it.
//
// It uses the git protocol through go-git's plumbing, without a clone or a
// worktree. Reading costs one request while the branch has not moved; after a
// move it fetches only the changes in the directories in use.
// Writing sends exactly the new blobs, trees and commits, and the branch moves
// from the old head to the new one by compare-and-swap: it is never forced, and
// a push is reported as done only if the server has confirmed it.
//
// A repository is reached over https, http, ssh, or a path on this
// machine. Only a path needs the git binary.
package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"muster/gitops/branch"
	"muster/gitops/git/remote"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// Branch is one branch of one remote repository. It keeps the commit at its
// head and the objects of the directories in use, and nothing of the rest. It
// may be used from several goroutines, which then take turns.
type Branch struct {
	name   string
	author author
	remedy func(error) error

	mu     sync.Mutex // locked while the fields below are used
	server *remote.Connection
	taker  *remote.Connection // of pushes; mostly the server
	store  *store
	// seen is the head as a push that was not first has found it; zero: none.
	// The next refresh begins there.
	seen plumbing.Hash
}

// New validates the configuration and returns the branch. It does not connect
// to anything. Its errors include [ErrNoAddress], [ErrNoSSHKey] and
// [ErrNoKnownHosts].
func New(c Config) (*Branch, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	server, err := c.connect(c.URL)
	if err != nil {
		return nil, err
	}
	taker := server
	if c.PushURL != "" && c.PushURL != c.URL {
		if taker, err = c.connect(c.PushURL); err != nil {
			return nil, err
		}
		taker.Traffic = server.Traffic
	}
	return &Branch{
		name:   c.Branch,
		author: author{name: c.AuthorName, email: c.AuthorEmail, sign: c.Sign},
		remedy: c.Remedy,
		server: server,
		taker:  taker,
		store:  &store{server: server, readFirst: c.ReadFirst, objects: newObjects(c.ReadAhead)},
	}, nil
}

// connect checks what an address needs, and connects to nothing yet.
func (c Config) connect(url string) (*remote.Connection, error) {
	address, err := remote.ParseAddress(url)
	if err != nil {
		return nil, err
	}
	if address.Endpoint.Protocol == "ssh" && c.Credentials.SSHProgram == nil {
		if c.Credentials.SSHKeyFile == "" && c.Credentials.SSHAgent == "" {
			return nil, remote.ErrNoSSHKey
		}
		if c.Credentials.SSHKnownHostsFile == "" {
			return nil, remote.ErrNoKnownHosts
		}
	}
	server := &remote.Connection{Address: address, Credentials: c.Credentials, Timeout: c.Timeout, TempDir: c.TempDir, Log: c.Log, Traffic: &remote.Counter{}}
	server.Secrets.Add(address.Password)
	server.Secrets.Address = address.Query()
	return server, nil
}

// String is the repository's address without anything secret.
func (b *Branch) String() string { return b.server.Address.String() }

// Stats returns what was exchanged with the server. It waits for nobody.
func (b *Branch) Stats() remote.Stats { return b.server.Traffic.Stats() }

// Head returns the commit at the branch's head and its files. While the
// head has not moved that is one request. The tree reads lazily, with ctx; it
// implements [io/fs.ReadFileFS], [io/fs.ReadDirFS] and [io/fs.StatFS], and the
// entries of its directories have a method Identity() string: the identifier of
// the content, for which nothing is read.
//
// Its errors include [ErrNoPassword], [ErrEmpty] and, when the server does not
// answer in time, [context.DeadlineExceeded].
func (b *Branch) Head(ctx context.Context) (branch.Head, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(ctx); err != nil {
		b.reset()
		return branch.Head{}, b.fail("reading", err)
	}
	return b.head(ctx), nil
}

// head returns the commit in the store, as callers see it.
func (b *Branch) head(ctx context.Context) branch.Head {
	return branch.Head{Commit: b.store.head.String(), Tree: &treeFS{branch: b, store: b.store, ctx: ctx, root: b.store.root}}
}

// refresh brings the store to the branch's head.
func (b *Branch) refresh(ctx context.Context) error {
	seen := b.seen
	b.seen = plumbing.ZeroHash
	if !seen.IsZero() && b.server.OverHTTP() {
		// A conflict has just returned this head: no further request is needed. (Over anything
		// else asking costs nothing, as a fetch begins with it.)
		err := b.store.update(ctx, nil, seen)
		var a *remote.Answer
		if !errors.As(err, &a) || !a.RefusesRequest() {
			return err
		}
		b.store.reset() // what was here is incomplete
	}
	// Some hosts send what a branch is at, and nothing that it was at when a client read
	// it a moment ago: where it has moved meanwhile, it is read again.
	const reads = 3
	for read := 1; ; read++ {
		head, err := b.readHead(ctx)
		if err == nil || read == reads || ctx.Err() != nil || head.IsZero() || remote.WaitOf(err) > 0 {
			return err
		}
		if at, failed := b.look(ctx); failed != nil || at == head {
			return err
		}
		b.store.reset()
	}
}

// readHead brings the store to the branch's head, and returns the head. With an error it
// returns the head if that is known.
func (b *Branch) readHead(ctx context.Context) (plumbing.Hash, error) {
	bounded, cancel := context.WithTimeout(ctx, b.server.Timeout)
	defer cancel()
	head, session, err := b.server.HeadOf(bounded, b.name)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if session != nil {
		defer session.Close()
	}
	if head == b.store.head {
		return head, nil
	}
	return head, b.store.update(ctx, session, head)
}

// reset forgets everything that was read, so that the next Head starts over.
func (b *Branch) reset() {
	b.seen = plumbing.ZeroHash
	b.server.Reset()
	b.taker.Reset()
	b.store.reset()
}

// fail is how every error leaves a Branch.
func (b *Branch) fail(doing string, err error) error { return b.remedy(b.describe(doing, err)) }

// describe is how every error leaves a tree or an [Archive].
func (b *Branch) describe(doing string, err error) error {
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		err = fmt.Errorf("%w: push a first commit to branch %q", remote.ErrEmpty, b.name)
	}
	return b.server.Fail(doing, err)
}

// failPush is how an error of a push leaves a Branch.
func (b *Branch) failPush(err error) error { return b.remedy(b.taker.Fail("pushing to", err)) }

// Config selects the branch and its repository, and the author. URL and
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
	Credentials remote.Credentials
	// Sign makes the signature of a commit; nil leaves commits unsigned.
	Sign Signer
	// Remedy adds to an error of the [Branch] what its user can do about it; nil adds nothing.
	Remedy func(error) error
	// Timeout bounds each exchange with the server; zero means two minutes.
	Timeout time.Duration
	// TempDir is a directory in which what the server sends is kept while it is in use,
	// in a file without a name, where it is larger than 4 MiB. Empty, or where no file
	// can be made, it is kept in memory, and of a server without partial clone more than
	// 32 MiB are refused.
	TempDir string
	// Log records once each reason why reading is more expensive than
	// necessary; nil discards.
	Log *slog.Logger
}

// DefaultTimeout is a [Config]'s Timeout where it is zero.
const DefaultTimeout = 2 * time.Minute

// withDefaults fills in what was left out and validates the rest.
func (c Config) withDefaults() (Config, error) {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.Timeout < 0 {
		return c, errors.New("the time-out for git must be positive")
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Remedy == nil {
		c.Remedy = func(err error) error { return err }
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
