package fleet

import (
	"strings"
	"testing"
	"time"

	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
)

const stateOf = "overlays/default/dispatches/state.yaml"

// What is remembered is read again as it was, and the zero state removes the file.
func TestStateIsReadAgain(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	state := plan.State{
		Breaker:     plan.Breaker{Failures: 4, At: at, Dispatch: "default-7f3k9c2b", Cause: plan.NoJobTaken},
		Ordered:     []plan.Ordered{{At: at.Add(-time.Hour), Agents: 3}, {At: at, Agents: 12}},
		LookedAhead: at.Add(-time.Minute),
		Partial:     plan.Partial{Until: at, Agents: 5},
		ServedAt:    at.Add(-time.Second),
		AheadOf:     []plan.AheadOf{{Stage: "c12370e7e629", Agents: 40, At: at}, {Stage: "13e126aa7d93", Agents: 1, At: at}},
	}
	state.StartupTimes.Add(40*time.Second, 7)
	state.StartupTimes.Add(3*time.Minute, 1)
	if err := state.Gaps.UnmarshalText([]byte("12 3 0 1 0 7")); err != nil {
		t.Fatal(err)
	}
	state.GapsUntil = at
	tree := sound(t)
	overlay := load(t, NewLoader("overlays"), tree.tree())[0]
	changes := overlay.WriteState(state)
	if len(changes) != 1 || changes[0].Path != stateOf {
		t.Fatalf("remembering changes %v", changes)
	}
	tree[stateOf] = string(changes[0].Content)
	overlay = load(t, NewLoader("overlays"), tree.tree())[0]
	if diff := cmp.Diff(state, overlay.State); diff != "" || overlay.Err() != nil || overlay.InvalidState() != nil {
		t.Errorf("read again (%v, %v): %s", overlay.Err(), overlay.InvalidState(), diff)
	}
	if again := overlay.WriteState(state); again != nil {
		t.Errorf("remembering the same changes %v", again)
	}
	if !strings.HasSuffix(tree[stateOf], "\n"+ordersHeader) {
		t.Errorf("without the document of orders:\n%s", tree[stateOf])
	}
	if repair := overlay.Repair(); repair != nil {
		t.Errorf("a valid state needs a repair: %v", repair)
	}
	if changes := overlay.WriteState(plan.State{}); len(changes) != 1 || changes[0].Content != nil {
		t.Errorf("forgetting changes %v", changes)
	}
}

// An invalid state is reported and ignored, and the next repair removes it.
func TestInvalidState(t *testing.T) {
	const head = "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\n"
	for _, text := range []string{
		"", "nonsense", "[1]", head + "mood: bad\n", head + "breaker: {failures: -1}\n", head + "breaker: {failures: 3}\n", head + "breaker: {at: soon}\n", head + "breaker: {failures: 3, at: 2026-11-21T02:15:00Z, cause: left-early}\n",
		head + "ordered: [{at: 2026-11-21T02:15:00Z, agents: -3}]\n", head + "lookedAheadPartial: {agents: 5}\n", head + "lookedAheadPartial: {until: 2026-11-21T02:15:00Z, agents: 0}\n", head + "startupTimes: 45\n", head + "startupTimes: 46:1 30:2\n", head + "startupTimes: [46]\n", head + "startupTimes: 46:0\n", head + "servedAt: soon\n", head + "gaps: 1 2\n", head + "gaps: 1 2 3 4 5 -7\n", head + "gaps: 1 2 3 4 5 100001\n", head + "gaps: [1]\n", head + "gapsUntil: soon\n", head + "servedAt: 9999-12-31T23:59:59Z\n", head + "lookedAhead: 1066-10-14T09:00:00Z\n", head + "ordered: [{at: 2026-11-21T02:15:00Z, agents: 1000000000000}]\n", head + "breaker: {failures: 1000000000000, at: 2026-11-21T02:15:00Z}\n", "kind: OverlayState\n", head + head,
		head + "aheadOf: [{agents: 1, at: 2026-11-21T02:15:00Z}]\n", head + "aheadOf: [{stage: a, at: 2026-11-21T02:15:00Z}]\n", head + "aheadOf: [{stage: a, agents: 1}]\n", strings.Repeat("#", 2<<20),
	} {
		tree := sound(t)
		tree[stateOf] = text
		overlay := load(t, NewLoader("overlays"), tree.tree())[0]
		if overlay.Err() != nil {
			t.Errorf("%.40q suspends the overlay: %v", text, overlay.Err())
		}
		if err := overlay.InvalidState(); err == nil || !strings.HasPrefix(err.Error(), stateOf+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q is reported as %v", text, err)
		}
		if !overlay.State.Equal(plan.State{}) {
			t.Errorf("%.40q is read as %+v", text, overlay.State)
		}
		changes := overlay.Repair()
		if len(changes) == 0 || changes[len(changes)-1].Path != stateOf || changes[len(changes)-1].Content != nil {
			t.Errorf("%.40q is repaired by %v", text, changes)
		}
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte("apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nbreaker: {failures: 3, at: 2026-11-21T02:15:00Z}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, wrong := readState(stateOf, text)
		if wrong != nil && !state.Equal(plan.State{}) {
			t.Errorf("%q is invalid and is read as %+v", text, state)
		}
	})
}
