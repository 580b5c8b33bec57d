package explanation

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// Policy is the policy that was in force.
type Policy struct {
	// File is the path of the policy, and Settings are its numeric settings.
	File     string          `json:"file"`
	Settings []ledger.Change `json:"settings,omitempty"`
	// Schedule is the name of the schedule in force; empty if none is.
	Schedule string `json:"schedule,omitempty"`
	// OverriddenUntil is the end of the override that was in force; nil if none was.
	OverriddenUntil *time.Time `json:"overriddenUntil,omitempty"`
	// Changes are the commits that set it, newest first: its last change, and the last change of the
	// setting that limited the agents.
	Changes []ledger.Operation `json:"changes,omitempty"`
}

// policy returns the policy of an overlay at a commit, and the commits that set it. limit is the field
// that limited the agents; empty if none did.
func (c Config) policy(ctx context.Context, commit string, o *fleet.Overlay, d plan.Decision, limit string) (*Policy, error) {
	p := &Policy{File: path.Join(o.Path, "scaling.yaml"), Schedule: d.Schedule, OverriddenUntil: d.OverriddenUntil}
	shown := []string{"schedule", "override"} // there may be several of each
	for _, f := range policy.Fields() {
		if f.Limits {
			shown = append(shown, f.Name)
		}
	}
	for _, s := range history.Changes(plan.Policy{}, o.Policy) {
		if name, _, _ := strings.Cut(s.Setting, " "); slices.Contains(shown, name) {
			p.Settings = append(p.Settings, ledger.Change{Setting: s.Setting, After: s.After})
		}
	}
	var err error
	p.Changes, err = c.wrote(ctx, commit, o.Path, limit)
	return p, err
}

// setBy describes the last change of a setting, or the schedule that sets it; empty if it is unknown.
func (p *Policy) setBy(setting, schedule string) string {
	if setting == "max" && schedule != "" {
		return fmt.Sprintf("The schedule %q is in force, and may set it.", schedule)
	}
	for _, row := range p.Changes {
		at := row.At.UTC().Format(time.RFC3339)
		for _, x := range row.Changes {
			if x.Setting == setting && row.Kind != ledger.Merge {
				return fmt.Sprintf("%s changed %s at %s, in commit %.7s: %s.", row.Author, setting, at, row.ID, x)
			}
		}
		if setting != "" && row.Kind == ledger.Create {
			return fmt.Sprintf("%s has had this value since %s created the overlay at %s, in commit %.7s.", setting, row.Author, at, row.ID)
		}
	}
	return ""
}

// wrote returns the changes that made a policy what it is at a commit: its last change, and the
// last change of the setting called limit. If one of them was merged, it returns the merge too.
func (c Config) wrote(ctx context.Context, commit, dir, limit string) ([]ledger.Operation, error) {
	rows := history.Config{Overlays: c.Overlays, Now: c.Now}
	rows.Edits = func(commits []branch.Commit, trees map[string]string) ([]branch.Edits, error) {
		look := rows.Selection()
		look.Below = []string{dir} // the others are not asked for
		return c.Repository.Edits(ctx, commits, trees, look)
	}
	var all []ledger.Operation
	written, set := false, limit == ""
	for row, err := range rows.Rows(c.people(ctx, commit)) {
		switch {
		case err != nil:
			return all, err
		case row.Kind == ledger.Unknown: // a shallow clone ends here
			return all, nil
		case row.Overlay != ledger.Name(c.Overlays, dir) || row.Kind.Own() || len(row.Files) > 0: // of another file, or malformed
			continue
		}
		sets := row.Kind == ledger.Create || row.Kind == ledger.Policy && len(row.Changes) == 0 ||
			slices.ContainsFunc(row.Changes, func(x ledger.Change) bool { return x.Setting == limit })
		if !written || !set && sets {
			all = append(all, row)
		}
		if row.Kind != ledger.Merge {
			written, set = true, set || sets
		}
		if written && set {
			break
		}
	}
	return all, nil
}

// people yields the commits by people among a commit and its ancestors, except those of commands.
func (c Config) people(ctx context.Context, commit string) iter.Seq2[ledger.Operation, error] {
	return func(yield func(ledger.Operation, error) bool) {
		for r, err := range c.log(ctx, commit) {
			if (err != nil || !r.ByMuster() && !r.Kind.Command()) && !yield(r, err) {
				return
			}
		}
	}
}
