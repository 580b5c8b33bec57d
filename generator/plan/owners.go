package plan

// Owners tells whose agent ran a job. The zero value knows of no overlay.
type Owners struct {
	bySlug     map[string]Overlay
	byDispatch map[string]string
}

// NewOwners returns the owners of the agents of these overlays.
func NewOwners(overlays []Overlay) Owners {
	o := Owners{bySlug: map[string]Overlay{}, byDispatch: map[string]string{}}
	for _, v := range overlays {
		for _, former := range v.Former {
			o.bySlug[former] = v
		}
		for _, d := range v.Dispatches {
			o.byDispatch[d.ID] = v.Name
		}
	}
	for _, v := range overlays {
		o.bySlug[v.Slug()] = v
	}
	return o
}

// Of returns the name of the overlay that dispatched the agent, and the dispatch
// where that is told; both are empty for an agent of nobody's. One of which only
// the name is known is told by the dispatches that are still in git.
func (o Owners) Of(s Sighting) (overlay, dispatch string) {
	tags := s.tags()
	dispatch, _ = tagValue(tags, TagDispatch)
	slug, ok := tagValue(tags, TagOverlay)
	if !ok {
		overlay = o.byDispatch[dispatch]
	} else if v, known := o.bySlug[slug]; known {
		if own, _ := v.owns(tags, slug); own {
			overlay = v.Name
		}
	}
	if overlay == "" {
		return "", ""
	}
	return overlay, dispatch
}
