package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

// startupAndTransport is the approximate time from the decision to an agent's first job if no
// start-up times are known: on average 8 seconds until a tick, 13 until the syncer has seen the
// commit and 48 of start-up were measured, plus a margin.
const startupAndTransport = 75 * time.Second

// lead returns how long before a job can run an agent is ordered for it: if the overlay's start-up times are known,
// their 90th percentile and a tick. Agents that take further jobs are ordered later, by the median: one that is early
// may idle out, and one that is late is less missed. If no start-up times are known, they must not idle out even if
// they start at once.
func lead(v Overlay) time.Duration {
	p := v.Policy
	known := p.learnsStartupTimes() && v.State.StartupTimes.Known()
	switch {
	case known && p.Reuse.On():
		return v.State.StartupTimes.Within(50)
	case known:
		return v.State.StartupTimes.Within(90) + tickTime
	case p.Reuse.Auto:
		return FirstIdle
	case p.Reuse.On():
		return min(startupAndTransport, p.Reuse.Idle)
	}
	return startupAndTransport
}

// tickTime is the mean time until the next poll.
const tickTime = 8 * time.Second

// maxStages is the maximum number of stages of one queue that are looked ahead to at once, and so of
// remembered ones. For jobs of further stages, agents are ordered once they can run.
const maxStages = 200

// Stage is a group of upcoming jobs that become runnable together and that agents are dispatched
// for: it is due within the start-up and transport time, or agents were dispatched for it before.
// Its jobs have equal rules; other jobs of the same moment are another Stage.
type Stage struct {
	// Name is equal in all observations of the jobs.
	Name string `json:"name"`
	// Due is the predicted time at which they can run; nil if unknown.
	Due *time.Time `json:"due,omitempty"`
	// Jobs is the number of jobs; zero if they count in another queue. Of these, Freed need no agents of overlays whose
	// agents take further jobs: those that earlier jobs of the build have are free by then.
	Jobs  int `json:"jobs,omitempty"`
	Freed int `json:"freed,omitempty"`
	// Expected reports that the jobs do not exist yet; see [Job.Expected].
	Expected bool `json:"expected,omitempty"`
	// Ordered agents were dispatched for them by overlays that can take them, the first at Since;
	// nil if Ordered is zero.
	Ordered int        `json:"ordered,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// due returns the time at which the stage is due; zero if unknown.
func (s Stage) due() time.Time {
	if s.Due == nil {
		return time.Time{}
	}
	return *s.Due
}

// AheadOf is the number of agents that were dispatched for one stage of upcoming jobs.
type AheadOf struct {
	// Stage is its name.
	Stage string `json:"stage"`
	// Agents is the number of agents, and At the time of the first order.
	Agents int       `json:"agents"`
	At     time.Time `json:"at"`
}

// Equal reports whether two values are equal.
func (a AheadOf) Equal(other AheadOf) bool {
	return a.Stage == other.Stage && a.Agents == other.Agents && a.At.Equal(other.At)
}

// staged is a group of upcoming jobs of a class that become runnable together.
type staged struct {
	due         time.Time
	jobs, freed int
	expected    bool
	created     []creation
}

// addUpcoming adds an upcoming job.
func (c *class) addUpcoming(j *Job) {
	c.upcoming++
	if j.Stage == "" {
		c.created = addCreated(c.created, j.Created)
		return
	}
	if c.staged == nil {
		c.staged = map[string]staged{}
	}
	s := c.staged[j.Stage]
	s.jobs++
	if j.Freed {
		s.freed++
	}
	s.expected = s.expected || j.Expected
	s.created = addCreated(s.created, j.Created)
	s.due = earlier(j.Due, s.due)
	c.staged[j.Stage] = s
}

// stageName returns the name of the jobs of a stage with equal cluster and rules.
func (c *class) stageName(stage string) string {
	sum := sha256.Sum256([]byte(c.cluster + "\x00" + strings.Join(c.rules, "\x00") + "\x00" + stage))
	return hex.EncodeToString(sum[:6])
}

// remembered contains the agents that overlays have dispatched for stages, by stage.
type remembered map[string]AheadOf

func (r remembered) add(all []AheadOf) {
	for _, a := range all {
		known := r[a.Stage]
		known.Agents += a.Agents
		known.At = later(a.At, known.At)
		r[a.Stage] = known
	}
}

// findStages separates upcoming jobs with a known time from the others, which count by their creation
// time. A stage of jobs that count in another queue is kept while an overlay of this queue remembers
// it.
func (c *class) findStages(now time.Time) {
	within, memory := c.servers.within, c.servers.memory
	if c.otherOverlays != nil {
		memory = c.otherOverlays
	}
	for _, stage := range slices.Sorted(maps.Keys(c.staged)) {
		jobs := c.staged[stage]
		s := Stage{Name: c.stageName(stage), Jobs: jobs.jobs, Freed: jobs.freed, Expected: jobs.expected}
		if !jobs.due.IsZero() {
			s.Due = new(jobs.due.UTC().Truncate(time.Second))
		}
		if a := memory[s.Name]; a.Agents > 0 {
			s.Ordered, s.Since = a.Agents, new(a.At.UTC())
		}
		switch {
		case c.counted && s.Ordered > 0:
			s.Jobs, s.Freed, s.Expected = 0, 0, false
			c.stages = append(c.stages, s)
		case c.counted || within == 0:
		case s.Ordered > 0, s.Due != nil && !jobs.due.After(now.Add(within)):
			c.stages = append(c.stages, s)
		case s.Due == nil:
			c.created = append(c.created, jobs.created...)
		default:
			c.later(s, within)
		}
	}
}

// unknownTimes reports whether some upcoming jobs, which may run in any queue, are at an unknown time.
func (c *class) unknownTimes() bool {
	for stage, jobs := range c.staged {
		if jobs.due.IsZero() && c.otherOverlays[c.stageName(stage)].Agents == 0 {
			return true
		}
	}
	return len(c.created) > 0
}

// countOtherOverlays keeps, of the stages of jobs that count in another queue, those that overlays of
// this queue remember.
func (c *class) countOtherOverlays(overlays []string, allocations []*allocation) {
	memory := remembered{}
	for _, s := range allocations {
		if slices.Contains(overlays, s.overlay.Name) {
			memory.add(s.overlay.State.AheadOf)
		}
	}
	c.counted, c.staged = true, maps.Clone(c.staged)
	maps.DeleteFunc(c.staged, func(stage string, _ staged) bool { return memory[c.stageName(stage)].Agents == 0 })
}

// later counts jobs that are due later than agents need to register.
func (c *class) later(s Stage, within time.Duration) {
	c.upcoming -= s.Jobs
	c.notYet += s.Jobs
	c.within = max(c.within, within)
	c.earliest = earlier(s.due(), c.earliest)
}

// boundStages keeps the stages that are due first, and all that are remembered.
func boundStages(classes []*class) {
	var dues []time.Time
	n := 0
	for _, c := range classes {
		n += len(c.stages)
		for _, s := range c.stages {
			if s.Ordered == 0 {
				dues = append(dues, s.due())
			}
		}
	}
	over := n - maxStages
	if over <= 0 || len(dues) == 0 {
		return
	}
	slices.SortFunc(dues, time.Time.Compare)
	last := time.Time{} // those that are due later are omitted
	if keep := len(dues) - over; keep > 0 {
		last = dues[keep-1]
	}
	left := max(0, len(dues)-over)
	for _, c := range classes {
		c.stages = slices.DeleteFunc(c.stages, func(s Stage) bool {
			if s.Ordered == 0 && (s.due().After(last) || left == 0) {
				c.later(s, 0)
				return true
			}
			if s.Ordered == 0 {
				left--
			}
			return false
		})
	}
}

// addStages adds the stages of a class to its group, and its jobs that are due later.
func (d *Demand) addStages(c *class) {
	d.Stages = append(d.Stages, c.stages...)
	slices.SortFunc(d.Stages, func(a, b Stage) int { return cmp.Or(a.due().Compare(b.due()), cmp.Compare(a.Name, b.Name)) })
	d.Later += c.notYet
	d.Within = max(d.Within, int(c.within/time.Second))
	d.Earliest = earliest(d.Earliest, c.earliest)
}

// earliest returns the earlier of two times, in seconds. Both may be unknown: nil and zero.
func earliest(a *time.Time, b time.Time) *time.Time {
	if b = b.UTC().Truncate(time.Second); b.IsZero() || a != nil && !b.Before(*a) {
		return a
	}
	return &b
}

// known returns the number of jobs in the group's stages.
func (d Demand) known() (jobs int) {
	for _, s := range d.Stages {
		jobs += s.Jobs
	}
	return jobs
}

// ahead is a stage that an overlay looks ahead to.
type ahead struct {
	name  string
	share int // of its jobs, by the policy
	new   int // jobs of the share without a dispatched agent
	wants int // agents that are dispatched if they are missing
	since *time.Time
}

// lookAheadTo adds stages to those that the overlay looks ahead to. While the dispatched agents cannot have reached
// their idle time-out, the jobs are demand like pending jobs: if an agent is missing, another job took it. After that no
// agents are dispatched for them again.
func (s *allocation) lookAheadTo(stages []Stage, now time.Time) {
	for _, stage := range stages {
		if s.policy.Reuse.On() {
			stage.Jobs -= stage.Freed
		}
		a := ahead{name: stage.Name, share: portion(s.policy.Lookahead, stage), since: stage.Since}
		a.new = max(0, a.share-stage.Ordered)
		a.wants = max(a.new, a.share-s.idledOut(stage, now))
		s.ahead = append(s.ahead, a)
	}
}

// idledOut returns the maximum number of agents dispatched for a stage that can have reached their idle time-out: none
// before the time-out, counted from the order; those that are known to have exited without a job while the order is in
// git and its agents may just have started; later all.
func (s *allocation) idledOut(stage Stage, now time.Time) (agents int) {
	if stage.Since == nil {
		return 0
	}
	until := stage.Since.Add(s.policy.DemandIdleTimeout())
	if now.Before(until) {
		return 0
	}
	inGit := false
	for _, d := range s.overlay.Dispatches {
		inGit = inGit || d.At.Equal(*stage.Since)
		if !d.At.Before(*stage.Since) {
			agents += s.capacity.Dispatches[d.ID].ExitedUnused
		}
	}
	if !inGit || !now.Before(until.Add(lead(s.overlay))) {
		return stage.Ordered
	}
	return agents
}

// reserved returns how many agents are dispatched again if they are missing: for stages that agents
// were dispatched for before.
func (s *allocation) reserved() (agents int) {
	for _, a := range s.ahead {
		agents += a.wants - a.new
	}
	return agents
}

// portion returns the policy's share of a stage's jobs. A fraction of an agent is rounded up or down
// by the stage's name, so that the mean over many stages is the share.
func portion(lookahead float64, s Stage) int {
	chance := sha256.Sum256([]byte(s.Name))
	return int(lookahead*float64(s.Jobs) + float64(chance[0])/256 + 1e-9)
}

// keepStages keeps what the overlay remembers about stages that are still upcoming.
func (s *allocation) keepStages(upcoming map[string]bool) {
	for _, a := range s.overlay.State.AheadOf {
		if upcoming[a.Stage] {
			s.remembers = append(s.remembers, a)
		}
	}
}

// rememberStages assigns agents that are dispatched for new upcoming jobs to the stages, sorted by
// due time, and returns the number of remaining agents. A stage with agents of an earlier dispatch
// keeps the time of that dispatch.
func (s *allocation) rememberStages(agents int, now time.Time) (left int) {
	for _, a := range s.ahead {
		n := min(agents, a.new)
		if n == 0 {
			continue
		}
		agents -= n
		i := slices.IndexFunc(s.remembers, func(r AheadOf) bool { return r.Stage == a.name })
		if i < 0 {
			i = len(s.remembers)
			s.remembers = append(s.remembers, AheadOf{Stage: a.name, At: now})
			if a.since != nil {
				s.remembers[i].At = *a.since
			}
		}
		s.remembers[i].Agents += n
	}
	return agents
}

// lookAhead counts the upcoming jobs that were created after the last dispatch for upcoming jobs of
// every overlay that can serve them: another overlay may have looked ahead to them while the first
// was suspended. Agents are dispatched for an upcoming job once, even if they reach their idle
// time-out. A job with an unknown creation time counts.
func (c *class) lookAhead(overlays []Overlay, now time.Time) {
	if c.upcoming == 0 && len(c.staged) == 0 {
		return
	}
	c.findStages(now)
	if !c.servers.ahead {
		return
	}
	before := later(c.lookedAhead, c.servers.lookedAhead)
	for _, x := range c.created {
		if x.at.IsZero() || x.at.After(before) {
			c.new += x.jobs
		}
		c.newest = later(x.at, c.newest)
	}
	c.countPartial(overlays, before)
}

// countPartial counts, for each overlay, the jobs created after a time that it may have
// dispatched for.
func (c *class) countPartial(overlays []Overlay, after time.Time) {
	for _, i := range c.servers.partial {
		until := overlays[i].State.Partial.Until
		if !until.After(after) {
			continue
		}
		jobs := 0
		for _, x := range c.created {
			if x.at.After(after) && !x.at.After(until) {
				jobs += x.jobs
			}
		}
		if jobs == 0 {
			continue
		}
		if c.partial == nil {
			c.partial = map[string]int{}
		}
		c.partial[overlays[i].Name] = jobs
	}
}
