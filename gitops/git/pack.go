package git

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"muster/gitops/git/remote"
)

// rawObject is one git object, inflated.
type rawObject struct {
	kind plumbing.ObjectType
	data []byte
}

// pack is a received packfile. Its objects are inflated one at a time, so that a pack of a whole
// repository takes the memory of an index, and its compressed size if it is in memory. One goroutine
// uses it at a time.
type pack struct {
	from    *remote.Download
	scanner *packfile.Scanner
	offsets []uint32 // of each entry, ascending
	names   names
	// large are the sizes of objects that are too large to be read. skip are the entries that are
	// not inflated: those objects, and deltas that are too large.
	large map[plumbing.Hash]int64
	skip  map[int]bool
	// cut contains the oversized commits, without most of their message.
	cut map[int][]byte
	// external finds the base of a delta that is not in the pack.
	external func(plumbing.Hash) (rawObject, bool)

	cache      map[int]rawObject
	cacheBytes int
	heapLimit  heapLimit
}

// close closes the download. The pack must not be read afterwards.
func (p *pack) close() {
	if p != nil {
		p.from.Close()
	}
}

// all yields the objects of the pack in its order.
func (p *pack) all() iter.Seq[plumbing.Hash] {
	return func(yield func(plumbing.Hash) bool) {
		for i, h := range p.names.of {
			if p.names.has(i) && !yield(h) {
				return
			}
		}
	}
}

// errMissingBase is returned if the base of a delta is missing.
var errMissingBase = errors.New("the delta's base is missing")

// maxObject is the maximum size of an object in bytes. Trees of 50,000 files are below it.
const maxObject = 4 << 20

// deepestChain is the maximum length of a chain of deltas: git's own limit.
const deepestChain = 4096

// errTooLarge is returned if an object is larger than maxObject.
var errTooLarge = fmt.Errorf("it is larger than the %d MiB up to which files and directories are read", maxObject>>20)

// object returns an object of the pack.
func (p *pack) object(h plumbing.Hash) (rawObject, bool, error) {
	i, ok := p.names.find(h)
	if !ok {
		return rawObject{}, false, nil
	}
	o, err := p.entry(i)
	return o, err == nil, err
}

// entry inflates an entry and its chain of deltas. One delta and its base are in memory at a
// time.
func (p *pack) entry(i int) (rawObject, error) {
	var deltas []int // the last to be applied first
	for len(deltas) <= deepestChain {
		if o, ok := p.cache[i]; ok {
			return p.apply(o, deltas)
		}
		if p.skip[i] {
			return rawObject{}, errTooLarge
		}
		if commit, ok := p.cut[i]; ok {
			if len(deltas) > 0 {
				return rawObject{}, errTooLarge
			}
			return rawObject{kind: plumbing.CommitObject, data: commit}, nil
		}
		header, err := p.scanner.SeekObjectHeader(int64(p.offsets[i]))
		if err != nil {
			return rawObject{}, err
		}
		if !header.Type.IsDelta() {
			o, err := p.inflate(header)
			if err != nil {
				return rawObject{}, err
			}
			p.keep(i, o)
			return p.apply(o, deltas)
		}
		deltas = append(deltas, i)
		on, external, err := p.base(header)
		if err != nil {
			return rawObject{}, err
		}
		if external != nil {
			return p.apply(*external, deltas)
		}
		i = on
	}
	return rawObject{}, errors.New("a chain of deltas is too long")
}

// inflate reads the content of the entry whose header was read last.
func (p *pack) inflate(header *packfile.ObjectHeader) (rawObject, error) {
	var content bytes.Buffer
	if header.Length < 1<<20 { // the header of a larger one may be wrong
		content.Grow(int(header.Length) + 1)
	}
	kind := header.Type
	_, _, err := p.scanner.NextObject(&content)
	p.heapLimit.add(content.Len())
	return rawObject{kind: kind, data: content.Bytes()}, err
}

// apply applies deltas to their base.
func (p *pack) apply(o rawObject, deltas []int) (rawObject, error) {
	for _, i := range slices.Backward(deltas) {
		header, err := p.scanner.SeekObjectHeader(int64(p.offsets[i]))
		if err != nil {
			return rawObject{}, err
		}
		delta, err := p.inflate(header)
		if err != nil {
			return rawObject{}, err
		}
		if madeBy(delta.data) > maxObject {
			return rawObject{}, errTooLarge
		}
		patched, err := packfile.PatchDelta(o.data, delta.data)
		if err != nil {
			return rawObject{}, err
		}
		o = rawObject{kind: o.kind, data: patched}
		p.heapLimit.add(len(patched))
		p.keep(i, o)
	}
	return o, nil
}

// lacksCommit reports whether a commit is missing: an oversized commit is cut, unless it
// is a delta.
func (p *pack) lacksCommit() bool {
	kinds := map[int]plumbing.ObjectType{}
	for i := range p.skip {
		if p.kind(i, kinds) == plumbing.CommitObject {
			return true
		}
	}
	return false
}

// kind returns the type of an entry's object, or InvalidObject if it cannot be read. known caches
// the types by entry.
func (p *pack) kind(i int, known map[int]plumbing.ObjectType) plumbing.ObjectType {
	if kind, ok := known[i]; ok {
		return kind
	}
	known[i] = plumbing.InvalidObject // until it is known: a delta may be its own base
	header, err := p.scanner.SeekObjectHeader(int64(p.offsets[i]))
	if err != nil {
		return plumbing.InvalidObject
	}
	kind := header.Type
	if kind.IsDelta() {
		on, external, err := p.base(header)
		switch {
		case err != nil:
			return plumbing.InvalidObject
		case external != nil:
			kind = external.kind
		default:
			kind = p.kind(on, known) // as deep as the chains that entry has followed
		}
	}
	known[i] = kind
	return kind
}

// madeBy returns the size of a delta's result, which is its second number.
func madeBy(delta []byte) uint64 {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0 // patching fails
	}
	size, _ := binary.Uvarint(delta[n:])
	return size
}

// base returns the base of a delta: an entry, or an external object.
func (p *pack) base(header *packfile.ObjectHeader) (on int, external *rawObject, err error) {
	if header.Type == plumbing.OFSDeltaObject {
		on, ok := p.at(header.OffsetReference)
		if !ok {
			return 0, nil, errors.New("a delta points at no object")
		}
		return on, nil, nil
	}
	if on, ok := p.names.find(header.Reference); ok {
		return on, nil, nil
	}
	if p.external != nil {
		if o, ok := p.external(header.Reference); ok {
			return 0, &o, nil
		}
	}
	return 0, nil, errMissingBase
}

// keep caches inflated entries, which are often bases, up to a limit.
func (p *pack) keep(i int, o rawObject) {
	const most = 4 << 20
	if len(o.data) > most {
		return
	}
	if p.cacheBytes+len(o.data) > most {
		clear(p.cache)
		p.cacheBytes = 0
	}
	p.cache[i] = o
	p.cacheBytes += len(o.data)
}
