package git

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"muster/gitops/git/remote"
)

// indexPack reads a packfile and computes the identifiers of its objects. Entries whose base is
// missing are left out: a thin pack also has objects that were not requested. The pack, or an error,
// closes the download.
func indexPack(ctx context.Context, from *remote.Download, external func(plumbing.Hash) (rawObject, bool)) (*pack, error) {
	p := &pack{
		from: from, scanner: packfile.NewScanner(io.NewSectionReader(from, 0, from.Size)), external: external,
		cache: map[int]rawObject{}, large: map[plumbing.Hash]int64{}, skip: map[int]bool{}, cut: map[int][]byte{},
	}
	err := p.scan(ctx)
	if err == nil {
		err = p.resolve(ctx)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	return p, nil
}

// scan reads the pack once, from its beginning to its end, and computes the names of
// objects other than deltas.
func (p *pack) scan(ctx context.Context) error {
	_, count, err := p.scanner.Header()
	if err != nil {
		return err
	}
	if int64(count) > p.from.Size || count > remote.MaxEntries {
		return fmt.Errorf("it claims %d objects in %d bytes", count, p.from.Size)
	}
	p.offsets, p.names = make([]uint32, 0, count), newNames(int(count))
	for i := range int(count) {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := p.scanner.NextObjectHeader()
		if err != nil {
			return err
		}
		p.offsets = append(p.offsets, uint32(header.Offset))
		if err := p.scanEntry(i, header); err != nil {
			return err
		}
	}
	_, err = p.scanner.Checksum()
	return err
}

// scanEntry reads past an entry. It computes the name of an object other than a delta, and
// keeps the object only if it is small.
func (p *pack) scanEntry(i int, header *packfile.ObjectHeader) error {
	if header.Length > maxObject {
		p.skip[i] = true
	}
	if header.Type.IsDelta() {
		_, _, err := p.scanner.NextObject(io.Discard)
		return err
	}
	if header.Length <= smallFile {
		o, err := p.inflate(header)
		if err != nil {
			return err
		}
		p.names.set(i, plumbing.ComputeHash(o.kind, o.data))
		p.keep(i, o)
		return nil
	}
	if p.skip[i] && header.Type == plumbing.CommitObject {
		commit := newCommitCutter(header.Length)
		if _, _, err := p.scanner.NextObject(commit); err != nil {
			return err
		}
		if data, ok := commit.cut(); ok {
			delete(p.skip, i)
			p.cut[i] = data
			p.names.set(i, commit.hasher.Sum())
		}
		return nil
	}
	hasher := plumbing.NewHasher(header.Type, header.Length)
	if _, _, err := p.scanner.NextObject(hasher); err != nil {
		return err
	}
	if p.skip[i] {
		p.large[hasher.Sum()] = header.Length
	} else {
		p.names.set(i, hasher.Sum())
	}
	return nil
}

// resolve computes the identifiers of the deltas. A delta may precede its base in the pack, so
// resolve retries entries that fail until a pass resolves none.
func (p *pack) resolve(ctx context.Context) error {
	var waiting []uint32
	for i := range p.offsets {
		if !p.names.has(i) && !p.skip[i] {
			waiting = append(waiting, uint32(i))
		}
	}
	for before := -1; len(waiting) != before; {
		before = len(waiting)
		left := waiting[:0]
		for _, i := range waiting {
			if err := ctx.Err(); err != nil {
				return err
			}
			o, err := p.entry(int(i))
			switch {
			case errors.Is(err, errMissingBase):
				left = append(left, i)
			case errors.Is(err, errTooLarge):
				p.skip[int(i)] = true
			case err != nil:
				return err
			default:
				p.names.set(int(i), plumbing.ComputeHash(o.kind, o.data))
			}
		}
		waiting = left
	}
	return nil
}

// names is an index of a pack's entries by the identifiers of their objects. It takes 32 bytes per
// entry: a map takes two to four times as much.
type names struct {
	of []plumbing.Hash // by entry; zero if unknown
	// slots is a hash table with linear probing: indexes of entries plus one, by identifier.
	slots []uint32
}

func newNames(entries int) names {
	size := 1
	for size < 2*entries {
		size *= 2
	}
	return names{of: make([]plumbing.Hash, entries), slots: make([]uint32, size)}
}

// slot returns the slot of an object, or a free one.
func (n *names) slot(h plumbing.Hash) int {
	at := int(binary.BigEndian.Uint32(h[:])) & (len(n.slots) - 1)
	for n.slots[at] != 0 && n.of[n.slots[at]-1] != h {
		at = (at + 1) & (len(n.slots) - 1)
	}
	return at
}

func (n *names) set(i int, h plumbing.Hash) {
	n.of[i] = h
	n.slots[n.slot(h)] = uint32(i) + 1
}

func (n *names) has(i int) bool { return !n.of[i].IsZero() }

func (n *names) find(h plumbing.Hash) (i int, ok bool) {
	if len(n.of) == 0 {
		return 0, false
	}
	i = int(n.slots[n.slot(h)]) - 1
	return i, i >= 0
}

// at returns the entry at an offset.
func (p *pack) at(offset int64) (i int, ok bool) {
	if offset < 0 || offset > remote.MaxPack {
		return 0, false
	}
	return slices.BinarySearch(p.offsets, uint32(offset))
}
