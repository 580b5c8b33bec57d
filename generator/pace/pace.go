// Package pace spaces out what is called for at any moment: closely where calls are few,
// and evenly where they do not end.
package pace

import "time"

// Closest is how far apart two that are paced begin at least, unless the mean time
// between them is shorter.
const Closest = time.Second

// burst is how many may begin that close to each other, after a rest.
const burst = 4

// Pace lets one begin each Every, on average of those that follow each other, and a few
// sooner, after there was none for a while: what comes in a pulse is answered at once, and
// what comes all the time as seldom as Every says. It is a leaky bucket that holds a few.
// The zero value lets any begin at any time.
type Pace struct {
	// Every is the mean time between two.
	Every time.Duration
	// due is when the bucket of those that were called for is empty.
	due time.Time
}

// Wait is how long to wait, from now on, until one may begin. Last is when anything of its
// kind began, called for or not.
func (p *Pace) Wait(now, last time.Time) time.Duration {
	earliest := last.Add(min(p.Every, Closest))
	if filled := p.due.Add(-(burst - 1) * p.Every); filled.After(earliest) {
		earliest = filled
	}
	return max(0, earliest.Sub(now))
}

// Began notes that one which was called for begins.
func (p *Pace) Began(at time.Time) {
	if p.due.Before(at) {
		p.due = at
	}
	p.due = p.due.Add(p.Every)
}
