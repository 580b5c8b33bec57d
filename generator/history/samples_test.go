package history

import (
	"fmt"
	"testing"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// TestSamplerForgets: what has left git is not kept, also where later observations have it
// still; a year of commits has many. And agents that come count once.
func TestSamplerForgets(t *testing.T) {
	t.Parallel()
	var r Sampler
	id := func(i int) string { return fmt.Sprint("a-", i) }
	came := 0
	for i := range 1000 {
		var both plan.IndexSet
		both.Add(0)
		both.Add(1)
		seen := map[string]plan.Observed{id(i - 1): {Registered: both}, id(i - 2): {Registered: both}}
		for _, e := range []ledger.Operation{
			{Kind: ledger.Dispatch, Orders: []ledger.Order{{ID: id(i), Agents: 2}}, Observation: plan.Observation{Overlays: []plan.Capacity{{Overlay: "a", Dispatches: seen}}}},
			{Kind: ledger.Retire, Orders: []ledger.Order{{ID: id(i - 1), Agents: 2}}, Observation: plan.Observation{Overlays: []plan.Capacity{{Overlay: "a", Dispatches: seen}}}},
		} {
			e.Overlay = "a"
			r.Add(e, func(s Sample) {
				came += s.Registered
				if s.InFlight != 2 {
					t.Fatalf("%s of order %d: %d in flight", e.Kind, i, s.InFlight)
				}
			})
		}
	}
	if a := r.overlays["a"]; len(a.orders) != 1 || len(a.others) > 2 {
		t.Errorf("%d orders are kept, and %d others", len(a.orders), len(a.others))
	}
	if want := 2 * 1001; came != want {
		t.Errorf("%d agents registered, want %d", came, want)
	}
}
