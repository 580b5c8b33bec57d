package git

import "encoding/binary"

// deltaOf encodes the making of target out of base as a delta that copies
// and inserts. copies are the ranges of base that target has, in order;
// whatever lies between them is inserted.
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

// copied says that size bytes of a base from offset from stand in the target
// at offset to.
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

// ends are what two contents have in common at their beginning and at their end.
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
