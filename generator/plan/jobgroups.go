package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// class is a group of jobs with equal cluster and rules.
type class struct {
	cluster                             string
	rules                               []string
	pending, upcoming, limited, blocked int
	otherQueues                         int               // pending jobs that may run in any queue and count in another
	lookedAhead                         time.Time         // of jobs that may run in any queue: also by overlays of other queues
	created                             []creation        // of the upcoming jobs that are in no stage
	staged                              map[string]staged // upcoming jobs that become runnable together, by stage
	stages                              []Stage           // of these, those that are looked ahead to; see findStages
	counted                             bool              // the upcoming jobs count in another queue
	otherOverlays                       remembered        // of jobs that may run in any queue: by overlays of all queues
	notYet                              int               // upcoming jobs that are due later than within
	within                              time.Duration
	earliest                            time.Time
	new                                 int            // upcoming jobs that no agents were dispatched for
	partial                             map[string]int // of new, those that an overlay may have dispatched agents for
	newest                              time.Time      // of the upcoming jobs
	oldest                              time.Time
	example                             string
	servers                             *servers // the overlays that serve it
}

// creation is a number of jobs with the same creation time, such as the jobs of a build.
type creation struct {
	at   time.Time
	jobs int
}

// addCreated adds a job with a creation time.
func addCreated(all []creation, at time.Time) []creation {
	if n := len(all); n > 0 && all[n-1].at.Equal(at) {
		all[n-1].jobs++
		return all
	}
	return append(all, creation{at, 1})
}

// classify groups jobs by cluster and rules, and the groups by their queue's
// key. The groups' order depends on their content alone.
func classify(jobs []Job) map[string][]*class {
	byText, byRules := map[string]*class{}, map[string]*class{} // by the rules as they are listed, and sorted
	var text []byte
	queues := map[string][]*class{}
	for i := range jobs {
		j := &jobs[i]
		text = appendKey(text[:0], j.Cluster, j.Rules)
		c := byText[string(text)]
		if c == nil {
			rules := slices.Compact(slices.Sorted(slices.Values(j.Rules)))
			sorted := string(appendKey(nil, j.Cluster, rules))
			if c = byRules[sorted]; c == nil {
				c = &class{cluster: j.Cluster, rules: rules}
				byRules[sorted] = c
				key, _ := TagValue(rules, TagQueue)
				key = cmp.Or(key, anyQueue) // "queue=" is a wildcard too
				queues[key] = append(queues[key], c)
			}
			byText[string(text)] = c
		}
		c.add(j)
	}
	for _, classes := range queues {
		slices.SortFunc(classes, func(a, b *class) int {
			return cmp.Or(cmp.Compare(a.cluster, b.cluster), slices.Compare(a.rules, b.rules))
		})
	}
	return queues
}

// appendKey appends a text that identifies a cluster and a list of rules.
func appendKey(text []byte, cluster string, rules []string) []byte {
	text = append(text, cluster...)
	for _, rule := range rules {
		text = append(append(text, 0), rule...)
	}
	return text
}

func (c *class) add(j *Job) {
	switch j.State {
	case JobPending:
		c.pending++
		c.oldest = earlier(j.Since, c.oldest)
		if c.example == "" || j.URL != "" && j.URL < c.example {
			c.example = j.URL
		}
	case JobUpcoming:
		c.addUpcoming(j)
	case JobLimited:
		c.limited++
	case JobBlocked:
		c.blocked++
	}
}

// nearest returns the rules that the nearest overlay, which satisfies the most of them, lacks.
func nearest(tags [][]string, rules []string) []string {
	missing := make([][]string, len(tags))
	for i := range tags {
		missing[i] = slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return carries(tags[i], rule) })
	}
	return slices.MinFunc(missing, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
}

// MaxUnmatched is the maximum number of groups of unmatched jobs in an observation.
const MaxUnmatched = 5

// short returns the group with long words cut: people read them, and authors of pipelines write
// them.
func (u Unmatched) short() Unmatched {
	const most, longest = 2 * MaxUnmatched, 120
	for _, words := range []*[]string{&u.Rules, &u.Missing} {
		short := slices.Clone((*words)[:min(most, len(*words))])
		for k, w := range short {
			if len(w) > longest {
				short[k] = strings.ToValidUTF8(w[:longest], "") + "…"
			}
		}
		*words = short
	}
	if len(u.Example) > 2*longest {
		u.Example = ""
	}
	return u
}

// group joins the classes that the same overlays and the same idle agents can serve. It returns,
// for each kind of agents, the groups that it can take.
func group(classes []*class, idle []kind) ([]Demand, []IndexSet) {
	type likeness struct {
		servers     *servers
		pending     bool // some are, and there are agents
		takers      string
		otherQueues int // 1 if none of them counts here, and so neither does their age; otherwise 0
	}
	byLikeness := map[likeness]*Demand{}
	of, taken := make([]likeness, len(classes)), takers(idle, len(classes))
	for j, c := range classes {
		of[j] = likeness{servers: c.servers}
		if c.pending > 0 {
			of[j].pending, of[j].takers = len(idle) > 0, taken[j]
		} else {
			of[j].otherQueues = min(1, c.otherQueues)
		}
		d := byLikeness[of[j]]
		if d == nil {
			d = &Demand{Overlays: c.servers.names}
			byLikeness[of[j]] = d
		}
		d.add(c)
	}
	order := slices.SortedFunc(maps.Keys(byLikeness), func(a, b likeness) int {
		if a.servers != b.servers {
			return slices.Compare(a.servers.names, b.servers.names)
		}
		return cmp.Or(compareBool(a.pending, b.pending), cmp.Compare(a.takers, b.takers), cmp.Compare(a.otherQueues, b.otherQueues))
	})
	var jobs []Demand
	takes := make([]IndexSet, len(idle))
	for n, l := range order {
		jobs = append(jobs, *byLikeness[l])
		for _, k := range numbers(l.takers) {
			takes[k].Add(n)
		}
	}
	return jobs, takes
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// takers returns, for each of n classes, the set of the kinds of agents that can take it; see
// [appendNumber].
func takers(idle []kind, n int) []string {
	alike, ids := map[string]int{}, [][]int{} // kinds that take the same classes
	sets := make([][]byte, n)                 // of these, by class
	for k := range idle {
		id, known := alike[idle[k].takes]
		if !known {
			id = len(ids)
			alike[idle[k].takes], ids = id, append(ids, nil)
			for _, j := range idle[k].classes() {
				sets[j] = appendNumber(sets[j], id)
			}
		}
		ids[id] = append(ids[id], k)
	}
	all, known := make([]string, n), map[string]string{"": ""}
	for j, set := range sets {
		takers, ok := known[string(set)]
		if !ok {
			var kinds []int
			for _, id := range numbers(string(set)) {
				kinds = append(kinds, ids[id]...)
			}
			slices.Sort(kinds)
			var text []byte
			for _, k := range kinds {
				text = appendNumber(text, k)
			}
			takers = string(text)
			known[string(set)] = takers
		}
		all[j] = takers
	}
	return all
}

func (d *Demand) add(c *class) {
	d.Pending += c.pending
	d.OtherQueues += c.otherQueues
	d.Upcoming += c.upcoming
	d.New += c.new
	for name, n := range c.partial {
		if d.Partial == nil {
			d.Partial = map[string]int{}
		}
		d.Partial[name] += n
	}
	d.addStages(c)
	d.Limited += c.limited
	d.Blocked += c.blocked
	d.Oldest = earliest(d.Oldest, c.oldest)
	if at := c.newest.UTC().Truncate(time.Second).Add(time.Second); !c.newest.IsZero() && (d.Newest == nil || at.After(*d.Newest)) {
		d.Newest = &at
	}
}
