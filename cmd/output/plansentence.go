package output

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// PlanSentences returns a sentence for each overlay of a plan: what the next tick commits there, by the subject of
// the commit, or why it commits nothing.
func PlanSentences(r generator.Result, conditions []condition.Condition) []string {
	var all []string
	for _, name := range planNames(r) {
		all = append(all, name+": "+planSentence(r, name, condition.Of(conditions, name)))
	}
	return all
}

func planSentence(r generator.Result, name string, conditions []condition.Condition) string {
	var subjects []string
	for _, a := range r.Operations {
		if a.Decision.Overlay == name {
			subjects = append(subjects, strings.TrimPrefix(ledger.Subject(a), name+": "))
		}
	}
	if len(subjects) > 0 {
		return strings.Join(subjects, "; ")
	}
	d, _ := decisionOf(r, name)
	jobs := d.Figures.Pending
	for _, c := range condition.Problems(conditions) {
		switch {
		case c.Type == condition.Suspended && c.Reason == string(plan.Invalid):
			return "suspended: its files are invalid"
		case c.Type == condition.Suspended && jobs > 0:
			return fmt.Sprintf("suspended with %s pending: %s", ledger.Count(jobs, "job"), c.Message)
		case c.Type == condition.Suspended:
			return "suspended: " + c.Message
		case c.Type == condition.ScalingLimited:
			return "orders nothing: " + c.Message
		}
	}
	switch {
	case jobs > 0 && d.Figures.InFlight > 0:
		return "orders nothing: " + waitSentence(r, d)
	case jobs > 0:
		return fmt.Sprintf("orders nothing: %s pending, %s idle", ledger.Count(jobs, "job"), ledger.Count(d.Figures.Idle, "agent"))
	}
	return "orders nothing: no job is pending"
}

// waitSentence describes the agents in flight that pending jobs wait for.
func waitSentence(r generator.Result, d plan.Decision) string {
	text := fmt.Sprintf("%s %s for %s", ledger.Count(d.Figures.Pending, "pending job"), ledger.Pick(d.Figures.Pending, "waits", "wait"), ledger.Count(d.Figures.InFlight, "agent"))
	i := slices.IndexFunc(r.Input.Overlays, func(o plan.Overlay) bool { return o.Name == d.Overlay })
	if i < 0 {
		return text
	}
	var oldest time.Time
	seen := d.Observation.Capacity(d.Overlay).Dispatches
	for _, x := range r.Input.Overlays[i].Dispatches {
		starting := !x.Expired(d.At()) && seen[x.ID].Registered.Below(x.Agents) < x.Agents
		if starting && (oldest.IsZero() || x.At.Before(oldest)) {
			oldest = x.At
		}
	}
	if oldest.IsZero() {
		return text
	}
	return text + fmt.Sprintf(", ordered %s ago", ShortAge(d.At().Sub(oldest)))
}
