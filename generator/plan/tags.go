package plan

import (
	"slices"
	"strings"
)

// Tag keys that muster gives its agents, beside the queue and the policy's own.
const (
	TagQueue    = "queue"
	TagDispatch = "dispatch"
	TagIndex    = "index"
	TagOverlay  = "overlay"
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

// satisfies reports whether an agent with the tags may take a job with the
// rules: every rule must be among the tags, and "key=*" and "key=" take any
// value of key.
// Source: buildkite.com/docs/agent/v3/cli-start#agent-targeting.
func satisfies(tags, rules []string) bool {
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
// and the overlay.
func (o Overlay) AgentTags() []string {
	tags := append([]string{TagQueue + "=" + o.Policy.Queue}, o.Policy.Tags...)
	return append(tags, TagOverlay+"="+o.Slug())
}

// outdated reports whether the policy has been given tags since the dispatch
// was ordered. Its agents cannot be expected to take jobs that ask for those.
func (o Overlay) outdated(d Dispatch) bool {
	return d.Tags != nil && !satisfies(d.Tags, o.AgentTags())
}

func without(tags []string, key string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return strings.HasPrefix(t, key+"=") })
}

// sameCluster reports whether an agent of one cluster can serve another; an
// empty one is not known, or any.
func sameCluster(agent, cluster string) bool {
	return agent == "" || cluster == "" || agent == cluster
}
