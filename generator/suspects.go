package generator

import (
	"context"
	"strings"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// suspectsDeep is how many commits are searched for what made a repair
// necessary.
const suspectsDeep = 50

// suspect notes in every repair the commits of others since muster's last commit
// to the overlay. The log is read once, and only if there is a repair. That it
// cannot be read is noted, and keeps nothing from being done.
func (g *Generator) suspect(ctx context.Context, tip branch.Tip, acts []ledger.Act) {
	var log []ledger.Record
	var failed, read bool
	for i := range acts {
		a := &acts[i]
		if a.Kind != ledger.Repair {
			continue
		}
		if !read {
			var err error
			log, err = g.lately(ctx, tip)
			failed, read = err != nil, true
			if failed {
				g.cfg.Log.Debug("the log of the branch cannot be read", "err", err)
			}
		}
		a.Suspects, a.SuspectsUnknown = suspects(log, a.Path), failed
	}
}

// lately returns the last commits of the branch.
func (g *Generator) lately(ctx context.Context, tip branch.Tip) ([]ledger.Record, error) {
	var log []ledger.Record
	for r, err := range ledger.Read(g.cfg.Repository.Commits(ctx, tip.Commit, branch.Limit{Commits: suspectsDeep})) {
		if err != nil {
			return nil, err
		}
		log = append(log, r)
	}
	return log, nil
}

// suspects are the commits of others down to muster's last one to an overlay.
func suspects(log []ledger.Record, overlay string) []ledger.Suspect {
	var all []ledger.Suspect
	for _, r := range log {
		switch {
		case r.Damage != nil: // muster's, though it cannot be read
		case r.Entry == nil:
			subject, _, _ := strings.Cut(strings.TrimSpace(r.Commit.Message), "\n")
			all = append(all, ledger.Suspect{Commit: r.Commit.ID, Author: r.Commit.Author, Subject: subject})
		case r.Entry.Overlay == overlay:
			return all
		}
	}
	return all
}
