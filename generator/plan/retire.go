package plan

import (
	"slices"
	"time"
)

// Retirement is the removal of one dispatch from git.
type Retirement struct {
	// ID is the dispatch's, Agents how many it ordered.
	ID     string `json:"id"`
	Agents int    `json:"agents"`
	// Registered is the number of its indexes that were seen, at most Agents.
	Registered int `json:"registered"`
	// Reason is why it can be removed, and Since the time from which it could.
	Reason RetireReason `json:"reason"`
	Since  time.Time    `json:"since"`
	// Failure is how it failed; empty if it did not.
	Failure Failure `json:"failure,omitempty"`
	// WrongTags is the number of its agents that registered without a tag that they were ordered with.
	WrongTags int `json:"wrongTags,omitempty"`
	// Withdrawn reports that it was withdrawn before.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Copied reports that another overlay ordered it, and its outcome is that one's.
	Copied bool `json:"copied,omitempty"`
	// Unknown reports that it neither failed nor succeeded, because there was no job for its agents.
	// The circuit breaker does not change.
	Unknown bool `json:"unknown,omitempty"`
}

// Outcome returns the [Failure] of the dispatch, or else its [RetireReason].
func (r Retirement) Outcome() string {
	if r.Failure != "" {
		return string(r.Failure)
	}
	return string(r.Reason)
}

// Outcomes returns all values of [Retirement.Outcome].
func Outcomes() []string {
	all := []string{string(AllRegistered), string(Expired), string(Withdrawn)}
	for _, f := range Failures() {
		all = append(all, string(f))
	}
	return all
}

// Retirements that can wait are pushed together.
const (
	// longestRetireWait is how long one waits at most: half of the time for which muster check wants a
	// finished Job to exist. A syncer that still has the manifest would create it again.
	longestRetireWait = 30 * time.Minute
	// shortRetireWait is how long one waits if a restarted muster could not find out again which agents have
	// registered: they are inferred, or have exited without a job.
	shortRetireWait = 5 * time.Minute
	// retiredTogether is how many dispatches wait at most.
	retiredTogether = 7
)

// retireNow reports whether retirements are pushed: they are many, one has waited for long enough, has failed
// or expired, or may matter for the circuit breaker. The commit of one that expired names the pods to delete.
// Withdrawals never wait.
func (s *allocation) retireNow(o Observation) bool {
	wait := longestRetireWait
	if ttl := s.overlay.JobTTL; ttl > 0 {
		wait = min(wait, ttl/2)
	}
	if o.Inferred {
		wait = min(wait, shortRetireWait)
	}
	most := retiredTogether
	if s.capacity.MaxJobs > 0 {
		most = min(most, s.capacity.MaxJobs)
	}
	waiting := 0
	for _, r := range s.retire {
		waited := o.At.Sub(r.Since)
		switch {
		case r.Reason == Withdrawn:
			continue
		case r.Reason == Expired, r.Failure != "", s.overlay.State.Breaker.Open():
			return true
		case waited >= wait, waited >= shortRetireWait && s.capacity.Dispatches[r.ID].ExitedUnused > 0:
			return true
		}
		waiting++
	}
	return waiting >= most || waiting > 0 && !s.breaker.Equal(s.overlay.State.Breaker)
}

// RetireReason is why a dispatch leaves git.
type RetireReason string

// The reasons to retire a dispatch.
const (
	// AllRegistered: every index has registered.
	AllRegistered RetireReason = "registered"
	// Expired: the lease has expired; indexes that were not seen are lost.
	Expired RetireReason = "expired"
	// Withdrawn: another overlay ordered it; or no agent of its order has registered, and the template
	// has changed since: the syncer may have rejected it, and may apply nothing of the overlay
	// meanwhile. Its manifest leaves git. If the syncer has created its Job anyway, that runs, so its agents
	// count as in flight until its lease expires; then it is retired. To write the corrected Job under the old name would be
	// exact, because Kubernetes creates one Job of a name. But then each edit of a template
	// would change the manifests of running Jobs, which Argo CD fails to sync.
	Withdrawn RetireReason = "withdrawn"
)

// WorstFailure returns the most severe failure of dispatches that are retired together; empty if
// none failed.
func WorstFailure(all []Retirement) Failure {
	for _, f := range []Failure{NoJobTaken, NeverRegistered} {
		if slices.ContainsFunc(all, func(r Retirement) bool { return r.Failure == f }) {
			return f
		}
	}
	return ""
}

// retirements returns the dispatches that can be removed from git: all their agents have registered
// or their lease has expired, and their outcome is known. The dispatches of an order are removed
// together.
func (s *allocation) retirements(o Observation) []Retirement {
	var all []Retirement
	from, until := s.comparedFrom(o.At), o.At.Add(-s.overlay.State.StartupTimes.comparedAfter())
	for _, d := range s.overlay.Dispatches {
		compared := !from.IsZero() && d.At.After(from) && d.At.After(until)
		if r, ok := s.retirement(d, o); ok && !(compared && r.Reason == AllRegistered) {
			all = append(all, r)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r Retirement) bool { return !s.wholeOrder(r, all, o.At) })
}

// retirement returns the outcome of a dispatch that can be removed from git; false if it must stay.
func (s *allocation) retirement(d Dispatch, o Observation) (r Retirement, ok bool) {
	seen := s.capacity.Dispatches[d.ID]
	registered := seen.Registered.Below(d.Agents)
	r = Retirement{ID: d.ID, Agents: d.Agents, Registered: registered, WrongTags: seen.WrongTags, Withdrawn: d.Withdrawn, Copied: s.overlay.Copied(d)}
	switch {
	case s.overlay.drifted(d) && (!d.Expired(o.At) || seen.Connected > 0): // its manifest may no longer keep its Job
		return r, false
	case registered == d.Agents && (!s.overlay.former(d) || d.Expired(o.At)):
		r.Reason, r.Since = AllRegistered, o.At
		if seen.RegisteredAt != nil {
			r.Since = *seen.RegisteredAt
		}
	case d.Expired(o.At):
		r.Reason, r.Since = Expired, d.NotAfter.Add(Grace)
	case s.withdrawable(d, o.At):
		r.Reason, r.Since, r.Unknown = Withdrawn, o.At, true
		return r, true
	default:
		return r, false
	}
	if r.Copied || d.PutBack {
		r.Unknown = true
		return r, true
	}
	kept := seen.HadJob == 0 && !s.overlay.outdated(d) && s.jobsKeptPending(r.Since)
	waiting := seen.Connected > 0 && seen.HadJob == 0 && seen.WrongTags == 0
	if waiting && (kept || s.watching(d, seen, o.At) || s.untried(d)) {
		return r, false // its agents may still take a job, or exit early
	}
	if !d.Stale(o.At) && (!d.Withdrawn || r.Registered > 0) {
		r.Failure = s.failure(d, r, seen, kept, o.At)
	}
	r.Unknown = r.Failure == "" && !s.succeeded(d, r, seen)
	return r, true
}

// otherTemplate reports whether the overlay's template is not the one of a dispatch. It is false if
// either is unknown.
func (s *allocation) otherTemplate(d Dispatch) bool {
	return d.Template != "" && s.overlay.Template != "" && d.Template != s.overlay.Template
}

// withdrawable reports whether a dispatch is to be withdrawn: it is another overlay's, or its template
// has changed, no agent of its order has registered, and it has had time to become a Job.
func (s *allocation) withdrawable(d Dispatch, now time.Time) bool {
	if d.Withdrawn {
		return false
	}
	if s.overlay.Copied(d) { // its Job exists where it was ordered
		return true
	}
	if d.Edited || !s.otherTemplate(d) || s.overlay.Refused.Active() || !d.Withdrawable(now) {
		return false
	}
	return !slices.ContainsFunc(s.overlay.Dispatches, func(x Dispatch) bool {
		return x.At.Equal(d.At) && !s.capacity.Dispatches[x.ID].Registered.IsZero()
	})
}

// earlyExit is the time after the registration of all agents of a dispatch in which the exit of all
// of them is a failure, and the longest time for which agents of the warm pool are watched before
// they count as a success. Agents that exit later are ordered no more often than trials.
const earlyExit = lastTrial

// shortWatch is how long they are watched after the end of the lease. Buildkite lists an agent that was killed as connected for three
// to four further minutes (docs agent/lifecycle.md, "Troubleshooting").
const shortWatch = 5 * time.Minute

// watchTime returns earlyExit, or half of the idle time-out if that is shorter: until then a
// working agent cannot have exited idle. If other agents of the order have had a job, it is at most
// shortWatch.
func (s *allocation) watchTime(d Dispatch) time.Duration {
	watch := min(earlyExit, d.longestIdle()/2)
	if slices.ContainsFunc(s.overlay.Dispatches, func(x Dispatch) bool {
		return x.At.Equal(d.At) && s.capacity.Dispatches[x.ID].HadJob > 0
	}) {
		watch = min(watch, shortWatch)
	}
	return watch
}

// watchedUntil returns until when the exit of all registered agents is too early; zero if that is
// unknown. A dispatch is not kept in git for it much longer than its lease. If some agents never
// registered, the others waited until the end of the lease, and none of them can have idled out
// before its time-out, counted from the order.
func (s *allocation) watchedUntil(d Dispatch, seen Observed, now time.Time) time.Time {
	over := d.NotAfter.Add(Grace)
	var until, most time.Time
	switch {
	case seen.RegisteredAt != nil:
		until, most = seen.RegisteredAt.Add(s.watchTime(d)), later(over, *seen.RegisteredAt).Add(shortWatch)
	case d.Expired(now) && seen.Registered.Below(d.Agents) < d.Agents:
		until, most = over.Add(min(s.watchTime(d), shortWatch)), d.At.Add(d.longestIdle())
	}
	if most.Before(until) {
		return most
	}
	return until
}

// later returns the later of two times, b if they are equal.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier returns the earlier of two times, b if they are equal. A time that is zero is unknown.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// watching reports whether the agents of a dispatch fail if they exit now: those of the warm pool, until
// they have been watched for long enough. If the circuit breaker is open because no agent registered, a
// trial succeeds as soon as it registers.
func (s *allocation) watching(d Dispatch, seen Observed, now time.Time) bool {
	before := s.overlay.State.Breaker
	tested := before.Open() && before.Cause == NeverRegistered
	return d.Purpose == ForWarmPool && !tested && now.Before(s.watchedUntil(d, seen, now))
}

// untried reports whether the outcome of a dispatch is its agents' next job: it was ordered for jobs, and
// the circuit breaker is open because other agents took no job. Until then further trials would be sent
// at every tick.
func (s *allocation) untried(d Dispatch) bool {
	before := s.overlay.State.Breaker
	return d.Purpose == ForDemand && before.Open() && before.Cause == NoJobTaken
}

// failure returns how a dispatch failed; empty if it did not.
func (s *allocation) failure(d Dispatch, r Retirement, seen Observed, kept bool, now time.Time) Failure {
	switch {
	case r.Registered == 0:
		return NeverRegistered
	case kept || seen.WrongTags > 0 || seen.HadJob == 0 && seen.Connected == 0 && s.watching(d, seen, now):
		return NoJobTaken
	}
	return ""
}

// succeeded reports whether a dispatch without a failure proves that the cause of earlier failures no
// longer exists.
func (s *allocation) succeeded(d Dispatch, r Retirement, seen Observed) bool {
	if s.overlay.State.Breaker.Cause == NoJobTaken {
		return seen.HadJob > 0 || d.Purpose == ForWarmPool && seen.Connected > 0 // for long enough, or it would stay
	}
	return r.Registered > 0
}

// wholeOrder reports whether all dispatches of the order of a retirement can be removed.
func (s *allocation) wholeOrder(r Retirement, going []Retirement, now time.Time) bool {
	at := s.dispatch(r.ID).At
	return !slices.ContainsFunc(s.overlay.Dispatches, func(x Dispatch) bool {
		held := s.overlay.drifted(x) && x.Expired(now) // for as long as an agent of it is connected
		return x.At.Equal(at) && !held && !slices.ContainsFunc(going, func(g Retirement) bool { return g.ID == x.ID })
	})
}

func (s *allocation) dispatch(id string) Dispatch {
	i := slices.IndexFunc(s.overlay.Dispatches, func(x Dispatch) bool { return x.ID == id })
	return s.overlay.Dispatches[i]
}

// jobsKeptPending reports whether jobs that the overlay's agents can take have been pending since
// before a time, although the queue was not suspended.
func (s *allocation) jobsKeptPending(moment time.Time) bool {
	return !s.capacity.Suspended.Active() && !s.oldest.IsZero() && s.oldest.Before(moment)
}

// outcomes returns the outcomes of the retired dispatches. It omits stale ones: muster did not ask
// Buildkite about them.
func (s *allocation) outcomes(now time.Time) []outcome {
	var all []outcome
	for _, r := range s.retire {
		if d := s.dispatch(r.ID); !d.Stale(now) && r.Reason != Withdrawn && !d.PutBack {
			all = append(all, outcome{dispatch: d, failure: r.Failure, success: r.Failure == "" && !r.Unknown, opens: r.Failure != "" && r.WrongTags > 0})
		}
	}
	return all
}
