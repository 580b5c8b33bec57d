package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"muster/gitops/branch"
)

const (
	// maxEdits limits the listed files of a commit.
	maxEdits = 200
	// deepestEdit is the maximum depth of directories.
	deepestEdit = 16
	// largestEdit is the size in bytes up to which the content of a file is returned.
	largestEdit = 64 << 10
	// maxDifferences and deepestDifference limit the differences between two commits.
	maxDifferences    = 10_000
	deepestDifference = 64
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

// comparison is one call of Edits. It is for people: it compares many commits with few requests, ignores changes
// of modes, lists a limited number of files and skips invalid names. [differing] is for verification, which
// must not miss a change: it compares two commits exactly. Both compare a directory with [pairs].
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
	inside, leads := selects(c.selection.Below, full)
	list := &c.edits[p.commit]
	switch {
	case before == after || !inside && !(dir && leads) || branch.CheckPath(full) != nil:
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

// Differences returns the first 10,000 files that differ between two commits, by path. If top
// is not empty, it is a directory, and files outside it are left out. An invalid file name is
// returned quoted, and is not a path then. The error is [branch.ErrMalformed] if
// a tree of the second commit has a name twice.
func (a *PastTrees) Differences(ctx context.Context, before, after, top string) ([]branch.Difference, error) {
	a.branch.mu.Lock()
	defer a.branch.mu.Unlock()
	from, err := a.root(ctx, before)
	if err != nil {
		return nil, a.branch.describe("reading an earlier commit of", err)
	}
	to, err := a.root(ctx, after)
	if err != nil {
		return nil, a.branch.describe("reading an earlier commit of", err)
	}
	d := differing{ctx: ctx, store: a.store, top: top}
	if err := d.compare("", from, to, 0); err != nil {
		return nil, a.branch.describe("comparing earlier commits of", err)
	}
	slices.SortFunc(d.all, func(a, b branch.Difference) int { return strings.Compare(a.Path, b.Path) })
	return d.all, nil
}

// differing is one exact comparison of two trees; see [comparison].
type differing struct {
	ctx   context.Context
	store *store
	top   string
	all   []branch.Difference
}

// compare compares a directory; the zero hash is an absent one.
func (d *differing) compare(dir string, before, after plumbing.Hash, depth int) error {
	from, err := d.tree(before)
	if err != nil {
		return err
	}
	to, err := d.tree(after)
	if err != nil {
		return err
	}
	for i := 1; i < to.len(); i++ {
		if compareNames(to.name(i-1), to.isDir(i-1), to.name(i), to.isDir(i)) >= 0 {
			return fmt.Errorf("%w: the names in directory %q are not in order", branch.ErrMalformed, dir)
		}
	}
	for p := range pairs(from, to) {
		if err := d.pair(dir, p, depth); err != nil {
			return err
		}
	}
	return nil
}

// pair compares one name of a directory.
func (d *differing) pair(dir string, p pair, depth int) error {
	name := p.name
	if !isName(name) {
		name = strconv.Quote(name)
	}
	name = join(dir, name)
	inside, leads := selects([]string{d.top}, name)
	switch {
	case p.before.hash == p.after.hash && p.before.mode == p.after.mode,
		d.top != "" && !inside && !(p.dir && leads),
		len(d.all) >= maxDifferences:
		return nil
	case p.dir && depth < deepestDifference:
		return d.compare(name, p.before.hash, p.after.hash, depth+1)
	}
	d.all = append(d.all, branch.Difference{Path: name, Before: blob(p.before), After: blob(p.after)})
	return nil
}

func (d *differing) tree(h plumbing.Hash) (*tree, error) {
	if h.IsZero() {
		return &tree{}, nil
	}
	return d.store.tree(d.ctx, h)
}

func blob(e entry) branch.Blob {
	if e.hash.IsZero() {
		return branch.Blob{}
	}
	mode := e.mode
	if mode == filemode.Deprecated {
		mode = filemode.Regular
	}
	return branch.Blob{ID: e.hash.String(), Mode: uint32(mode)}
}

// BlobID returns git's identifier of a file with this content.
func BlobID(content []byte) string {
	return plumbing.ComputeHash(plumbing.BlobObject, content).String()
}
