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
const stateHeader = "# The memory of muster, which writes it. Do not edit it; git keeps every version. If it is lost together with\n" +
	"# the history of the branch: stop muster for the longest lease, and delete dispatches/.\n"

// stateDocument is the first document of dispatches/state.yaml; see [orderLine] for the second. The JSON
// tags of the types in package plan must stay as they are, so that files remain readable.
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
	// Gaps are how many gaps between jobs each idle time covers, in the text form of [plan.Gaps].
	Gaps      plan.Gaps      `json:"gaps,omitzero"`
	GapsUntil time.Time      `json:"gapsUntil,omitzero"`
	AheadOf   []plan.AheadOf `json:"aheadOf,omitempty"`
}

// stateRead is the content of a state.yaml.
type stateRead struct {
	state   plan.State
	invalid *finding.Finding
	orders  []plan.Dispatch
	problem string // with the orders
}

// readState reads state.yaml, unless the last Load has read the same.
func (l *Loader) readState(o *Overlay, file string, data []byte) {
	o.stateThere, o.stateSize = true, len(data)
	if len(data) > largestState {
		o.reject(finding.Finding{File: file, Problem: fmt.Sprintf("has %d bytes: at most %d are read", len(data), largestState), Remedy: "restore it from git"})
		return
	}
	read, _ := l.states.get(contentKey(file, data), func() (read stateRead, err error) { // never an error
		read.state, read.invalid = readState(file, data)
		_, text := cutState(data)
		read.orders, read.problem = readOrders(text)
		return read, nil
	})
	o.State, o.invalidState, o.recorded, o.ordersProblem = read.state, read.invalid, read.orders, read.problem
	o.stateRead = o.invalidState == nil
}

// readState reads the first document of state.yaml. An invalid one is a finding.
func readState(file string, data []byte) (plan.State, *finding.Finding) {
	wrong := func(problem string) (plan.State, *finding.Finding) {
		return plan.State{}, &finding.Finding{File: file, Problem: invalidPrefix + problem, Remedy: "the next commit restores what muster wrote last"}
	}
	data, _ = cutState(data)
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
		ServedAt: doc.ServedAt, Gaps: doc.Gaps, GapsUntil: doc.GapsUntil, AheadOf: doc.AheadOf,
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

// printState returns state.yaml; nil if there is nothing to remember.
func printState(s plan.State, orders []plan.Dispatch) []byte {
	if s.Equal(plan.State{}) && len(orders) == 0 {
		return nil
	}
	doc := stateDocument{
		APIVersion: policy.Version, Kind: stateKind, Identity: s.Identity, Ordered: s.Ordered,
		LookedAhead: s.LookedAhead, StartupTimes: s.StartupTimes, ServedAt: s.ServedAt, Gaps: s.Gaps, GapsUntil: s.GapsUntil, AheadOf: s.AheadOf,
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
	return slices.Concat([]byte(stateHeader), text, printOrders(orders))
}

// WriteState returns the change that stores a state, with the overlay's orders; none if it is stored
// already.
func (o *Overlay) WriteState(s plan.State) []branch.Change {
	if s.Equal(o.State) {
		return nil
	}
	return []branch.Change{{Path: o.file(stateFile), Content: printState(s, o.Dispatches)}}
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

// ReadState returns the state in a state.yaml, without the orders; the zero value if it is invalid.
func ReadState(data []byte) plan.State {
	state, _ := readState("", data)
	return state
}

// StateFile returns the path of state.yaml of the overlay in a directory.
func StateFile(overlay string) string { return path.Join(overlay, dispatchDir, stateFile) }
