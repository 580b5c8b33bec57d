package generator

import (
	"context"
	"errors"
	"slices"

	"muster/gitops/branch"
	"muster/gitops/ledger"
)

// singly reports whether the repository commits acts one by one, because it pays for each
// request and not for each connection: see [muster/gitops/github.Writer].
func (g *Generator) singly() bool {
	r, ok := g.cfg.Repository.(interface{ Singly() bool })
	return ok && r.Singly()
}

// commitSingly commits the acts one after the other, each on the commit before it and only
// there, and ends at the first error that is not about one overlay: what is left is
// decided again, on what is then. It returns what [Generator.commit] returns.
func (g *Generator) commitSingly(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, []ledger.Act, error) {
	start := tip
	failed := map[string]error{}
	var done []ledger.Act
	var refused error
	for _, act := range acts {
		if failed[act.Path] != nil {
			continue
		}
		next, err := g.push(ctx, tip, []ledger.Act{act})
		switch {
		case err == nil:
			tip, done = next, append(done, act)
		case !alone(err):
			if !errors.Is(err, branch.ErrMoved) {
				g.left = act.Path
			}
			return tip, done, err
		case len(done) == 0 && g.cfg.Clock.Now().Before(g.together) && !errors.Is(err, branch.ErrInvalid):
			return tip, nil, err // every one was refused not long ago
		default:
			failed[act.Path], refused = err, err
		}
	}
	g.left = ""
	if len(failed) == 0 {
		return tip, done, nil
	}
	return tip, done, g.settle(start, failed, len(byOverlay(acts)), len(done) > 0, refused)
}

// inTurn begins with the acts of the overlay whose turn it was when a limit ended the last
// tick, so that those that come first by their names do not take all that a limit leaves.
func (g *Generator) inTurn(acts []ledger.Act) []ledger.Act {
	at := slices.IndexFunc(acts, func(a ledger.Act) bool { return a.Path >= g.left })
	if g.left == "" || at <= 0 {
		return acts
	}
	return slices.Concat(acts[at:], acts[:at])
}
