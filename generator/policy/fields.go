package policy

import (
	"fmt"
	"time"

	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// LongestLease is the longest lease that a policy may say. The base's activeDeadlineSeconds
// are as long: nothing of a Job comes later.
const LongestLease = 24 * time.Hour

// Field is one field of a policy's spec, as documents say it.
type Field struct {
	// Name is its key, Type what it takes, as in "number, 0 to 100000".
	Name, Type string
	// Default is its value where it is not said, as YAML; empty where it must be.
	Default string
	// Comment stands beside it in the policy that muster init writes, Meaning in
	// the table of docs/reference/policy.md and in the schema.
	Comment, Meaning string
}

// Fields lists the fields of spec in the order that documentation uses.
func Fields() []Field {
	var all []Field
	for _, f := range specFields() {
		all = append(all, f.Field)
	}
	return all
}

// specField is one field of spec: preset puts the default into a policy; read gets
// the value, and says what is wrong through the reader; shape is the value's
// schema.
type specField struct {
	Field
	preset func(p *plan.Policy)
	read   func(r *policyReader, n *yaml.Node)
	shape  keywords
}

// specFields is the one table of the fields: parser, schema and documents are made
// from it or held against it.
func specFields() []specField {
	return []specField{
		{Field{"queue", "string, 1 to 100 letters, digits, `-`, `_`", "", "key of the Buildkite queue", "key of the Buildkite queue"},
			nil, (*policyReader).queue, keywords{"type": "string", "pattern": queueRule.String()}},
		{Field{"cluster", "string", `""`, "name or id of the Buildkite cluster, if the queue's key is in several",
			"name or ID of the Buildkite cluster; required if several clusters have the queue's key"},
			nil, (*policyReader).cluster, clusterShape()},
		{Field{"tags", "map of strings", "{}", "further agent tags, as in {os: linux, size: large}",
			"additional agent tags, as in `{os: linux}`; muster adds queue, dispatch, overlay and index"},
			nil, (*policyReader).tags, tagsShape()},
		count("min", "agents kept whatever is pending", "minimum number of agents, even without pending jobs", func(p *plan.Policy) *int { return &p.Min }),
		needed(count("max", "agents never passed", "maximum number of agents, including those in flight", func(p *plan.Policy) *int { return &p.Max })),
		count("buffer", "agents kept idle, ready for jobs to come", "idle agents, in addition to those that pending jobs need",
			func(p *plan.Policy) *int { return &p.Buffer }),
		{Field{"lookahead", "share, 0 to 1", "0", "share (0 to 1) of upcoming jobs that agents start for early",
			"share of the jobs behind a `wait` step or a dependency for which agents start early; jobs behind a block step do not count"},
			nil, (*policyReader).lookahead, keywords{"type": "number", "minimum": 0, "maximum": 1}},
		leaseField(),
		span("idleTimeout", 10*time.Second, 24*time.Hour, 5*time.Minute, "how long an agent ordered for a job waits for one",
			"how long an agent that was ordered for a pending job stays idle before it exits", func(p *plan.Policy) *time.Duration { return &p.IdleTimeout }),
		span("warmIdleTimeout", time.Minute, 7*24*time.Hour, time.Hour, "how long an agent kept for min and buffer does",
			"how long an agent that was ordered for `min` or `buffer` stays idle before another replaces it. Above about 23h, increase the template's `activeDeadlineSeconds`",
			func(p *plan.Policy) *time.Duration { return &p.WarmIdleTimeout }),
		{Field{"reuse", reuseType(), "{}", "agents that take more than one job, as in {idle: 1m, uptime: 30m}; see muster's docs/explanation/agent-job.md first",
			"lets agents take more than one job, as in `{idle: 1m, uptime: 30m}`, so that builds share a pod: see docs/explanation/agent-job.md. " +
				"Without a job, an agent exits after `idle` if it was ordered for a pending job, or after `warmIdleTimeout` if ordered for `min` or `buffer`. " +
				"After `uptime`, every agent exits when its job ends. Above about 23h of uptime, increase the template's `activeDeadlineSeconds`"},
			nil, (*policyReader).reuse, reuseShape()},
		count("priority", "among overlays of the same queue, the higher is filled first",
			"among overlays of one queue, the highest priority receives agents first, up to its `max`; equal priorities share evenly", func(p *plan.Policy) *int { return &p.Priority }),
		count("maxPerHour", "agents ordered in any hour at most; 0 is no limit",
			"maximum number of agents ordered within any hour; 0 is no limit. A restart does not reset it", func(p *plan.Policy) *int { return &p.MaxPerHour }),
		{Field{"paused", "true or false", "false", "true: muster orders nothing here", "`true`: muster orders nothing, but still retires dispatches"},
			nil, (*policyReader).paused, keywords{"type": "boolean"}},
		{Field{"schedules", "list", "[]", "other min, max and buffer in windows of the week; see muster's docs/reference/policy.md",
			"other `min`, `max` and `buffer` at times of the week"},
			nil, (*policyReader).schedules, keywords{"type": "array", "items": scheduleShape()}},
		{Field{"overrides", "list", "[]", "other min, max, buffer, maxPerHour or paused until a moment; above schedules",
			"other `min`, `max`, `buffer`, `maxPerHour` or `paused: true` until a given time; take precedence over schedules"},
			nil, (*policyReader).overrides, keywords{"type": "array", "maxItems": mostOverrides, "items": overrideShape()}},
	}
}

// count is a field that takes a whole number.
func count(name, comment, meaning string, into func(p *plan.Policy) *int) specField {
	return specField{
		Field{name, fmt.Sprintf("number, 0 to %d", MaxAgents), "0", comment, meaning},
		nil,
		func(r *policyReader, n *yaml.Node) { *into(&r.policy) = r.count(n, name) },
		countShape(),
	}
}

// span is a field that takes a length of time.
func span(name string, least, most, preset time.Duration, comment, meaning string, into func(p *plan.Policy) *time.Duration) specField {
	return specField{
		Field{name, fmt.Sprintf("duration, %s to %s", brief(least), brief(most)), brief(preset), comment, meaning},
		func(p *plan.Policy) { *into(p) = preset },
		func(r *policyReader, n *yaml.Node) { *into(&r.policy) = r.span(n, name, least, most) },
		spanShape(least, most),
	}
}

// needed makes a field one that must be said.
func needed(f specField) specField {
	f.Default = ""
	return f
}

// MaxAgents is what Kubernetes allows an Indexed Job (batch/v1 validation,
// maxParallelismForIndexedJob).
const MaxAgents = 100_000
