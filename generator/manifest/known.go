package manifest

import (
	"crypto/sha256"
	"io/fs"

	"muster/generator/plan"
	"muster/gitops/branch"
)

func contentKey(file string, data []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(file))
	h.Write([]byte{0})
	h.Write(data)
	return [sha256.Size]byte(h.Sum(nil))
}

// identityKey stands for a file's content where the tree can tell it without reading the
// file. An overlay of ten thousand dispatches is then read once, and not at each commit.
func identityKey(file string, e fs.DirEntry) (key [sha256.Size]byte, ok bool) {
	entry, ok := e.(branch.Identified)
	if !ok || !e.Type().IsRegular() {
		return key, false
	}
	h := sha256.New()
	h.Write([]byte(file))
	h.Write([]byte{1})
	h.Write([]byte(entry.Identity()))
	return [sha256.Size]byte(h.Sum(nil)), true
}

// noDispatch says why a file below dispatches/ is no dispatch, and what it may have made
// of one all the same.
type noDispatch struct {
	wrong *Finding
	rough plan.Dispatch
	size  int // of the file, in bytes
}

// holds rejects an overlay for such a file.
func (o *Overlay) holds(file string, no noDispatch) {
	o.reject(*no.wrong)
	o.edits = append(o.edits, Edit{File: file, Dispatch: no.rough})
}

// know keeps dispatches that were just written from being read again.
func (l *Loader) know(written map[[sha256.Size]byte]readDispatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.valid == nil {
		l.valid = written
		return
	}
	for key, d := range written {
		l.valid[key] = d
	}
}
