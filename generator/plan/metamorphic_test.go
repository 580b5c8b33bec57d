package plan

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMoreRoomNeverOrdersFewer: what was served with less room is served with
// more.
func TestMoreRoomNeverOrdersFewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		before := ordered(d.decide())
		i := rapid.IntRange(0, len(d.overlays)-1).Draw(t, "overlay")
		d.overlays[i].Policy.Max += rapid.IntRange(1, 3).Draw(t, "more")
		if after := ordered(d.decide()); after < before {
			t.Fatalf("%d agents, and %d with more room in %s\n%s", before, after, d.overlays[i].Name, d)
		}
	})
}

// TestAnIdleAgentMoreNeverOrdersMore: one that can take every job, whoever
// started it.
func TestAnIdleAgentMoreNeverOrdersMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		before := ordered(d.decide())
		extra := Agent{ID: "extra", State: AgentIdle, Tags: []string{"queue=default", "os=linux", "gpu=a100"}}
		if len(d.snapshot.Queues) > 0 {
			extra.Cluster = rapid.SampledFrom(d.snapshot.Queues).Draw(t, "cluster").Cluster
		}
		if rapid.Bool().Draw(t, "another fleet's") {
			extra.Tags = append(extra.Tags, "overlay=elsewhere", "muster=theirs", "dispatch=theirs", "index=0")
		}
		d.snapshot.Agents = append(d.snapshot.Agents, extra)
		if after := ordered(d.decide()); after > before {
			t.Fatalf("%d agents, and %d with an idle one more (%v)\n%s", before, after, extra.Tags, d)
		}
	})
}

// TestSmallFleetsAreStable does what TestWhatIsOrderedIsNotOrderedAgain and
// TestOrderOfListingChangesNothing do, for small fleets with everything there is.
func TestSmallFleetsAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		first := d.decide()
		listed := drawn{snapshot: d.snapshot, overlays: rapid.Permutation(d.overlays).Draw(t, "overlays")}
		listed.snapshot.Agents = rapid.Permutation(d.snapshot.Agents).Draw(t, "agents")
		listed.snapshot.Jobs = rapid.Permutation(d.snapshot.Jobs).Draw(t, "jobs")
		listed.snapshot.Queues = rapid.Permutation(d.snapshot.Queues).Draw(t, "queues")
		one, _ := json.Marshal(first)
		if other, _ := json.Marshal(listed.decide()); string(one) != string(other) {
			t.Fatalf("listed one way:\n%s\nlisted another:\n%s", one, other)
		}
		for _, x := range first {
			i := slices.IndexFunc(d.overlays, func(o Overlay) bool { return o.Name == x.Overlay })
			d.overlays[i].Dispatches = append(d.overlays[i].Dispatches, x.Dispatch...)
			if !x.Empty() {
				d.overlays[i].State = x.State
			}
		}
		if more := ordered(d.decide()); more > 0 {
			t.Fatalf("decided again from what was just decided, %d more are dispatched\n%s", more, d)
		}
	})
}
