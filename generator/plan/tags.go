package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tag keys that muster gives its agents, in addition to the policy's own.
const (
	TagQueue    = "queue"
	TagDispatch = "dispatch"
	TagIndex    = "index"
	TagOverlay  = "overlay"
	// TagIdentity is the identifier of the overlay that ordered the agent; see [Identity].
	TagIdentity = "muster"
	// TagWarm is the idle time-out of agents of the warm pool, in seconds. The agent carries it
	// because the manifest leaves git while the agent runs, and the policy may be edited.
	TagWarm = "muster-warm"
	// TagUptime is the uptime, in seconds, of agents that take more than one job. TagTemplate is a
	// hash of the template that they were created from. Agents carry both for the same reason as
	// TagWarm.
	TagUptime   = "muster-uptime"
	TagTemplate = "muster-template"
)

// TagValue returns the value of the first tag with the key; false if there is no such tag.
func TagValue(tags []string, key string) (string, bool) {
	for _, t := range tags {
		if n := len(key); len(t) > n && t[n] == '=' && t[:n] == key {
			return t[n+1:], true
		}
	}
	return "", false
}

// Satisfies reports whether an agent with the tags may take a job with the
// rules: every rule must be among the tags, and "key=*" and "key=" take any
// value of key.
// Source: buildkite.com/docs/agent/v3/cli-start#agent-targeting.
func Satisfies(tags, rules []string) bool {
	return !slices.ContainsFunc(rules, func(rule string) bool { return !carries(tags, rule) })
}

func carries(tags []string, rule string) bool {
	if key, value, ok := strings.Cut(rule, "="); ok && (value == "*" || value == "") {
		_, has := TagValue(tags, key)
		return has
	}
	return slices.Contains(tags, rule)
}

// AgentTags returns the tags with which agents of the overlay are ordered, except those for their
// dispatch and index: the queue, the policy's own, the overlay, and its identifier if it is known.
func (o Overlay) AgentTags() []string {
	tags := append([]string{TagQueue + "=" + o.Policy.Queue}, o.Policy.Tags...)
	tags = append(tags, TagOverlay+"="+o.Slug())
	if o.Identity.ID != "" {
		tags = append(tags, TagIdentity+"="+o.Identity.ID)
	}
	return tags
}

// outdated reports whether the policy has been given tags or another cluster
// since the dispatch was ordered. Its agents cannot be expected to take jobs
// that ask for those.
func (o Overlay) outdated(d Dispatch) bool {
	return o.otherQueue(d) || d.Tags != nil && !Satisfies(d.Tags, without(o.AgentTags(), TagIdentity))
}

// otherQueue reports whether the policy has been given another queue or cluster since
// the dispatch was ordered: its agents serve the old one.
func (o Overlay) otherQueue(d Dispatch) bool {
	queue, known := TagValue(d.Tags, TagQueue)
	return known && queue != o.Policy.Queue || d.Cluster != o.Policy.Cluster
}

// owns reports whether an agent with the tags is the overlay's: it has the overlay's identifier, or
// another one and the overlay has its order, as after a loss of state.yaml. An agent without an
// identifier is that of the overlay that it names.
func (o *Overlay) owns(tags []string, slug string) bool {
	id, known := TagValue(tags, TagIdentity)
	if !known || o.Identity.ID == "" {
		of, _ := TagValue(tags, TagOverlay)
		return of == slug
	}
	return id == o.Identity.ID || !o.Fleet[id] && o.has(tags)
}

// foreign reports whether an agent with the tags is that of another muster.
func (o *Overlay) foreign(tags []string) bool {
	id, known := TagValue(tags, TagIdentity)
	_, ours := o.Fleet[id]
	return known && o.Fleet != nil && !ours
}

// ordered reports whether an agent known only by its name belongs to a dispatch of the overlay.
func (o *Overlay) ordered(tags []string) bool {
	_, known := TagValue(tags, TagQueue)
	return !known && o.has(tags)
}

// has reports whether the dispatch of an agent is in the overlay's directory and is not a copied one.
func (o *Overlay) has(tags []string) bool {
	id, ok := TagValue(tags, TagDispatch)
	return ok && slices.ContainsFunc(o.Dispatches, func(d Dispatch) bool { return d.ID == id && !o.Copied(d) })
}

// unknownUntil returns until when others of an agent's order may register, if the agent has the overlay's
// identifier and its order is not in git, as after the branch was set back while no muster ran; zero
// otherwise. The order had at most the lease of the policy when the agent connected.
func (o *Overlay) unknownUntil(a *Agent, now time.Time) time.Time {
	id, known := TagValue(a.Tags, TagIdentity)
	order, ordered := TagValue(a.Tags, TagDispatch)
	if o.Orders == nil || !known || id != o.Identity.ID || !ordered || o.Orders[order] || a.Connected.IsZero() {
		return time.Time{}
	}
	lease := o.Policy.Lease
	if o.Policy.LeaseAuto {
		lease = MaxAutoLease
	}
	if until := a.Connected.Add(lease + Grace); until.After(now) {
		return until
	}
	return time.Time{}
}

// countUnknown counts an agent whose order is unknown.
func (c *Capacity) countUnknown(until time.Time) {
	c.Unknown++
	until = until.UTC().Truncate(time.Second)
	if c.UnknownUntil == nil || until.After(*c.UnknownUntil) {
		c.UnknownUntil = &until
	}
}

// uptimeOf returns for how long an agent takes jobs; false if it takes one, or its uptime is
// unknown.
func uptimeOf(tags []string) (time.Duration, bool) {
	return secondsIn(tags, TagUptime)
}

// secondsIn returns the value of a tag that is a number of seconds; false if it is
// missing or not positive.
func secondsIn(tags []string, key string) (time.Duration, bool) {
	text, ok := TagValue(tags, key)
	if !ok {
		return 0, false // Atoi would allocate an error for nearly every agent
	}
	seconds, err := strconv.Atoi(text)
	return time.Duration(seconds) * time.Second, err == nil && seconds > 0
}

// outgrown reports whether a reusable agent was created from another template than the overlay has
// now. It returns false if either template is unknown, or if the current one is refused.
func (o Overlay) outgrown(tags []string) bool {
	made, known := TagValue(tags, TagTemplate)
	return known && o.Template != "" && made != o.Template && !o.Refused.Active()
}

func without(tags []string, key string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return strings.HasPrefix(t, key+"=") })
}

// sameCluster reports whether an agent of one cluster can serve another; an
// empty one is not known, or any.
func sameCluster(agent, cluster string) bool {
	return agent == "" || cluster == "" || agent == cluster
}

// countWrongTags counts the agents of dispatches in git that registered without a tag that they
// were ordered with. Such agents are idle, match no pending job, could not stand in for the
// overlay's agents, and no agent of their dispatch has had a job. This indicates a template that
// loses a tag, and excludes a policy to which a tag has just been added. muster dispatches nothing
// more until the rest of their dispatch has registered; then the dispatch has failed.
func (q queueReader) countWrongTags(idle []idleAgent, classes []*class, index ruleIndex, capacities []Capacity) {
	useless := map[string][]idleAgent{} // by dispatch
	for _, a := range idle {
		if id, ok := TagValue(a.Tags, TagDispatch); ok && a.credit < 0 && !slices.ContainsFunc(index.satisfied(nil, a.Tags), func(j int32) bool {
			c := classes[j]
			return c.pending+c.otherQueues > 0 && sameCluster(a.Cluster, c.cluster)
		}) {
			useless[id] = append(useless[id], a)
		}
	}
	for i, o := range q.overlays {
		for _, d := range o.Dispatches {
			seen := capacities[i].Dispatches[d.ID]
			if len(useless[d.ID]) == 0 || seen.HadJob > 0 || o.outdated(d) || o.Copied(d) {
				continue
			}
			want := d.Tags
			if want == nil {
				want = o.AgentTags()
			}
			for _, a := range useless[d.ID] {
				if !Satisfies(a.Tags, want) {
					seen.WrongTags++
				}
			}
			capacities[i].Dispatches[d.ID] = seen
			switch {
			case seen.WrongTags == 0: // in another cluster than the policy's
				if d.Purpose == ForDemand {
					capacities[i].WrongTags += len(useless[d.ID])
				}
			case seen.Registered.Below(d.Agents) < d.Agents:
				capacities[i].WrongTags += seen.WrongTags
			}
		}
	}
}

// Owners finds the overlay whose agent ran a job. The zero value has no overlays.
type Owners struct {
	byTag map[string]string // names of overlays by a tag of their agents
}

// NewOwners returns the owners of the agents of these overlays.
func NewOwners(overlays []Overlay) Owners {
	o := Owners{byTag: map[string]string{}}
	for _, v := range overlays {
		o.byTag[TagOverlay+"="+v.Slug()] = v.Name
		if v.Identity.ID != "" {
			o.byTag[TagIdentity+"="+v.Identity.ID] = v.Name
		}
		for _, d := range v.Dispatches {
			if !v.Copied(d) {
				o.byTag[TagDispatch+"="+d.ID] = v.Name
			}
		}
	}
	return o
}

// Of returns the overlay that dispatched the agent, and the dispatch if it is known. Both are
// empty for an agent that muster did not order. The dispatches in git determine the overlay of an
// agent without tags, or with an identifier that no overlay has.
func (o Owners) Of(s Sighting) (overlay, dispatch string) {
	tags := s.tags()
	dispatch, _ = TagValue(tags, TagDispatch)
	id, known := TagValue(tags, TagIdentity)
	slug, named := TagValue(tags, TagOverlay)
	switch {
	case known:
		overlay = cmp.Or(o.byTag[TagIdentity+"="+id], o.byTag[TagDispatch+"="+dispatch])
	case named:
		overlay = o.byTag[TagOverlay+"="+slug]
	default:
		overlay = o.byTag[TagDispatch+"="+dispatch]
	}
	if overlay == "" {
		return "", ""
	}
	return overlay, dispatch
}
