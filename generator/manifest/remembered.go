package manifest

import "crypto/sha256"

// key stands for all that a result follows from.
type key = [sha256.Size]byte

// remembered are the results of the last Load, by what they follow from, and
// those of the Load that runs. What a Load does not use is forgotten. The zero
// value remembers nothing.
type remembered[V any] struct{ last, now map[key]V }

// begin is called when a Load begins, and end when it is over.
func (r *remembered[V]) begin() { r.now = map[key]V{} }

func (r *remembered[V]) end() { r.last, r.now = r.now, nil }

// get is what k comes to. It calls find only where neither this Load nor the
// last one did, and remembers nothing that find returned an error for.
func (r *remembered[V]) get(k key, find func() (V, error)) (V, error) {
	v, ok := r.now[k]
	if !ok {
		v, ok = r.last[k]
	}
	if !ok {
		var err error
		if v, err = find(); err != nil {
			return v, err
		}
	}
	r.now[k] = v
	return v, nil
}

// known is what k came to in this Load or the last one; false: nothing is remembered
// of it.
func (r *remembered[V]) known(k key) (v V, ok bool) {
	if v, ok = r.now[k]; ok {
		return v, true
	}
	if v, ok = r.last[k]; ok {
		r.now[k] = v
	}
	return v, ok
}
