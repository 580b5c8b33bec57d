package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

const (
	// maxEdits limits the listed files of a commit.
	maxEdits = 200
	// maxWants is the maximum number of objects in a request.
	maxWants = 1000
	// deepestEdit is the maximum depth of directories.
	deepestEdit = 16
	// maxRefused is the number of refused objects after which the client stops requesting.
	maxRefused = 16
	// largestEdit is the size in bytes up to which the content of a file is returned.
	largestEdit = 64 << 10
)

// Edits returns the differences between commits and their first parents, in the order of the commits.
// It fetches trees level by level, and then files, for all commits together: some six requests for any
// number of commits. trees maps the identifiers of known commits to those of their trees; other
// parents are fetched. Edits keeps nothing.
//
// If a commit cannot be compared, its Edits contain the reason. The error is the server's.
func (b *Branch) Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Selection) ([]branch.Edits, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.edits(ctx, commits, trees, look)
	if err != nil {
		return nil, b.fail("reading earlier commits of", err)
	}
	return all, nil
}

func (b *Branch) edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Selection) ([]branch.Edits, error) {
	for _, dir := range look.Below {
		if err := branch.CheckPath(dir); err != nil {
			return nil, err
		}
	}
	if b.server.Caps != nil {
		b.store.chooseMode()
	} else if err := b.refresh(ctx); err != nil {
		return nil, err
	}
	from := &objectReader{branch: b, store: b.store, here: map[plumbing.Hash]rawObject{}, named: b.store.mode == partial}
	defer func() { from.whole.close() }()
	c := comparison{ctx: ctx, from: from, selection: look, edits: make([]branch.Edits, len(commits))}
	if err := c.begin(commits, trees); err != nil {
		return nil, err
	}
	for depth := 0; len(c.next) > 0 && depth < deepestEdit; depth++ {
		if err := c.descend(); err != nil {
			return nil, err
		}
	}
	for _, p := range c.next {
		c.edits[p.commit].More = true
	}
	if err := c.contents(); err != nil {
		return nil, err
	}
	for _, e := range c.edits {
		slices.SortFunc(e.Files, func(a, b branch.Edit) int { return cmp.Compare(a.Path, b.Path) })
	}
	return c.edits, nil
}

// comparison is one call of Edits.
type comparison struct {
	ctx       context.Context
	from      *objectReader
	selection branch.Selection
	edits     []branch.Edits
	next      []treePair
	files     []filePair
}

// treePair is a directory before and after a commit, which differ; zero if absent.
type treePair struct {
	commit        int
	dir           string
	before, after plumbing.Hash
}

// filePair is a file before and after a commit; edit is its index in the list.
type filePair struct {
	commit, edit  int
	before, after plumbing.Hash
}

// begin pairs the trees of the commits with those of their first parents.
func (c *comparison) begin(commits []branch.Commit, trees map[string]string) error {
	own := map[string]string{}
	for _, x := range commits {
		own[x.ID] = x.Tree
	}
	parent := func(x branch.Commit) string { return cmp.Or(own[x.Parents[0]], trees[x.Parents[0]]) }
	var missing []plumbing.Hash
	for _, x := range commits {
		if len(x.Parents) > 0 && parent(x) == "" {
			missing = append(missing, plumbing.NewHash(x.Parents[0]))
		}
	}
	found, err := c.from.roots(c.ctx, missing)
	if err != nil {
		return err
	}
	for i, x := range commits {
		p := treePair{commit: i, after: plumbing.NewHash(x.Tree)}
		if len(x.Parents) > 0 {
			p.before = plumbing.NewHash(parent(x))
			if root, ok := found[plumbing.NewHash(x.Parents[0])]; ok {
				p.before = root
			}
			if p.before.IsZero() {
				c.edits[i].Unknown = errNoParent
				continue
			}
		}
		switch {
		case x.Tree == "":
			c.edits[i].Unknown = errors.New("the commit is damaged")
		case p.before != p.after:
			c.next = append(c.next, p)
		}
	}
	return nil
}

// errNoParent is the reason why a commit without a parent cannot be compared.
var errNoParent = errors.New("the commit before it is not in this repository, which is a shallow clone")

// descend descends one level in all commits.
func (c *comparison) descend() error {
	var wanted []plumbing.Hash
	for _, p := range c.next {
		wanted = append(wanted, p.before, p.after)
	}
	if err := c.from.fetch(c.ctx, wanted); err != nil {
		return err
	}
	level := c.next
	c.next = nil
	for _, p := range level {
		if err := c.compare(p); err != nil {
			c.edits[p.commit].Unknown = cmp.Or(c.edits[p.commit].Unknown, err)
		}
	}
	return nil
}

// compare finds what differs in one directory.
func (c *comparison) compare(p treePair) error {
	before, err := c.from.tree(p.before)
	if err != nil {
		return err
	}
	after, err := c.from.tree(p.after)
	if err != nil {
		return err
	}
	for x := range pairs(before, after) {
		c.differs(p, x.name, x.dir, x.before.hash, x.after.hash)
	}
	return nil
}

// differs records a name of a directory if it is selected and its content has changed. A change of
// the mode is ignored.
func (c *comparison) differs(p treePair, name string, dir bool, before, after plumbing.Hash) {
	full := join(p.dir, name)
	inside := slices.ContainsFunc(c.selection.Below, func(top string) bool { return below(full, top) })
	leads := dir && slices.ContainsFunc(c.selection.Below, func(top string) bool { return below(top, full) })
	list := &c.edits[p.commit]
	switch {
	case before == after || !inside && !leads || branch.CheckPath(full) != nil:
	case dir:
		c.next = append(c.next, treePair{p.commit, full, before, after})
	case len(list.Files) == maxEdits:
		list.More = true
	default:
		list.Files = append(list.Files, branch.Edit{Path: full, Added: before.IsZero(), Removed: after.IsZero()})
		if c.selection.Content != nil && c.selection.Content(full) {
			c.files = append(c.files, filePair{p.commit, len(list.Files) - 1, before, after})
		}
	}
}

// contents reads the selected files.
func (c *comparison) contents() error {
	var wanted []plumbing.Hash
	for _, f := range c.files {
		wanted = append(wanted, f.before, f.after)
	}
	if err := c.from.fetch(c.ctx, wanted); err != nil {
		return err
	}
	for _, f := range c.files {
		e := &c.edits[f.commit].Files[f.edit]
		e.Before, e.After = c.from.file(f.before), c.from.file(f.after)
	}
	return nil
}

// objectReader reads objects of earlier commits. It fetches single objects if the server sends them,
// and otherwise the last commits with everything in them.
type objectReader struct {
	branch *Branch
	store  *store
	named  bool // the server sends single objects
	here   map[plumbing.Hash]rawObject
	whole  *pack
	all    bool // whole has all commits that the server sends
	// refused counts the objects that the server has refused to send.
	refused int
}

// roots returns the trees of those commits that the server has.
func (r *objectReader) roots(ctx context.Context, commits []plumbing.Hash) (map[plumbing.Hash]plumbing.Hash, error) {
	if err := r.fetch(ctx, commits); err != nil {
		return nil, err
	}
	found := map[plumbing.Hash]plumbing.Hash{}
	for _, h := range commits {
		if o, ok := r.object(h); ok && o.kind == plumbing.CommitObject {
			if root, err := rootOf(o.data); err == nil {
				found[h] = root
			}
		}
	}
	return found, nil
}

// fetch fetches missing objects. An object that the server does not send is left out, without an
// error.
func (r *objectReader) fetch(ctx context.Context, hashes []plumbing.Hash) error {
	var missing []plumbing.Hash
	asked := map[plumbing.Hash]bool{plumbing.ZeroHash: true}
	for _, h := range hashes {
		if _, ok := r.object(h); !ok && !asked[h] {
			asked[h] = true
			missing = append(missing, h)
		}
	}
	if !r.named {
		return r.fetchWhole(ctx, missing)
	}
	for some := range slices.Chunk(missing, maxWants) {
		err := r.fetchNamed(ctx, some)
		if errors.Is(err, remote.ErrFilter) {
			r.named = false
			return r.fetch(ctx, hashes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchNamed fetches single objects. If the server refuses or has too much to send,
// it retries with each half of them, down to the single objects that cannot be fetched.
func (r *objectReader) fetchNamed(ctx context.Context, hashes []plumbing.Hash) error {
	if r.refused > maxRefused {
		return nil
	}
	q := byName(hashes)
	if r.store.server.Caps.Supports(capability.Shallow) {
		q.Depth = 1 // without the ancestors of a commit
	}
	answer, err := r.store.server.Fetch(ctx, nil, q)
	switch {
	case (errors.Is(err, remote.ErrTooMany) || errors.Is(err, remote.ErrNotOurs)) && len(hashes) > 1:
		half := len(hashes) / 2
		if err := r.fetchNamed(ctx, hashes[:half]); err != nil {
			return err
		}
		return r.fetchNamed(ctx, hashes[half:])
	case errors.Is(err, remote.ErrTooMany), errors.Is(err, remote.ErrNotOurs):
		r.refused++
		return nil
	case err != nil:
		return err
	}
	p, err := indexPack(ctx, answer, r.object)
	if err != nil {
		return err
	}
	defer p.close()
	for h := range p.all() {
		if o, ok, err := p.object(h); err == nil && ok {
			r.here[h] = o
		}
	}
	return nil
}

// fetchWhole fetches more and more of the last commits, until they contain the objects.
func (r *objectReader) fetchWhole(ctx context.Context, missing []plumbing.Hash) error {
	if r.store.head.IsZero() && len(missing) > 0 {
		if err := r.branch.refresh(ctx); err != nil {
			return err
		}
	}
	for _, deep := range []int{64, 1024, 0} {
		if len(missing) == 0 || r.all {
			return nil
		}
		q := remote.Request{Wants: []plumbing.Hash{r.store.head}, Depth: deep}
		if !r.store.server.Caps.Supports(capability.Shallow) {
			q.Depth = 0
		}
		answer, err := r.store.server.Fetch(ctx, nil, q)
		if err != nil {
			return err
		}
		r.whole.close()
		if r.whole, err = indexPack(ctx, answer, nil); err != nil {
			return err
		}
		r.all = q.Depth == 0
		missing = slices.DeleteFunc(missing, func(h plumbing.Hash) bool { _, ok := r.whole.names.find(h); return ok })
	}
	return nil
}

func (r *objectReader) object(h plumbing.Hash) (rawObject, bool) {
	if o, ok := r.here[h]; ok {
		return o, true
	}
	if r.whole != nil {
		if o, ok, err := r.whole.object(h); err == nil && ok {
			return o, true
		}
	}
	return rawObject{}, false
}

// tree returns a directory; an empty one for the zero hash.
func (r *objectReader) tree(h plumbing.Hash) (*tree, error) {
	if h.IsZero() {
		return &tree{}, nil
	}
	o, ok := r.object(h)
	if !ok || o.kind != plumbing.TreeObject {
		return nil, fmt.Errorf("the server did not send tree %s", h)
	}
	return parseTree(o.data)
}

// file returns the content of a file; nil if it is missing or too large.
func (r *objectReader) file(h plumbing.Hash) []byte {
	o, ok := r.object(h)
	if !ok || o.kind != plumbing.BlobObject || len(o.data) > largestEdit {
		return nil
	}
	return bytes.Clone(o.data)
}
