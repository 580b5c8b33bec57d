package manifest

import "muster/generator/plan"

// Decidable returns the overlays that can be decided on. One whose policy can be
// read takes part even when another of its files is invalid, because its agents
// and its place in the queue count; nothing is done about it.
func Decidable(loaded []Overlay) []plan.Overlay {
	var overlays []plan.Overlay
	for i := range loaded {
		o := &loaded[i]
		if o.Policy.Queue != "" {
			overlays = append(overlays, o.Overlay)
		}
	}
	return overlays
}
