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
//	floor    = min − (own − leaving)
//	ceiling  = max − own − stopping, and at most what the limit per hour leaves
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
	divide(shares, o.Jobs, o.At)
	decisions := make([]Decision, len(shares))
	for i, s := range shares {
		decisions[i] = s.decision(tip, o)
	}
	return decisions
}

// share is one overlay's part of its queue while it is worked out.
type share struct {
	overlay  Overlay
	policy   Policy // as it is now
	schedule string
	supply   Supply
	held     string
	retire   []Retirement
	breaker  Breaker // as it is once they are retired
	sum      Sum
}

func newShare(v Overlay, o Observation) *share {
	s := &share{overlay: v, supply: o.supply(v.Name)}
	s.policy, s.schedule = v.Policy.During(o.At)
	p := s.policy
	if s.supply.WrongTags > 0 {
		s.held = "agents that were ordered have come and can take none of the jobs: do their tags match spec.tags, and their cluster spec.cluster? Nothing more is ordered until it is known what became of this order"
	}
	if s.supply.Held != "" {
		s.held = s.supply.Held
	}
	if p.Paused {
		s.held = pausedInGit
	}
	if v.Broken != "" {
		s.held = v.Broken
	}
	s.retire = s.retirements(o)
	s.breaker = v.State.Breaker.judge(s.verdicts(o.At), o.At)
	for _, d := range v.Dispatches {
		if !d.Expired(o.At) {
			s.sum.InFlight += d.Agents - s.supply.Dispatches[d.ID].Registered.Below(d.Agents)
		}
	}
	s.sum.Min, s.sum.Max, s.sum.Buffer = p.Min, p.Max, p.Buffer
	s.sum.Busy = s.supply.Busy
	s.sum.Replacing, s.sum.Stopping = s.supply.Replacing, s.supply.Stopping
	s.sum.Current = s.supply.Own + s.sum.InFlight
	s.sum.BelowMin = max(0, p.Min-(s.sum.Current-s.sum.Replacing))
	s.sum.Room = max(0, p.Max-s.sum.Current-s.supply.Stopping)
	if p.MaxPerHour > 0 {
		_, ordered := v.State.lastHour(o.At)
		s.sum.MaxPerHour, s.sum.LeftThisHour = p.MaxPerHour, max(0, p.MaxPerHour-ordered)
		s.sum.Room = min(s.sum.Room, s.sum.LeftThisHour)
	}
	return s
}

// spare is how many idle agents stay for look-ahead and buffer.
func (s *share) spare() int { return s.supply.Spare - s.supply.Replacing }

// divide settles which overlay orders agents for which jobs. It is one flow.
// What is asked for, in this order: the pending jobs, then each overlay's
// look-ahead, then each overlay's buffer. Who serves it, in this order: the
// agents that are starting, those that min asks for in any case, and then the
// room that is left below max, by priority and evenly within one.
//
// Because it is a maximum flow in a fixed order, deciding again on what was
// just ordered finds everything served that can be served, and orders nothing.
func divide(shares []*share, jobs []Demand, now time.Time) {
	n := len(shares)
	demand := make([]int, len(jobs)+2*n)
	for j, d := range jobs {
		demand[j] = d.Pending - d.Idle
	}
	ahead := lookAhead(shares, jobs)
	supply := make([]int, 3*n)
	for i, s := range shares {
		s.sum.Lookahead = int(s.policy.Lookahead*float64(ahead[i]) + 1e-9)
		if s.breaker.Open() {
			if s.held == "" && s.mayProbe(now) {
				supply[2*n+i] = min(1, s.sum.Room) // its turn: one job is left to the probe
			}
			continue // nothing else is expected of it, and nothing asked
		}
		demand[len(jobs)+i] = max(0, s.sum.Lookahead-s.spare())
		supply[i] = s.sum.InFlight
		if s.held == "" {
			demand[len(jobs)+n+i] = max(0, s.sum.Buffer-max(0, s.spare()-s.sum.Lookahead))
			supply[n+i] = min(s.sum.BelowMin, s.sum.Room)
			supply[2*n+i] = s.sum.Room - supply[n+i]
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
		for last < n && shares[last].policy.Priority == shares[first].policy.Priority {
			last++
		}
		f.serveEvenly(2*n+first, 2*n+last, func(i int) int { return shares[i%n].sum.Current })
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
			if s.held == "" && !s.breaker.Open() && s.policy.Lookahead > 0 && slices.Contains(d.Overlays, s.overlay.Name) {
				ahead[i] += d.Upcoming
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
	m.WarmPool = f.moved[n+i][buffer] + f.moved[2*n+i][buffer]
	m.Missing = m.Demand + m.WarmPool + unserved + f.want[look] + f.want[buffer]
	m.WarmPool += f.free[n+i]
	m.Dispatch = m.Demand + m.WarmPool
}

func (s *share) decision(tip string, o Observation) Decision {
	d := Decision{Overlay: s.overlay.Name, Queue: o.Queue, Held: s.held, Schedule: s.schedule, Observation: o}
	if s.overlay.Broken != "" {
		d.Sum = s.sum
		return d
	}
	d.Retire = s.retire
	for _, r := range d.Retire {
		d.RetireNow = d.RetireNow || o.At.Sub(r.Since) >= retireWait
	}
	d.Closes = s.overlay.State.Breaker.Open() && !s.breaker.Open()
	d.RetireNow = d.RetireNow || !s.breaker.Equal(s.overlay.State.Breaker)
	if s.breaker.Open() && s.held == "" {
		d.Held, d.Probe = s.probe(o.At)
	}
	d.Sum = s.sum
	d.Dispatch = s.order(tip, o.At)
	d.State = s.state(o.At)
	return d
}

// probe lets an overlay whose breaker is open order one agent, when its time
// has come, nothing that was ordered is still out, and there is something to
// order it for.
func (s *share) probe(now time.Time) (held string, probe bool) {
	switch {
	case s.outstanding():
		return "the breaker is open, and it is not known yet what became of the last agents ordered", false
	case !s.mayProbe(now):
		return "the breaker is open; the next probe goes at " + s.breaker.NextProbe().UTC().Format(time.RFC3339), false
	case max(s.sum.Missing, s.sum.BelowMin, s.sum.Buffer-s.spare()) <= 0 || s.sum.Room == 0:
		return "", false
	}
	s.sum.Dispatch, s.sum.Demand = 1, 1
	return "", true
}

// outstanding reports whether anything that was ordered is still out.
func (s *share) outstanding() bool { return len(s.overlay.Dispatches) > len(s.retire) }

// mayProbe reports whether it is time for a probe.
func (s *share) mayProbe(now time.Time) bool {
	return !s.outstanding() && !now.Before(s.breaker.NextProbe())
}

// retirements lists the dispatches that can leave git: those whose every index has
// registered and those whose lease is over, as soon as it is known whether they
// were of use. What was ordered together goes together.
func (s *share) retirements(o Observation) []Retirement {
	var all []Retirement
	for _, x := range s.overlay.Dispatches {
		seen := s.supply.Dispatches[x.ID]
		r := Retirement{ID: x.ID, Agents: x.Agents, Registered: seen.Registered.Below(x.Agents)}
		switch {
		case r.Registered == x.Agents:
			r.Reason, r.Since = AllRegistered, o.At
			if seen.RegisteredAt != nil {
				r.Since = *seen.RegisteredAt
			}
		case x.Expired(o.At):
			r.Reason, r.Since = Expired, x.NotAfter.Add(Grace)
		default:
			continue
		}
		kept := !seen.Worked && !s.overlay.outdated(x) && s.kept(o, r.Since)
		if kept && seen.Connected > 0 && seen.WrongTags == 0 {
			continue // its agents may yet take one of these jobs
		}
		switch {
		case x.Stale(o.At):
		case seen.WrongTags > 0:
			r.Failure = WrongTags
		case r.Registered == 0:
			r.Failure = NeverRegistered
		case kept:
			r.Failure = NoJobTaken
		}
		all = append(all, r)
	}
	return slices.DeleteFunc(slices.Clone(all), func(r Retirement) bool { return !s.wholeOrder(r, all) })
}

// wholeOrder reports whether everything that was ordered together with the
// dispatch can go: an order is judged as one.
func (s *share) wholeOrder(r Retirement, going []Retirement) bool {
	at := s.dispatch(r.ID).At
	return !slices.ContainsFunc(s.overlay.Dispatches, func(x Dispatch) bool {
		return x.At.Equal(at) && !slices.ContainsFunc(going, func(g Retirement) bool { return g.ID == x.ID })
	})
}

func (s *share) dispatch(id string) Dispatch {
	i := slices.IndexFunc(s.overlay.Dispatches, func(x Dispatch) bool { return x.ID == id })
	return s.overlay.Dispatches[i]
}

// kept reports whether jobs that the overlay's agents match have been waiting
// since before the moment, with nothing but the agents to stop them.
func (s *share) kept(o Observation, moment time.Time) bool {
	return s.supply.Held == "" && slices.ContainsFunc(o.Jobs, func(d Demand) bool {
		return d.Pending > 0 && d.Oldest != nil && d.Oldest.Before(moment) && slices.Contains(d.Overlays, s.overlay.Name)
	})
}

// verdicts says what became of the dispatches that are retired.
func (s *share) verdicts(now time.Time) []judged {
	var all []judged
	for _, r := range s.retire {
		if d := s.dispatch(r.ID); !d.Stale(now) {
			all = append(all, judged{id: r.ID, at: d.At, failure: r.Failure})
		}
	}
	return all
}

// state is what is to be remembered once the decision is carried out.
func (s *share) state(now time.Time) State {
	next := State{Breaker: s.breaker}
	if s.policy.MaxPerHour > 0 {
		next.Ordered, _ = s.overlay.State.lastHour(now)
		if s.sum.Dispatch > 0 {
			next.Ordered = append(slices.Clone(next.Ordered), Ordered{At: now, Agents: s.sum.Dispatch})
		}
	}
	return next
}

// order cuts the agents into dispatches.
func (s *share) order(tip string, at time.Time) []Dispatch {
	p := s.policy
	tags := s.overlay.AgentTags()
	var all []Dispatch
	cut := func(purpose Purpose, agents int, idle time.Duration) {
		for agents > 0 {
			n := min(agents, max(1, p.MaxDispatch))
			agents -= n
			all = append(all, Dispatch{
				ID: dispatchID(s.overlay, purpose, tip, at, len(all)), Purpose: purpose, Agents: n,
				At: at, NotAfter: at.Add(p.Lease), IdleTimeout: idle, Tags: tags,
			})
		}
	}
	cut(ForDemand, s.sum.Demand, p.IdleTimeout)
	cut(ForWarmPool, s.sum.WarmPool, p.WarmIdleTimeout)
	return all
}

// keepInfix tells the names of dispatches for upkeep from the others, so that
// their agents can be known by their tags alone.
const keepInfix = "-keep-"

// dispatchID names the n-th dispatch of a decision: the overlay's slug and 40
// bits of a hash over all that makes the decision one of its kind.
func dispatchID(v Overlay, purpose Purpose, tip string, at time.Time, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%d", tip, v.Name, at.Unix(), n))
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz" // Crockford's: none of i, l, o, u
	infix := "-"
	if purpose == ForWarmPool {
		infix = keepInfix
	}
	return v.Slug() + infix + base32.NewEncoding(alphabet).EncodeToString(sum[:5])
}
