package condition

import (
	"slices"
	"testing"

	"muster/generator/plan"
)

// TestWithoutSymptoms asserts which conditions disappear beside their cause, on which subjects, and
// which stay.
func TestWithoutSymptoms(t *testing.T) {
	abnormal := func(kind Type, reason, overlay string) Condition {
		c := Condition{Type: kind, Status: True, Reason: reason, Overlay: overlay, Remedy: "x"}
		if !c.Abnormal() {
			c.Status = False
		}
		return c
	}
	full := abnormal(ScalingLimited, MaxReached, "a")
	gpu := Condition{Type: JobsServed, Status: False, Reason: NoOverlay, Queue: "gpu", Cluster: "ci", Remedy: "add"}
	unmatched := Condition{Type: JobsServed, Status: False, Reason: NoMatch, Overlay: "a", Queue: "linux"}
	undecided := undecidedOf("b")
	invalid := abnormal(Suspended, string(plan.Invalid), "b")
	for name, test := range map[string]struct {
		symptom Condition
		others  []Condition
		gone    bool
	}{
		"max alone":                          {full, nil, false},
		"max, push of the overlay refused":   {full, []Condition{abnormal(PushAccepted, Refused, "a")}, true},
		"max, all pushes refused":            {full, []Condition{abnormal(PushAccepted, Refused, "")}, true},
		"max, a conflict":                    {full, []Condition{abnormal(PushAccepted, Conflict, "")}, false},
		"max, push of another refused":       {full, []Condition{abnormal(PushAccepted, Refused, "b")}, false},
		"max, agents overdue":                {full, []Condition{abnormal(AgentsArriving, Overdue, "a")}, true},
		"max, agents of another overdue":     {full, []Condition{abnormal(AgentsArriving, Overdue, "b")}, false},
		"max, agents in another queue":       {full, []Condition{abnormal(Degraded, AgentsInOtherQueue, "a")}, true},
		"max, slow polls":                    {full, []Condition{abnormal(Degraded, PollSlow, "")}, false},
		"max, unknown queue":                 {full, []Condition{abnormal(Suspended, string(plan.UnknownQueue), "a")}, true},
		"max, paused":                        {full, []Condition{abnormal(Suspended, string(plan.Paused), "a")}, false},
		"no overlay":                         {gpu, nil, false},
		"no overlay, one is invalid":         {gpu, []Condition{invalid, undecided}, true},
		"no overlay, an invalid one decides": {gpu, []Condition{invalid, {Type: JobsServed, Status: True, Overlay: "b", Queue: "linux"}, undecidedOf("c")}, false},
		"no overlay, one is paused":          {gpu, []Condition{abnormal(Suspended, string(plan.Paused), "b"), undecided}, false},
		"no match, one is invalid":           {unmatched, []Condition{invalid, undecided}, false},
	} {
		all := append([]Condition{test.symptom}, test.others...)
		got := WithoutSymptoms(all)
		if gone := !got[0].Abnormal(); gone != test.gone || gone != got[0].IsSymptom() || gone && (got[0].Remedy != "" || got[0].Queue != test.symptom.Queue || got[0].Reason != test.others[0].Reason) {
			t.Errorf("%s: %+v", name, got[0])
		}
		if all[0] != test.symptom || !slices.Equal(got[1:], test.others) || !slices.Equal(WithoutSymptoms(got), got) {
			t.Errorf("%s: other conditions changed: %v", name, got)
		}
	}
}

func undecidedOf(overlay string) Condition {
	return Condition{Type: JobsServed, Status: Unknown, Reason: NotDecided, Overlay: overlay}
}
