package main

import (
	"bytes"
	"fmt"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/gitserver"
)

// counted counts lines, and keeps none.
type counted struct{ lines int }

func (c *counted) Write(text []byte) (int, error) {
	c.lines += bytes.Count(text, []byte("\n"))
	return len(text), nil
}

// fleetMessage is what commit i of a fleet at work says: a dispatch of twelve agents,
// and a minute later a retirement; one in a hundred is somebody's.
func fleetMessage(i int) string {
	at := gitserver.GeneratedAt(i)
	id := func(i int) string { return fmt.Sprintf("default-%08x", uint32(i)*2654435761) }
	o := plan.Observation{At: at, Queue: "default", Jobs: []plan.Demand{{Overlays: []string{"default"}, Pending: 12, Oldest: &at}}}
	supply := plan.Capacity{Overlay: "default", Busy: 30, QueueBusy: 33, Own: 31, Dispatches: map[string]plan.Observed{}}
	for back := 1; back <= 3; back++ {
		var seen plan.Observed
		for index := range 12 {
			seen.Registered.Add(index)
		}
		first := at.Add(-40 * time.Second)
		seen.FirstAt, seen.RegisteredAt, seen.HadJob, seen.Connected = &first, &at, 12, 12
		supply.Dispatches[id(i-i%2-2*back)] = seen
	}
	o.Overlays = []plan.Capacity{supply}
	a := ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/default", Base: "c0ffee", Decision: plan.Decision{Overlay: "default", Queue: "default", Observation: o}}
	switch {
	case i%100 == 51:
		return fmt.Sprintf("Raise max for release %d\n", i)
	case i%2 == 0:
		a.Decision.Dispatch = []plan.Dispatch{{ID: id(i), Agents: 12}}
		a.Decision.Figures = plan.Figures{Pending: 12, Dispatch: 12, Demand: 12, Max: 100, Current: 30, Missing: 12, Busy: 30, QueueBusy: 33}
	default:
		a.Kind = ledger.Retire
		a.Decision.Retire = []plan.Retirement{{ID: id(i - i%2 - 2), Agents: 12, Registered: 12, Reason: plan.AllRegistered}}
	}
	return ledger.Message(a, "v0.3.0")
}
