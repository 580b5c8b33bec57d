package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// maxCommits limits a history, whose identifiers are kept while it is read.
const maxCommits = 2_000_000

// Commits yields the commit from, or the branch's head if that is empty, and its ancestors, the newest
// first and each before its parents, up to the limit. An error is the last element.
//
// The commits are fetched in pages, without files if the server offers partial clone, and only one
// page is kept. The branch may be used meanwhile, also by the loop over the commits. A server that
// sends only heads refuses the next page if the branch has moved.
func (b *Branch) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		known := b
		b := b.aside()
		defer known.learn(b)
		if b.server.Address.Scheme == "file" {
			b.localHistory(ctx, from, limit, yield)
			return
		}
		h := &history{branch: b, external: known.object, ctx: ctx, step: firstPage, page: map[plumbing.Hash][]byte{}, known: map[plumbing.Hash]bool{}, edge: map[plumbing.Hash][]plumbing.Hash{}}
		if limit.Commits > 0 {
			h.step = min(h.step, limit.Commits)
		}
		if plumbing.IsHash(limit.Known) {
			h.since = plumbing.NewHash(limit.Known)
		}
		err := h.begin(from)
		for n := 0; err == nil && len(h.next) > 0; n++ {
			c := h.newest()
			switch {
			case limit.Commits > 0 && n == limit.Commits:
				return
			case n == maxCommits:
				yield(branch.Commit{}, b.fail("reading the history of", fmt.Errorf("it has more than %d commits: limit the range", maxCommits)))
				return
			}
			if !yield(c, nil) {
				return
			}
			if limit.Commits == 0 || n+1 < limit.Commits {
				err = h.follow(c)
			}
		}
		if err != nil {
			yield(branch.Commit{}, b.fail("reading the history of", b.moved(ctx, b.store.head, err)))
		}
	}
}

// localHistory yields the commits of a local repository.
func (b *Branch) localHistory(ctx context.Context, from string, limit branch.Limit, yield func(branch.Commit, error) bool) {
	fail := func(err error) { yield(branch.Commit{}, b.fail("reading the history of", err)) }
	head, err := b.startOf(ctx, from)
	if err != nil {
		fail(err)
		return
	}
	for c, err := range localCommits(ctx, b.server.Address.Path, head, limit.Commits) {
		if err != nil {
			fail(err)
			return
		}
		if !yield(c, nil) {
			return
		}
	}
}

// startOf returns the commit from, or the branch's head if that is empty.
func (b *Branch) startOf(ctx context.Context, from string) (plumbing.Hash, error) {
	if from != "" {
		return parseCommit(from)
	}
	ctx, cancel := context.WithTimeout(ctx, b.server.Timeout)
	defer cancel()
	return b.pollHead(ctx, b.name)
}

const (
	// firstPage and largestPage are the numbers of commits in the first page and in the largest.
	firstPage, largestPage = 64, 8192
	// smallPage and largePage are the sizes, in bytes, below and above which the
	// next page has more or fewer commits.
	smallPage, largePage = 256 << 10, 2 << 20
	// maxInPage is the number of objects above which a page of commits alone is
	// fetched again with fewer.
	maxInPage = 100_000
)

// filters returns the filters for commits, the best first: without trees and files, without files, and
// with everything.
func filters() []packp.Filter { return []packp.Filter{remote.Exact, "blob:none", ""} }

// history is one reading of a branch's history.
type history struct {
	branch *Branch // aside
	// external finds the base of a delta that is not in a page.
	external func(plumbing.Hash) (rawObject, bool)
	ctx      context.Context

	head         plumbing.Hash
	depth        int // the depth from head that was fetched
	fetchedDepth int // the depth that was fetched with the head
	step         int // the number of commits to fetch next
	given        int // the index of the filter that the server allows
	// single is set if a page must start with a single commit, because a pack of several
	// contained an oversized commit as a delta.
	single bool
	// unnamed reports whether the server refuses to start at a commit inside the history.
	unnamed bool
	ended   bool
	// since is excluded with its ancestors, until the commits after it are requested; zero means
	// no commit.
	since plumbing.Hash

	next  []branch.Commit                   // the queue of commits to yield, the newest last
	page  map[plumbing.Hash][]byte          // raw commits that are not yet in next
	known map[plumbing.Hash]bool            // commits that were fetched
	edge  map[plumbing.Hash][]plumbing.Hash // the missing parents of fetched commits
}

// begin fetches the first page.
func (h *history) begin(from string) error {
	b := h.branch
	var session transport.UploadPackSession
	if from == "" || b.server.Caps == nil {
		ctx, cancel := context.WithTimeout(h.ctx, b.server.Timeout)
		defer cancel()
		head, opened, err := b.server.HeadOf(ctx, b.name)
		if err != nil {
			return err
		}
		session, h.head = opened, head
		if session != nil {
			defer session.Close()
		}
	}
	if from != "" {
		var err error
		if h.head, err = parseCommit(from); err != nil {
			return err
		}
	}
	if !b.server.Caps.Supports(capability.Filter) {
		h.given = len(filters()) - 1
	}
	if h.head == b.store.head && (h.since.IsZero() || leads(b.store.fetched, h.head, h.since)) {
		h.add(b.store.fetched)
		h.fetchedDepth = h.levels()
	}
	if !h.known[h.head] {
		if err := h.fetch(session); err != nil {
			return err
		}
	}
	h.enqueue(h.head)
	return nil
}

// leads reports whether the commits form a line without merges from head to a child of
// since. With merges, some of them may be ancestors of since.
func leads(commits map[plumbing.Hash][]byte, head, since plumbing.Hash) bool {
	for raw := commits[head]; raw != nil; raw = commits[head] {
		parents := parentsOf(raw)
		if len(parents) != 1 {
			return false
		}
		if head = parents[0]; head == since {
			return true
		}
	}
	return false
}

// add adds commits that are not known yet.
func (h *history) add(commits map[plumbing.Hash][]byte) {
	for id, raw := range commits {
		if !h.known[id] {
			h.known[id] = true
			h.page[id] = slices.Clone(raw)
			h.edge[id] = parentsOf(raw)
		}
	}
	for id, parents := range h.edge {
		if h.edge[id] = slices.DeleteFunc(parents, func(parent plumbing.Hash) bool { return h.known[parent] }); len(h.edge[id]) == 0 {
			delete(h.edge, id)
		}
	}
}

// levels returns the depth from the head to which the history is complete, before any of it is
// queued.
func (h *history) levels() int {
	level := map[plumbing.Hash]bool{h.head: true}
	for n := 0; len(level) > 0; n++ {
		next := map[plumbing.Hash]bool{}
		for commit := range level {
			raw, here := h.page[commit]
			if !here {
				return n
			}
			for _, parent := range parentsOf(raw) {
				next[parent] = true
			}
		}
		level = next
	}
	return len(h.page)
}

// follow queues the parents of a commit, and fetches them if needed.
func (h *history) follow(c branch.Commit) error {
	for _, id := range c.Parents {
		parent := plumbing.NewHash(id)
		if !h.known[parent] && !h.ended {
			if err := h.fetchUntil(parent); err != nil {
				return err
			}
		}
		h.enqueue(parent)
	}
	return nil
}

// fetchUntil fetches pages until a commit is known, or there are no more: the server's own history may
// be shallow.
func (h *history) fetchUntil(commit plumbing.Hash) error {
	for !h.known[commit] && !h.ended {
		if err := h.fetch(nil); err != nil {
			return err
		}
	}
	return nil
}

// enqueue queues a commit, unless it is missing or was queued before.
func (h *history) enqueue(commit plumbing.Hash) {
	raw, ok := h.page[commit]
	if !ok {
		return
	}
	delete(h.page, commit)
	c := readCommit(commit, raw)
	at, _ := slices.BinarySearchFunc(h.next, c, func(a, b branch.Commit) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.ID, a.ID))
	})
	h.next = slices.Insert(h.next, at, c)
}

// newest removes the newest commit from the queue.
func (h *history) newest() branch.Commit {
	last := len(h.next) - 1
	c := h.next[last]
	h.next = h.next[:last]
	return c
}

// fetch fetches the next page. session is an open one to use first, or nil.
func (h *history) fetch(session transport.UploadPackSession) error {
	server := h.branch.server
	if !h.since.IsZero() {
		if done, err := h.fetchSince(); done || err != nil {
			return err
		}
	}
	for {
		q := remote.Request{Wants: []plumbing.Hash{h.head}, Filter: filters()[h.given]}
		if server.Caps.Supports(capability.Shallow) {
			q.Depth = h.depth + h.step
		}
		named := h.depth > 0 && h.fromWithin()
		switch {
		case named:
			q.Wants, q.Depth = h.missing(), h.step
			if h.single {
				q.Wants = q.Wants[:1]
			}
		case h.depth > 0:
			q.Have = h.head
			q.Edge = slices.Collect(maps.Keys(h.edge))
		}
		if q.Filter == remote.Exact && h.step > 1 {
			q.Max = maxInPage
		}
		answer, err := server.Fetch(h.ctx, session, q)
		session = nil
		switch {
		case errors.Is(err, remote.ErrFilter) && h.given < len(filters())-1:
			h.given++
			continue
		case errors.Is(err, remote.ErrTooMany):
			h.step = max(1, h.step/8)
			continue
		case errors.Is(err, remote.ErrNotOurs) && named:
			h.unnamed = true
			continue
		case errors.Is(err, remote.ErrNotOurs) && h.depth > 0:
			return fmt.Errorf("the branch has moved while it was read: read it again (%w)", err)
		case err != nil:
			return err
		}
		if named {
			q.Depth += h.depth
		}
		err = h.take(answer, q.Depth)
		if errors.Is(err, errLacksCommit) && (h.step > 1 || named && len(q.Wants) > 1) {
			h.single = h.step == 1
			h.step = 1 // a commit that comes alone is no delta
			h.depth = max(h.depth, h.fetchedDepth)
			continue
		}
		return err
	}
}

// fetchSince fetches the commits after since in one request. Otherwise a merge would be
// read back to where its branches parted. It returns false if the server does not have
// that commit any more, would send too much, or has nothing after it because the branch
// was reset to a commit before it.
func (h *history) fetchSince() (bool, error) {
	server := h.branch.server
	q := remote.Request{Wants: []plumbing.Hash{h.head}, Have: h.since, Closed: true, Max: largestPage}
	h.since = plumbing.ZeroHash
	for ; h.given < len(filters()) && !server.AlwaysThin; h.given++ {
		q.Filter = filters()[h.given]
		pack, err := server.Fetch(h.ctx, nil, q)
		if errors.Is(err, remote.ErrFilter) && h.given < len(filters())-1 {
			continue
		}
		refused := errors.Is(err, remote.ErrNotOurs) || remote.RefusesRequest(err)
		if refused || errors.Is(err, remote.ErrUnknownHave) || errors.Is(err, remote.ErrTooMany) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if server.AlwaysThin { // the response may contain deltas on objects that are missing here
			pack.Close()
			break
		}
		if err = h.take(pack, 0); errors.Is(err, errLacksCommit) || errors.Is(err, errLacksHead) {
			return false, nil
		}
		return true, err
	}
	return false, nil
}

// fromWithin reports whether the next page may start where this one ended. Otherwise it starts at the
// head, and the server walks over all commits again: the time grows with the square of the history.
func (h *history) fromWithin() bool {
	caps := h.branch.server.Caps
	return !h.unnamed && caps.Supports(capability.Shallow) && caps.Supports(capability.AllowReachableSHA1InWant)
}

// missing returns the commits that the next page starts with.
func (h *history) missing() []plumbing.Hash {
	missing := map[plumbing.Hash]bool{}
	for _, parents := range h.edge {
		for _, p := range parents {
			missing[p] = true
		}
	}
	return slices.Collect(maps.Keys(missing))
}

// errLacksCommit is returned if a commit is stored as a delta and is too large to be read.
var errLacksCommit = fmt.Errorf("a commit: %w", errTooLarge)

// errLacksHead is returned if a page lacks the commit that it starts at.
var errLacksHead = errors.New("the server did not send commit")

// take keeps the commits of a page with the given depth in commits; zero: all.
func (h *history) take(answer *remote.Download, depth int) error {
	p, err := indexPack(h.ctx, answer, h.external)
	if err != nil {
		return err
	}
	defer p.close()
	if p.lacksCommit() {
		return errLacksCommit
	}
	h.single = false
	before := len(h.known)
	commits := map[plumbing.Hash][]byte{}
	for id := range p.all() {
		o, ok, err := p.object(id)
		if err != nil {
			return err
		}
		if ok && o.kind == plumbing.CommitObject {
			commits[id] = o.data
		}
	}
	h.add(commits)
	if !h.known[h.head] {
		return fmt.Errorf("%w %s", errLacksHead, h.head)
	}
	h.ended = depth == 0 || len(h.edge) == 0 || len(h.known) == before
	h.depth = depth
	switch {
	case answer.Size < smallPage:
		h.step = min(h.step*4, largestPage)
	case answer.Size > largePage:
		h.step = max(1, h.step/4)
	}
	return nil
}
