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

// lead is how long before a job can run an agent is ordered for it: as long as nine of ten
// of the overlay's agents took, where that is learned, and a tick.
func lead(v Overlay) time.Duration {
	if v.Policy.LeaseAuto && v.State.StartupTimes.Known() {
		return v.State.StartupTimes.Within(90) + tickTime
	}
	return startupAndTransport
}

// tickTime is how long it takes on average until a tick sees what has come.
const tickTime = 8 * time.Second

// maxStages is how many stages of one queue are looked ahead to at once, and so how
// many are remembered. For the jobs of more, agents are ordered when they can run.
const maxStages = 200

// Stage is a group of upcoming jobs that become runnable together and that agents are dispatched
// for: it is due within the start-up and transport time, or agents were dispatched for it before.
// Its jobs have equal rules; other jobs of the same moment are another Stage.
type Stage struct {
	// Name is the same in each observation of the jobs.
	Name string `json:"name"`
	// Due is when they can run, as it was predicted; nil: that is not known, or no
	// longer.
	Due *time.Time `json:"due,omitempty"`
	// Jobs is how many there are; none where they count for another queue.
	Jobs int `json:"jobs,omitempty"`
	// Ordered agents were dispatched for them by overlays that could take them, since
	// the time Since; nil: none were.
	Ordered int        `json:"ordered,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// due is when the stage is due; zero: it is not known.
func (s Stage) due() time.Time {
	if s.Due == nil {
		return time.Time{}
	}
	return *s.Due
}

// AheadOf is what was dispatched for one stage of upcoming jobs.
type AheadOf struct {
	// Stage is its name.
	Stage string
	// Agents is how many, and At when the first were.
	Agents int
	At     time.Time
}

// Equal reports whether two say the same.
func (a AheadOf) Equal(other AheadOf) bool {
	return a.Stage == other.Stage && a.Agents == other.Agents && a.At.Equal(other.At)
}

// staged are upcoming jobs of a class that become runnable together.
type staged struct {
	due     time.Time
	jobs    int
	created []creation
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
	s.created = addCreated(s.created, j.Created)
	s.due = earlier(j.Due, s.due)
	c.staged[j.Stage] = s
}

// stageName is the name of a stage's jobs that are alike.
func (c *class) stageName(stage string) string {
	sum := sha256.Sum256([]byte(c.cluster + "\x00" + strings.Join(c.rules, "\x00") + "\x00" + stage))
	return hex.EncodeToString(sum[:6])
}

// remembered is what overlays remember of stages.
type remembered map[string]AheadOf

func (r remembered) add(all []AheadOf) {
	for _, a := range all {
		known := r[a.Stage]
		known.Agents += a.Agents
		known.At = later(a.At, known.At)
		r[a.Stage] = known
	}
}

// findStages tells the upcoming jobs whose moment is known from the others, which are
// added to those that are counted by their creation. A stage of jobs that count for
// another queue is kept while an overlay here remembers it.
func (c *class) findStages(overlays []Overlay, now time.Time) {
	var within time.Duration
	memory := maps.Clone(c.otherOverlays)
	if memory == nil {
		memory = remembered{}
		for _, o := range overlays {
			if slices.Contains(c.overlays, o.Name) {
				memory.add(o.State.AheadOf)
			}
		}
	}
	for _, o := range overlays {
		if o.Policy.Lookahead > 0 && slices.Contains(c.overlays, o.Name) {
			within = max(within, lead(o))
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(c.staged)) {
		jobs := c.staged[stage]
		s := Stage{Name: c.stageName(stage), Jobs: jobs.jobs}
		if !jobs.due.IsZero() {
			s.Due = new(jobs.due.UTC().Truncate(time.Second))
		}
		if a := memory[s.Name]; a.Agents > 0 {
			s.Ordered, s.Since = a.Agents, new(a.At.UTC())
		}
		switch {
		case c.counted && s.Ordered > 0:
			s.Jobs = 0
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

// countOtherOverlays leaves, of the stages of jobs that count for another queue, those that
// overlays here remember.
func (c *class) countOtherOverlays(overlays []string, shares []*share) {
	memory := remembered{}
	for _, s := range shares {
		if slices.Contains(overlays, s.overlay.Name) {
			memory.add(s.overlay.State.AheadOf)
		}
	}
	c.counted, c.staged = true, maps.Clone(c.staged)
	maps.DeleteFunc(c.staged, func(stage string, _ staged) bool { return memory[c.stageName(stage)].Agents == 0 })
}

// later counts jobs that are due later than agents take to come.
func (c *class) later(s Stage, within time.Duration) {
	c.upcoming -= s.Jobs
	c.notYet += s.Jobs
	c.within = max(c.within, within)
	c.earliest = earlier(s.due(), c.earliest)
}

// boundStages leaves the stages that are due first, and all that are remembered.
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
	last := time.Time{} // those that are due later wait
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

// known are the jobs of the group's stages.
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
	new   int // of the share, those that nothing was dispatched for
	wants int // agents that are dispatched if they are not there
	since *time.Time
}

// lookAheadTo adds the stages of a group to what the overlay looks ahead to. Until the
// agents that were dispatched first may have idled out, the jobs are demand like any that
// are pending: another job took an agent that is missing. From then on nothing is
// dispatched for them again.
func (s *share) lookAheadTo(group Demand, now time.Time) {
	for _, stage := range group.Stages {
		a := ahead{name: stage.Name, share: portion(s.policy.Lookahead, stage), since: stage.Since}
		a.new = max(0, a.share-stage.Ordered)
		a.wants = a.new
		if stage.Since != nil && now.Before(stage.Since.Add(s.policy.DemandIdleTimeout())) {
			a.wants = a.share
		}
		s.ahead = append(s.ahead, a)
	}
}

// held returns how many agents are dispatched again if they are missing: for stages that agents
// were dispatched for before.
func (s *share) held() (agents int) {
	for _, a := range s.ahead {
		agents += a.wants - a.new
	}
	return agents
}

// portion is the policy's share of a stage's jobs, which may be one. What is left of an agent
// is one for as many stages as the share says: their names choose them.
func portion(lookahead float64, s Stage) int {
	chance := sha256.Sum256([]byte(s.Name))
	return int(lookahead*float64(s.Jobs) + float64(chance[0])/256 + 1e-9)
}

// keepStages keeps what the overlay remembers of the stages of a group.
func (s *share) keepStages(group Demand) {
	for _, stage := range group.Stages {
		for _, a := range s.overlay.State.AheadOf {
			if a.Stage == stage.Name {
				s.remembers = append(s.remembers, a)
			}
		}
	}
}

// rememberStages assigns agents that are dispatched for fresh upcoming jobs to the stages,
// in the order in which these are due, and returns how many agents are left over. A stage
// that had agents dispatched before keeps the time of that dispatch.
func (s *share) rememberStages(agents int, now time.Time) (left int) {
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
