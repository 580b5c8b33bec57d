package output

import (
	"muster/generator"
	"muster/generator/condition"
	"muster/generator/plan"
)

// PlanDocument is what -o json and -o yaml print.
type PlanDocument struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Head       string          `json:"head"`
	Decisions  []planDecision  `json:"decisions"`
	Suspended  []planSuspended `json:"suspended,omitempty"`
	// Unserved are the queues with pending jobs that no overlay serves.
	Unserved []plan.Unserved `json:"unserved,omitempty"`
	// Conditions are those of all overlays, of queues, and of muster itself.
	Conditions []condition.Condition `json:"conditions"`
}

// planDecision is a decision with its arithmetic as explain prints it.
type planDecision struct {
	plan.Decision
	Steps  []plan.Step  `json:"steps"`
	Limits []plan.Limit `json:"limits,omitempty"`
}

type planSuspended struct {
	Overlay string `json:"overlay"`
	plan.Suspension
	Text string `json:"text"`
}

// NewPlanDocument returns the document of the result of a tick.
func NewPlanDocument(r generator.Result) PlanDocument {
	d := PlanDocument{APIVersion: "muster.dev/v1alpha1", Kind: "Plan", Head: r.Head.Commit, Unserved: r.Unserved, Conditions: r.Conditions(r.Input.Snapshot.At)}
	for _, x := range r.Decisions {
		d.Decisions = append(d.Decisions, planDecision{x, x.Steps(), x.Limits()})
	}
	for _, s := range r.Suspended {
		d.Suspended = append(d.Suspended, planSuspended{Overlay: s.Overlay, Suspension: s.Why, Text: s.Why.String()})
	}
	return d
}
