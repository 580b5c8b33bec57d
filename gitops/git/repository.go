package git

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
)

// Branch is one branch of one remote. It keeps the tip's commit and the objects
// of the directories in use, and nothing of the rest. It may be used from several goroutines, which then take turns.
type Branch struct {
	config  Config
	address address

	mu       sync.Mutex
	endpoint *transport.Endpoint // where http requests go, after redirects
	caps     *capability.List    // what the server offers for reading
	mode     mode
	noLimit  bool // the server refuses the filter by size
	noDepth  bool // the server refuses the filter by depth
	crowded  bool // the server has a long list of refs
	troubles int  // how often in a row asking in version 2 has failed

	head  plumbing.Hash // the commit that the objects are of; zero: none
	root  plumbing.Hash // its tree
	ahead plumbing.Hash // the tip as a lost race showed it, for the next Tip
	objects

	secretsMu sync.Mutex
	secrets   []string

	poolMu          sync.Mutex
	pool            *http.Transport
	poolAuthorities string
}

// mode is how much must be fetched to read a little.
type mode int

const (
	// partial fetches single objects by name.
	partial mode = iota
	// shallow fetches one commit with everything in it.
	shallow
	// whole fetches all of the branch's history.
	whole
)

// New checks the configuration and returns the repository. It does not
// connect to anything.
func New(c Config) (*Branch, error) {
	address, err := parseAddress(c.URL)
	if err != nil {
		return nil, err
	}
	c.URL = ""
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	if address.endpoint.Protocol == "ssh" {
		if c.Credentials.SSHKeyFile == "" {
			return nil, ErrNoSSHKey
		}
		if c.Credentials.SSHKnownHostsFile == "" {
			return nil, ErrNoKnownHosts
		}
	}
	r := &Branch{config: c, address: address}
	r.remember(address.password)
	r.reset()
	return r, nil
}

// String is the repository's address without anything secret.
func (r *Branch) String() string { return r.address.String() }

// reset forgets everything that was read, so that the next Tip starts over.
func (r *Branch) reset() {
	r.head, r.root, r.ahead = plumbing.ZeroHash, plumbing.ZeroHash, plumbing.ZeroHash
	r.objects = newObjects()
	r.endpoint = nil
}

// Tip returns the commit at the branch's head and what it holds. While the
// head has not moved that is one request. The tree reads lazily, with ctx.
func (r *Branch) Tip(ctx context.Context) (branch.Tip, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refresh(ctx); err != nil {
		r.reset()
		return branch.Tip{}, r.fail("reading", err)
	}
	return r.tip(ctx), nil
}

// tip is what is held, as callers see it.
func (r *Branch) tip(ctx context.Context) branch.Tip {
	return branch.Tip{Commit: r.head.String(), Tree: &treeFS{r: r, ctx: ctx, root: r.root}}
}

// refresh makes the branch's head, and what is read ahead of it, present.
func (r *Branch) refresh(ctx context.Context) error {
	if head := r.ahead; !head.IsZero() && r.overHTTP() {
		// A lost race has just shown it: no need to ask again.
		r.ahead = plumbing.ZeroHash
		return r.advance(ctx, nil, head)
	}
	r.ahead = plumbing.ZeroHash
	bounded, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	if head, ok := r.glance(bounded); ok {
		if head == r.head {
			return nil
		}
		return r.advance(ctx, nil, head)
	}
	session, err := r.openUpload(bounded)
	if err != nil {
		return err
	}
	defer session.Close()
	adv, err := session.AdvertisedReferencesContext(bounded)
	if err != nil {
		return err
	}
	head, err := r.branch(adv)
	if err != nil {
		return err
	}
	r.caps, r.crowded = adv.Capabilities, len(adv.References) > longList
	if head == r.head {
		return nil
	}
	return r.advance(ctx, session, head)
}

// branch finds the branch's head among what a server advertises.
func (r *Branch) branch(adv *packp.AdvRefs) (plumbing.Hash, error) {
	if head, ok := adv.References["refs/heads/"+r.config.Branch]; ok {
		return head, nil
	}
	var others []string
	for name := range adv.References {
		if short, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			others = append(others, short)
		}
	}
	if len(others) == 0 {
		return plumbing.ZeroHash, ErrEmpty
	}
	slices.Sort(others)
	shown, more := others, ""
	if len(shown) > 5 {
		shown, more = shown[:5], fmt.Sprintf(" and %d more", len(others)-5)
	}
	return plumbing.ZeroHash, fmt.Errorf("the repository has no branch %q; it has %s%s: name one of them, or make it with git push origin HEAD:%s",
		r.config.Branch, strings.Join(shown, ", "), more, r.config.Branch)
}
