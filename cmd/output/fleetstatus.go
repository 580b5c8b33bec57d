package output

import (
	"iter"
	"slices"
	"time"

	"muster/generator/condition"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// Only keeps the named overlays; no names keep all.
func (f *FleetStatus) Only(names []string, dir string) error {
	var known []string
	for _, o := range f.Overlays {
		known = append(known, o.Overlay)
	}
	chosen, err := ChooseOverlays(names, known, dir)
	f.Overlays = slices.DeleteFunc(f.Overlays, func(o overlayStatus) bool { return !slices.Contains(chosen, o.Overlay) })
	return err
}

// FleetStatus is the status of a fleet at one commit, derived from git alone. Its JSON uses the
// names of the terms and the formula in docs/reference/decision.md.
type FleetStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// At is when it was looked at, and Tip the commit.
	At       time.Time       `json:"at"`
	Head     string          `json:"head"`
	Overlays []overlayStatus `json:"overlays"`
}

// overlayStatus is the status of one overlay in git.
type overlayStatus struct {
	// Overlay is its name, and Path its directory.
	Overlay string `json:"overlay"`
	Path    string `json:"path"`
	Queue   string `json:"queue,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// State is the state in a word, and Conditions are the conditions according to git. What
	// depends on a poll is of the last one in git.
	State      string                `json:"state"`
	Conditions []condition.Condition `json:"conditions"`
	// Schedule names the schedule that is in force.
	Schedule string `json:"schedule,omitempty"`
	Min      int    `json:"min"`
	Max      int    `json:"max"`
	// InFlight agents are ordered and may still register: their lease lasts, and
	// the last observation had not seen them.
	InFlight   int              `json:"inFlight"`
	Dispatches []dispatchStatus `json:"dispatches"`
	// Observed is what the last decision about the queue went by; nil where the
	// history that was read has none.
	Observed *observedStatus `json:"observed,omitempty"`
	// Operations are the last ones, of muster and of its commands, the newest first.
	Operations []ledger.Operation `json:"operations"`
	// Ordered are the agents that were ordered in each of the last parts of the hour
	// before At, the oldest first.
	Ordered []int `json:"ordered"`
	// readable: the policy is valid.
	readable bool
}

type dispatchStatus struct {
	ID        string       `json:"id"`
	Purpose   plan.Purpose `json:"purpose"`
	Agents    int          `json:"agents"`
	InFlight  int          `json:"inFlight"`
	At        time.Time    `json:"at"`
	NotAfter  time.Time    `json:"notAfter"`
	Withdrawn bool         `json:"withdrawn,omitempty"`
}

// observedStatus is the arithmetic of today's policy on the last observation in git.
type observedStatus struct {
	At time.Time `json:"at"`
	plan.Figures
}

const (
	// orderedFor is the time that Ordered is about, in parts.
	orderedFor, orderedParts = time.Hour, 12
	// maxOperations are listed of one overlay.
	maxOperations = 10
	// MaxStatusCommits are read at most in search of each overlay's last act by muster.
	MaxStatusCommits = 2000
)

// ReadStatus returns the status of the overlays at the head, and reads as much of the history as
// they need.
func ReadStatus(overlays []fleet.Overlay, head string, now time.Time, log iter.Seq2[ledger.Operation, error]) (FleetStatus, error) {
	f := FleetStatus{APIVersion: "muster.dev/v1alpha1", Kind: "Status", At: now, Head: head, Overlays: []overlayStatus{}}
	h, err := readRecent(overlays, now, log)
	if err != nil {
		return f, err
	}
	var planned []plan.Overlay
	for _, o := range overlays {
		planned = append(planned, o.Overlay)
	}
	for i := range overlays {
		f.Overlays = append(f.Overlays, h.status(&overlays[i], planned, now))
	}
	return f, nil
}

// recent is what the newest commits tell, by directory and by queue.
type recent struct {
	operations map[string][]ledger.Operation
	byMuster   map[string]bool // whether one of the operations is
	ordered    map[string][]int
	observed   map[string]ledger.Operation
}

// readRecent reads the last hour of the history, and further back until it has an operation by muster
// of every overlay.
func readRecent(overlays []fleet.Overlay, now time.Time, log iter.Seq2[ledger.Operation, error]) (recent, error) {
	h := recent{operations: map[string][]ledger.Operation{}, byMuster: map[string]bool{}, ordered: map[string][]int{}, observed: map[string]ledger.Operation{}}
	missing := func(o fleet.Overlay) bool { return !h.byMuster[o.Path] }
	for r, err := range log {
		if err != nil {
			return h, err
		}
		if r.Commit.At.Before(now.Add(-orderedFor)) && !slices.ContainsFunc(overlays, missing) {
			break
		}
		if r.ByMuster() || r.Kind.Command() { // one that is damaged tells nothing
			h.add(r, now)
		}
	}
	return h, nil
}

func (h *recent) add(e ledger.Operation, now time.Time) {
	if ops := h.operations[e.Path]; len(ops) < maxOperations {
		h.operations[e.Path] = append(ops, e.Brief())
	}
	if !e.ByMuster() {
		return
	}
	h.byMuster[e.Path] = true
	if last, ok := h.observed[e.Queue]; e.Kind != ledger.Repair && (!ok || e.Decided.After(last.Decided)) { // a repair is made before the poll
		h.observed[e.Queue] = e
	}
	if e.Kind != ledger.Dispatch {
		return
	}
	if h.ordered[e.Path] == nil {
		h.ordered[e.Path] = make([]int, orderedParts)
	}
	if age := max(0, now.Sub(e.At)); age < orderedFor {
		h.ordered[e.Path][orderedParts-1-int(age/(orderedFor/orderedParts))] += e.Agents()
	}
}

// status returns the status of one overlay from its files and the history.
func (h recent) status(o *fleet.Overlay, all []plan.Overlay, now time.Time) overlayStatus {
	s := overlayStatus{
		Overlay: o.Name, Path: o.Path, Queue: o.Policy.Queue, Cluster: o.Policy.Cluster,
		Dispatches: []dispatchStatus{}, Operations: h.operations[o.Path], Ordered: h.ordered[o.Path],
		readable: !o.Policy.Partial(),
	}
	if s.Operations == nil {
		s.Operations = []ledger.Operation{}
	}
	if s.Ordered == nil {
		s.Ordered = make([]int, orderedParts)
	}
	policy, schedule := o.Policy.During(now)
	s.Min, s.Max, s.Schedule = policy.Min, policy.Max, schedule
	decision, seen := h.decide(o.Overlay, all)
	if decision != nil {
		s.Observed = &observedStatus{At: decision.At(), Figures: decision.Figures}
	}
	s.Conditions = h.conditions(o, all, now)
	s.State = condition.State(s.Conditions)
	for _, d := range o.Dispatches {
		x := dispatchStatus{ID: d.ID, Purpose: d.Purpose, Agents: d.Agents, At: d.At, NotAfter: d.NotAfter, Withdrawn: d.Withdrawn}
		if !d.Expired(now) {
			x.InFlight = d.Agents - seen[d.ID].Registered.Below(d.Agents)
		}
		s.InFlight += x.InFlight
		s.Dispatches = append(s.Dispatches, x)
	}
	return s
}

// conditions returns the conditions of an overlay at a time, by the files and the last poll in
// git.
func (h recent) conditions(o *fleet.Overlay, all []plan.Overlay, now time.Time) []condition.Condition {
	var poll *plan.Observation
	e, ok := h.observed[o.Policy.Queue]
	if ok {
		poll = &e.Observation
	}
	c := condition.InGit(o.Overlay, all, e.ID, poll, now)
	if err := o.InvalidState(); err != nil {
		c.StateError = err.Error()
	}
	for _, op := range h.operations[o.Path] {
		if op.Kind == ledger.Repair {
			c.Repair, c.Repaired = op.Subject(), op.At
			break
		}
	}
	return c.Conditions()
}

// decide applies the current policy to the last observation of an overlay's queue. It returns
// nil if there is no such observation. Dispatches of the original decision are in git by now; a
// replayed decision desires the same number of agents anyway, unless the circuit breaker is
// open.
func (h recent) decide(o plan.Overlay, all []plan.Overlay) (*plan.Decision, map[string]plan.Observed) {
	e, ok := h.observed[o.Policy.Queue]
	if !ok || o.Policy.Queue == "" {
		return nil, nil
	}
	polled := slices.ContainsFunc(e.Observation.Overlays, func(s plan.Capacity) bool { return s.Overlay == o.Name })
	for _, d := range plan.Decide(e.ID, all, e.Observation) {
		if polled && d.Overlay == o.Name {
			return &d, e.Observation.Capacity(o.Name).Dispatches
		}
	}
	return nil, nil
}
