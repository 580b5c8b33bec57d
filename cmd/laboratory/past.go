package laboratory

import (
	"context"
	"errors"
	"time"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops"
	"muster/gitops/branch"
)

// readPast reads what the commits up to a head record. It skips a malformed commit if malformed is nil;
// otherwise it returns its error.
func readPast(
	ctx context.Context, overlays string, repository *gitops.Repository, head string, since time.Time, malformed func(ledger.Operation) error,
) (*history.Past, error) {
	past := &history.Past{}
	log := ledger.Read(overlays, repository.Commits(ctx, head, branch.Limit{}))
	for r, err := range (ledger.Stop{Since: since}).Apply(log) {
		switch {
		case errors.Is(err, ledger.ErrCut):
			return past, nil
		case err != nil:
			return nil, err
		case r.Damage != nil && malformed != nil:
			return nil, malformed(r)
		}
		past.Add(r)
	}
	return past, nil
}

// pastOverrides returns the overrides that were in force in the past, by the directory of their overlay.
// current are the policies at its newest commit.
func pastOverrides(
	ctx context.Context, overlays string, repository *gitops.Repository, past *history.Past, current map[string]plan.Policy,
) (map[string][]plan.Override, error) {
	return past.Overrides(overlays, current, func(commits []branch.Commit, look branch.Selection) ([]branch.Edits, error) {
		return repository.Edits(ctx, commits, nil, look)
	})
}
