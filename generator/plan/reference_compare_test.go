package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestReference compares what is decided with what the reference decides, for
// each overlay.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawSmall(t)
		r := newReference(d.overlays, d.snapshot)
		demand := make([]int, len(r.overlays))
		for _, x := range d.decide() {
			i := slices.IndexFunc(r.overlays, func(o *refOverlay) bool { return o.Name == x.Overlay })
			o, sum := r.overlays[i], x.Sum
			demand[i] = sum.Demand
			if x.State.Breaker.Open() || x.Suspended.Active() != o.suspended {
				t.Fatalf("%s is suspended: %q, the breaker is %+v\n%s", o.Name, x.Suspended, x.State.Breaker, d)
			}
			got := [5]int{sum.Current, sum.Stopping, sum.InFlight, sum.Replacing + sum.Overdue, sum.Dispatch}
			if want := [5]int{o.current, o.stopping, o.inFlight, o.replacing, o.dispatch}; got != want {
				t.Fatalf("%s: current, stopping, in flight, replacing and dispatch are %v, the reference has %v\n%s", o.Name, got, want, d)
			}
		}
		if !r.allows(demand) {
			t.Fatalf("agents for jobs: %v of %d\n%s", demand, r.dispatched(), d)
		}
		// With several overlays, either buffer may be served. A single overlay orders no more
		// agents for jobs than it must.
		if len(demand) == 1 && demand[0] > 0 && r.allows([]int{demand[0] - 1}) {
			t.Fatalf("agents for jobs: %v, and one less would do\n%s", demand, d)
		}
	})
}

func (r *reference) dispatched() (n int) {
	for _, o := range r.overlays {
		n += o.dispatch
	}
	return n
}

// allows reports whether the orders can be split so: "The agents that jobs and
// look-ahead ask for are Jobs of the purpose `demand`, the rest `warm-pool`."
// Agents for jobs must all serve jobs or look-ahead, and the others must not,
// while as many of them serve, and as much is served of each kind.
func (r *reference) allows(demand []int) bool {
	s, other := r.again(demand), r.again(nil)
	for _, a := range s.agents {
		if a.forJobs && !a.busy {
			return false
		}
	}
	return s.served() == other.served()
}

// again serves with what was ordered, where demand says how many of each overlay are for
// jobs, the rest for buffers; nil: for any of it. "Agents that are dispatched serve pending
// jobs, then look-ahead of step 2, then other look-ahead, then buffers."
func (r *reference) again(demand []int) *reference {
	s := &reference{snapshot: r.snapshot, overlays: r.overlays}
	for _, a := range r.agents[:r.there] {
		s.agents = append(s.agents, &refAgent{tags: a.tags, cluster: a.cluster, of: a.of, replacing: a.replacing})
	}
	for _, w := range r.wants {
		s.wants = append(s.wants, &refWant{kind: w.kind, job: w.job, of: w.of, by: -1})
	}
	s.serveThere()
	for i, o := range r.overlays {
		for n := range o.dispatch {
			a := &refAgent{tags: o.tags(), cluster: o.cluster, of: i, ordered: true}
			if demand != nil {
				a.forJobs, a.forPool = n < demand[i], n >= demand[i]
			}
			s.agents = append(s.agents, a)
		}
	}
	for _, kind := range []int{wantJob, wantHeld, wantFresh, wantBuffer} {
		s.stage(s.there, len(s.agents), kind)
	}
	return s
}

// served counts what is served of each kind.
func (r *reference) served() (n [wantAgain + 1]int) {
	for _, w := range r.wants {
		if w.by >= 0 {
			n[w.kind]++
		}
	}
	return n
}
