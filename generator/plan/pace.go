package plan

import "time"

// MinTickSpacing is the shortest time between two triggered ticks, unless their mean time
// is shorter.
const MinTickSpacing = time.Second

// tickBurst is the number of ticks that may begin MinTickSpacing apart after a pause.
const tickBurst = 4

// Pace spaces out triggered ticks. On average one tick begins each Every; after a pause, a few
// begin MinTickSpacing apart. It is a leaky bucket of tickBurst ticks. The zero value allows every
// tick at once.
type Pace struct {
	// Every is the mean time between two triggered ticks.
	Every time.Duration
	// due is the time at which the bucket is empty.
	due time.Time
}

// Wait returns how long to wait from now until the next triggered tick may begin. last is the
// time at which the last tick began, triggered or not.
func (p *Pace) Wait(now, last time.Time) time.Duration {
	earliest := later(p.due.Add(-(tickBurst-1)*p.Every), last.Add(min(p.Every, MinTickSpacing)))
	return max(0, earliest.Sub(now))
}

// Began records that a triggered tick begins at a time.
func (p *Pace) Began(at time.Time) {
	p.due = later(at, p.due).Add(p.Every)
}
