package git

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"muster/gitops/branch"
)

// tree is a git tree: its raw bytes, on which deltas are made, and the place of each entry.
type tree struct {
	raw     []byte
	entries []span
}

// span is the place of an entry in a tree: it starts at start, its name is from name to end, and a zero
// byte and the hash follow.
type span struct{ start, name, end uint32 }

// entry is one name in a tree.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

const hashSize = len(plumbing.Hash{})

// parseTree finds the entries of a raw tree.
func parseTree(raw []byte) (*tree, error) {
	t := &tree{raw: raw, entries: make([]span, 0, len(raw)/64+1)}
	for at := 0; at < len(raw); {
		space := bytes.IndexByte(raw[at:], ' ')
		if space < 0 {
			return nil, errors.New("a tree of the repository is damaged")
		}
		name := at + space + 1
		zero := bytes.IndexByte(raw[name:], 0)
		if zero < 0 || name+zero+1+hashSize > len(raw) {
			return nil, errors.New("a tree of the repository is damaged")
		}
		end := name + zero
		t.entries = append(t.entries, span{uint32(at), uint32(name), uint32(end)})
		at = end + 1 + hashSize
	}
	return t, nil
}

func (t *tree) len() int { return len(t.entries) }

// size returns the memory of the tree in bytes.
func (t *tree) size() int { return len(t.raw) + 12*cap(t.entries) }

func (t *tree) name(i int) []byte { return t.raw[t.entries[i].name:t.entries[i].end] }

// isDir reports whether entry i is a directory. Some old tools padded the mode with a zero.
func (t *tree) isDir(i int) bool {
	at := t.entries[i].start
	return t.raw[at] == '4' || t.raw[at] == '0' && t.raw[at+1] == '4'
}

func (t *tree) hash(i int) plumbing.Hash {
	return plumbing.Hash(t.raw[t.entries[i].end+1:][:hashSize])
}

// at returns entry i.
func (t *tree) at(i int) entry {
	s := t.entries[i]
	mode, err := filemode.New(string(t.raw[s.start : s.name-1]))
	if err != nil {
		mode = filemode.Empty
	}
	return entry{name: string(t.name(i)), mode: mode, hash: t.hash(i)}
}

// compareNames compares entries in git's order, in which names of directories end with a slash.
func compareNames(a []byte, aDir bool, b []byte, bDir bool) int {
	n := min(len(a), len(b))
	if c := bytes.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	next := func(s []byte, dir bool) int {
		switch {
		case len(s) > n:
			return int(s[n])
		case dir:
			return '/'
		}
		return 0
	}
	if c := cmp.Compare(next(a, aDir), next(b, bDir)); c != 0 {
		return c
	}
	return cmp.Compare(len(a), len(b))
}

// find returns the index of an entry, or where it would be inserted, and whether it exists. A file and
// a directory of one name have two indexes.
func (t *tree) find(name string, dir bool) (int, bool) {
	want := []byte(name)
	return sort.Find(t.len(), func(i int) int { return compareNames(want, dir, t.name(i), t.isDir(i)) })
}

// lookup returns the directory or the file of that name.
func (t *tree) lookup(name string) (entry, bool) {
	for _, dir := range []bool{true, false} {
		if i, ok := t.find(name, dir); ok {
			return t.at(i), true
		}
	}
	return entry{}, false
}

// pair is a name in two trees, which is a directory in both or in neither. An absent entry is zero.
type pair struct {
	name          string
	dir           bool
	before, after entry
}

// pairs yields the names of two trees: those of before, and then those only in after.
func pairs(before, after *tree) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for i := range before.len() {
			p := pair{name: string(before.name(i)), dir: before.isDir(i), before: before.at(i)}
			if at, there := after.find(p.name, p.dir); there {
				p.after = after.at(at)
			}
			if !yield(p) {
				return
			}
		}
		for i := range after.len() {
			p := pair{name: string(after.name(i)), dir: after.isDir(i), after: after.at(i)}
			if _, there := before.find(p.name, p.dir); !there && !yield(p) {
				return
			}
		}
	}
}

// edit sets a name in a tree to an entry, or removes it if the entry is nil.
type edit struct {
	name string
	dir  bool
	to   *entry
}

// splice applies edits to a tree and returns the new raw tree, and the ranges that it copied.
func (t *tree) splice(edits []edit) (raw []byte, copies []copied, err error) {
	slices.SortFunc(edits, func(a, b edit) int {
		return compareNames([]byte(a.name), a.dir, []byte(b.name), b.dir)
	})
	raw = make([]byte, 0, len(t.raw)+64*len(edits))
	last := 0
	take := func(to int) {
		if to > last {
			copies = append(copies, copied{from: last, to: len(raw), size: to - last})
			raw = append(raw, t.raw[last:to]...)
		}
	}
	for _, e := range edits {
		i, there := t.find(e.name, e.dir)
		start := len(t.raw)
		if i < t.len() {
			start = int(t.entries[i].start)
		}
		if start < last {
			return nil, nil, fmt.Errorf("%w: %q is changed twice in one commit", branch.ErrInvalid, e.name)
		}
		take(start)
		last = start
		if there {
			last = int(t.entries[i].end) + 1 + hashSize
		}
		if e.to != nil {
			raw = fmt.Appendf(raw, "%o %s\x00", uint32(e.to.mode), e.to.name)
			raw = append(raw, e.to.hash[:]...)
		}
	}
	take(len(t.raw))
	return raw, copies, nil
}
