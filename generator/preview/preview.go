// Package preview says what a change of policies, templates and the base would do to a
// fleet: which settings change, how the agents' Job changes, and what other policies
// would have made of the jobs of the fleet's own past.
package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/plan"
	"muster/generator/simulation"
)

// Kind is what becomes of an overlay.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Change is what becomes of one overlay.
type Change struct {
	Overlay string
	Kind    Kind
	// Queue is the queue that it serves, by the policy that is new, or else by the old.
	Queue string
	// Settings are those of the policy that change; of one that is added or removed, none.
	Settings []history.Change
	// Job is how the Job of an order changes, as a unified diff; empty: not at all.
	Job string
	// Invalid says why there is no Job to compare, as where a template cannot be built.
	Invalid string
	// Before and After are the policies; the zero value if it is missing or invalid.
	Before, After plan.Policy
	// Replay is what both would have done; nil: see NotPlayed.
	Replay *Replay
	// NotPlayed says why nothing was played; empty where there is nothing to play.
	NotPlayed string
}

// Replay is what two policies make of the same jobs, in one simulated world.
type Replay struct {
	From, To      time.Time
	Before, After simulation.Measures
	// Partial says that other overlays serve the queue too, which were not played.
	Partial bool
}

// Compare lists what becomes of the overlays between two commits, by name. Overlays
// whose policy and Job stay as they are are left out. The overlays must be those of
// trees that can still be read.
func Compare(before, after []fleet.Overlay) []Change {
	var changes []Change
	for i := range before {
		o := &before[i]
		at := slices.IndexFunc(after, func(x fleet.Overlay) bool { return x.Name == o.Name })
		if at < 0 {
			changes = append(changes, Change{Overlay: o.Name, Kind: Removed, Queue: o.Policy.Queue, Before: o.Policy})
			continue
		}
		if c := compare(o, &after[at]); len(c.Settings) > 0 || c.Job != "" || c.Invalid != "" {
			changes = append(changes, c)
		}
	}
	for i := range after {
		o := &after[i]
		if !slices.ContainsFunc(before, func(x fleet.Overlay) bool { return x.Name == o.Name }) {
			changes = append(changes, Change{Overlay: o.Name, Kind: Added, Queue: o.Policy.Queue, After: o.Policy, Invalid: invalid(o)})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Overlay, b.Overlay) })
	return changes
}

func invalid(o *fleet.Overlay) string {
	if err := o.Err(); err != nil {
		return err.Error()
	}
	return ""
}

func compare(a, b *fleet.Overlay) Change {
	c := Change{Overlay: a.Name, Kind: Changed, Queue: cmp.Or(b.Policy.Queue, a.Policy.Queue), Before: a.Policy, After: b.Policy}
	if valid(a.Policy) && valid(b.Policy) {
		c.Settings = history.Changes(a.Policy, b.Policy)
	}
	was, wrongBefore := example(a)
	is, wrongAfter := example(b)
	switch {
	case wrongAfter != nil:
		if wrongBefore == nil || wrongBefore.Error() != wrongAfter.Error() {
			c.Invalid = wrongAfter.Error()
		}
	case wrongBefore == nil:
		c.Job = string(diff.Diff("before", was, "after", is))
	default:
		c.Settings = append(c.Settings, history.Change{Setting: "(the overlay)", Before: "invalid", After: "valid"})
	}
	return c
}

// valid reports whether a policy could be read: every one has a lease.
func valid(p plan.Policy) bool { return p.Lease > 0 }

// exampleTime is when the order of the example is made.
var exampleTime = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// example is the Job of an order of one agent, without what changes with every byte
// of it: its digest.
func example(o *fleet.Overlay) ([]byte, error) {
	if err := o.Err(); err != nil {
		return nil, err
	}
	p := o.Policy
	d := plan.Dispatch{ID: o.Slug() + "-example", Purpose: plan.ForDemand, Agents: 1, At: exampleTime, NotAfter: exampleTime.Add(p.Lease), IdleTimeout: p.DemandIdleTimeout(), Uptime: p.Reuse.Uptime, Cluster: p.Cluster}
	_, changes, err := o.Add([]plan.Dispatch{d})
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if path.Base(c.Path) != d.ID+".yaml" {
			continue
		}
		var kept []byte
		for line := range strings.Lines(string(c.Content)) {
			if name := strings.TrimSpace(line); !strings.HasPrefix(name, "muster.dev/digest:") && !strings.HasPrefix(name, "muster.dev/template:") {
				kept = append(kept, strings.Replace(line, ","+plan.TagTemplate+"="+o.Template, "", 1)...)
			}
		}
		return kept, nil
	}
	return nil, errors.New("an order would write no Job")
}

// Play plays the past of a queue, as an overlay's commits tell it, with the policy
// before and the one after. It leaves the change without a Replay where nothing can be
// played, and says why. shared: other overlays serve the queue too. An error is the
// context's.
func (c *Change) Play(ctx context.Context, observed []plan.Observation, shared bool) error {
	switch {
	case c.Kind != Changed || !valid(c.Before) || !valid(c.After) || len(history.Changes(c.Before, c.After)) == 0:
		return nil
	case c.Before.Queue != c.After.Queue:
		c.NotPlayed = "The jobs of another queue cannot be told from this one's past."
		return nil
	case len(observed) == 0:
		c.NotPlayed = "No commit in that time tells of it."
		return nil
	}
	load, err := simulation.Rebuild(c.Overlay, c.Overlay, observed)
	if err != nil {
		c.NotPlayed = "Nothing can be played: " + err.Error() + "."
		return nil
	}
	scenario := simulation.DefaultScenario()
	var cases []simulation.Case
	for _, p := range []plan.Policy{c.Before, c.After} {
		scenario.Policy = p
		cases = append(cases, simulation.Case{Scenario: scenario, Workload: load})
	}
	muster := []simulation.Named{{Name: "muster", New: func() simulation.Algorithm { return &simulation.Muster{} }}}
	rows, err := simulation.Compare(ctx, cases, muster, runtime.GOMAXPROCS(0), nil)
	if err != nil {
		return fmt.Errorf("playing %s: %w", c.Overlay, err)
	}
	c.Replay = &Replay{From: load.Start, To: load.Start.Add(load.Length), Before: rows[0].Measures, After: rows[1].Measures, Partial: shared}
	return nil
}
