package git

import (
	"fmt"
	"strings"

	"muster/gitops/branch"
)

// node is what one commit does below one directory, or to one file.
type node struct {
	name     string
	children map[string]*node
	write    bool
	remove   bool
	content  []byte
}

// changeTree validates the changes of one commit and arranges them by directory.
func changeTree(changes []branch.Change) (*node, error) {
	top := &node{children: map[string]*node{}}
	for _, c := range changes {
		if err := branch.CheckPath(c.Path); err != nil {
			return nil, fmt.Errorf("%w: %w", branch.ErrInvalid, err)
		}
		at := top
		for part := range strings.SplitSeq(c.Path, "/") {
			if at.children == nil {
				at.children = map[string]*node{}
			}
			next := at.children[part]
			if next == nil {
				next = &node{name: part}
				at.children[part] = next
			}
			at = next
		}
		if at.write || at.remove {
			return nil, fmt.Errorf("%w: path %q is changed twice in one commit", branch.ErrInvalid, c.Path)
		}
		at.write, at.remove, at.content = c.Content != nil, c.Content == nil, c.Content
	}
	return top, nil
}
