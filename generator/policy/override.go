package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// overrideFields lists the fields of an override in the order that documentation uses.
func overrideFields() []string {
	return slices.Concat([]string{"until"}, Names(Overridable()), []string{"paused"})
}

func (r *policyReader) overrides(n *yaml.Node) {
	r.entries(n, entries{
		field: "overrides", one: "an override", fields: overrideFields(),
		form: "write each override as - until: ...",
		max:  maxOverrides, fewer: "remove those that are over",
	}, r.override)
}

// override reads one override, and keeps it if it is valid.
func (r *policyReader) override(item *yaml.Node, at string, sound func() bool) {
	o := plan.Override{Until: r.moment(item, at)}
	given := r.counts(item, at, Overridable(), func(f Field) **int { return f.Override(&o) })
	if v := finding.Lookup(item, "paused"); v != nil {
		if o.Paused = v.Kind == yaml.ScalarNode && v.Tag == "!!bool" && strings.EqualFold(v.Value, "true"); !o.Paused {
			r.bad(v, "spec."+at+".paused", shown(v)+" is not true", "an override can pause, but not end a pause: use spec.paused")
		}
	}
	if !given && !o.Paused {
		r.bad(item, "spec."+at, "changes nothing", "give it "+finding.Or(overrideFields()[1:]))
	}
	if sound() {
		r.policy.Overrides = append(r.policy.Overrides, o)
		r.ends = append(r.ends, item)
	}
}

// moment reads when an override ends.
func (r *policyReader) moment(item *yaml.Node, at string) time.Time {
	n := finding.Lookup(item, "until")
	remedy := "write a time with its time zone, as in 2026-11-21T18:00:00Z or 2026-11-21T18:00:00+01:00"
	if n == nil {
		r.bad(item, "spec."+at+".until", "is missing", remedy)
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || t.Year() < 1 || t.Nanosecond() != 0 {
		r.bad(n, "spec."+at+".until", shown(n)+" is not a time", remedy)
		return time.Time{}
	}
	return t
}

// checkOverrides checks the policy with each override, after all of it was read. A lower max lowers
// min with it; a min of the override itself must fit.
func (r *policyReader) checkOverrides() {
	for i, o := range r.policy.Overrides {
		if high := *cmp.Or(o.Max, &r.policy.Max); o.Min != nil && *o.Min > high {
			r.bad(r.ends[i], "spec.overrides", fmt.Sprintf("until %s min %d is above max %d", o.Until.Format(time.RFC3339), *o.Min, high), "give the override a max or a min that fits")
		}
	}
}

// overrideShape has the fields of an override, as overrideFields lists them.
func overrideShape() keywords {
	agents := func(meaning string) keywords { return described(countShape(), meaning+" until then") }
	properties := keywords{
		"until": keywords{"type": "string", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$`,
			"description": "the time at which it ends, with its time zone, as in 2026-11-21T18:00:00Z"},
		"min": agents("minimum number of agents"), "max": agents("maximum number of agents"), "buffer": agents("idle agents"),
		"maxPerHour": agents("maximum number of agents ordered within any hour; 0 is no limit,"),
		"paused":     keywords{"const": true, "description": "muster orders nothing until then"},
	}
	return keywords{"type": "object", "additionalProperties": false, "required": []string{"until"}, "anyOf": oneOf(overrideFields()[1:]), "properties": properties}
}
