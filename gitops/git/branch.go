package git

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
	"muster/gitops/traffic"
)

// Branch is one branch of one remote repository. It keeps the commit at its
// head and the objects of the directories in use, and nothing of the rest. It
// may be used from several goroutines, which then take turns.
type Branch struct {
	name   string
	author author

	mu     sync.Mutex // locked while the fields below are used
	server *connection
	taker  *connection // of pushes; mostly the server
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
		taker.traffic = server.traffic
	}
	return &Branch{
		name:   c.Branch,
		author: author{name: c.AuthorName, email: c.AuthorEmail, sign: c.Sign},
		server: server,
		taker:  taker,
		store:  &store{server: server, readFirst: c.ReadFirst, objects: newObjects(c.ReadAhead)},
	}, nil
}

// connect checks what an address needs, and connects to nothing yet.
func (c Config) connect(url string) (*connection, error) {
	address, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	if address.endpoint.Protocol == "ssh" && c.Credentials.SSHProgram == nil {
		if c.Credentials.SSHKeyFile == "" && c.Credentials.SSHAgent == "" {
			return nil, ErrNoSSHKey
		}
		if c.Credentials.SSHKnownHostsFile == "" {
			return nil, ErrNoKnownHosts
		}
	}
	server := &connection{address: address, credentials: c.Credentials, timeout: c.Timeout, tempDir: c.TempDir, log: c.Log, traffic: &traffic.Counter{}}
	server.secrets.add(address.password)
	server.secrets.address = address.query()
	return server, nil
}

// String is the repository's address without anything secret.
func (b *Branch) String() string { return b.server.address.String() }

// Stats returns what was exchanged with the server. It waits for nobody.
func (b *Branch) Stats() traffic.Stats { return b.server.traffic.Stats() }

// Tip returns the commit at the branch's head and its files. While the
// head has not moved that is one request. The tree reads lazily, with ctx; it
// implements [io/fs.ReadFileFS], [io/fs.ReadDirFS] and [io/fs.StatFS], and the
// entries of its directories have a method Identity() string: the identifier of
// the content, for which nothing is read.
//
// Its errors include [ErrNoPassword], [ErrEmpty] and, when the server does not
// answer in time, [context.DeadlineExceeded].
func (b *Branch) Tip(ctx context.Context) (branch.Tip, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(ctx); err != nil {
		b.reset()
		return branch.Tip{}, b.fail("reading", err)
	}
	return b.tip(ctx), nil
}

// tip returns the commit in the store, as callers see it.
func (b *Branch) tip(ctx context.Context) branch.Tip {
	return branch.Tip{Commit: b.store.head.String(), Tree: &treeFS{branch: b, store: b.store, ctx: ctx, root: b.store.root}}
}

// refresh brings the store to the branch's head.
func (b *Branch) refresh(ctx context.Context) error {
	seen := b.seen
	b.seen = plumbing.ZeroHash
	if !seen.IsZero() && b.server.overHTTP() {
		// A lost race has just shown it: no need to ask again. (Over anything
		// else asking costs nothing, as a fetch begins with it.)
		err := b.store.update(ctx, nil, seen)
		var a *answer
		if !errors.As(err, &a) || !a.refusesRequest() {
			return err
		}
		b.store.reset() // what was here is incomplete
	}
	// Some hosts send what a branch is at, and nothing that it was at when a client read
	// it a moment ago (Dulwich): where it has moved meanwhile, it is read again.
	const reads = 3
	for read := 1; ; read++ {
		head, err := b.readHead(ctx)
		if err == nil || read == reads || ctx.Err() != nil || head.IsZero() || waitOf(err) > 0 {
			return err
		}
		if at, failed := b.look(ctx); failed != nil || at == head {
			return err
		}
		b.store.reset()
	}
}

// readHead brings the store to the branch's head, and returns that as far as it is known.
func (b *Branch) readHead(ctx context.Context) (plumbing.Hash, error) {
	bounded, cancel := context.WithTimeout(ctx, b.server.timeout)
	defer cancel()
	head, session, err := b.server.headOf(bounded, b.name)
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

// reset forgets everything that was read, so that the next Tip starts over.
func (b *Branch) reset() {
	b.seen = plumbing.ZeroHash
	b.server.reset()
	b.taker.reset()
	b.store.reset()
}

// fail is how every error leaves a Branch.
func (b *Branch) fail(doing string, err error) error {
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		err = fmt.Errorf("%w: push a first commit to branch %q", ErrEmpty, b.name)
	}
	return b.server.fail(doing, err)
}

// failPush is how an error of a push leaves a Branch.
func (b *Branch) failPush(err error) error { return b.taker.fail("pushing to", err) }
