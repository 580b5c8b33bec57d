package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Owners tells whose agent ran a job. The zero value knows of no overlay.
type Owners struct {
	bySlug     map[string]Overlay
	byDispatch map[string]string
}

// NewOwners returns the owners of the agents of these overlays.
func NewOwners(overlays []Overlay) Owners {
	o := Owners{bySlug: map[string]Overlay{}, byDispatch: map[string]string{}}
	for _, v := range overlays {
		for _, former := range v.Former {
			o.bySlug[former] = v
		}
		for _, d := range v.Dispatches {
			o.byDispatch[d.ID] = v.Name
		}
	}
	for _, v := range overlays {
		o.bySlug[v.Slug()] = v
	}
	return o
}

// Of returns the name of the overlay that dispatched the agent, and the dispatch
// where that is told; both are empty for an agent of nobody's. One of which only
// the name is known is told by the dispatches that are still in git.
func (o Owners) Of(s Sighting) (overlay, dispatch string) {
	tags := s.tags()
	dispatch, _ = tagValue(tags, TagDispatch)
	slug, ok := tagValue(tags, TagOverlay)
	if !ok {
		overlay = o.byDispatch[dispatch]
	} else if v, known := o.bySlug[slug]; known {
		if own, _ := v.owns(tags, slug); own {
			overlay = v.Name
		}
	}
	if overlay == "" {
		return "", ""
	}
	return overlay, dispatch
}

// Tag keys that muster gives its agents, beside the queue and the policy's own.
const (
	TagQueue    = "queue"
	TagDispatch = "dispatch"
	TagIndex    = "index"
	TagOverlay  = "overlay"
	// TagFleet tells the fleet repository apart from others of the same
	// Buildkite organisation; see [Overlay.Fleet].
	TagFleet = "muster"
	// TagWarm is carried by agents of the warm pool: their idle time-out in
	// seconds. It is told to the agent, because the manifest leaves git while the
	// agent lives, and the policy may be edited.
	TagWarm = "muster-warm"
	// TagUptime is carried by agents that take more than one job: their uptime in
	// seconds; and TagTemplate, which stands for the template that they were made
	// from. Both are told to the agent as TagWarm is.
	TagUptime   = "muster-uptime"
	TagTemplate = "muster-template"
)

// tagValue returns the value of the first tag with the key.
func tagValue(tags []string, key string) (string, bool) {
	for _, t := range tags {
		if v, ok := strings.CutPrefix(t, key); ok && strings.HasPrefix(v, "=") {
			return v[1:], true
		}
	}
	return "", false
}

// Satisfies reports whether an agent with the tags may take a job with the
// rules: every rule must be among the tags, and "key=*" and "key=" take any
// value of key.
// Source: buildkite.com/docs/agent/v3/cli-start#agent-targeting.
func Satisfies(tags, rules []string) bool {
	for _, rule := range rules {
		if !carries(tags, rule) {
			return false
		}
	}
	return true
}

func carries(tags []string, rule string) bool {
	if key, value, ok := strings.Cut(rule, "="); ok && (value == "*" || value == "") {
		_, has := tagValue(tags, key)
		return has
	}
	return slices.Contains(tags, rule)
}

// AgentTags are the tags that agents of the overlay are told to carry, except
// for those of their dispatch and their index: the queue, the policy's own,
// the overlay, and the fleet where it is known.
func (o Overlay) AgentTags() []string {
	tags := append([]string{TagQueue + "=" + o.Policy.Queue}, o.Policy.Tags...)
	tags = append(tags, TagOverlay+"="+o.Slug())
	if o.Fleet != "" {
		tags = append(tags, TagFleet+"="+o.Fleet)
	}
	return tags
}

// outdated reports whether the policy has been given tags or another cluster
// since the dispatch was ordered. Its agents cannot be expected to take jobs
// that ask for those.
func (o Overlay) outdated(d Dispatch) bool {
	return o.strayed(d) || d.Tags != nil && !Satisfies(d.Tags, without(o.AgentTags(), TagFleet))
}

// strayed reports whether the policy has been given another queue or cluster since
// the dispatch was ordered: its agents serve the old one.
func (o Overlay) strayed(d Dispatch) bool {
	queue, told := tagValue(d.Tags, TagQueue)
	return told && queue != o.Policy.Queue || d.Cluster != o.Policy.Cluster
}

// owns reports whether an agent with the tags is the overlay's, and whether it is
// a namesake's: of another fleet that has an overlay of the same name.
func (o *Overlay) owns(tags []string, slug string) (own, namesake bool) {
	if of, _ := tagValue(tags, TagOverlay); of != slug && !slices.Contains(o.Former, of) {
		return false, false
	}
	fleet, said := tagValue(tags, TagFleet)
	own = !said || o.Fleet == "" || fleet == o.Fleet
	return own, !own
}

// ordered reports whether an agent of which only the dispatch is known, by its
// name, is of one of the overlay's.
func (o *Overlay) ordered(tags []string) bool {
	if _, told := tagValue(tags, TagQueue); told {
		return false
	}
	id, ok := tagValue(tags, TagDispatch)
	return ok && slices.ContainsFunc(o.Dispatches, func(d Dispatch) bool { return d.ID == id })
}

// uptimeOf returns for how long an agent takes jobs; false when it takes one, or
// nobody told it.
func uptimeOf(tags []string) (time.Duration, bool) {
	return secondsIn(tags, TagUptime)
}

// secondsIn returns the value of a tag that is a number of seconds; false if it is
// missing or not positive.
func secondsIn(tags []string, key string) (time.Duration, bool) {
	text, ok := tagValue(tags, key)
	if !ok {
		return 0, false // Atoi would allocate an error for nearly every agent
	}
	seconds, err := strconv.Atoi(text)
	return time.Duration(seconds) * time.Second, err == nil && seconds > 0
}

// outgrown reports whether an agent that stays was made from another template than
// the overlay has now. Where nothing could be made from that one, or it is not known,
// none was.
func (o Overlay) outgrown(tags []string) bool {
	made, told := tagValue(tags, TagTemplate)
	return told && o.Template != "" && made != o.Template && !o.Refused.Active()
}

func without(tags []string, key string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return strings.HasPrefix(t, key+"=") })
}

// sameCluster reports whether an agent of one cluster can serve another; an
// empty one is not known, or any.
func sameCluster(agent, cluster string) bool {
	return agent == "" || cluster == "" || agent == cluster
}
