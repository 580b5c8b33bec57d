package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// newObject is an object that a push adds.
type newObject struct {
	hash plumbing.Hash
	rawObject
	// base and delta make the object out of one that the server has; delta is
	// nil where that saves nothing.
	base  plumbing.Hash
	delta []byte
}

// writePack lays objects out as a packfile of version 2, in order. Where thin
// is set, deltas may be on objects that are not in the pack.
func writePack(objects []newObject, thin bool) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("PACK")
	for _, n := range []uint32{2, uint32(len(objects))} {
		out.Write(binary.BigEndian.AppendUint32(nil, n))
	}
	// The fastest level: resetting the others for each object costs more than
	// they save on objects this small.
	deflate, err := zlib.NewWriterLevel(&out, zlib.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("writing the pack: %w", err)
	}
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
		if _, err := deflate.Write(body); err != nil {
			return nil, fmt.Errorf("writing the pack: %w", err)
		}
		if err := deflate.Close(); err != nil {
			return nil, fmt.Errorf("writing the pack: %w", err)
		}
	}
	sum := sha1.Sum(out.Bytes())
	return append(out.Bytes(), sum[:]...), nil
}

// nameOf is the identifier of an object made here. go-git's own function also
// detects deliberate collisions, which matters only for what is received.
func nameOf(kind plumbing.ObjectType, data []byte) plumbing.Hash {
	h := sha1.New()
	h.Write(fmt.Appendf(nil, "%s %d\x00", kind, len(data)))
	h.Write(data)
	return plumbing.Hash(h.Sum(nil))
}

// entryHeader is the type and inflated size before an entry's content.
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
