package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// startPartial fetches the commit with the trees down to the directory that is
// read ahead, and then what is read ahead. Other files come when they are read.
func (s *store) startPartial(ctx context.Context, session transport.UploadPackSession, head plumbing.Hash) error {
	filter := packp.Filter(fmt.Sprintf("tree:%d", s.depthAhead()))
	if s.noDepth {
		filter = exact
	}
	q := request{wants: []plumbing.Hash{head}, depth: 1, filter: filter}
	commit, err := s.fetchCommit(ctx, session, head, q, &s.noDepth, exact)
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

// depthAhead is the depth of the filter that sends the trees from the root
// (depth 1) down to the directory that is read ahead.
func (s *store) depthAhead() int {
	if s.readAhead == "" {
		return 1
	}
	return strings.Count(s.readAhead, "/") + 2
}

// fetchAhead fetches everything in the directories that are read ahead or
// first: with the files, or without them where they are so many that it is
// better to wait until they are read.
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
	answer, err := s.server.fetch(ctx, nil, request{wants: trees, filter: s.smallFiles(), most: many})
	if refused := errors.Is(err, errFilter); refused || errors.Is(err, errTooMany) {
		answer, err = s.server.fetch(ctx, nil, request{wants: trees, filter: "blob:none"})
		s.noLimit = s.noLimit || refused && err == nil
	}
	if err != nil {
		return err
	}
	_, err = s.takeAll(ctx, answer)
	return err
}

// directory returns the tree of a directory below root; false: there is none.
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

// smallFiles is the filter that leaves out files too large to be kept, or
// none where the server does not allow that.
func (s *store) smallFiles() packp.Filter {
	if s.noLimit {
		return ""
	}
	return packp.FilterBlobLimit(smallFile, packp.BlobLimitPrefixNone)
}
