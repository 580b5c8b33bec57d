package git

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"muster/gitops/git/remote"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// batch collects missing files, to fetch them together.
type batch struct {
	store *store
	wants []plumbing.Hash
	seen  map[plumbing.Hash]bool // files, and visited directories
}

// maxInBatch is the number of files that are fetched together.
const maxInBatch = 1000

// batch returns the file h called name, with the files of the same directory and, below the directory
// that is read ahead, with all others there, without those of large directories.
func (f *treeFS) batch(name string, h plumbing.Hash) *batch {
	store := f.store
	b := &batch{store: store, wants: []plumbing.Hash{h}, seen: map[plumbing.Hash]bool{h: true}}
	ahead := store.isAhead(name)
	if e, err := f.find("read", path.Dir(name)); err == nil {
		if t, ok := store.trees[e.hash]; ok {
			first, _ := t.find(path.Base(name), false)
			large := t.len() > largeDir
			for i := fewKept; i < first && ahead && large; i++ {
				delete(store.blobs, t.hash(i)) // it was read, and is not needed again
			}
			b.add(t, first)
			if !large {
				b.add(t, 0)
			}
		}
	}
	if ahead {
		if e, err := f.find("read", store.readAhead); err == nil {
			b.addBelow(e.hash)
		}
	}
	return b
}

// hasAll reports whether all files are in memory, except those that are too large to be read.
func (s *store) hasAll(files []plumbing.Hash) bool {
	return !slices.ContainsFunc(files, func(h plumbing.Hash) bool {
		_, here := s.get(h)
		return !here && s.readable(h) == nil
	})
}

func (b *batch) full() bool { return len(b.wants) >= maxInBatch>>b.store.fewer }

// adapt makes the next batch smaller after one that was too large, and larger otherwise: each file of a
// directory of large ones would otherwise be requested twice, with all others and alone.
func (s *store) adapt(wants int, err error) {
	switch {
	case errors.Is(err, remote.ErrTooMany) && wants > 1:
		for maxInBatch>>s.fewer >= wants {
			s.fewer++
		}
		s.fewer++
	case err == nil && s.fewer > 0 && wants >= maxInBatch>>s.fewer:
		s.fewer--
	}
}

// add adds the files of one directory from its entry first onward.
func (b *batch) add(t *tree, first int) {
	for i := first; i < t.len() && !b.full(); i++ {
		h := t.hash(i)
		if t.isDir(i) || b.seen[h] || b.store.readable(h) != nil || readable(t.at(i).mode) != nil {
			continue
		}
		if _, here := b.store.get(h); here {
			continue
		}
		b.seen[h] = true
		b.wants = append(b.wants, h)
	}
}

// addBelow adds the files of a directory and of all below it.
func (b *batch) addBelow(h plumbing.Hash) {
	t, ok := b.store.trees[h]
	if !ok || b.full() || b.seen[h] {
		return
	}
	b.seen[h] = true
	if t.len() <= largeDir {
		b.add(t, 0)
	}
	for i := range t.len() {
		if t.isDir(i) {
			b.addBelow(t.hash(i))
		}
	}
}

// startPartial fetches the commit with the trees down to the directory that is read ahead, and then
// that directory. Other files are fetched when they are read.
func (s *store) startPartial(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	filter := packp.Filter(fmt.Sprintf("tree:%d", s.depthAhead()))
	if s.noDepth {
		filter = remote.Exact
	}
	q := remote.Request{Wants: []plumbing.Hash{head}, Depth: 1, Filter: filter}
	commit, err := s.fetchCommit(ctx, session, head, q, &s.noDepth, remote.Exact)
	if err != nil {
		return err
	}
	root, err := rootOf(commit)
	if err != nil {
		return err
	}
	if err := s.fetchAhead(ctx, root); err != nil {
		return err
	}
	return s.moveTo(head, commit)
}

// depthAhead returns the depth of the filter that sends the trees from the root (depth 1) down to the
// directory that is read ahead.
func (s *store) depthAhead() int {
	if s.readAhead == "" {
		return 1
	}
	return strings.Count(s.readAhead, "/") + 2
}

// fetchAhead fetches everything in the directories that are read ahead or first. Too many files are
// left out, and fetched when they are read.
func (s *store) fetchAhead(ctx context.Context, root plumbing.Hash) error {
	var trees []plumbing.Hash
	for _, dir := range append([]string{s.readAhead}, s.readFirst...) {
		at, there, err := s.directory(ctx, root, dir)
		if err != nil {
			return err
		}
		if there {
			trees = append(trees, at)
		}
	}
	if len(trees) == 0 {
		return nil
	}
	const many = 4000
	answer, err := s.server.Fetch(ctx, nil, remote.Request{Wants: trees, Filter: s.smallFiles(), Max: many})
	if refused := errors.Is(err, remote.ErrFilter); refused || errors.Is(err, remote.ErrTooMany) {
		answer, err = s.server.Fetch(ctx, nil, remote.Request{Wants: trees, Filter: "blob:none"})
		s.noLimit = s.noLimit || refused && err == nil
	}
	if err != nil {
		return err
	}
	_, err = s.takeAll(ctx, answer)
	return err
}

// directory returns the tree of a directory below root; false if it does not exist.
func (s *store) directory(ctx context.Context, root plumbing.Hash, dir string) (plumbing.Hash, bool, error) {
	if dir == "" {
		return root, false, nil
	}
	at := root
	for part := range strings.SplitSeq(dir, "/") {
		t, err := s.tree(ctx, at)
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

// smallFiles returns the filter that leaves out files too large to be kept, or none if the server does
// not allow it.
func (s *store) smallFiles() packp.Filter {
	if s.noLimit {
		return ""
	}
	return packp.FilterBlobLimit(smallFile, packp.BlobLimitPrefixNone)
}
