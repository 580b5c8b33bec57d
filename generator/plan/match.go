package plan

import (
	"slices"
	"strings"
)

// satisfies reports whether an agent with the tags may take a job with the
// rules: every rule must be among the tags, and "key=*" takes any value of key.
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
	if key, ok := strings.CutSuffix(rule, "=*"); ok {
		_, has := tagValue(tags, key)
		return has
	}
	return slices.Contains(tags, rule)
}

// agentTags are the tags that an agent of the overlay will carry, except for
// its index.
func (o Overlay) agentTags() []string {
	tags := []string{TagQueue + "=" + o.Policy.Queue, TagOverlay + "=" + o.Slug()}
	return append(tags, o.Policy.Tags...)
}
