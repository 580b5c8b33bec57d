// Package preview describes the effect of changes of policies, templates and the base on a fleet:
// changed settings, changes of the agents' Job, and simulations of both policies with the fleet's past
// jobs.
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

	"muster/generator/finding"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/simulation"
)

// Kind is the kind of a change.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Change is the change of one overlay.
type Change struct {
	Overlay string
	Kind    Kind
	// Queue is the queue of the new policy, or else of the old one.
	Queue string
	// Settings are the changed settings of the policy; empty if it is added or removed.
	Settings []ledger.Change
	// Job is the unified diff of the Job of an order; empty if it does not change.
	Job string
	// Invalid is the reason if there is no Job to compare, such as a template that does not build.
	Invalid string
	// Before and After are the policies; the zero value if it is missing or invalid.
	Before, After plan.Policy
	// Replay is the simulation of both policies; nil: see NotPlayed.
	Replay *Replay
	// NotPlayed is the reason if nothing was simulated although the policy changes.
	NotPlayed string
}

// Replay is the simulation of two policies with the same jobs.
type Replay struct {
	From, To      time.Time
	Before, After simulation.Measures
	// Partial reports whether other overlays also serve the queue, and Overridden whether overrides
	// change. Neither was simulated.
	Partial, Overridden bool
}

// Compare returns the changes of overlays between two commits, sorted by name. It omits overlays without
// changes. The trees of the overlays must still be readable.
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
		c.Settings = append(c.Settings, ledger.Change{Setting: "(the overlay)", Before: "invalid", After: "valid"})
	}
	return c
}

// valid reports whether a policy was parsed: every policy has a lease.
func valid(p plan.Policy) bool { return p.Lease > 0 }

// exampleTime is the time of the example's order.
var exampleTime = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// example returns the Job of an order of one agent without its hashes, which change with every byte.
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
			if name := strings.TrimSpace(line); !strings.HasPrefix(name, "muster.dev/template:") {
				kept = append(kept, strings.Replace(line, ","+plan.TagTemplate+"="+o.Template, "", 1)...)
			}
		}
		return kept, nil
	}
	return nil, errors.New("an order would write no Job")
}

// Play simulates the jobs of a queue, which it rebuilds from an overlay's commits, with the policies
// before and after, and sets Replay or NotPlayed. overrides are those that were in force then, and
// shared reports whether other overlays also serve the queue. It returns only errors of the context.
func (c *Change) Play(ctx context.Context, observed []plan.Observation, overrides []plan.Override, shared bool) error {
	switch {
	case c.Kind != Changed || !valid(c.Before) || !valid(c.After) || len(history.Changes(c.Before, c.After)) == 0:
		return nil
	case len(history.Changes(withoutOverrides(c.Before), withoutOverrides(c.After))) == 0:
		c.NotPlayed = "Changed overrides apply from their commit on, not to the past."
		return nil
	case c.Before.Queue != c.After.Queue:
		c.NotPlayed = "The commits of this overlay do not record the jobs of another queue."
		return nil
	case len(observed) == 0:
		c.NotPlayed = "No commit in that time records it."
		return nil
	}
	load, err := simulation.Rebuild(c.Overlay, c.Overlay, observed)
	if err != nil {
		c.NotPlayed = "Nothing to simulate: " + err.Error() + "."
		return nil
	}
	scenario := simulation.DefaultScenario()
	scenario.Overrides = overrides
	var cases []simulation.Case
	for _, p := range []plan.Policy{c.Before, c.After} {
		scenario.Policy = p
		cases = append(cases, simulation.Case{Scenario: scenario, Workload: load})
	}
	muster := []simulation.Named{{Name: "muster", New: func() simulation.Algorithm { return &simulation.Muster{} }}}
	rows, err := simulation.Compare(ctx, cases, muster, runtime.GOMAXPROCS(0), nil)
	if err != nil {
		return fmt.Errorf("simulating %s: %w", c.Overlay, err)
	}
	c.Replay = &Replay{From: load.Start, To: load.Start.Add(load.Length), Before: rows[0].Measures, After: rows[1].Measures, Partial: shared, Overridden: len(history.Changes(c.Before, c.After)) > len(history.Changes(withoutOverrides(c.Before), withoutOverrides(c.After)))}
	return nil
}

func withoutOverrides(p plan.Policy) plan.Policy {
	p.Overrides = nil
	return p
}

// Report is the effect of a pull request.
type Report struct {
	// Base and Head are the commits that were compared.
	Base, Head string
	Changes    []Change
	// Findings are the problems in the files at the head, and New reports whether one is not at the
	// base.
	Findings []finding.Finding
	New      func(finding.Finding) bool
}
