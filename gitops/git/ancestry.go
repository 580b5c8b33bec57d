package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// contains reports whether commit is head or one of the last commits before it.
func (s *store) contains(ctx context.Context, head, commit plumbing.Hash) (bool, error) {
	const deep = 64
	q := s.since(request{wants: []plumbing.Hash{head}, depth: deep})
	if s.mode == partial {
		q.filter = exact
	}
	answer, err := s.server.fetch(ctx, nil, q)
	if err != nil {
		return false, err
	}
	p, err := indexPack(ctx, answer, s.get)
	if err != nil {
		return false, err
	}
	defer p.close()
	for at := head; at != commit; {
		raw, ok, err := p.object(at)
		if err != nil || !ok {
			return false, err
		}
		if at, ok = parentOf(raw.data); !ok {
			return false, nil
		}
	}
	return true, nil
}
