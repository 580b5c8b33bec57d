package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// identities completes the identities of overlays that their files show; see [fleet.Loader]. Between
// ticks it keeps the state of each overlay in case state.yaml is deleted or damaged.
type identities struct {
	repository Repository
	branch     string // empty: unknown
	log        *slog.Logger
	known      map[string]plan.State    // by the overlay's directory
	ids        map[string]plan.Identity // the last that were known, by the overlay's directory
	logged     map[string]bool          // copies, by directory
}

func newIdentities(cfg Config) *identities {
	return &identities{
		repository: cfg.Repository, branch: cfg.Branch, log: cfg.Log,
		known: map[string]plan.State{}, ids: map[string]plan.Identity{}, logged: map[string]bool{},
	}
}

// note stores the states that muster has pushed.
func (k *identities) note(done []ledger.Draft) {
	for _, a := range done {
		for _, c := range a.Changes {
			if s := fleet.ReadState(c.Content); c.Path == fleet.StateFile(a.Path) && s.Identity.ID != "" {
				k.known[a.Path] = s
			}
		}
	}
}

// forget drops the states of overlays that other processes have written since.
func (k *identities) forget(paths []string) {
	for _, path := range paths {
		if s, ok := k.known[path]; ok {
			k.ids[path] = s.Identity
		}
		delete(k.known, path)
	}
}

// complete sets the identities of overlays that a commit contains. wrote returns muster's last commits
// to an overlay, the newest first. An error concerns reading.
func (k *identities) complete(ctx context.Context, commit string, loaded []fleet.Overlay, wrote func(path string) []string) error {
	chooseOriginals(loaded, wrote)
	branches := map[string]bool{} // other branches: whether they exist
	owner := map[string]string{}  // directories by identifier
	for i := range loaded {
		if id := loaded[i].Identity.ID; id != "" {
			owner[id] = loaded[i].Path
		}
	}
	free := func(id plan.Identity, path string) bool {
		return id.ID != "" && (owner[id.ID] == "" || owner[id.ID] == path)
	}
	own := func(other, path string) func(plan.Identity) bool {
		return func(id plan.Identity) bool { return id.ID != other && id.Branch == k.branch && free(id, path) }
	}
	for i := range loaded {
		o := &loaded[i]
		id, before := o.Identity, k.known[o.Path]
		if o.State.Identity.ID == "" && !o.LostState() { // somebody has removed it
			delete(k.known, o.Path)
			delete(k.ids, o.Path)
			before = plan.State{}
		}
		if id.ID == "" && id.CopiedFrom == "" && o.LostState() {
			state, err := k.lost(ctx, o, before, wrote(o.Path), free)
			if err != nil {
				return err
			}
			o.RestoreState(state)
			id = state.Identity
		}
		if id.ID != "" && id.Branch != "" && k.branch != "" && id.Branch != k.branch {
			if _, asked := branches[id.Branch]; !asked {
				var err error
				if branches[id.Branch], err = k.repository.HasBranch(ctx, id.Branch); err != nil {
					return fmt.Errorf("fleet repository: looking up the branch %q: %w", id.Branch, err)
				}
			}
			merged, err := k.owned(ctx, o, before, wrote(o.Path), own(id.ID, o.Path))
			if err != nil {
				return err
			}
			if branches[id.Branch] || merged.Identity.ID != "" { // otherwise that branch was renamed
				id = plan.Identity{CopiedFrom: id.ID}
			}
		}
		if id.CopiedFrom != "" && id.ID == "" { // the copy may have replaced its files
			before, err := k.owned(ctx, o, before, wrote(o.Path), own(id.CopiedFrom, o.Path))
			if err != nil {
				return err
			}
			id.ID = before.Identity.ID
		}
		id.ID = cmp.Or(id.ID, plan.NewID(commit, k.branch, o.Path))
		id.Overlay, id.Branch = o.Path, cmp.Or(k.branch, id.Branch)
		owner[id.ID] = o.Path
		if o.Identity = id; id == o.State.Identity {
			k.known[o.Path] = o.State
		}
		k.report(o)
	}
	fleet.ShareIdentifiers(loaded)
	return nil
}

// chooseOriginals decides between several overlays whose state.yaml has the same identifier and their own
// directory, as after a copy in which a name was replaced everywhere: the original is the one that muster
// has committed to.
func chooseOriginals(loaded []fleet.Overlay, wrote func(path string) []string) {
	claims := map[string][]*fleet.Overlay{}
	for i := range loaded {
		if id := loaded[i].State.Identity; id.ID != "" && id.Overlay == loaded[i].Path {
			claims[id.ID] = append(claims[id.ID], &loaded[i])
		}
	}
	for id, all := range claims {
		at := slices.IndexFunc(all, func(o *fleet.Overlay) bool { return len(wrote(o.Path)) > 0 })
		if len(all) < 2 || at < 0 {
			continue
		}
		for i, o := range all {
			if o.Identity = o.State.Identity; i != at {
				o.Identity = plan.Identity{Overlay: o.Path, Branch: o.State.Identity.Branch, CopiedFrom: id}
			}
		}
	}
}

// lost returns the state of an overlay without state.yaml: what this process knows, what muster's last
// commits contain, or only the identity that its last order has; the zero value if it had none.
func (k *identities) lost(ctx context.Context, o *fleet.Overlay, before plan.State, wrote []string, free func(plan.Identity, string) bool) (plan.State, error) {
	if s, err := k.owned(ctx, o, before, wrote, func(x plan.Identity) bool { return free(x, o.Path) }); s.Identity.ID != "" || err != nil {
		return s, err
	}
	byAge := slices.SortedFunc(slices.Values(o.Dispatches), func(a, b plan.Dispatch) int { return b.At.Compare(a.At) })
	for _, d := range byAge {
		id, _ := plan.TagValue(d.Tags, plan.TagIdentity)
		if x := (plan.Identity{ID: id}); free(x, o.Path) {
			return plan.State{Identity: x}, nil
		}
	}
	return plan.State{}, nil
}

// owned returns the state that this process knows if its identity is accepted, otherwise what written
// returns.
func (k *identities) owned(ctx context.Context, o *fleet.Overlay, before plan.State, wrote []string, accept func(plan.Identity) bool) (plan.State, error) {
	if accept(before.Identity) {
		return before, nil
	}
	s, err := k.written(ctx, o, wrote, accept)
	if id := k.ids[o.Path]; err == nil && s.Identity.ID == "" && accept(id) {
		return plan.State{Identity: id}, nil
	}
	return s, err
}

// written returns the newest state with an accepted identity in muster's last commits to the overlay; the
// zero value if they contain none.
func (k *identities) written(ctx context.Context, o *fleet.Overlay, wrote []string, accept func(plan.Identity) bool) (plan.State, error) {
	for _, commit := range wrote {
		data, err := k.repository.File(ctx, commit, fleet.StateFile(o.Path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return plan.State{}, fmt.Errorf("fleet repository: reading the former state of overlay %s in commit %.12s: %w", o.Name, commit, err)
		}
		if s := fleet.ReadState(data); accept(s.Identity) {
			k.known[o.Path] = s
			return s, nil
		}
	}
	return plan.State{}, nil
}

// report logs once that an overlay is a copy.
func (k *identities) report(o *fleet.Overlay) {
	if o.Identity.CopiedFrom == "" || o.State.Identity.ID == o.Identity.ID || k.logged[o.Path] {
		return
	}
	k.logged[o.Path] = true
	k.log.Info("the overlay is a copy, and gets an identifier of its own", "overlay", o.Name, "id", o.Identity.ID, "copied-from", o.Identity.CopiedFrom)
}
