package policy

import (
	"fmt"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// The bounds of the fields of reuse. With the shortest idle, an agent takes a job that is pending
// when its own ends, and otherwise exits after one request to Buildkite (if it polls: at its
// next ping, some 10 seconds later). The longest uptime equals that of warmIdleTimeout: the base's
// activeDeadlineSeconds must cover the time for which an agent may run.
const (
	minReuseIdle, maxReuseIdle = 5 * time.Second, 24 * time.Hour
	minReuseUptime             = time.Minute

	// LongestUptime is the longest reuse.uptime and warmIdleTimeout that a policy may set.
	LongestUptime = 7 * 24 * time.Hour
)

// reuseFields are the fields of reuse, in the order of the documentation.
var reuseFields = []string{"idle", "uptime"}

// reuseType is the field's type in the documentation.
func reuseType() string {
	return fmt.Sprintf("map: `idle` (duration, %s to %s, or `%s`) and `uptime` (%s to %s), or neither",
		Span(minReuseIdle), Span(maxReuseIdle), auto, Span(minReuseUptime), Span(LongestUptime))
}

// reuse reads the times for which agents take further jobs. An empty mapping means the same as a
// missing field: each agent takes one job.
func (r *policyReader) reuse(n *yaml.Node) {
	if !r.wholeReuse(n) {
		return
	}
	before, idle := len(r.findings), finding.Lookup(n, "idle")
	said := plan.Reuse{Idle: plan.FirstIdle, Auto: isAuto(idle)}
	if !said.Auto {
		said.Idle = r.span(idle, "reuse.idle", minReuseIdle, maxReuseIdle)
		if len(r.findings) > before {
			r.findings[before].Remedy += orAuto
		}
	}
	said.Uptime = r.span(finding.Lookup(n, "uptime"), "reuse.uptime", minReuseUptime, LongestUptime)
	if len(r.findings) > before {
		return
	}
	if said.Idle >= said.Uptime {
		r.bad(idle, "spec.reuse.idle", fmt.Sprintf("%s is not below uptime, which is %s", Span(said.Idle), Span(said.Uptime)), "raise uptime or lower idle")
		return
	}
	r.policy.Reuse = said
}

// wholeReuse reports whether reuse has both of its fields and no others. It adds findings if reuse
// is not a mapping, has other fields, or lacks one. It returns false without a finding if reuse is
// empty.
func (r *policyReader) wholeReuse(n *yaml.Node) bool {
	const form = "write both, as in {idle: 1m, uptime: 30m}"
	if n.Kind != yaml.MappingNode {
		r.bad(n, "spec.reuse", shown(n)+" is not a mapping", form)
		return false
	}
	before := len(r.findings)
	r.known(n, "reuse", "reuse", reuseFields, "its fields are "+strings.Join(reuseFields, " and "))
	if len(r.findings) > before || len(n.Content) == 0 {
		return false
	}
	for _, field := range reuseFields {
		if finding.Lookup(n, field) == nil {
			r.bad(n, "spec.reuse."+field, "is missing", form)
		}
	}
	return len(r.findings) == before
}

// reuseShape has the fields of reuse, as reuseFields lists them.
func reuseShape() keywords {
	idle, uptime := spanShape(minReuseIdle, maxReuseIdle), spanShape(minReuseUptime, LongestUptime)
	idle = autoOr(idle)
	idle["description"] = "how long an agent that was ordered for a job stays idle, each time"
	uptime["description"] = "for how long an agent takes jobs in all; what it has then it finishes"
	return keywords{
		"type": "object", "additionalProperties": false,
		"dependencies": keywords{"idle": []string{"uptime"}, "uptime": []string{"idle"}},
		"properties":   keywords{"idle": idle, "uptime": uptime},
	}
}

// showReuse is the field as a person writes it; empty where agents take one job.
func showReuse(p plan.Policy) string {
	if !p.Reuse.On() {
		return ""
	}
	idle := Span(p.Reuse.Idle)
	if p.Reuse.Auto {
		idle = auto
	}
	return "idle " + idle + " uptime " + Span(p.Reuse.Uptime)
}
