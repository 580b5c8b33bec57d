package git

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// advance brings the held objects from the last head to a new one. session is
// an open one to use first, or nil.
func (r *Branch) advance(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	if r.caps == nil {
		return errors.New("nothing is known of what the server offers")
	}
	if !r.head.IsZero() {
		err := r.refetch(ctx, session, head)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		r.config.Log.Debug("reading the repository again from the start", "reason", r.censor(oneLine(err.Error())))
		visited := r.visited
		r.objects = newObjects()
		r.visited = visited
		session = nil
	}
	return r.start(ctx, session, head)
}

// start fetches a head when nothing is held.
func (r *Branch) start(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	r.chooseMode()
	if r.mode == partial {
		err := r.startPartial(ctx, session, head)
		if !errors.Is(err, errFilter) && !errors.Is(err, errNotOurs) {
			return err
		}
		session = nil
		r.fallBack(shallow, oneLine(err.Error()))
	}
	q := request{wants: []plumbing.Hash{head}}
	if r.mode == shallow {
		q.depth = 1
	}
	data, err := r.fetch(ctx, session, q)
	if err != nil {
		return err
	}
	r.base, err = indexPack(data, nil)
	if err != nil {
		return err
	}
	commit, ok, err := r.base.object(head)
	if err != nil || !ok {
		return fmt.Errorf("the server did not send commit %s: %w", head, err)
	}
	return r.settleOn(head, commit.data)
}

// startPartial fetches the commit with the trees down to the overlays, and
// then all trees of the overlays. Files come when they are read.
func (r *Branch) startPartial(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	depth := 1
	if r.config.ReadAhead != "" {
		depth = strings.Count(r.config.ReadAhead, "/") + 2
	}
	filter := packp.Filter(fmt.Sprintf("tree:%d", depth))
	if r.noDepth {
		filter = exact
	}
	q := request{wants: []plumbing.Hash{head}, depth: 1, filter: filter}
	data, err := r.fetch(ctx, session, q)
	if errors.Is(err, errFilter) && !r.noDepth {
		r.noDepth = true
		q.filter = exact
		data, err = r.fetch(ctx, nil, q)
	}
	if err != nil {
		return err
	}
	commits, err := r.take(data)
	if err != nil {
		return err
	}
	commit, ok := commits[head]
	if !ok {
		return fmt.Errorf("the server did not send commit %s", head)
	}
	root, err := rootOf(commit)
	if err != nil {
		return err
	}
	var ahead []plumbing.Hash
	for _, dir := range append([]string{r.config.ReadAhead}, r.config.ReadFirst...) {
		if dir == "" {
			continue
		}
		at, there, err := r.directory(ctx, root, dir)
		if err != nil {
			return err
		}
		if there {
			ahead = append(ahead, at)
		}
	}
	if len(ahead) > 0 {
		if err := r.readAhead(ctx, ahead); err != nil {
			return err
		}
	}
	return r.settleOn(head, commit)
}

// directory finds the tree of a directory below root.
func (r *Branch) directory(ctx context.Context, root plumbing.Hash, dir string) (plumbing.Hash, bool, error) {
	at := root
	for part := range strings.SplitSeq(dir, "/") {
		t, err := r.tree(ctx, at)
		if err != nil {
			return at, false, err
		}
		i, there := t.find(part, true)
		if !there {
			return at, false, nil
		}
		at = t.hash(i)
	}
	return at, true, nil
}

// readAhead fetches everything below the given trees: with the files, or
// without them where they are so many that it is better to wait until they
// are read.
func (r *Branch) readAhead(ctx context.Context, trees []plumbing.Hash) error {
	const many = 4000
	q := request{wants: trees, filter: r.smallFiles(), most: many}
	data, err := r.fetch(ctx, nil, q)
	if errors.Is(err, errFilter) && !r.noLimit {
		r.noLimit = true
	}
	if errors.Is(err, errFilter) || errors.Is(err, errTooMany) {
		data, err = r.fetch(ctx, nil, request{wants: q.wants, filter: "blob:none"})
	}
	if err != nil {
		return err
	}
	_, err = r.take(data)
	return err
}

// smallFiles is the filter that leaves out files too large to be kept, or
// none where the server does not allow that.
func (r *Branch) smallFiles() packp.Filter {
	if r.noLimit {
		return ""
	}
	return packp.FilterBlobLimit(smallFile, packp.BlobLimitPrefixNone)
}

// refetch fetches what has changed since the head that is held.
func (r *Branch) refetch(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	// No depth: a server that is asked for one looks at every file of the new
	// commit. The commit here is declared shallow, so only what came after it
	// is sent; unless it did not come after it, which is why there is a limit.
	const many = 50_000
	q := request{wants: []plumbing.Hash{head}, have: r.head, most: many}
	if r.mode == partial {
		q.filter = r.smallFiles()
	}
	data, err := r.fetch(ctx, session, q)
	if errors.Is(err, errFilter) && !r.noLimit {
		r.noLimit = true
		q.filter = ""
		data, err = r.fetch(ctx, nil, q)
	}
	if err != nil {
		return err
	}
	commits, err := r.take(data)
	if err != nil {
		return err
	}
	commit, ok := commits[head]
	if !ok {
		return fmt.Errorf("the server did not send commit %s", head)
	}
	return r.settleOn(head, commit)
}

// settleOn makes head the commit that is held and drops what it does not need.
func (r *Branch) settleOn(head plumbing.Hash, commit []byte) error {
	root, err := rootOf(commit)
	if err != nil {
		return err
	}
	first := r.head.IsZero()
	r.head, r.root = head, root
	if !first {
		r.prune(root, r.config.ReadAhead)
	}
	return nil
}

// chooseMode finds out how the server can be read, and says so once if it is
// not the cheapest way.
func (r *Branch) chooseMode() {
	if r.mode == partial && (!r.caps.Supports(capability.Filter) || !r.caps.Supports(capability.AllowReachableSHA1InWant)) {
		r.fallBack(shallow, "the server does not offer partial clone (uploadpack.allowFilter and uploadpack.allowAnySHA1InWant)")
	}
	if r.mode == shallow && !r.caps.Supports(capability.Shallow) {
		r.fallBack(whole, "the server does not offer shallow clone")
	}
}

func (r *Branch) fallBack(to mode, reason string) {
	r.mode = to
	reading := "fetching each commit whole, which costs time and memory"
	if to == whole {
		reading = "fetching the whole history, which costs time and memory"
	}
	r.config.Log.Warn(reading, "repository", r.address.String(), "reason", r.censor(reason))
}

// take keeps the objects of a pack.
func (r *Branch) take(data []byte) (map[plumbing.Hash][]byte, error) {
	p, err := indexPack(data, r.held)
	if err != nil {
		return nil, err
	}
	return r.add(p)
}

// rootOf returns the tree that a raw commit holds.
func rootOf(commit []byte) (plumbing.Hash, error) {
	const line = "tree "
	size := hex.EncodedLen(hashSize)
	if len(commit) < len(line)+size || string(commit[:len(line)]) != line {
		return plumbing.ZeroHash, errors.New("a commit of the repository is damaged")
	}
	return plumbing.NewHash(string(commit[len(line):][:size])), nil
}

// tree returns a tree, fetching it where that is needed and possible.
func (r *Branch) tree(ctx context.Context, h plumbing.Hash) (*tree, error) {
	if t, ok := r.trees[h]; ok {
		return t, nil
	}
	raw, ok := r.held(h)
	if !ok {
		if err := r.fetchMissing(ctx, []plumbing.Hash{h}); err != nil {
			return nil, err
		}
		if raw, ok = r.held(h); !ok {
			return nil, fmt.Errorf("the server did not send tree %s", h)
		}
	}
	if raw.kind != plumbing.TreeObject {
		return nil, fmt.Errorf("object %s is a %s, not a tree", h, raw.kind)
	}
	t, err := parseTree(raw.data)
	if err != nil {
		return nil, err
	}
	r.trees[h] = t
	return t, nil
}

// fetchMissing fetches objects by name. A server that cannot do that is asked
// for the whole commit again, which happens when something outside the
// overlays changed before it was read for the first time.
func (r *Branch) fetchMissing(ctx context.Context, hashes []plumbing.Hash) error {
	if r.mode != partial {
		head := r.head
		visited := r.visited
		r.objects = newObjects()
		r.visited = visited
		r.head = plumbing.ZeroHash
		return r.start(ctx, nil, head)
	}
	data, err := r.fetch(ctx, nil, request{wants: hashes, filter: exact})
	if err != nil {
		return err
	}
	_, err = r.take(data)
	return err
}
