package fleet

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"

	"sigs.k8s.io/yaml"
)

const stateKind = "OverlayState"

// invalidPrefix is the prefix of problems with state.yaml.
const invalidPrefix = "invalid: "

// stateHeader is the comment on dispatches/state.yaml.
const stateHeader = "# Written by muster: what it must remember. Not applied. Delete it to forget.\n"

// stateDocument is dispatches/state.yaml. The JSON tags of the types in package plan must stay as
// they are, so that files remain readable.
type stateDocument struct {
	APIVersion  string         `json:"apiVersion"`
	Kind        string         `json:"kind"`
	Identity    plan.Identity  `json:"identity,omitzero"`
	Breaker     *plan.Breaker  `json:"breaker,omitempty"`
	Ordered     []plan.Ordered `json:"ordered,omitempty"`
	LookedAhead time.Time      `json:"lookedAhead,omitzero"`
	Partial     *plan.Partial  `json:"lookedAheadPartial,omitempty"`
	// StartupTimes are how many agents took how many seconds, in the text form of [plan.StartupTimes].
	StartupTimes plan.StartupTimes `json:"startupTimes,omitzero"`
	ServedAt     time.Time         `json:"servedAt,omitzero"`
	AheadOf      []plan.AheadOf    `json:"aheadOf,omitempty"`
}

// readState reads state.yaml. An invalid file is a finding.
func readState(file string, data []byte) (plan.State, *finding.Finding) {
	wrong := func(problem string) (plan.State, *finding.Finding) {
		return plan.State{}, &finding.Finding{File: file, Problem: invalidPrefix + problem, Remedy: "the circuit breaker counts as closed, and the next commit removes the file"}
	}
	if len(data) > policy.MaxSize {
		return wrong(fmt.Sprintf("it has %d bytes, at most %d are read", len(data), policy.MaxSize))
	}
	if _, bad := finding.ParseOne(file, data); bad != nil {
		return wrong(bad.Problem)
	}
	var doc stateDocument
	if err := yaml.UnmarshalStrict(data, &doc); err != nil {
		return wrong(finding.OneLine(err))
	}
	if doc.APIVersion != policy.Version || doc.Kind != stateKind {
		return wrong(fmt.Sprintf("its kind is %s of %s, not %s of %s", finding.Quote(doc.Kind), finding.Quote(doc.APIVersion), stateKind, policy.Version))
	}
	if err := plan.CheckStored(doc); err != nil {
		return wrong(err.Error())
	}
	if problem := identityProblem(doc.Identity); problem != "" {
		return wrong(problem)
	}
	state := plan.State{
		Identity: doc.Identity, Ordered: doc.Ordered, LookedAhead: doc.LookedAhead, StartupTimes: doc.StartupTimes,
		ServedAt: doc.ServedAt, AheadOf: doc.AheadOf,
	}
	if b := doc.Breaker; b != nil {
		if b.Failures > 0 == b.At.IsZero() || b.Cause != "" && !slices.Contains(plan.Failures(), b.Cause) {
			return wrong("its breaker has failures without a time, or an unknown cause")
		}
		state.Breaker = *b
	}
	if p := doc.Partial; p != nil {
		if p.Agents < 1 || p.Until.IsZero() {
			return wrong("it has looked ahead in part without agents or without a time")
		}
		state.Partial = *p
	}
	for _, a := range doc.AheadOf {
		if a.Stage == "" || a.Agents < 1 || a.At.IsZero() {
			return wrong("it has looked ahead to stages without a name, without agents or without a time")
		}
	}
	for _, o := range doc.Ordered {
		if o.Agents < 1 || o.At.IsZero() {
			return wrong("it has an order without agents or without a time")
		}
	}
	return state, nil
}

// WriteState returns the change that stores the state for the next decision; none if it is
// stored already. The zero state removes the file.
func (o *Overlay) WriteState(s plan.State) []branch.Change {
	if s.Equal(o.State) {
		return nil
	}
	change := branch.Change{Path: o.file(stateFile)}
	if !s.Equal(plan.State{}) {
		doc := stateDocument{
			APIVersion: policy.Version, Kind: stateKind, Identity: s.Identity, Ordered: s.Ordered,
			LookedAhead: s.LookedAhead, StartupTimes: s.StartupTimes, ServedAt: s.ServedAt, AheadOf: s.AheadOf,
		}
		if !s.Breaker.Equal(plan.Breaker{}) {
			doc.Breaker = &s.Breaker
		}
		if s.Partial.Agents > 0 {
			doc.Partial = &s.Partial
		}
		text, err := yaml.Marshal(doc)
		if err != nil { // plain data always marshals
			panic(err)
		}
		change.Content = append([]byte(stateHeader), text...)
	}
	return []branch.Change{change}
}

var idRule = regexp.MustCompile(`^[0-9a-z]{1,40}$`)

// identityProblem returns why an identity is invalid; empty if it is valid or the zero value.
func identityProblem(id plan.Identity) string {
	switch {
	case id == plan.Identity{}:
		return ""
	case !idRule.MatchString(id.ID) || id.CopiedFrom != "" && !idRule.MatchString(id.CopiedFrom):
		return "its identifier is not 1 to 40 lower case letters and digits"
	case branch.CheckPath(id.Overlay) != nil || strings.ContainsFunc(id.Branch, unicode.IsControl):
		return "its identity has an overlay that is no path, or a branch that is no name"
	}
	return ""
}

// ReadIdentity returns the identity in a state.yaml; the zero value if it has none or is invalid.
func ReadIdentity(data []byte) plan.Identity {
	state, _ := readState("", data)
	return state.Identity
}

// StateFile returns the path of state.yaml of the overlay in a directory.
func StateFile(overlay string) string { return path.Join(overlay, dispatchDir, stateFile) }
