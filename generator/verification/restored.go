package verification

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// restored holds the dispatches that repairs have written until the orders of them are
// found, which are further back in the log.
type restored map[string]Finding

// mostRestored bounds them.
const mostRestored = 10_000

// note takes up one finding.
func (r restored) note(f *Finding) {
	for _, id := range f.orders {
		delete(r, id)
	}
	for _, id := range f.restores {
		if len(r) < mostRestored {
			r[id] = *f
		}
	}
}

// forged are the repairs that write what nobody has ordered: another finding of commits
// that were taken for repairs.
func (r restored) forged() []Finding {
	ids := map[string][]string{}
	found := map[string]Finding{}
	for _, id := range slices.Sorted(maps.Keys(r)) {
		f := r[id]
		ids[f.Commit] = append(ids[f.Commit], id)
		found[f.Commit] = f
	}
	var all []Finding
	for _, commit := range slices.Sorted(maps.Keys(found)) {
		f := found[commit]
		f.Verdict, f.restores = Forged, nil
		f.Why = []string{fmt.Sprintf("it writes %s, which no commit before it has ordered", strings.Join(ids[commit], ", "))}
		all = append(all, f)
	}
	return all
}
