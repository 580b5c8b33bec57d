package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"muster/generator/forecast"
)

// arrivals counts, for each overlay whose policy has a forecast, the jobs that became
// runnable, each once, by the minute. Like [Registrations], whose part it is, it saves
// what the state in git does not have yet: a restart loses what came since the last
// commit. The zero value is empty and ready.
type arrivals struct {
	looked time.Time            // the last look
	known  map[string]time.Time // jobs, by ID, and when a look last listed them
	counts map[string]*counted  // by overlay
}

// counted is what was counted of one overlay.
type counted struct {
	from time.Time // the first minute that was seen from its beginning
	jobs []int
	idle []int // agents that waited for a job
}

const (
	// jobForgotten is how long after a look last listed a job it is taken for new when one
	// does again: longer than finished builds are listed.
	jobForgotten = time.Hour
	// jobTooOld is how long before the last look a job that has had its agent can have
	// become runnable, so that it counts: older ones are of builds that are listed again.
	jobTooOld = 30 * time.Minute
	// longestArrivals bounds what is kept, in minutes.
	longestArrivals = 3 * 24 * 60
)

// Arrived counts the jobs that a snapshot shows for the first time, for the overlays whose
// policy has a forecast. It is called once for each look, with the overlays that are
// decided on.
func (r *Registrations) Arrived(overlays []Overlay, s Snapshot) {
	a := &r.arrivals
	foreseen := foreseen(overlays)
	if len(foreseen) == 0 {
		*a = arrivals{}
		return
	}
	at := s.At.UTC()
	if a.known == nil {
		a.known, a.counts = map[string]time.Time{}, map[string]*counted{}
	}
	a.begin(foreseen, at)
	claims := newClaims(foreseen, s)
	a.waited(claims.owners, s.Agents, at)
	listed := func(id string, since time.Time, taken bool, overlay func() string) {
		_, known := a.known[id]
		a.known[id] = at
		if old := taken && since.Before(a.looked.Add(-jobTooOld)); known || id == "" || old {
			return
		}
		if c := a.counts[overlay()]; c != nil {
			c.add(since, a.looked, at)
		}
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == JobPending {
			listed(j.ID, j.Since, false, func() string { return claims.of(j) })
		}
	}
	for i := range s.Taken {
		j := &s.Taken[i]
		listed(j.ID, j.Since, true, func() string { return claims.of(j) })
	}
	for _, x := range s.Agents { // of a job that no list of builds has
		if a.looked.IsZero() {
			a.known[x.Job] = at // since when it has been there is not known
			continue
		}
		listed(x.Job, at, true, func() string { name, _ := claims.owners.Of(Sighting{Agent: x.ID, Tags: x.Tags}); return name })
	}
	for id, last := range a.known {
		if at.Sub(last) > jobForgotten {
			delete(a.known, id)
		}
	}
	a.looked = at
}

// waited counts the agents that wait for a job, for the minutes since the last look.
func (a *arrivals) waited(owners Owners, agents []Agent, at time.Time) {
	idle := map[string]int{}
	for _, x := range agents {
		if x.State == AgentIdle {
			name, _ := owners.Of(Sighting{Agent: x.ID, Tags: x.Tags})
			idle[name]++
		}
	}
	for name, c := range a.counts {
		for n := int(at.Sub(c.from)/time.Minute) + 1; !at.Before(c.from) && len(c.idle) < n; {
			c.idle = append(c.idle, idle[name])
		}
		c.forget()
	}
}

// begin makes counts for the overlays that have a forecast, and drops those of others.
func (a *arrivals) begin(overlays []Overlay, at time.Time) {
	counts := map[string]*counted{}
	for _, o := range overlays {
		c := a.counts[o.Name]
		if c == nil {
			c = &counted{from: at.Add(time.Minute - 1).Truncate(time.Minute)}
		}
		counts[o.Name] = c
	}
	a.counts = counts
}

// add counts a job in the minute in which it became runnable, and not before the last look,
// up to which everything may be in git.
func (c *counted) add(since, looked, at time.Time) {
	if since.Before(looked) {
		since = looked
	}
	if since.After(at) {
		since = at
	}
	if since.Before(c.from) {
		return
	}
	i := int(since.Sub(c.from) / time.Minute)
	for len(c.jobs) <= i {
		c.jobs = append(c.jobs, 0)
	}
	c.jobs[i]++
	c.forget()
}

// forget drops the minutes that are too long ago.
func (c *counted) forget() {
	if more := max(len(c.jobs), len(c.idle)) - longestArrivals; more > 0 {
		c.jobs = slices.Delete(c.jobs, 0, min(more, len(c.jobs)))
		c.idle = slices.Delete(c.idle, 0, min(more, len(c.idle)))
		c.from = c.from.Add(time.Duration(more) * time.Minute)
	}
}

// since is what was counted for an overlay from a time on, up to now.
func (a *arrivals) since(o Overlay, now time.Time) forecast.Count {
	c := a.counts[o.Name]
	if c == nil || now.Before(c.from) {
		return forecast.Count{}
	}
	from, jobs, idle := c.from, c.jobs, c.idle
	if until := o.State.Warm.Until.UTC(); until.After(from) {
		skip := int(until.Sub(from) / time.Minute)
		from = from.Add(time.Duration(skip) * time.Minute)
		jobs, idle = jobs[min(skip, len(jobs)):], idle[min(skip, len(idle)):]
	}
	if now.Before(from) {
		return forecast.Count{}
	}
	return forecast.Count{From: from, Jobs: counts(jobs), Idle: counts(idle)}
}

// counts is a copy without the zeros at the end.
func counts(n []int) forecast.Series {
	for len(n) > 0 && n[len(n)-1] == 0 {
		n = n[:len(n)-1]
	}
	return append(forecast.Series(nil), n...)
}

// foreseen are the overlays whose policy has a forecast, as they are filled.
func foreseen(overlays []Overlay) []Overlay {
	all := slices.DeleteFunc(slices.Clone(overlays), func(o Overlay) bool { return !o.Policy.Warm.On() })
	slices.SortFunc(all, func(a, b Overlay) int {
		return cmp.Or(cmp.Compare(a.Policy.Queue, b.Policy.Queue), inOrder(a, b))
	})
	return all
}

// claims tell which overlay a job counts for: the first with a forecast, by queue, priority
// and name, whose agents could take it.
type claims struct {
	overlays []Overlay
	tags     [][]string
	clusters []string
	known    map[string]string // by cluster and rules
	owners   Owners
}

func newClaims(overlays []Overlay, s Snapshot) *claims {
	t := &claims{overlays: overlays, known: map[string]string{}, owners: NewOwners(overlays)}
	queues := s.queuesByKey()
	for _, o := range overlays {
		q := queueReader{key: o.Policy.Queue, inQueues: queues[o.Policy.Queue], snapshot: s}
		cluster, _ := q.cluster(o.Policy)
		t.tags, t.clusters = append(t.tags, o.AgentTags()), append(t.clusters, cluster)
	}
	return t
}

func (t *claims) of(j *Job) string {
	key := j.Cluster + "\x00" + strings.Join(j.Rules, "\x00")
	name, known := t.known[key]
	if known {
		return name
	}
	for i, o := range t.overlays {
		if sameCluster(j.Cluster, t.clusters[i]) && Satisfies(t.tags[i], j.Rules) {
			name = o.Name
			break
		}
	}
	t.known[key] = name
	return name
}
