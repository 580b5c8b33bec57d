package generator

import (
	"context"
	"errors"
	"slices"

	"muster/generator/ledger"
	"muster/generator/manifest"
	"muster/gitops/branch"
)

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

// mostJobs is how many dispatches one act may add or remove, by overlay; nil: the
// repository takes any number.
func (g *Generator) mostJobs(fleet []manifest.Overlay) map[string]int {
	limits := g.cfg.Repository.Limits()
	if limits.Files == 0 {
		return nil
	}
	const (
		besides = 2 // the list of dispatches, and what is to be remembered
		least   = 3 // so that there is one for each purpose
	)
	most := map[string]int{}
	for i := range fleet {
		n := limits.Files - besides
		if one := fleet[i].DispatchBytes(); one > 0 {
			n = min(n, limits.Bytes*3/4/one) // a quarter is for the rest
		}
		most[fleet[i].Name] = max(n, least)
	}
	return most
}
