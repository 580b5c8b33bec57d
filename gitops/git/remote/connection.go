// Package remote is a connection to a git server: its address and credentials, the transports
// (http, ssh, git, a path), fetching, and what hosts do differently.
package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
)

// Connection is a connection to a git server: address, credentials, and what the server supports. One
// goroutine uses it at a time.
type Connection struct {
	Address     branch.Address
	Credentials Credentials
	Timeout     time.Duration
	Log         *slog.Logger
	TempDir     string // where large packs are kept; empty: in memory
	Secrets     secrets
	login       *login // that of the netrc file or the credential helper, if any
	wrong       *login // that of the file, if the server has rejected it
	refused     bool   // the server has rejected a login of the file or the helper
	sent        string // the password of the last session

	Traffic  *Counter
	pool     pool
	base     string           // of the URLs of HTTP requests, after redirects; empty if unknown
	Caps     *capability.List // the server's capabilities for reading; nil if unknown
	local    []string         // settings for a local repository; nil if unknown
	manyRefs bool             // listing all of the server's refs is slow
	// AlwaysThin reports that the server requires thin-pack, even if no deltas against local
	// objects are wanted.
	AlwaysThin bool
	failures   int       // consecutive failures of version 2 of the protocol
	noPlace    sync.Once // logs that large packs are kept in memory
}

// Fork returns a connection to the same server for another goroutine. Connections over http are shared.
func (c *Connection) Fork() *Connection {
	f := &Connection{
		Address: c.Address, Credentials: c.Credentials, Timeout: c.Timeout, Log: c.Log, TempDir: c.TempDir, Traffic: c.Traffic, pool: c.pool,
		Secrets: secrets{slices.Clone(c.Secrets.list), c.Secrets.Address}, wrong: c.wrong, refused: c.refused,
		base: c.base, Caps: c.Caps, local: c.local, manyRefs: c.manyRefs, AlwaysThin: c.AlwaysThin, failures: c.failures,
	}
	if c.login != nil {
		login := *c.login
		f.login = &login
	}
	return f
}

// Learn keeps what a fork has found out about the server.
func (c *Connection) Learn(fork *Connection) {
	c.AlwaysThin = c.AlwaysThin || fork.AlwaysThin
	if c.Caps == nil {
		c.Caps, c.base, c.manyRefs, c.login = fork.Caps, fork.base, fork.manyRefs, fork.login
	}
}

// Neighbor returns a connection to the address with a suffix, on the same server and with the same password. A
// credential helper is not notified if the server rejects the password there.
func (c *Connection) Neighbor(suffix string) (*Connection, error) {
	f := c.Fork()
	f.Reset()
	f.Caps = nil
	if f.login != nil {
		f.Credentials.Password, f.login = StaticPassword(f.login.username, f.login.password), nil
	}
	f.Credentials.Refused, f.Credentials.Helper = nil, nil
	without := func(address string) string { return strings.TrimSuffix(strings.TrimSuffix(address, "/"), ".git") }
	if !c.OverHTTP() {
		f.Address.Path = without(c.Address.Path) + suffix
		return f, nil
	}
	address, err := branch.ParseAddress(without(c.Address.Base()) + suffix)
	address.User, address.Password = c.Address.User, c.Address.Password
	f.Address = address
	return f, err
}

// Reset drops redirects, so that the next session starts at the address again, in version 0 of the
// protocol.
func (c *Connection) Reset() { c.base, c.manyRefs = "", false }

// OverHTTP reports whether the server is reached over http or https.
func (c *Connection) OverHTTP() bool {
	return strings.HasPrefix(c.Address.Scheme, "http")
}

// openUpload opens a session for reading, which the caller closes.
func (c *Connection) openUpload(ctx context.Context) (transport.UploadPackSession, error) {
	if c.OverHTTP() {
		return c.openHTTPUpload(ctx)
	}
	return c.openStream(ctx, transport.UploadPackServiceName, "")
}

// openReceive opens a session for writing, which the caller closes.
func (c *Connection) openReceive(ctx context.Context) (transport.ReceivePackSession, error) {
	if c.OverHTTP() {
		return c.openHTTPReceive(ctx)
	}
	return c.openStream(ctx, transport.ReceivePackServiceName, "")
}

// Advertised opens a session for writing, which the caller closes, and returns the server's
// advertisement.
func (c *Connection) Advertised(ctx context.Context) (session transport.ReceivePackSession, adv *packp.AdvRefs, err error) {
	err = c.authenticated(ctx, func() error {
		if session, err = c.openReceive(ctx); err != nil {
			return err
		}
		if adv, err = session.AdvertisedReferencesContext(ctx); err != nil {
			session.Close()
		}
		return Plain(err)
	})
	return session, adv, err
}

// HeadOf returns the head of a branch and the session in which it was read. The caller uses and
// closes the session. The session is nil if the request was for that branch alone.
func (c *Connection) HeadOf(ctx context.Context, name string) (head plumbing.Hash, session transport.UploadPackSession, err error) {
	err = c.authenticated(ctx, func() error {
		head, session, err = c.askHead(ctx, name)
		return err
	})
	return head, session, err
}

func (c *Connection) askHead(ctx context.Context, branch string) (plumbing.Hash, transport.UploadPackSession, error) {
	if head, ok := c.lsRefs(ctx, branch); ok {
		return head, nil, nil
	}
	session, err := c.openUpload(ctx)
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	adv, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		session.Close()
		return plumbing.ZeroHash, nil, Plain(err)
	}
	head, err := FindBranch(adv, branch)
	if err != nil {
		session.Close()
		return plumbing.ZeroHash, nil, err
	}
	c.Caps, c.manyRefs = adv.Capabilities, len(adv.References) > longList
	return head, session, nil
}

// checkedOut is the name of the commit that a clone has checked out, with or without a branch: clones
// of CI have none.
const checkedOut = "HEAD"

// ErrNoBranch is returned if a repository has branches, but not the requested one.
var ErrNoBranch = errors.New("the repository has no branch")

// FindBranch returns the head of a branch among the refs that a server lists.
func FindBranch(adv *packp.AdvRefs, branch string) (plumbing.Hash, error) {
	if branch == checkedOut && adv.Head != nil {
		return *adv.Head, nil
	}
	if head, ok := adv.References["refs/heads/"+branch]; ok {
		return head, nil
	}
	if head, ok := adv.References[branch]; ok && strings.HasPrefix(branch, "refs/remotes/") {
		return head, nil
	}
	var others []string
	for name := range adv.References {
		if short, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			others = append(others, short)
		}
	}
	if len(others) == 0 {
		return plumbing.ZeroHash, transport.ErrEmptyRemoteRepository
	}
	slices.Sort(others)
	shown, more := others, ""
	if len(shown) > 5 {
		shown, more = shown[:5], fmt.Sprintf(" and %d more", len(others)-5)
	}
	return plumbing.ZeroHash, fmt.Errorf("%w %q; it has %s%s: use one of them, or create it with git push origin HEAD:%s",
		ErrNoBranch, branch, strings.Join(shown, ", "), more, branch)
}
