package git

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// rawObject is one git object, inflated.
type rawObject struct {
	kind plumbing.ObjectType
	data []byte
}

// pack is a received packfile, kept as it came over the wire. Its objects are
// inflated one at a time, so that a pack of a whole repository costs its
// compressed size and an index.
type pack struct {
	data     []byte
	offsets  []int64               // of each entry, ascending
	byOffset map[int64]int         // entry at an offset
	byHash   map[plumbing.Hash]int // entry of an object
	// large are the sizes of objects that are too large to be read, and skip the
	// entries that are not inflated: those, and deltas that are too large, of
	// which it is not known what they make.
	large map[plumbing.Hash]int64
	skip  map[int]bool
	// external finds the base of a delta that is not in the pack.
	external func(plumbing.Hash) (rawObject, bool)

	cache      map[int]rawObject
	cacheBytes int
}

// errMissingBase says that an entry is a delta on an object that is not here.
var errMissingBase = errors.New("the delta's base is missing")

// mostObject is the size in bytes up to which an object is read. Trees of 50,000
// files and files far larger than any that an overlay needs are below it.
const mostObject = 4 << 20

// errTooLarge says that an object is larger than what is read.
var errTooLarge = fmt.Errorf("it is larger than the %d MiB up to which files and directories are read", mostObject>>20)

// indexPack reads a whole packfile and computes the identifiers of its objects.
// Entries whose base cannot be found are left out: a thin pack also has objects
// that were not asked for.
func indexPack(data []byte, external func(plumbing.Hash) (rawObject, bool)) (*pack, error) {
	p := &pack{data: data, external: external, byOffset: map[int64]int{}, cache: map[int]rawObject{}, large: map[plumbing.Hash]int64{}, skip: map[int]bool{}}
	scanner := packfile.NewScanner(bytes.NewReader(data))
	_, count, err := scanner.Header()
	if err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	if int64(count) > int64(len(data)) {
		return nil, fmt.Errorf("reading the pack: it claims %d objects in %d bytes", count, len(data))
	}
	p.byHash = make(map[plumbing.Hash]int, count)
	for i := range int(count) {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return nil, fmt.Errorf("reading the pack: %w", err)
		}
		if err := p.scan(scanner, i, header); err != nil {
			return nil, fmt.Errorf("reading the pack: %w", err)
		}
		p.offsets = append(p.offsets, header.Offset)
		p.byOffset[header.Offset] = i
	}
	if _, err := scanner.Checksum(); err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	if err := p.name(); err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	return p, nil
}

// scan goes past an entry. One that is no delta is named on the way; if it is too
// large, without being kept.
func (p *pack) scan(scanner *packfile.Scanner, i int, header *packfile.ObjectHeader) error {
	delta := header.Type == plumbing.OFSDeltaObject || header.Type == plumbing.REFDeltaObject
	if header.Length <= mostObject && !delta {
		content := bytes.NewBuffer(make([]byte, 0, header.Length+1))
		if _, _, err := scanner.NextObject(content); err != nil {
			return err
		}
		o := rawObject{kind: header.Type, data: content.Bytes()}
		p.byHash[plumbing.ComputeHash(o.kind, o.data)] = i
		p.keep(i, o)
		return nil
	}
	if header.Length <= mostObject {
		_, _, err := scanner.NextObject(io.Discard)
		return err
	}
	p.skip[i] = true
	if delta {
		_, _, err := scanner.NextObject(io.Discard)
		return err
	}
	hasher := plumbing.NewHasher(header.Type, header.Length)
	_, _, err := scanner.NextObject(hasher)
	p.large[hasher.Sum()] = header.Length
	return err
}

// name computes the identifiers of the deltas. One may stand before its
// base, so entries that fail are tried again as long as that helps.
func (p *pack) name() error {
	scanner := packfile.NewScanner(bytes.NewReader(p.data))
	named := make([]bool, len(p.offsets))
	for _, i := range p.byHash {
		named[i] = true
	}
	var waiting []int
	for i := range named {
		if !named[i] {
			waiting = append(waiting, i)
		}
	}
	for len(waiting) > 0 {
		var left []int
		for _, i := range waiting {
			o, err := p.entry(scanner, i, 0)
			switch {
			case errors.Is(err, errMissingBase):
				left = append(left, i)
			case errors.Is(err, errTooLarge):
				p.skip[i] = true
			case err != nil:
				return err
			default:
				p.byHash[plumbing.ComputeHash(o.kind, o.data)] = i
			}
		}
		if len(left) == len(waiting) {
			break
		}
		waiting = left
	}
	return nil
}

// object returns an object of the pack.
func (p *pack) object(h plumbing.Hash) (rawObject, bool, error) {
	i, ok := p.byHash[h]
	if !ok {
		return rawObject{}, false, nil
	}
	o, err := p.entry(packfile.NewScanner(bytes.NewReader(p.data)), i, 0)
	return o, err == nil, err
}

// entry inflates one entry, and the entries that it is a delta on.
func (p *pack) entry(scanner *packfile.Scanner, i, depth int) (rawObject, error) {
	if o, ok := p.cache[i]; ok {
		return o, nil
	}
	if p.skip[i] {
		return rawObject{}, errTooLarge
	}
	const deepest = 4096 // git's own limit
	if depth > deepest {
		return rawObject{}, errors.New("a chain of deltas is too long")
	}
	header, err := scanner.SeekObjectHeader(p.offsets[i])
	if err != nil {
		return rawObject{}, err
	}
	kind, offset, base := header.Type, header.OffsetReference, header.Reference
	var content bytes.Buffer
	if header.Length > 0 && header.Length < 1<<20 {
		content.Grow(int(header.Length))
	}
	if _, _, err := scanner.NextObject(&content); err != nil {
		return rawObject{}, err
	}
	o := rawObject{kind: kind, data: content.Bytes()}
	switch kind {
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		on, err := p.base(scanner, kind, offset, base, depth)
		if err != nil {
			return rawObject{}, err
		}
		if madeBy(o.data) > mostObject {
			return rawObject{}, errTooLarge
		}
		patched, err := packfile.PatchDelta(on.data, o.data)
		if err != nil {
			return rawObject{}, err
		}
		o = rawObject{kind: on.kind, data: patched}
	}
	p.keep(i, o)
	return o, nil
}

// madeBy is the size of what a delta makes, as its second number says.
func madeBy(delta []byte) uint64 {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0 // patching refuses it
	}
	size, _ := binary.Uvarint(delta[n:])
	return size
}

func (p *pack) base(scanner *packfile.Scanner, kind plumbing.ObjectType, offset int64, base plumbing.Hash, depth int) (rawObject, error) {
	if kind == plumbing.OFSDeltaObject {
		i, ok := p.byOffset[offset]
		if !ok {
			return rawObject{}, errors.New("a delta points at no object")
		}
		return p.entry(scanner, i, depth+1)
	}
	if i, ok := p.byHash[base]; ok {
		return p.entry(scanner, i, depth+1)
	}
	if p.external != nil {
		if o, ok := p.external(base); ok {
			return o, nil
		}
	}
	return rawObject{}, errMissingBase
}

// keep caches inflated entries, which are often bases, up to a bound.
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
