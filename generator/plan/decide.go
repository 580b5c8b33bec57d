package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math"
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
	ahead   int // waiting jobs this overlay looks ahead to
	left    int // starting agents that no pending job needs
	missing int // pending jobs that are this overlay's to order agents for
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

// divide settles which overlay orders agents for which jobs: first the jobs
// that starting agents will take, then the rest by priority.
func divide(shares []*share, jobs []Demand) {
	starting := make([]int, len(shares))
	for i, s := range shares {
		starting[i] = s.sum.Starting
	}
	open := make([]int, len(jobs))
	for j, d := range jobs {
		open[j] = d.Pending - d.Idle
	}
	can := func(i, j int) bool { return slices.Contains(jobs[j].Overlays, shares[i].overlay.Name) }
	got, left := assign(starting, open, can)
	waiting := make([]int, len(jobs))
	for j, d := range jobs {
		open[j] -= got[j]
		waiting[j] = d.Waiting
		for i, s := range shares {
			if can(i, j) {
				s.sum.Pending += d.Pending
				s.sum.Idle += d.Idle
			}
		}
	}
	for i, s := range shares {
		s.left = left[i]
		s.sum.Idle += s.supply.Spare
	}
	scarce := scarcestFirst(shares, jobs)
	for first := 0; first < len(shares); {
		last := first + 1
		for last < len(shares) && shares[last].overlay.Policy.Priority == shares[first].overlay.Policy.Priority {
			last++
		}
		fill(shares, first, last, scarce, open, waiting, can)
		first = last
	}
	for i, s := range shares {
		s.conclude(jobs, open, i, can)
	}
}

// scarcestFirst orders jobs by how many overlays may still order agents for
// them, so that those with little choice are served before the others.
func scarcestFirst(shares []*share, jobs []Demand) []int {
	choice := make([]int, len(jobs))
	for j, d := range jobs {
		for _, s := range shares {
			if s.held == "" && slices.Contains(d.Overlays, s.overlay.Name) {
				choice[j]++
			}
		}
	}
	order := make([]int, len(jobs))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return choice[a] - choice[b] })
	return order
}

// fill gives open jobs to the overlays of one priority, evenly, each to its
// ceiling, and the waiting jobs to the first that looks ahead to them.
func fill(shares []*share, first, last int, scarce, open, waiting []int, can func(i, j int) bool) {
	for _, j := range scarce {
		for open[j] > 0 {
			least := -1
			for i := first; i < last; i++ {
				s := shares[i]
				if s.held == "" && can(i, j) && s.missing < s.sum.Ceiling && (least < 0 || s.missing < shares[least].missing) {
					least = i
				}
			}
			if least < 0 {
				break
			}
			n := step(shares, least, first, last, j, can)
			n = min(n, open[j], shares[least].sum.Ceiling-shares[least].missing)
			shares[least].missing += n
			open[j] -= n
		}
		for i := first; i < last; i++ {
			if s := shares[i]; s.held == "" && can(i, j) && s.overlay.Policy.Lookahead > 0 {
				s.ahead += waiting[j]
				waiting[j] = 0
			}
		}
	}
}

// step returns how many jobs the overlay that has the fewest may take at once
// before another's turn comes.
func step(shares []*share, least, first, last, j int, can func(i, j int) bool) int {
	n := math.MaxInt
	for i := first; i < last; i++ {
		s := shares[i]
		if i != least && s.held == "" && can(i, j) && s.missing < s.sum.Ceiling {
			n = min(n, max(1, s.missing-shares[least].missing))
		}
	}
	return n
}

// conclude works out the order from what fell to the overlay. Jobs that are
// still open found every ceiling reached: they count as needed where they
// could have been served, so that the reason shows.
func (s *share) conclude(jobs []Demand, open []int, i int, can func(i, j int) bool) {
	unserved := 0
	for j := range jobs {
		if can(i, j) {
			unserved += open[j]
		}
	}
	m := &s.sum
	m.Lookahead = int(s.overlay.Policy.Lookahead*float64(s.ahead) + 1e-9)
	spare := s.supply.Spare + s.left
	jobsNeed := s.missing + unserved + max(0, m.Lookahead-spare)
	m.Need = s.missing + unserved + max(0, m.Lookahead+m.Buffer-spare)
	m.Elsewhere = max(0, m.Pending-(m.Idle-s.supply.Spare)-(m.Starting-s.left)-s.missing-unserved)
	if s.held != "" {
		return
	}
	m.Agents = min(max(m.Need, m.Floor), m.Ceiling)
	m.Demand = min(m.Agents, jobsNeed)
	m.Upkeep = m.Agents - m.Demand
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
