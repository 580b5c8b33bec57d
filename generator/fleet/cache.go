package fleet

import (
	"crypto/sha256"
	"io/fs"

	"muster/gitops/branch"
)

// key identifies everything that a result depends on.
type key = [sha256.Size]byte

// keyOf returns the key of a file and of what identifies its content. kind separates the keys of
// contents from those of identities.
func keyOf(file string, kind byte, data []byte) key {
	h := sha256.New()
	h.Write([]byte(file))
	h.Write([]byte{kind})
	h.Write(data)
	return key(h.Sum(nil))
}

func contentKey(file string, data []byte) key { return keyOf(file, 0, data) }

// identityKey returns a key for a file's content if the tree can identify the content without
// reading the file. An overlay of ten thousand dispatches is then read once, and not at each
// commit.
func identityKey(file string, e fs.DirEntry) (k key, ok bool) {
	entry, ok := e.(branch.Identified)
	if !ok || !e.Type().IsRegular() {
		return k, false
	}
	return keyOf(file, 1, []byte(entry.Identity())), true
}

// remembered contains the results of the last Load and of the current one, by the key of their
// input. Results that a Load does not use are dropped. The zero value is empty.
type remembered[V any] struct{ last, now map[key]V }

// begin is called when a Load begins, and end when it is over.
func (r *remembered[V]) begin() { r.now = map[key]V{} }

func (r *remembered[V]) end() { r.last, r.now = r.now, nil }

// get returns the result for k. It calls find only if neither this Load nor the last one did,
// and remembers nothing if find returns an error.
func (r *remembered[V]) get(k key, find func() (V, error)) (V, error) {
	if v, ok := r.known(k); ok {
		return v, nil
	}
	v, err := find()
	if err == nil {
		r.now[k] = v
	}
	return v, err
}

// known returns the result for k of this Load or the last one, if there is one.
func (r *remembered[V]) known(k key) (v V, ok bool) {
	if v, ok = r.now[k]; ok {
		return v, true
	}
	if v, ok = r.last[k]; ok {
		r.now[k] = v
	}
	return v, ok
}
