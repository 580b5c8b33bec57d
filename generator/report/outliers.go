package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// Outlier is something unusual that happened to an overlay.
type Outlier struct {
	At      time.Time
	Overlay string
	// What happened, and its Reason. Commit is the commit that records it; muster explain has details.
	What, Reason, Commit string
	// size orders outliers of one kind.
	size float64
}

// maxOutliers is the maximum number of outliers of each kind.
const maxOutliers = 5

// outliers collects what samples show. The zero value is ready to use.
type outliers struct {
	waits  map[string][]congestion // by overlay
	limits map[string]*limits
}

// congestion is a period in which an overlay had pending jobs at each commit.
type congestion struct {
	wait   time.Duration // the longest
	at     history.Sample
	last   time.Time
	commit string
	trial  bool
	limit  string
}

// limits are the orders of an overlay that ordered fewer agents than jobs were pending.
type limits struct {
	orders  int
	missing int // at most
	at      history.Sample
	commit  string
	limit   string
}

// short returns how many pending jobs have no agent, neither idle nor in flight.
func short(s history.Sample) int { return s.Pending - s.Idle - s.InFlight }

// add adds a sample by an operation.
func (x *outliers) add(e ledger.Operation, s history.Sample) {
	if x.waits == nil {
		x.waits, x.limits = map[string][]congestion{}, map[string]*limits{}
	}
	if s.Pending > 0 && !s.Oldest.IsZero() {
		all := x.waits[s.Overlay]
		if n := len(all); n == 0 || s.Oldest.After(all[n-1].last) {
			all = append(all, congestion{})
		}
		c := &all[len(all)-1]
		if c.last = s.At; s.At.Sub(s.Oldest) >= c.wait {
			c.wait, c.at, c.commit, c.trial, c.limit = s.At.Sub(s.Oldest), s, e.ID, false, ""
			if e.Overlay == s.Overlay {
				c.trial, c.limit = e.Trial(), e.Limit
			}
		}
		x.waits[s.Overlay] = all
	}
	if n := short(s); n > 0 && e.Kind == ledger.Dispatch && e.Overlay == s.Overlay && !e.Trial() {
		l := x.limits[s.Overlay]
		if l == nil {
			l = &limits{}
			x.limits[s.Overlay] = l
		}
		if l.orders++; n > l.missing {
			l.missing, l.at, l.commit, l.limit = n, s, e.ID, e.Limit
		}
	}
}

// list returns the largest outliers of each kind.
func (x *outliers) list(overlays []Overlay) []Outlier {
	var waits, failed, limited, open []Outlier
	for _, o := range overlays {
		for _, c := range x.waits[o.Name] {
			if c.wait < time.Minute {
				continue // an agent cannot be there sooner
			}
			waits = append(waits, Outlier{c.at.At, o.Name, "a job waited " + span(c.wait), c.reason(o), c.commit, c.wait.Seconds()})
		}
		for _, r := range o.Ordered {
			if n := r.Lost(); n > 0 {
				reason := "their lease expired: muster explain says what to check"
				if r.Trial() {
					reason = "a trial, while the circuit breaker was open"
				}
				what := fmt.Sprintf("%d of %s never registered", n, ledger.Count(r.Agents(), "agent"))
				failed = append(failed, Outlier{r.At, o.Name, what, reason, r.ID, float64(n)})
			}
		}
		if l := x.limits[o.Name]; l != nil {
			what := fmt.Sprintf("%d of %s ordered too few agents", l.orders, ledger.Count(o.Orders, "commit"))
			reason := fmt.Sprintf("%s: here %s, %d idle and %d in flight, so %d too few", cmp.Or(l.limit, "a limit"), ledger.Count(l.at.Pending, "pending job"), l.at.Idle, l.at.InFlight, l.missing)
			limited = append(limited, Outlier{l.at.At, o.Name, what, reason, l.commit, float64(l.missing)})
		}
		if b, ok := breaker(o); ok {
			open = append(open, b)
		}
	}
	var all []Outlier
	for _, kind := range [][]Outlier{waits, failed, limited, open} {
		slices.SortStableFunc(kind, func(a, b Outlier) int { return cmp.Compare(b.size, a.size) })
		all = append(all, kind[:min(len(kind), maxOutliers)]...)
	}
	return all
}

// reason returns why a job waited, by what git contains.
func (c congestion) reason(o Overlay) string {
	s := c.at
	lost := 0
	for _, r := range o.Ordered {
		if !r.At.Before(s.Oldest) && !r.At.After(s.At) {
			lost += r.Lost()
		}
	}
	switch n := short(s); {
	case s.Suspended.Code == plan.PausedInBuildkite:
		return "the queue was paused in Buildkite"
	case s.Suspended.Active():
		return "suspended: " + string(s.Suspended.Code)
	case c.trial:
		return "the circuit breaker was open"
	case lost > 0:
		return ledger.Count(lost, "agent") + " ordered for it never registered"
	case n > 0:
		return fmt.Sprintf("%s: %s, %d idle and %d in flight", cmp.Or(c.limit, "a limit"), ledger.Count(s.Pending, "pending job"), s.Idle, s.InFlight)
	case s.InFlight > 0:
		return ledger.Count(s.InFlight, "agent") + " had not registered yet"
	}
	return "idle agents did not take it"
}

// breaker returns the longest series of trials of an overlay. The circuit breaker was open at least from the
// first to the last.
func breaker(o Overlay) (Outlier, bool) {
	var longest Outlier
	trials := 0
	var first time.Time
	for _, r := range o.Ordered {
		if !r.Trial() {
			first, trials = time.Time{}, 0
			continue
		}
		if trials++; trials == 1 {
			first = r.At
		}
		if open := max(0, r.At.Sub(first)); open.Seconds() >= longest.size {
			what := "the circuit breaker was open for at least " + span(open)
			longest = Outlier{first, o.Name, what, ledger.Count(trials, "trial"), r.ID, open.Seconds()}
		}
	}
	return longest, longest.What != ""
}
