package git

import (
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// objects are the git objects that are kept between ticks: the trees from the
// root down to the overlays, the overlays' trees and small files, and the same
// of the directories elsewhere that were read. They are pruned whenever the
// branch moves, so that they stay as many as one commit has.
type objects struct {
	trees map[plumbing.Hash]*tree
	blobs map[plumbing.Hash][]byte
	// base is the pack that a server sent whole because it cannot send
	// single objects; nil with partial clone.
	base *pack
	// size is the number of bytes of the blobs after pruning.
	size int
	// visited are directories outside the overlays that were read.
	visited map[string]bool
}

const (
	// smallFile is the size up to which a file is kept between ticks.
	smallFile = 256 << 10
	// mostKept bounds all files that are kept; what is more is fetched again
	// when it is read.
	mostKept = 16 << 20
	// mostVisited bounds the directories outside the overlays that are kept.
	mostVisited = 1000
)

func newObjects() objects {
	return objects{
		trees:   map[plumbing.Hash]*tree{},
		blobs:   map[plumbing.Hash][]byte{},
		visited: map[string]bool{},
	}
}

// held returns an object that is here already.
func (o *objects) held(h plumbing.Hash) (rawObject, bool) {
	if t, ok := o.trees[h]; ok {
		return rawObject{plumbing.TreeObject, t.raw}, true
	}
	if b, ok := o.blobs[h]; ok {
		return rawObject{plumbing.BlobObject, b}, true
	}
	if o.base != nil {
		if raw, ok, err := o.base.object(h); ok && err == nil {
			return raw, true
		}
	}
	return rawObject{}, false
}

// add keeps the trees and blobs of a pack and returns its commits.
func (o *objects) add(p *pack) (commits map[plumbing.Hash][]byte, err error) {
	commits = map[plumbing.Hash][]byte{}
	for h := range p.byHash {
		raw, ok, err := p.object(h)
		if err != nil || !ok {
			return nil, fmt.Errorf("reading the pack: %w", err)
		}
		switch raw.kind {
		case plumbing.CommitObject:
			commits[h] = raw.data
		case plumbing.TreeObject:
			t, err := parseTree(raw.data)
			if err != nil {
				return nil, err
			}
			o.trees[h] = t
		case plumbing.BlobObject:
			o.blobs[h] = raw.data
		}
	}
	return commits, nil
}

// prune drops everything that the tree root does not need; overlays is the
// directory read ahead.
func (o *objects) prune(root plumbing.Hash, ahead string) {
	keep := objects{trees: map[plumbing.Hash]*tree{}, blobs: map[plumbing.Hash][]byte{}}
	o.mark(&keep, root, "", ahead)
	o.trees, o.blobs, o.size = keep.trees, keep.blobs, keep.size
}

func (o *objects) mark(keep *objects, h plumbing.Hash, dir, ahead string) {
	t, ok := o.trees[h]
	if !ok {
		return
	}
	keep.trees[h] = t
	files := below(dir, ahead) || o.visited[dir]
	most := t.len()
	if most > largeDir && below(dir, ahead) {
		most = fewKept
	}
	for i := range t.len() {
		if t.isDir(i) {
			child := join(dir, string(t.name(i)))
			if below(child, ahead) || below(ahead, child) || o.visited[child] {
				o.mark(keep, t.hash(i), child, ahead)
			}
			continue
		}
		if !files || most == 0 {
			continue
		}
		if b, ok := o.blobs[t.hash(i)]; ok && len(b) <= smallFile && keep.size+len(b) <= mostKept {
			keep.blobs[t.hash(i)] = b
			keep.size += len(b)
			most--
		}
	}
}

// visit notes that a directory outside the overlays is being read. Its
// parents count as read too.
func (o *objects) visit(dir string) {
	if o.visited[dir] {
		return
	}
	if len(o.visited) >= mostVisited {
		clear(o.visited)
	}
	for {
		o.visited[dir] = true
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return
		}
		dir = dir[:i]
	}
}

// below reports whether dir is top or lies below it.
func below(dir, top string) bool {
	return dir == top || len(dir) > len(top) && dir[:len(top)] == top && dir[len(top)] == '/'
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
