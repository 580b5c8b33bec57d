// Package git is a git client for programs that read and write one branch: its head, the files, and
// pushes of commits on top.
//
// It uses the git protocol through go-git's plumbing, without a clone or a worktree. A read is one
// request while the branch has not moved; otherwise it fetches only the changes in the directories in
// use. A push sends exactly the new blobs, trees and commits, and moves the branch by
// compare-and-swap. It is never forced, and it succeeds only if the server has confirmed it.
//
// Repositories are accessed over https, http, ssh, the git protocol, or a local path. Only a path needs the git binary.
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

// Branch is one branch of one remote repository. It keeps only the commit at its head and the objects
// of the directories in use. It may be used from several goroutines, which take turns;
// [Branch.Commits] holds up nobody.
type Branch struct {
	name   string
	author author
	remedy func(error) error

	mu     sync.Mutex // locked while the fields below are used
	server *remote.Connection
	taker  *remote.Connection // the server of pushes, mostly the same
	store  *store
	// seen is the head that a conflict has returned; zero without a conflict. The next refresh
	// starts there.
	seen plumbing.Hash
}

// New validates the configuration and returns the branch. It does not connect. Its errors include
// [branch.ErrNoAddress], [remote.ErrNoSSHKey] and [remote.ErrNoKnownHosts].
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

// Connect validates the configuration and returns a connection to its URL. It does not connect yet.
func Connect(c Config) (*remote.Connection, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return c.connect(c.URL)
}

// connect validates an address and its credentials. It does not connect yet.
func (c Config) connect(url string) (*remote.Connection, error) {
	address, err := branch.ParseAddress(url)
	if err != nil {
		return nil, err
	}
	if address.Scheme == "ssh" && c.Credentials.SSHProgram == nil {
		if c.Credentials.SSHKeyFile == "" && c.Credentials.SSHAgent == "" {
			return nil, remote.ErrNoSSHKey
		}
		if c.Credentials.SSHKnownHostsFile == "" {
			return nil, remote.ErrNoKnownHosts
		}
	}
	server := &remote.Connection{Address: address, Credentials: c.Credentials, Timeout: c.Timeout, TempDir: c.TempDir, Log: c.Log, Traffic: &remote.Counter{}}
	server.Secrets.Add(address.Password)
	server.Secrets.Address = address.Secrets()
	return server, nil
}

// String returns the repository's address without secrets.
func (b *Branch) String() string { return b.server.Address.String() }

// Stats returns the traffic with the server. It does not wait.
func (b *Branch) Stats() remote.Stats { return b.server.Traffic.Stats() }

// Head returns the commit at the branch's head and its files, with one request while the head has not
// moved. The tree reads lazily with ctx. It implements [io/fs.ReadFileFS], [io/fs.ReadDirFS] and
// [io/fs.StatFS], and its directory entries implement [branch.Identified].
//
// Its errors include [remote.ErrNoPassword], [remote.ErrEmpty] and, if the server does not respond in
// time, [context.DeadlineExceeded].
func (b *Branch) Head(ctx context.Context) (branch.Head, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(ctx); err != nil {
		b.reset()
		return branch.Head{}, b.fail("reading", err)
	}
	return b.head(ctx), nil
}

// aside returns a branch for reads of the past, which may take long: they do not hold up the other
// goroutines, which take turns. It has the same head and none of the objects.
func (b *Branch) aside() *Branch {
	b.mu.Lock()
	defer b.mu.Unlock()
	server, s := b.server.Fork(), b.store
	return &Branch{name: b.name, remedy: b.remedy, server: server, taker: server, store: &store{
		server: server, readFirst: s.readFirst, mode: s.mode, noLimit: s.noLimit, noDepth: s.noDepth, noChanges: s.noChanges,
		head: s.head, root: s.root, prior: s.prior, fetched: s.fetched, objects: newObjects(s.readAhead),
	}}
}

// learn keeps what a branch aside has found out about the server.
func (b *Branch) learn(aside *Branch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server.Learn(aside.server)
}

// object returns an object that was read.
func (b *Branch) object(h plumbing.Hash) (rawObject, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store.get(h)
}

// HasBranch reports whether the repository has a branch of that name, with one request. HEAD and names
// that begin with refs/ are not names of branches, although Config.Branch accepts them.
func (b *Branch) HasBranch(ctx context.Context, name string) (bool, error) {
	if name == "HEAD" || strings.HasPrefix(name, "refs/") || plumbing.NewBranchReferenceName(name).Validate() != nil {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, b.server.Timeout)
	defer cancel()
	_, err := b.pollHead(ctx, name)
	if errors.Is(err, remote.ErrNoBranch) {
		return false, nil
	}
	if err != nil {
		return false, b.fail("reading", err)
	}
	return true, nil
}

// head returns the commit in the store.
func (b *Branch) head(ctx context.Context) branch.Head {
	return branch.Head{Commit: b.store.head.String(), Tree: &treeFS{branch: b, store: b.store, ctx: ctx, root: b.store.root}}
}

// refresh updates the store to the branch's head.
func (b *Branch) refresh(ctx context.Context) error {
	seen := b.seen
	b.seen = plumbing.ZeroHash
	if !seen.IsZero() && b.server.OverHTTP() {
		// A conflict has just returned this head: no further request is needed. (Other
		// protocols return it at the beginning of each fetch.)
		err := b.store.update(ctx, nil, seen)
		if !remote.RefusesRequest(err) {
			return err
		}
		b.store.reset() // it is incomplete
	}
	// Some hosts send only the current head, not the one that a client has just read: if the
	// branch has moved meanwhile, it is read again.
	const reads = 3
	for read := 1; ; read++ {
		head, err := b.readHead(ctx)
		if err == nil || read == reads || ctx.Err() != nil || head.IsZero() || remote.WaitOf(err) > 0 {
			return err
		}
		if at, failed := b.pollHead(ctx, b.name); failed != nil || at == head {
			return err
		}
		b.store.reset()
	}
}

// readHead updates the store to the branch's head, and returns the head, also with an error if the
// head is known.
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

// reset drops everything that was read, so that the next Head starts over.
func (b *Branch) reset() {
	b.seen = plumbing.ZeroHash
	b.server.Reset()
	b.taker.Reset()
	b.store.reset()
}

// fail returns an error as a Branch returns it.
func (b *Branch) fail(doing string, err error) error { return b.remedy(b.describe(doing, err)) }

// describe returns an error as a tree or a [PastTrees] returns it.
func (b *Branch) describe(doing string, err error) error {
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		err = fmt.Errorf("%w: push a first commit to branch %q", remote.ErrEmpty, b.name)
	}
	return b.server.Fail(doing, err)
}

// failPush returns an error of a push as a Branch returns it.
func (b *Branch) failPush(err error) error { return b.remedy(b.taker.Fail("pushing to", err)) }

// Config selects the branch and its repository, and the author. URL and
// Branch are required, and to push also AuthorName and AuthorEmail.
type Config struct {
	// URL is the repository's address in a form of git: an https, http, ssh, git or file URL,
	// user@host:path, or a path.
	URL string
	// PushURL is the address for pushes; empty means URL.
	PushURL string
	// Branch is the name of the branch, with or without refs/heads/. HEAD means the commit that
	// the repository has checked out, and can only be read, as a name that begins with refs/remotes/.
	Branch string
	// ReadAhead is a directory that is fetched, with everything below it, before it is read, and
	// kept. Everything else is fetched when it is read. Empty means no directory. It must be a path
	// that [branch.CheckPath] accepts, as must ReadFirst.
	ReadAhead string
	// ReadFirst are directories that the first fetch includes.
	ReadFirst []string
	// AuthorName and AuthorEmail are the author and committer of every commit.
	AuthorName, AuthorEmail string
	// Credentials authenticate client and server.
	Credentials remote.Credentials
	// Sign signs commits; nil leaves them unsigned.
	Sign Signer
	// Remedy adds a remedy to an error of the [Branch]; nil adds nothing.
	Remedy func(error) error
	// Timeout limits each exchange with the server; zero means two minutes.
	Timeout time.Duration
	// TempDir is a directory for packs larger than 4 MiB, in files without names. If it is empty
	// or no file can be made, packs are kept in memory, and a server without partial clone may
	// send at most 32 MiB.
	TempDir string
	// Log records each reason why reads are expensive once; nil discards.
	Log *slog.Logger
}

// DefaultTimeout replaces a Timeout of zero in a [Config].
const DefaultTimeout = 2 * time.Minute

// withDefaults sets defaults and validates the configuration.
func (c Config) withDefaults() (Config, error) {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Remedy == nil {
		c.Remedy = func(err error) error { return err }
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
