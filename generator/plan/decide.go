package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"time"
)

// Decide says what to do about the overlays that serve the observed queue. The
// tip is the commit that the overlays were read from; with the time it makes
// the new dispatches' names, so that equal input gives equal names and
// different input does not.
//
//	starting = Σ over dispatches within lease (agents − registered)
//	need     = pending + lookahead·waiting + buffer − idle − starting
//	own      = starting + connected agents of the overlay
//	floor    = min − own
//	ceiling  = max − own − stopping
//	order    = clamp(max(need, floor), 0, ceiling)
//	demand   = the part of it that jobs ask for; the rest is upkeep
//
// Jobs that several overlays can serve go to the one with the highest priority
// first, as far as its ceiling reaches, and then to the next; equal priorities
// share evenly. The result is ordered like the overlays that serve the queue:
// by priority, then by name.
func Decide(tip string, overlays []Overlay, o Observation) []Decision {
	serving := slices.DeleteFunc(slices.Clone(overlays), func(v Overlay) bool { return v.Policy.Queue != o.Queue })
	slices.SortFunc(serving, inOrder)
	shares := make([]*share, len(serving))
	for i, v := range serving {
		shares[i] = newShare(v, o)
	}
	divide(shares, o.Jobs)
	decisions := make([]Decision, len(shares))
	for i, s := range shares {
		decisions[i] = s.decision(tip, o)
	}
	return decisions
}

// share is one overlay's part of its queue while it is worked out.
type share struct {
	overlay Overlay
	supply  Supply
	held    string
	sum     Sum
}

func newShare(v Overlay, o Observation) *share {
	s := &share{overlay: v, supply: o.supply(v.Name)}
	p := v.Policy
	s.held = s.supply.Held
	if p.Paused {
		s.held = "spec.paused is true"
	}
	if v.Broken != "" {
		s.held = v.Broken
	}
	for _, d := range v.Dispatches {
		if !d.Expired(o.At) {
			s.sum.Starting += d.Agents - s.supply.Registered[d.ID].Below(d.Agents)
		}
	}
	s.sum.Min, s.sum.Max, s.sum.Buffer = p.Min, p.Max, p.Buffer
	s.sum.Busy = s.supply.Busy
	s.sum.Own = s.supply.Own + s.sum.Starting
	s.sum.Floor = max(0, p.Min-s.sum.Own)
	s.sum.Ceiling = max(0, p.Max-s.sum.Own-s.supply.Stopping)
	return s
}

// divide settles which overlay orders agents for which jobs. It is one flow.
// What is asked for, in this order: the pending jobs, then each overlay's
// look-ahead, then each overlay's buffer. Who serves it, in this order: the
// agents that are starting, those that min asks for in any case, and then the
// room that is left below max, by priority and evenly within one.
//
// Because it is a maximum flow in a fixed order, deciding again on what was
// just ordered finds everything served that can be served, and orders nothing.
func divide(shares []*share, jobs []Demand) {
	n := len(shares)
	demand := make([]int, len(jobs)+2*n)
	for j, d := range jobs {
		demand[j] = d.Pending - d.Idle
	}
	ahead := lookAhead(shares, jobs)
	supply := make([]int, 3*n)
	for i, s := range shares {
		s.sum.Lookahead = int(s.overlay.Policy.Lookahead*float64(ahead[i]) + 1e-9)
		demand[len(jobs)+i] = max(0, s.sum.Lookahead-s.supply.Spare)
		supply[i] = s.sum.Starting
		if s.held == "" {
			demand[len(jobs)+n+i] = max(0, s.sum.Buffer-max(0, s.supply.Spare-s.sum.Lookahead))
			supply[n+i] = min(s.sum.Floor, s.sum.Ceiling)
			supply[2*n+i] = s.sum.Ceiling - supply[n+i]
		}
	}
	can := func(i, j int) bool {
		if j >= len(jobs) {
			return i%n == (j-len(jobs))%n
		}
		return slices.Contains(jobs[j].Overlays, shares[i%n].overlay.Name)
	}
	f := newFlow(supply, demand, can)
	f.serveAll(0, n)
	f.serveAll(n, 2*n)
	for first := 0; first < n; {
		last := first + 1
		for last < n && shares[last].overlay.Policy.Priority == shares[first].overlay.Policy.Priority {
			last++
		}
		f.serveEvenly(2*n+first, 2*n+last)
		first = last
	}
	for i, s := range shares {
		s.conclude(f, i, n, jobs)
	}
}

// lookAhead gives the waiting jobs to the overlays that look ahead to them, the
// first of those that could serve them.
func lookAhead(shares []*share, jobs []Demand) []int {
	ahead := make([]int, len(shares))
	for _, d := range jobs {
		for i, s := range shares {
			if s.held == "" && s.overlay.Policy.Lookahead > 0 && slices.Contains(d.Overlays, s.overlay.Name) {
				ahead[i] += d.Waiting
				break
			}
		}
	}
	return ahead
}

// conclude reads overlay i's sum off the flow of n overlays.
func (s *share) conclude(f *flow, i, n int, jobs []Demand) {
	m := &s.sum
	m.Idle = s.supply.Spare
	unserved, starting, ordered := 0, 0, 0
	for j, d := range jobs {
		if !f.can(i, j) {
			continue
		}
		m.Pending += d.Pending
		m.Idle += d.Idle
		m.Elsewhere += d.Pending - d.Idle
		unserved += f.want[j]
		starting += f.moved[i][j]
		ordered += f.moved[n+i][j] + f.moved[2*n+i][j]
	}
	look, buffer := len(jobs)+i, len(jobs)+n+i
	m.Elsewhere -= unserved + starting + ordered
	m.Demand = ordered + f.moved[n+i][look] + f.moved[2*n+i][look]
	m.Upkeep = f.moved[n+i][buffer] + f.moved[2*n+i][buffer]
	m.Need = m.Demand + m.Upkeep + unserved + f.want[look] + f.want[buffer]
	m.Upkeep += f.free[n+i]
	m.Agents = m.Demand + m.Upkeep
}

func (s *share) decision(tip string, o Observation) Decision {
	d := Decision{Overlay: s.overlay.Name, Queue: o.Queue, Held: s.held, Sum: s.sum, Observation: o}
	if s.overlay.Broken != "" {
		return d
	}
	d.Order = s.order(tip, o.At)
	for _, x := range s.overlay.Dispatches {
		seen := s.supply.Registered[x.ID].Below(x.Agents)
		r := Retirement{ID: x.ID, Agents: x.Agents, Registered: seen}
		switch {
		case seen == x.Agents:
			r.Reason = Settled
		case x.Expired(o.At):
			r.Reason = Expired
		default:
			continue
		}
		d.Retire = append(d.Retire, r)
	}
	return d
}

// order cuts the agents into dispatches.
func (s *share) order(tip string, at time.Time) []Dispatch {
	p := s.overlay.Policy
	var all []Dispatch
	cut := func(purpose Purpose, agents int, idle time.Duration) {
		for agents > 0 {
			n := min(agents, max(1, p.MaxDispatch))
			agents -= n
			all = append(all, Dispatch{
				ID: dispatchID(s.overlay, tip, at, len(all)), Purpose: purpose, Agents: n,
				At: at, NotAfter: at.Add(p.Lease), IdleTimeout: idle,
			})
		}
	}
	cut(ForDemand, s.sum.Demand, p.IdleTimeout)
	cut(ForUpkeep, s.sum.Upkeep, p.UpkeepIdleTimeout)
	return all
}

// dispatchID names the n-th dispatch of a decision: the overlay's slug and 40
// bits of a hash over all that makes the decision one of its kind.
func dispatchID(v Overlay, tip string, at time.Time, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%d", tip, v.Name, at.Unix(), n))
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz" // Crockford's: none of i, l, o, u
	return v.Slug() + "-" + base32.NewEncoding(alphabet).EncodeToString(sum[:5])
}
