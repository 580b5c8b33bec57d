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
			got := [5]int{sum.Current, sum.Stopping, sum.InFlight, sum.Replacing, sum.Dispatch}
			if want := [5]int{o.current, o.stopping, o.inFlight, o.replacing, o.dispatch}; got != want {
				t.Fatalf("%s: current, stopping, in flight, replacing and dispatch are %v, the reference has %v\n%s", o.Name, got, want, d)
			}
		}
		if !r.allows(demand) {
			t.Fatalf("agents for jobs: %v of %d\n%s", demand, r.dispatched(), d)
		}
		// Which of several overlays' buffers is served is open; one overlay orders no
		// more for jobs than it must: "a job that one of them will take leaves a gap".
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
// while as many of what there is serve, and as much is served of each kind.
func (r *reference) allows(demand []int) bool {
	s := &reference{overlays: r.overlays}
	for _, a := range r.agents {
		if !a.ordered {
			s.agents = append(s.agents, &refAgent{tags: a.tags, cluster: a.cluster, of: a.of, replacing: a.replacing})
		}
	}
	there := len(s.agents)
	for _, forJobs := range []bool{true, false} {
		for i, o := range r.overlays {
			n := demand[i]
			if !forJobs {
				n = o.dispatch - demand[i]
			}
			for range n {
				s.agents = append(s.agents, &refAgent{tags: o.tags(), cluster: o.cluster, of: i, ordered: true, forJobs: forJobs, forPool: !forJobs})
			}
		}
	}
	// First the agents in order, to all that is asked for.
	s.askAgain(r, wantJob, wantAhead, wantBuffer)
	if s.employAll(); s.serving(there) != r.serving(there) || s.serving(len(s.agents)) != r.serving(len(r.agents)) {
		return false
	}
	for _, a := range s.agents {
		if a.forJobs && !a.busy {
			return false
		}
	}
	return s.servedInOrder(r) == r.servedInOrder(r)
}

// servedInOrder lets the agents serve what the other asks for, "(pending jobs,
// then look-ahead, then buffers)", and returns how many of each are served.
func (r *reference) servedInOrder(other *reference) (served [wantBuffer + 1]int) {
	s := &reference{}
	for _, a := range r.agents {
		idle := *a
		idle.busy = false
		s.agents = append(s.agents, &idle)
	}
	for kind := range served {
		s.askAgain(other, kind)
		s.employAll()
	}
	for _, w := range s.wants {
		if w.by >= 0 {
			served[w.kind]++
		}
	}
	return served
}

// askAgain asks for what the other asks for.
func (r *reference) askAgain(other *reference, kinds ...int) {
	for _, w := range other.wants {
		if slices.Contains(kinds, w.kind) {
			r.wants = append(r.wants, &refWant{kind: w.kind, job: w.job, of: w.of, by: -1})
		}
	}
}

// serving counts those of the first n agents that serve something.
func (r *reference) serving(n int) (busy int) {
	for _, a := range r.agents[:n] {
		if a.busy {
			busy++
		}
	}
	return busy
}
