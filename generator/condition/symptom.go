package condition

import (
	"slices"

	"muster/generator/plan"
)

// symptom is a condition that another one explains. Its own remedy would not help: a higher max does not
// make agents register in their queue, and another overlay does not replace one that is invalid.
type symptom struct {
	of Type
	// causes are the types of conditions that explain it, with their reasons; nil: every reason.
	causes map[Type][]string
}

// symptoms are all of them. All surfaces get conditions from [WithoutSymptoms], so that none shows a
// symptom together with its cause.
var symptoms = []symptom{
	{of: ScalingLimited, causes: map[Type][]string{
		Suspended:      {string(plan.Invalid), string(plan.UnknownQueue), string(plan.UnknownCluster), string(plan.AmbiguousQueue), string(plan.HostedQueue)},
		PushAccepted:   {Refused, PushFailed},
		AgentsArriving: nil, // agents that do not register count against max
		Degraded:       {AgentsInOtherQueue},
	}},
	{of: JobsServed, causes: map[Type][]string{Suspended: {string(plan.Invalid)}}},
}

// explains reports whether a cause concerns the subject of a symptom: the same overlay, all overlays, or
// a queue that no overlay serves, as long as the queue of an overlay with an invalid policy is unknown.
func explains(cause, c Condition, all []Condition) bool {
	if c.Reason == NoOverlay {
		return slices.ContainsFunc(all, func(o Condition) bool {
			return o.Type == JobsServed && o.Overlay == cause.Overlay && o.Status == Unknown
		})
	}
	return cause.Overlay == "" || cause.Overlay == c.Overlay
}

// IsSymptom reports whether [WithoutSymptoms] has made the condition unknown.
func (c Condition) IsSymptom() bool {
	return c.Status == Unknown && c.Reason != NotDecided && slices.ContainsFunc(symptoms, func(s symptom) bool { return s.of == c.Type })
}

// WithoutSymptoms returns the conditions, in which a symptom is unknown and has the reason of its
// cause, while there is one.
func WithoutSymptoms(all []Condition) []Condition {
	all = slices.Clone(all)
	for _, s := range symptoms {
		for i := range all {
			c := &all[i]
			if c.Type != s.of || !c.Abnormal() || c.Reason == NoMatch {
				continue
			}
			cause := slices.IndexFunc(all, func(o Condition) bool {
				reasons, known := s.causes[o.Type]
				return known && o.Abnormal() && (reasons == nil || slices.Contains(reasons, o.Reason)) && explains(o, *c, all)
			})
			if cause >= 0 {
				*c = Condition{Type: c.Type, Status: Unknown, Reason: all[cause].Reason, Overlay: c.Overlay, Queue: c.Queue, Cluster: c.Cluster}
			}
		}
	}
	return all
}
