package github

import (
	"errors"
	"fmt"
	"time"

	"muster/gitops/branch"
)

// GitHub's limits on what is written: "no more than 80 content-generating requests per
// minute and no more than 500 content-generating requests per hour"
// (docs.github.com/rest, "Rate limits for the REST API", "About secondary rate limits").
const (
	writesPerMinute, writesPerHour = 80, 500
	// burst is the number of writes at once. It is restored one by one at GitHub's recommended
	// rate of pushes: "The recommended maximum limit is 6 pushes per minute per repository"
	// (docs.github.com/repositories, "Repository limits"). So no minute has more than 74 writes,
	// and no hour more than 428, which leaves some to others with the same App.
	burst    = 68
	comeBack = time.Minute / 6
)

// pace keeps writes below GitHub's limits and spreads a peak over the hour: without it, the 500 of an
// hour could be used in seven minutes, and nothing could be ordered for the rest of it. It does not
// know the writes of others with the same App.
type pace struct {
	now func() time.Time
	// full is the time at which the burst is restored.
	full time.Time
}

// take reserves writes, or returns an error with the time to wait. Writes beyond a burst are taken from
// those restored later.
func (p *pace) take(writes int) error {
	now := p.now()
	if p.full.Before(now) {
		p.full = now
	}
	full := p.full.Add(time.Duration(writes) * comeBack)
	enough := p.full.Add(time.Duration(min(writes, burst)) * comeBack)
	if wait := enough.Sub(now) - burst*comeBack; wait > 0 {
		wait = (wait + time.Second - 1).Truncate(time.Second)
		return &branch.Limited{Err: fmt.Errorf("waiting %s to stay below GitHub's limits (%d writes a minute, %d an hour)", wait, writesPerMinute, writesPerHour), Wait: wait}
	}
	p.full = full
	return nil
}

// empty removes the burst: after a limit of GitHub, others have used it.
func (p *pace) empty() {
	if least := p.now().Add(burst * comeBack); p.full.Before(least) {
		p.full = least
	}
}

// limited empties the burst after the error of a limit.
func (w *Writer) limited(err error) error {
	var wait *branch.Limited
	if errors.As(err, &wait) {
		w.pace.empty()
	}
	return err
}
