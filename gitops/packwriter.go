package gitops

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
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
// is set, deltas may be on objects that the pack does not hold.
func writePack(objects []newObject, thin bool) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("PACK")
	for _, n := range []uint32{2, uint32(len(objects))} {
		out.Write(binary.BigEndian.AppendUint32(nil, n))
	}
	deflate := zlib.NewWriter(&out)
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
	sum := hash.New(hash.CryptoType)
	sum.Write(out.Bytes())
	return sum.Sum(out.Bytes()), nil
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
