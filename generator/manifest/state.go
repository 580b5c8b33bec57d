package manifest

import (
	"fmt"

	"muster/generator/plan"
	"muster/gitops/branch"

	"sigs.k8s.io/yaml"
)

const stateKind = "OverlayState"

// stateHeader is the comment on dispatches/state.yaml.
const stateHeader = "# Written by muster: what it must remember. Not applied. Delete it to forget.\n"

// stateDocument is dispatches/state.yaml.
type stateDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	plan.State
}

// readState reads what is remembered. What makes no sense is a finding.
func readState(file string, data []byte) (plan.State, *Finding) {
	wrong := func(problem string) (plan.State, *Finding) {
		return plan.State{}, &Finding{File: file, Problem: problem, Remedy: "the breaker is taken as closed, and the file is taken away"}
	}
	if len(data) > largestPolicy {
		return wrong(fmt.Sprintf("is %d bytes and was not read", len(data)))
	}
	if _, bad := parseOne(file, data); bad != nil {
		return wrong(bad.Problem)
	}
	var doc stateDocument
	if err := yaml.UnmarshalStrict(data, &doc); err != nil {
		return wrong("cannot be read: " + oneLine(err))
	}
	if doc.APIVersion != policyVersion || doc.Kind != stateKind {
		return wrong(fmt.Sprintf("is a %s of %s, not a %s of %s", quote(doc.Kind), quote(doc.APIVersion), stateKind, policyVersion))
	}
	b := doc.Breaker
	if b.Failures < 0 || b.Failures > 0 == b.At.IsZero() {
		return wrong("has a breaker that cannot be")
	}
	for _, o := range doc.Ordered {
		if o.Agents < 1 || o.At.IsZero() {
			return wrong("has an order that cannot be")
		}
	}
	return doc.State, nil
}

// WriteState returns the change that keeps the state for the next decision; none
// when it is kept already.
func (o *Overlay) WriteState(s plan.State) []branch.Change {
	if s.Equal(o.State) {
		return nil
	}
	change := branch.Change{Path: o.file(stateFile)}
	if !s.Equal(plan.State{}) {
		text, err := yaml.Marshal(stateDocument{APIVersion: policyVersion, Kind: stateKind, State: s})
		if err != nil { // plain data always marshals
			panic(err)
		}
		change.Content = append([]byte(stateHeader), text...)
	}
	return []branch.Change{change}
}
