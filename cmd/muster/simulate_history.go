package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/branch"
)

// recorded is what the history of a fleet repository tells of one overlay.
type recorded struct {
	observed []plan.Observation
	others   []string     // the overlays that it tells of besides, by directory, sorted
	policy   *plan.Policy // as it is at the head; nil when there is none
}

// sameRepository is the value of --history that stands for that of --repo.
const sameRepository = "-"

// rebuilt is the workload that the history tells, and the world it is played
// in: that of the flags, with the overlay's policy unless they give one.
func (s *simulate) rebuilt(ctx context.Context, world simulation.World) (simulation.Case, error) {
	none := simulation.Case{}
	if s.history != sameRepository {
		repo, err := s.git.program.cloneAt(s.history)
		if err != nil {
			return none, usage(err)
		}
		s.git.repo = repo
	}
	log := slog.New(slog.NewTextHandler(s.git.program.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h, err := s.readHistory(ctx, log)
	if err != nil {
		return none, err
	}
	if len(h.observed) == 0 {
		return none, usage(fmt.Errorf("--overlay %s: there is no observation of it in the history, %s", s.overlay, h.has()))
	}
	if s.policy == "" && h.policy != nil {
		world.Policy = *h.policy
	}
	name := shownAs(strings.TrimSuffix(filepath.Base(s.git.repo), ".git"))
	load, err := simulation.Rebuild(cmp.Or(name, "history"), strings.TrimPrefix(s.overlay, s.git.overlays+"/"), h.observed)
	if err != nil {
		return none, usage(fmt.Errorf("%s: %w", s.overlay, err))
	}
	return simulation.Case{World: world, Workload: load}, nil
}

// has says which overlays there are in a history.
func (h recorded) has() string {
	if len(h.others) == 0 {
		return "which has no commit of muster's"
	}
	return "which has some of " + strings.Join(h.others, ", ")
}

// readHistory reads every commit of the branch.
func (s *simulate) readHistory(ctx context.Context, log *slog.Logger) (recorded, error) {
	var h recorded
	repository, err := s.git.reader(log)
	if err != nil {
		return h, err
	}
	tip, err := repository.Tip(ctx)
	if err != nil {
		return h, err
	}
	if h.policy, err = policyAt(tip, s.overlay); err != nil {
		return h, err
	}
	others := map[string]bool{}
	for r, err := range ledger.Read(repository.Commits(ctx, tip.Commit, branch.Limit{})) {
		switch {
		case err != nil:
			return h, err
		case r.Damage != nil:
			return h, fmt.Errorf("reading the history of %s: commit %s: %w", repository, r.Commit.ID, r.Damage)
		case r.Entry == nil:
		case r.Entry.Overlay == s.overlay:
			h.observed = append(h.observed, r.Entry.Observation)
		default:
			others[r.Entry.Overlay] = true
		}
	}
	h.others = slices.Sorted(maps.Keys(others))
	return h, nil
}

// observations are what muster's commits up to a head tell of each overlay, by its name;
// what is damaged tells nothing. Dir is the directory of overlays.
func observations(ctx context.Context, repository *gitops.Repository, head string, since time.Time, dir string) (map[string][]plan.Observation, error) {
	all := map[string][]plan.Observation{}
	for r, err := range ledger.Read(repository.Commits(ctx, head, branch.Limit{Since: since})) {
		if err != nil {
			return nil, fmt.Errorf("reading the history before %.7s: %w", head, err)
		}
		if r.Entry != nil {
			name := strings.TrimPrefix(r.Entry.Overlay, path.Clean(dir)+"/")
			all[name] = append(all[name], r.Entry.Observation)
		}
	}
	return all, nil
}

// policyAt reads the overlay's policy at a commit; nil when there is none.
func policyAt(tip branch.Tip, overlay string) (*plan.Policy, error) {
	name := overlay + "/scaling.yaml"
	text, err := fs.ReadFile(tip.Tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(name, text)
	return &p, err
}
