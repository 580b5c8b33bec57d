package plan

import (
	"cmp"
	"time"
)

// Policy is the scaling policy of one overlay, with every default filled in.
type Policy struct {
	// Queue is the key of the Buildkite queue that the agents serve.
	Queue string
	// Cluster is the name or the identifier of the Buildkite cluster; empty if only one cluster has
	// the queue.
	Cluster string
	// Tags are the agents' further tags as "key=value", sorted.
	Tags []string
	// Min is the minimum number of agents.
	Min int
	// Max is the maximum number of agents.
	Max int
	// Buffer is the number of agents that are kept idle for future jobs.
	Buffer int
	// Lookahead is the share, from 0 to 1, of upcoming jobs that agents are dispatched for.
	Lookahead float64
	// Lease is the time after an order in which its agents may start.
	Lease time.Duration
	// LeaseAuto reports whether the lease is derived from start-up times. Lease then applies until
	// enough of them are known. Overdue agents are presumed lost once newer ones register.
	LeaseAuto bool
	// IdleTimeout is how long an agent that was ordered for a job stays idle, and
	// WarmIdleTimeout how long an agent kept for Min and Buffer does.
	IdleTimeout, WarmIdleTimeout time.Duration
	// Reuse lets agents take more than one job; zero: each takes one.
	Reuse Reuse
	// Priority orders the overlays that serve one queue: higher first.
	Priority int
	// MaxPerHour is the maximum number of agents ordered in any hour; zero means no limit.
	MaxPerHour int
	// Schedules change Min, Max and Buffer in named windows.
	Schedules []Schedule
	// Overrides change Min, Max, Buffer, MaxPerHour and Paused, each until a time.
	Overrides []Override
	// Paused stops ordering. Dispatches are still retired: that ends no agent,
	// and a manifest left in git past its Job's TTL would be run again.
	Paused bool
}

// Reuse is for how long agents take further jobs. The zero value means one job for each agent.
type Reuse struct {
	// Idle is how long an agent ordered for a job waits for each job; agents of the warm pool wait
	// for WarmIdleTimeout instead. Uptime is for how long an agent takes jobs in total, from its
	// connection; it finishes a job that it has then.
	Idle, Uptime time.Duration
	// Auto reports whether the idle time is derived from the gaps between jobs; see [Gaps]. Idle then applies until
	// enough of them are known.
	Auto bool
}

// On reports whether agents take more than one job.
func (r Reuse) On() bool { return r.Uptime > 0 }

// learnsStartupTimes reports whether a decision depends on start-up times.
func (p Policy) learnsStartupTimes() bool { return p.LeaseAuto || p.Reuse.Auto }

// aheadOfUnknown reports whether look-ahead includes jobs at an unknown time. Agents that take further jobs would idle
// out before.
func (p Policy) aheadOfUnknown() bool { return p.Lookahead > 0 && !p.Reuse.On() }

// Partial reports whether scaling.yaml is invalid: then only Queue and Tags are known, from a dispatch. A valid
// policy has an idle time-out.
func (p Policy) Partial() bool { return p.IdleTimeout == 0 }

// DemandIdleTimeout is how long an agent that was ordered for a job stays idle.
func (p Policy) DemandIdleTimeout() time.Duration {
	if p.Reuse.On() {
		return p.Reuse.Idle
	}
	return p.IdleTimeout
}

// Override changes a policy until a time, without a further edit.
type Override struct {
	// Until is the end, exclusive.
	Until time.Time
	// Since is the time of the commit by which it came into force. It is known in simulations of the
	// past only; elsewhere it is zero, because the file has come into force.
	Since time.Time
	// Min, Max, Buffer and MaxPerHour replace the values of the policy and its schedules; nil keeps
	// them.
	Min, Max, Buffer, MaxPerHour *int
	// Paused pauses the overlay; false changes nothing.
	Paused bool
}

// inForce reports whether the override is in force at t.
func (o Override) inForce(t time.Time) bool { return t.Before(o.Until) && !t.Before(o.Since) }

// override returns the policy with the overrides that are in force at t, applied in order.
func (p Policy) override(t time.Time) Policy {
	for _, o := range p.Overrides {
		if !o.inForce(t) {
			continue
		}
		replace(&p.Min, o.Min)
		replace(&p.Max, o.Max)
		replace(&p.Buffer, o.Buffer)
		replace(&p.MaxPerHour, o.MaxPerHour)
		p.Paused = p.Paused || o.Paused
	}
	p.Min = min(p.Min, p.Max) // an override of max need not override min too
	return p
}

// OverriddenUntil returns when the first of the overrides in force at t ends, in UTC; nil if none
// is in force.
func (p Policy) OverriddenUntil(t time.Time) *time.Time {
	var first *time.Time
	for _, o := range p.Overrides {
		if end := o.Until.UTC(); o.inForce(t) && (first == nil || end.Before(*first)) {
			first = &end
		}
	}
	return first
}

// Suspension returns why the policy pauses the overlay at t; the zero value if it does not.
func (p Policy) Suspension(t time.Time) Suspension {
	if p.Paused {
		return Suspension{Code: Paused}
	}
	var until time.Time
	for _, o := range p.Overrides {
		if o.Paused && o.inForce(t) && o.Until.After(until) {
			until = o.Until
		}
	}
	if until.IsZero() {
		return Suspension{}
	}
	return Suspension{Code: Paused, Finding: "an override is in force until " + until.UTC().Format(time.RFC3339)}
}

// Schedule is a window of the week with other values of a policy.
type Schedule struct {
	// Name identifies it in commits.
	Name string
	// Days are the days of the week on which the window begins.
	Days [7]bool
	// From (inclusive) and To (exclusive) are minutes of the day, 0 to 1440, in Zone. A To that is
	// not after From is on the next day. When daylight saving time begins or ends, the local time
	// counts: a skipped hour is not in the window, and a repeated one is in it twice.
	From, To int
	// Zone is the time zone.
	Zone *time.Location
	// Min, Max and Buffer replace the values of the policy; nil keeps them.
	Min, Max, Buffer *int
}

// active reports whether t is in the window.
func (s Schedule) active(t time.Time) bool {
	local := t.In(s.Zone)
	minute := local.Hour()*60 + local.Minute()
	today, yesterday := s.Days[local.Weekday()], s.Days[(local.Weekday()+6)%7]
	if s.From < s.To {
		return today && s.From <= minute && minute < s.To
	}
	return today && s.From <= minute || yesterday && minute < s.To
}

// During returns the policy at t, and the name of the schedule in force, if any. If several are
// active, the one with the highest max, then min, then buffer is in force, then the first. Overrides
// take precedence over schedules; see [Policy.OverriddenUntil].
func (p Policy) During(t time.Time) (Policy, string) {
	p, name := p.scheduled(t)
	return p.override(t), name
}

// scheduled returns the policy with the schedule that is in force, and its name.
func (p Policy) scheduled(t time.Time) (Policy, string) {
	var largest Policy
	var name string
	for _, s := range p.Schedules {
		if !s.active(t) {
			continue
		}
		q := s.apply(p)
		if name == "" || cmp.Or(cmp.Compare(q.Max, largest.Max), cmp.Compare(q.Min, largest.Min), cmp.Compare(q.Buffer, largest.Buffer)) > 0 {
			largest, name = q, s.Name
		}
	}
	if name == "" {
		return p, ""
	}
	return largest, name
}

// apply returns the policy with the values of the schedule.
func (s Schedule) apply(p Policy) Policy {
	replace(&p.Min, s.Min)
	replace(&p.Max, s.Max)
	replace(&p.Buffer, s.Buffer)
	return p
}

// replace replaces a number unless the new one is nil.
func replace(number, by *int) {
	if by != nil {
		*number = *by
	}
}
