package generator

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// unsure is a push of which it is not known whether it has landed: the connection
// broke off before the server's word. The zero value is none.
type unsure struct {
	tip  string // that it was made on
	acts []ledger.Act
}

// push commits acts, all or none, and notes when it is not known which.
func (g *Generator) push(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	next, err := g.cfg.Repository.Commit(ctx, tip, acts)
	g.gitAnswered(err)
	switch {
	case err == nil:
		g.unsure = unsure{} // the branch was where an earlier push would have moved it from
	case !alone(err) && !nothingWritten(err):
		g.unsure = unsure{tip: tip.Commit, acts: acts}
	}
	return next, err
}

// nothingWritten reports whether a push was not first, and it is known that nothing of it
// was written.
func nothingWritten(err error) bool {
	return errors.Is(err, branch.ErrMoved) && !errors.Is(err, branch.ErrUnsettled)
}

// landed returns the acts of the push that broke off, once the branch shows that
// they are in it. It is told from the manifests, for each is written once and
// removed once; a push of repairs alone is told from all of its files.
func (g *Generator) landed(tip branch.Tip) []ledger.Act {
	u := g.unsure
	if u.tip == "" || u.tip == tip.Commit {
		return nil // nothing was pushed yet: it may still come, from a mirror that lags
	}
	g.unsure = unsure{}
	manifests := slices.ContainsFunc(u.acts, func(a ledger.Act) bool { return a.Kind != ledger.Repair })
	for _, a := range u.acts {
		if manifests && a.Kind == ledger.Repair {
			continue
		}
		ids, _ := a.Dispatches()
		for _, c := range a.Changes {
			if manifests && !slices.Contains(ids, strings.TrimSuffix(path.Base(c.Path), ".yaml")) {
				continue
			}
			content, err := fs.ReadFile(tip.Tree, c.Path)
			there := err == nil && bytes.Equal(content, c.Content)
			if c.Content == nil && !errors.Is(err, fs.ErrNotExist) || c.Content != nil && !there {
				return nil
			}
		}
	}
	return u.acts
}
