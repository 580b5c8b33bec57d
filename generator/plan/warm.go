package plan

import (
	"time"

	"muster/generator/forecast"
)

// Warm is a buffer that a forecast makes. The zero value is none.
type Warm struct {
	// Wait is what Share of the jobs, above 0 and below 1, may wait at most.
	Wait  time.Duration
	Share float64
	// IdleHours are the hours that agents may wait for jobs in a day, all together; at
	// least 1 where there is a forecast.
	IdleHours int
}

// On reports whether there is a forecast.
func (w Warm) On() bool { return w.IdleHours > 0 }

// aim is what the forecast is for.
func (w Warm) aim(lead time.Duration) forecast.Aim {
	return forecast.Aim{Wait: w.Wait, Share: w.Share, IdleHours: w.IdleHours, Lead: lead}
}

// ordinaryLead is how long it takes from jobs' coming to agents that were dispatched for
// them: a tick of 15 seconds, a syncer that is told, and a pod's boot of 70 seconds, which
// 19 of 20 do not exceed in the simulated world.
const ordinaryLead = 90 * time.Second

// lead is how long agents of the overlay take to come: nearly all, where that is learned,
// and a tick.
func (s *share) lead() time.Duration {
	if s.boots.Known() {
		return s.boots.Within(95) + tickTime
	}
	return ordinaryLead
}

// The idle time-outs of agents that a forecast keeps: as long as they are wanted.
const (
	shortestWarmIdle = 2 * time.Minute
	// warmLead is when they are replaced, before the end of it.
	warmLead = 2 * time.Minute
)

// foresee learns what was counted, and raises the buffer to what the forecast keeps.
func (s *share) foresee(o Observation) {
	if !s.overlay.Policy.Warm.On() {
		return
	}
	count := s.supply.Arrivals
	aim := s.overlay.Policy.Warm.aim(s.lead())
	s.learned = s.overlay.State.Warm.After(count, o.At).Planned(o.At, aim)
	if !s.policy.Warm.On() { // an override says another buffer
		return
	}
	s.forecaster = s.learned.For(o.At, aim, count)
	staying := min(s.supply.Busy, s.supply.Staying)
	f := s.forecaster.At(o.At, staying)
	s.forecast = &f
	s.sum.Buffer = max(s.sum.Buffer, f.Keep)
}

// forecastOrder is how many of the agents that are dispatched for the warm pool are there
// for the forecast alone, and their idle time-out: they are there while they are wanted.
func (s *share) forecastOrder(at time.Time) (agents int, idle time.Duration) {
	if s.forecast == nil || s.sum.WarmPool == 0 {
		return 0, 0
	}
	agents = min(s.sum.WarmPool, max(0, s.forecast.Keep-s.policy.Buffer))
	if agents == 0 {
		return 0, 0
	}
	longest := max(s.policy.WarmIdleTimeout, shortestWarmIdle)
	idle = s.forecaster.Wanted(at, s.forecast.Keep-agents/2, longest)
	return agents, min(max(idle, shortestWarmIdle), longest)
}
