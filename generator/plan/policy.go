package plan

import (
	"cmp"
	"time"
)

// Policy is the scaling policy of one overlay, with every default filled in.
type Policy struct {
	// Queue is the key of the Buildkite queue that the agents serve.
	Queue string
	// Cluster is the name or the identifier of the Buildkite cluster; empty
	// where the queue's key is enough to tell.
	Cluster string
	// Tags are the agents' further tags as "key=value", sorted.
	Tags []string
	// Min is the number of agents that are kept whatever is pending.
	Min int
	// Max is the number of agents that is never passed.
	Max int
	// Buffer is the number of agents that are kept idle, ready for jobs to come.
	Buffer int
	// Lookahead is the share, 0 to 1, of upcoming jobs that agents are started
	// for before the jobs become runnable.
	Lookahead float64
	// Lease is the time in which a dispatch's agents may start.
	Lease time.Duration
	// LeaseAuto reports whether the lease is derived from start-up times. Lease is then only its
	// value until enough of them are known, and overdue agents are presumed lost.
	LeaseAuto bool
	// IdleTimeout is how long an agent ordered for a job waits for one, and
	// WarmIdleTimeout how long an agent kept for Min and Buffer does.
	IdleTimeout, WarmIdleTimeout time.Duration
	// Reuse lets agents take more than one job; zero: each takes one.
	Reuse Reuse
	// Priority orders the overlays that serve one queue: higher first.
	Priority int
	// MaxPerHour is the number of agents ordered in any hour that is never
	// passed; zero means no such limit.
	MaxPerHour int
	// Schedules change Min, Max and Buffer in named windows.
	Schedules []Schedule
	// Overrides change Min, Max, Buffer, MaxPerHour and Paused until a moment each.
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
}

// On reports whether agents take more than one job.
func (r Reuse) On() bool { return r.Uptime > 0 }

// DemandIdleTimeout is how long an agent ordered for a job waits for one.
func (p Policy) DemandIdleTimeout() time.Duration {
	if p.Reuse.On() {
		return p.Reuse.Idle
	}
	return p.IdleTimeout
}

// Override changes a policy until a moment, for example while a person on call needs more agents
// for two hours. It ends without another edit.
type Override struct {
	// Until is when it ends; at that moment it is no longer in force.
	Until time.Time
	// Min, Max, Buffer and MaxPerHour replace the policy's, and what a schedule makes
	// of them; nil keeps it.
	Min, Max, Buffer, MaxPerHour *int
	// Paused pauses the overlay; false changes nothing.
	Paused bool
}

// override returns the policy with the overrides that are in force at t, the later in
// the list on top of the earlier.
func (p Policy) override(t time.Time) Policy {
	for _, o := range p.Overrides {
		if !t.Before(o.Until) {
			continue
		}
		replace(&p.Min, o.Min)
		replace(&p.Max, o.Max)
		replace(&p.Buffer, o.Buffer)
		replace(&p.MaxPerHour, o.MaxPerHour)
		p.Paused = p.Paused || o.Paused
	}
	p.Min = min(p.Min, p.Max) // a max that is lowered for an hour need not say min too
	return p
}

// OverriddenUntil returns when the first of the overrides in force at t ends, in UTC; nil if none
// is in force.
func (p Policy) OverriddenUntil(t time.Time) *time.Time {
	var first *time.Time
	for _, o := range p.Overrides {
		if end := o.Until.UTC(); t.Before(end) && (first == nil || end.Before(*first)) {
			first = &end
		}
	}
	return first
}

// Schedule is a window of the week in which a policy keeps another number of
// agents.
type Schedule struct {
	// Name is what commits call it.
	Name string
	// Days are the days of the week on which the window begins.
	Days [7]bool
	// From and To are minutes of the day, 0 to 1440, on the clocks of Zone: the
	// window holds From and ends before To. A To that is not after From is on
	// the next day. Where clocks are changed, a window holds what the clock
	// shows: an hour that is left out is not there, one that comes twice
	// belongs to it twice.
	From, To int
	// Zone is the time zone.
	Zone *time.Location
	// Min, Max and Buffer replace the policy's; nil keeps it.
	Min, Max, Buffer *int
}

// active reports whether t lies in the window.
func (s Schedule) active(t time.Time) bool {
	local := t.In(s.Zone)
	minute := local.Hour()*60 + local.Minute()
	today, yesterday := s.Days[local.Weekday()], s.Days[(local.Weekday()+6)%7]
	if s.From < s.To {
		return today && s.From <= minute && minute < s.To
	}
	return today && s.From <= minute || yesterday && minute < s.To
}

// During returns the policy as it is at t, and the name of the schedule that
// made it so, if any did. Of several windows that hold t the largest wins: the
// one with the highest max, then min, then buffer, then the first. Overrides are
// above schedules; see [Policy.OverriddenUntil].
func (p Policy) During(t time.Time) (Policy, string) {
	p, name := p.scheduled(t)
	return p.override(t), name
}

// scheduled returns the policy with the schedule that is in force.
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

// apply returns the policy with what the schedule says.
func (s Schedule) apply(p Policy) Policy {
	replace(&p.Min, s.Min)
	replace(&p.Max, s.Max)
	replace(&p.Buffer, s.Buffer)
	return p
}

// replace sets a number to another where one is given; nil keeps it.
func replace(number, by *int) {
	if by != nil {
		*number = *by
	}
}
