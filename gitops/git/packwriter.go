package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// deltaOf returns a delta that makes target from base. copies are the ranges of base in target, in
// order; the rest is inserted.
func deltaOf(base, target []byte, copies []copied) []byte {
	delta := binary.AppendUvarint(nil, uint64(len(base)))
	delta = binary.AppendUvarint(delta, uint64(len(target)))
	at := 0
	for _, c := range copies {
		delta = appendInsert(delta, target[at:c.to])
		delta = appendCopy(delta, c.from, c.size)
		at = c.to + c.size
	}
	return appendInsert(delta, target[at:])
}

// copied is a range of a base, from offset from, that the target has at offset to.
type copied struct{ from, to, size int }

func appendInsert(delta, text []byte) []byte {
	for len(text) > 0 {
		n := min(len(text), 127)
		delta = append(append(delta, byte(n)), text[:n]...)
		text = text[n:]
	}
	return delta
}

func appendCopy(delta []byte, from, size int) []byte {
	const most = 0x10000 // as git does; its own encoding writes that as 0
	for size > 0 {
		n := min(size, most)
		at := len(delta)
		delta = append(delta, 0x80)
		for bit := range 4 {
			if b := byte(from >> (8 * bit)); b != 0 {
				delta = append(delta, b)
				delta[at] |= 1 << bit
			}
		}
		for bit := range 2 {
			if b := byte(n >> (8 * bit)); b != 0 && n != most {
				delta = append(delta, b)
				delta[at] |= 0x10 << bit
			}
		}
		from, size = from+n, size-n
	}
	return delta
}

// ends returns the common beginning and the common end of two contents.
func ends(base, target []byte) []copied {
	most := min(len(base), len(target))
	first := 0
	for first < most && base[first] == target[first] {
		first++
	}
	last := 0
	for last < most-first && base[len(base)-1-last] == target[len(target)-1-last] {
		last++
	}
	var both []copied
	if first > 0 {
		both = append(both, copied{from: 0, to: 0, size: first})
	}
	if last > 0 {
		both = append(both, copied{from: len(base) - last, to: len(target) - last, size: last})
	}
	return both
}

// newObject is an object that a push adds.
type newObject struct {
	hash plumbing.Hash
	rawObject
	// base and delta make the object from one that the server has; delta is nil if that saves
	// nothing.
	base  plumbing.Hash
	delta []byte
}

// writePack returns a packfile of version 2 with objects in order. If thin is set, bases of deltas may
// be missing from the pack.
func writePack(objects []newObject, thin bool) []byte {
	var out bytes.Buffer
	out.WriteString("PACK")
	for _, n := range []uint32{2, uint32(len(objects))} {
		out.Write(binary.BigEndian.AppendUint32(nil, n))
	}
	// The fastest level: resetting the others for each object costs more than
	// they save on objects this small. A buffer takes everything, so there are no errors.
	deflate, _ := zlib.NewWriterLevel(&out, zlib.BestSpeed)
	for _, o := range objects {
		body := o.data
		if thin && o.delta != nil {
			out.Write(entryHeader(plumbing.REFDeltaObject, len(o.delta)))
			out.Write(o.base[:])
			body = o.delta
		} else {
			out.Write(entryHeader(o.kind, len(o.data)))
		}
		deflate.Reset(&out)
		_, _ = deflate.Write(body)
		_ = deflate.Close()
	}
	sum := sha1.Sum(out.Bytes())
	return append(out.Bytes(), sum[:]...)
}

// nameOf returns the identifier of a new object. go-git's function also detects deliberate collisions,
// which matter only for received objects.
func nameOf(kind plumbing.ObjectType, data []byte) plumbing.Hash {
	h := sha1.New()
	h.Write(fmt.Appendf(nil, "%s %d\x00", kind, len(data)))
	h.Write(data)
	return plumbing.Hash(h.Sum(nil))
}

// entryHeader returns the header of an entry: type and inflated size.
func entryHeader(kind plumbing.ObjectType, size int) []byte {
	first, rest := byte(kind)<<4|byte(size&0x0f), size>>4
	header := []byte{first}
	for rest > 0 {
		header[len(header)-1] |= 0x80
		header = append(header, byte(rest&0x7f))
		rest >>= 7
	}
	return header
}
