package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"muster/generator/finding"
	"muster/generator/plan"
)

// orderedAs returns the slug of the overlay that a dispatch was ordered for, and orderedBy its
// identifier, as in its agents' tags.
func orderedAs(d plan.Dispatch) string {
	slug, _ := plan.TagValue(d.Tags, plan.TagOverlay)
	return slug
}

func orderedBy(d plan.Dispatch) string {
	id, _ := plan.TagValue(d.Tags, plan.TagIdentity)
	return id
}

func another(file string, d plan.Dispatch) finding.Finding {
	return finding.Finding{File: file, Problem: fmt.Sprintf("contains %s, an order of the overlay %s", d.ID, finding.Quote(orderedAs(d))), Remedy: "delete its line and its manifest"}
}

// identify sets the identities of the overlays that the files contain. If several directories
// have the identifier of one overlay, the original is the one that state.yaml names, or else the first;
// the others are copies. An overlay that state.yaml does not name was renamed, unless the one that it
// names is there without an identity. That one has lost its own if its state.yaml is lost.
func identify(tree fs.FS, overlays []Overlay) {
	original := map[string]string{} // directories by identifier
	for i := range overlays {
		if o := &overlays[i]; o.State.Identity.Overlay == o.Path {
			original[o.State.Identity.ID] = o.Path
		}
	}
	slugs, lost := map[string]bool{}, map[string]plan.Identity{}
	for i := range overlays {
		o := &overlays[i]
		slugs[o.Slug()] = true
		id := o.State.Identity
		if id.ID == "" {
			continue
		}
		if original[id.ID] == "" {
			beside, err := mayHave(tree, id)
			if err != nil {
				o.reject(finding.Unreadable(StateFile(id.Overlay), err))
			}
			original[id.ID] = o.Path
			if beside {
				original[id.ID], lost[id.Overlay] = id.Overlay, id
			}
		}
		if o.Identity = id; original[id.ID] != o.Path {
			o.Identity = plan.Identity{Overlay: o.Path, Branch: id.Branch, CopiedFrom: id.ID}
		}
	}
	for i := range overlays {
		o := &overlays[i]
		if o.LostState() {
			o.Identity = lost[o.Path]
		}
		o.original, o.slugs = original, slugs
	}
}

// ShareIdentifiers sets the identifiers of the branch, which are those of the overlays and of their
// dispatches, in all of its overlays.
func ShareIdentifiers(overlays []Overlay) {
	ids := map[string]bool{}
	for i := range overlays {
		o := &overlays[i]
		if o.Fleet = ids; o.Identity.ID != "" {
			ids[o.Identity.ID] = true
		}
		for _, d := range o.Dispatches {
			if id := orderedBy(d); id != "" && !o.Copied(d) && !ids[id] {
				ids[id] = false
			}
		}
	}
}

// mayHave reports whether the overlay that an identity names is there and has this identity or none.
func mayHave(tree fs.FS, id plan.Identity) (bool, error) {
	if _, err := fs.ReadFile(tree, path.Join(id.Overlay, policyFile)); err != nil {
		return false, unlessMissing(err)
	}
	data, err := fs.ReadFile(tree, StateFile(id.Overlay))
	found := ReadState(data).Identity.ID
	return found == "" || found == id.ID, unlessMissing(err)
}

// unlessMissing returns an error other than that of a missing file.
func unlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// rejectOthers rejects orders that another overlay of the tree made, unless the overlay is a copy
// of that one: they would count twice.
func (o *Overlay) rejectOthers() {
	if o.Identity.CopiedFrom != "" {
		return
	}
	o.Dispatches = slices.DeleteFunc(o.Dispatches, func(d plan.Dispatch) bool {
		id, slug := orderedBy(d), orderedAs(d)
		in, known := o.original[id]
		switch {
		case known && in == o.Path, slug == "":
			return false
		case !known && (slug == o.Slug() || !o.slugs[slug]):
			return false
		}
		o.others = append(o.others, another(o.file(stateFile), d))
		return true
	})
}

// Carries reports whether a dispatch was ordered under the overlay's identifier, or by its name if the
// dispatch has none.
func (o *Overlay) Carries(d plan.Dispatch) bool {
	if id := orderedBy(d); id != "" {
		return id == o.Identity.ID
	}
	return orderedAs(d) == o.Slug()
}
