package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"muster/gitops/git/remote"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// mode is how much must be fetched to read a file, which depends on the server.
type mode int

const (
	// partial fetches single objects by name.
	partial mode = iota
	// shallow fetches one commit with everything in it.
	shallow
	// whole fetches all of the branch's history.
	whole
)

// chooseMode selects the cheapest mode that the server supports.
func (s *store) chooseMode() {
	offers := s.server.Caps.Supports
	if s.mode == partial && (!offers(capability.Filter) || !offers(capability.AllowReachableSHA1InWant)) {
		s.fallBack(shallow, "the server does not offer partial clone ("+s.server.Enabling()+")")
	}
	if s.mode == shallow && !offers(capability.Shallow) {
		s.fallBack(whole, "the server does not offer shallow clone")
	}
}

// fallBack selects a more expensive mode, and logs the reason.
func (s *store) fallBack(to mode, reason string) {
	s.mode = to
	text := "fetching each commit whole, which costs time and memory"
	if to == whole {
		text = "fetching the whole history, which costs time and memory"
	}
	s.server.Log.Warn(text, "repository", s.server.Address.String(), "reason", s.server.Printable(reason))
}

// store contains the objects of one commit that were read. It fetches missing ones from
// the server.
type store struct {
	server *remote.Connection
	// readFirst are directories that the first fetch includes.
	readFirst []string

	mode    mode
	noLimit bool // the server refuses the filter by size
	noDepth bool // the server refuses the filter by depth
	// noChanges reports whether the server refuses requests for the changes since a commit, but
	// sends the commit.
	noChanges bool
	fewer     int // how often the size of a batch is halved

	head  plumbing.Hash // the commit of the objects, if any
	root  plumbing.Hash // its tree
	prior plumbing.Hash // its first parent; zero if it has none
	// fetched are the raw commits that were fetched with the head: it, and those since the head
	// before, if they are few.
	fetched   map[plumbing.Hash][]byte
	heapLimit heapLimit // of what is read
	objects

	// pastTrees are the [PastTrees] of the store; nil if it is a branch's.
	pastTrees *PastTrees
}

// reset drops everything, so that the next update starts from nothing.
func (s *store) reset() {
	s.head, s.root, s.prior, s.fetched = plumbing.ZeroHash, plumbing.ZeroHash, plumbing.ZeroHash, nil
	s.base.close()
	s.objects = newObjects(s.readAhead)
}

// update replaces the objects with those of a new head. session is an open session to use first, or nil.
func (s *store) update(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	if s.server.Caps == nil {
		return errors.New("the server's capabilities are unknown")
	}
	if s.head.IsZero() {
		return s.start(ctx, session, head)
	}
	if s.noChanges {
		s.clear()
		return s.start(ctx, session, head)
	}
	err := s.fetchChanges(ctx, session, head)
	if err == nil || ctx.Err() != nil {
		return err
	}
	s.server.Log.Debug("fetching the changes failed, fetching the whole commit", "reason", s.server.Printable(err.Error()))
	s.clear()
	refused := remote.RefusesRequest(err)
	if err = s.start(ctx, nil, head); err == nil {
		s.noChanges = refused
	}
	return err
}

// start fetches a head without previous objects.
func (s *store) start(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	s.chooseMode()
	var refused error
	if s.mode == partial {
		refused = s.startPartial(ctx, session, head)
		if !errors.Is(refused, remote.ErrFilter) && !errors.Is(refused, remote.ErrNotOurs) {
			return refused
		}
		session = nil
	}
	q := remote.Request{Wants: []plumbing.Hash{head}}
	if s.server.Caps.Supports(capability.Shallow) {
		q.Depth = 1
	}
	answer, err := s.server.Fetch(ctx, session, q)
	if err != nil {
		return err
	}
	if refused != nil { // only with a filter
		s.fallBack(shallow, refused.Error())
		s.chooseMode()
	}
	s.base, err = indexPack(ctx, answer, nil)
	if err != nil {
		return err
	}
	s.noteLarge(s.base)
	commit, ok, err := s.base.object(head)
	if err != nil {
		return fmt.Errorf("reading commit %s: %w", head, err)
	}
	if !ok {
		return fmt.Errorf("the server did not send commit %s", head)
	}
	return s.moveTo(head, commit.data)
}

// fetchChanges fetches the changes since the store's head.
func (s *store) fetchChanges(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	// No depth: with one, a server examines every file of the new commit. The store's head is
	// declared shallow, so that only its descendants are sent. The limit is for a head that is no
	// descendant.
	const many = 50_000
	q := s.since(remote.Request{Wants: []plumbing.Hash{head}, Max: many})
	if s.mode == partial {
		q.Filter = s.smallFiles()
	}
	commit, err := s.fetchCommit(ctx, session, head, q, &s.noLimit, "")
	if err != nil {
		return err
	}
	return s.moveTo(head, commit)
}

// fetchCommit fetches the head and the other objects of the request, and returns
// the raw commit. If the server refuses the filter, fetchCommit retries once with
// the other filter, and sets refused if that succeeds.
func (s *store) fetchCommit(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash, q remote.Request, refused *bool, other packp.Filter) ([]byte, error) {
	answer, err := s.server.Fetch(ctx, session, q)
	if errors.Is(err, remote.ErrFilter) && !*refused {
		q.Filter = other
		answer, err = s.server.Fetch(ctx, nil, q)
		*refused = err == nil // otherwise the status was about something else
	}
	if err != nil {
		return nil, err
	}
	return s.take(ctx, answer, head)
}

// since adds to a request that the objects of the store's head are not needed.
func (s *store) since(q remote.Request) remote.Request {
	q.Have, q.Shallow = s.head, s.mode != whole
	return q
}

// moveTo makes head the store's head and drops objects that it does not need. commit is the raw commit.
func (s *store) moveTo(head plumbing.Hash, commit []byte) error {
	root, err := rootOf(commit)
	if err != nil {
		return err
	}
	first := s.head.IsZero()
	s.head, s.root = head, root
	s.prior = parentOf(commit)
	if s.fetched[head] == nil {
		s.fetched = map[plumbing.Hash][]byte{head: slices.Clone(commit)}
	}
	if !first {
		s.prune(root)
	}
	return nil
}

// take adds the objects of a pack and returns one of its commits.
func (s *store) take(ctx context.Context, answer *remote.Download, head plumbing.Hash) ([]byte, error) {
	commits, err := s.takeAll(ctx, answer)
	if err != nil {
		return nil, err
	}
	commit, ok := commits[head]
	if !ok {
		return nil, fmt.Errorf("the server did not send commit %s", head)
	}
	s.fetched = nil
	if size(commits) <= maxFetched && len(commits) < firstPage {
		s.fetched = commits
	}
	return commit, nil
}

// maxFetched limits the commits that are kept of a response, in bytes.
const maxFetched = 256 << 10

func size(objects map[plumbing.Hash][]byte) int {
	n := 0
	for _, raw := range objects {
		n += len(raw)
	}
	return n
}

// takeAll adds the objects of a pack, preferably those wanted, and returns its raw commits.
func (s *store) takeAll(ctx context.Context, answer *remote.Download, wanted ...plumbing.Hash) (map[plumbing.Hash][]byte, error) {
	p, err := indexPack(ctx, answer, s.get)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return s.add(p, wanted)
}

// tree returns a tree, and fetches it if needed.
func (s *store) tree(ctx context.Context, h plumbing.Hash) (*tree, error) {
	if t, ok := s.trees[h]; ok {
		return t, nil
	}
	raw, err := s.object(ctx, h, plumbing.TreeObject)
	if err != nil {
		return nil, err
	}
	t, err := parseTree(raw)
	if err != nil {
		return nil, err
	}
	s.addTree(h, t)
	return t, nil
}

// object returns the content of an object, and fetches it if needed.
func (s *store) object(ctx context.Context, h plumbing.Hash, kind plumbing.ObjectType) ([]byte, error) {
	raw, ok := s.get(h)
	if !ok {
		if err := s.readable(h); err != nil {
			return nil, err
		}
		if err := s.fetchMissing(ctx, []plumbing.Hash{h}); err != nil {
			return nil, err
		}
		if err := s.readable(h); err != nil {
			return nil, err
		}
		if raw, ok = s.get(h); !ok {
			return nil, fmt.Errorf("the server did not send %s %s", kind, h)
		}
	}
	if raw.kind != kind {
		return nil, fmt.Errorf("object %s is a %s, not a %s", h, raw.kind, kind)
	}
	return raw.data, nil
}

// fetchMissing fetches single objects. If the server does not send them, it fetches the whole commit
// again, as after a change in a directory that was not in use.
func (s *store) fetchMissing(ctx context.Context, hashes []plumbing.Hash) error {
	if s.pastTrees != nil {
		return s.pastTrees.fetchMissing(ctx, hashes)
	}
	if s.mode != partial {
		head := s.head
		s.clear()
		s.head = plumbing.ZeroHash
		return s.start(ctx, nil, head)
	}
	answer, err := s.server.Fetch(ctx, nil, byName(hashes))
	if err != nil {
		return err
	}
	_, err = s.takeAll(ctx, answer, hashes...)
	return err
}

// byName returns a request for single objects. A server may send some more.
func byName(hashes []plumbing.Hash) remote.Request {
	const unasked = 100
	return remote.Request{Wants: hashes, Filter: remote.Exact, Max: uint32(len(hashes)) + unasked}
}

// readable returns why an object cannot be read, if it is known to be
// too large; otherwise nil.
func (s *store) readable(h plumbing.Hash) error {
	size, large := s.large[h]
	switch {
	case large && size > 0:
		return fmt.Errorf("%w: it has %d bytes", errTooLarge, size)
	case large:
		return errTooLarge
	}
	return nil
}

// adopt makes a pushed commit the store's head.
func (s *store) adopt(b *builder, head, root plumbing.Hash) {
	s.adoptTree(b, root)
	maps.Copy(s.blobs, b.files)
	s.head, s.root, s.prior, s.fetched = head, root, s.head, nil
	s.prune(root)
}

// adoptTree adds the new trees below h: only those of the last commit of a chain, since all of them can
// exceed what is kept.
func (s *store) adoptTree(b *builder, h plumbing.Hash) {
	t, made := b.fresh[h]
	if !made {
		return
	}
	delete(b.fresh, h)
	s.addTree(h, t)
	for i := range t.len() {
		if t.isDir(i) {
			s.adoptTree(b, t.hash(i))
		}
	}
}
