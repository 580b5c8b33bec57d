package history

import (
	"path"
	"slices"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// Past is what the commits of some time record of overlays, by directory. The operations are added newest
// first.
type Past struct {
	// Observed are the observations in muster's commits, newest first.
	Observed map[string][]plan.Observation

	next    string          // the next commit of the branch itself
	foreign []branch.Commit // commits of the branch by people, newest first
}

// Add adds an operation. Commits that reached the branch by a merge came into force with the merge.
func (p *Past) Add(r ledger.Operation) {
	if p.Observed == nil {
		p.Observed, p.next = map[string][]plan.Observation{}, r.Commit.ID
	}
	onBranch := r.Commit.ID == p.next
	if onBranch && len(r.Commit.Parents) > 0 {
		p.next = r.Commit.Parents[0]
	}
	if r.ByMuster() {
		if r.Kind != ledger.Repair { // which is made before the poll
			p.Observed[r.Path] = append(p.Observed[r.Path], r.Observation)
		}
	} else if onBranch {
		p.foreign = append(p.foreign, r.Commit)
	}
}

// Overrides returns the overrides that were in force since the oldest operation, by the directory of their
// overlay: current contains the policies at the newest operation, and edits returns the changes of commits.
// Where a change is unknown, the policy after it counts until then.
func (p *Past) Overrides(
	overlays string, current map[string]plan.Policy, edits func([]branch.Commit, branch.Selection) ([]branch.Edits, error),
) (map[string][]plan.Override, error) {
	all := map[string][]plan.Override{}
	oldest := map[string]int{} // how many at the beginning of all are in the oldest policy that was read
	for dir, x := range current {
		all[dir], oldest[dir] = slices.Clone(x.Overrides), len(x.Overrides)
	}
	if len(p.foreign) == 0 {
		return all, nil
	}
	isPolicy := func(name string) bool { return path.Base(name) == policyFile }
	changed, err := edits(p.foreign, branch.Selection{Below: []string{path.Clean(overlays)}, Content: isPolicy})
	if err != nil {
		return nil, err
	}
	for i, c := range p.foreign {
		for _, f := range changed[i].Files {
			if !isPolicy(f.Path) {
				continue
			}
			dir := path.Dir(f.Path)
			for k := range oldest[dir] {
				all[dir][k].Since = c.At
			}
			before, _ := policy.Parse(f.Path, f.Before) // an invalid one suspended the overlay
			for k := range before.Overrides {
				if o := &before.Overrides[k]; o.Until.After(c.At) {
					o.Until = c.At
				}
			}
			all[dir], oldest[dir] = append(before.Overrides, all[dir]...), len(before.Overrides)
		}
	}
	return all, nil
}
