package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Field is one field of a policy's spec, with everything that muster does with it except deciding:
// the parser, the schema, the documentation, muster set, history and explain use it.
type Field struct {
	// Name is its key, Type what it takes, as in "number, 0 to 100000".
	Name, Type string
	// Default is the value of a field that is not set, as YAML; empty if the field is required.
	Default string
	// Comment is the comment on the field in the policy that muster init writes. Meaning is its
	// description in the table of docs/reference/policy.md and in the schema.
	Comment, Meaning string
	// Settable reports whether muster set sets it. Limits reports whether numbers of agents
	// depend on it, so that muster explain shows it.
	Settable, Limits bool
	// Show returns the field's value as a person writes it; empty if it is not set. Show is nil
	// for lists.
	Show func(p plan.Policy) string
	// Override and Schedule return the same number in an override and in a schedule; nil if these
	// cannot have the field.
	Override func(o *plan.Override) **int
	Schedule func(s *plan.Schedule) **int
}

// Fields lists the fields of spec in the order that documentation uses.
func Fields() []Field {
	var all []Field
	for _, f := range specFields() {
		all = append(all, f.Field)
	}
	return all
}

// Overridable lists the fields that an override can have.
func Overridable() []Field { return only(func(f Field) bool { return f.Override != nil }) }

// Scheduled lists the fields that a schedule can have.
func Scheduled() []Field { return only(func(f Field) bool { return f.Schedule != nil }) }

func only(has func(Field) bool) []Field {
	return slices.DeleteFunc(Fields(), func(f Field) bool { return !has(f) })
}

// Names returns the names of fields.
func Names(fields []Field) []string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Name)
	}
	return all
}

// specField is one field of spec. preset sets the default in a policy. read parses the value, and
// reports problems to the reader. shape returns the schema of the value; it is a function because
// the schemas of lists depend on this table.
type specField struct {
	Field
	preset func(p *plan.Policy)
	read   func(r *policyReader, n *yaml.Node)
	shape  func() keywords
}

// specFields returns the table of the fields. The parser, the schema and the documentation are
// generated from it or tested against it.
func specFields() []specField {
	return []specField{
		needed(text("queue", "1 to 100 letters, digits, `-`, `_`", "key of the Buildkite queue", "key of the Buildkite queue",
			"the key of a Buildkite queue", "a key has 1 to 100 letters (a to z, A to Z), digits, hyphens and underscores", queueRule, 0,
			func(p *plan.Policy) *string { return &p.Queue })).limits(),
		text("cluster", "", "name or ID of the Buildkite cluster; required if several clusters have the queue's key",
			"name or ID of the Buildkite cluster; required if several clusters have the queue's key",
			"the name or id of a Buildkite cluster", "a name has printable characters, and no space at its ends", clusterRule, longestCluster,
			func(p *plan.Policy) *string { return &p.Cluster }).limits(),
		{describe("tags", "map of strings", "{}", "additional agent tags, as in {os: linux, size: large}",
			"additional agent tags, as in `{os: linux}`; muster adds queue, dispatch, overlay and index").shows(func(p plan.Policy) string { return strings.Join(p.Tags, " ") }),
			nil, (*policyReader).tags, tagsShape},
		count("min", "minimum number of agents", "minimum number of agents, even without pending jobs", func(p *plan.Policy) *int { return &p.Min }).limits().
			over(func(o *plan.Override) **int { return &o.Min }, func(s *plan.Schedule) **int { return &s.Min }),
		needed(count("max", "maximum number of agents", "maximum number of agents, including those in flight", func(p *plan.Policy) *int { return &p.Max })).limits().
			over(func(o *plan.Override) **int { return &o.Max }, func(s *plan.Schedule) **int { return &s.Max }),
		count("buffer", "idle agents, in addition to those for pending jobs", "idle agents, in addition to those that pending jobs need",
			func(p *plan.Policy) *int { return &p.Buffer }).limits().
			over(func(o *plan.Override) **int { return &o.Buffer }, func(s *plan.Schedule) **int { return &s.Buffer }),
		{describe("lookahead", "share, 0 to 1", "0", "share (0 to 1) of upcoming jobs that agents start for early",
			"share of the jobs behind a `wait` step, a dependency or `pipeline upload` for which agents start early; jobs behind a block step do not count").shows(func(p plan.Policy) string { return strconv.FormatFloat(p.Lookahead, 'f', -1, 64) }).settable().limits(),
			nil, (*policyReader).lookahead, func() keywords { return keywords{"type": "number", "minimum": 0, "maximum": 1} }},
		leaseField(),
		span("idleTimeout", 10*time.Second, 24*time.Hour, 5*time.Minute, "how long an agent that was ordered for a job stays idle",
			"how long an agent that was ordered for a pending job stays idle before it exits", func(p *plan.Policy) *time.Duration { return &p.IdleTimeout }),
		span("warmIdleTimeout", time.Minute, 7*24*time.Hour, time.Hour, "the same for agents of min and buffer",
			"how long an agent that was ordered for `min` or `buffer` stays idle before another replaces it. Above about 23h, increase the template's `activeDeadlineSeconds`",
			func(p *plan.Policy) *time.Duration { return &p.WarmIdleTimeout }),
		{describe("reuse", reuseType(), "{}", "lets agents run several jobs, as in {idle: 1m, uptime: 30m}: see muster's docs/explanation/agent-job.md first",
			"lets agents take more than one job, as in `{idle: 1m, uptime: 30m}`, so that builds share a pod: see docs/explanation/agent-job.md. "+
				"Without a job, an agent exits after `idle` if it was ordered for a pending job, or after `warmIdleTimeout` if ordered for `min` or `buffer`. "+
				"With `idle: auto`, muster chooses the time for each order from the gaps between jobs. After `uptime`, every agent exits when its job ends. Above about 23h of uptime, increase the template's `activeDeadlineSeconds`").shows(showReuse).settable(),
			nil, (*policyReader).reuse, reuseShape},
		count("priority", "among overlays of one queue, the highest receives agents first",
			"among overlays of one queue, the highest priority receives agents first, up to its `max`; equal priorities share evenly", func(p *plan.Policy) *int { return &p.Priority }).limits(),
		count("maxPerHour", "maximum number of agents ordered within any hour; 0 is no limit",
			"maximum number of agents ordered within any hour; 0 is no limit. A restart does not reset it", func(p *plan.Policy) *int { return &p.MaxPerHour }).limits().
			over(func(o *plan.Override) **int { return &o.MaxPerHour }, nil),
		{describe("paused", "true or false", "false", "true: muster orders no agents", "`true`: muster orders nothing, but still retires dispatches").shows(func(p plan.Policy) string { return strconv.FormatBool(p.Paused) }).settable().limits(),
			nil, (*policyReader).paused, func() keywords { return keywords{"type": "boolean"} }},
		{describe("schedules", "list", "[]", "other min, max and buffer at times of the week; see muster's docs/reference/policy.md",
			"other `min`, `max` and `buffer` at times of the week").limits(),
			nil, (*policyReader).schedules, func() keywords { return keywords{"type": "array", "items": scheduleShape()} }},
		{describe("overrides", "list", "[]", "other min, max, buffer, maxPerHour or paused until a given time; take precedence over schedules",
			"other `min`, `max`, `buffer`, `maxPerHour` or `paused: true` until a given time; take precedence over schedules").limits(),
			nil, (*policyReader).overrides, func() keywords { return keywords{"type": "array", "maxItems": maxOverrides, "items": overrideShape()} }},
	}
}

func describe(name, kind, preset, comment, meaning string) Field {
	return Field{Name: name, Type: kind, Default: preset, Comment: comment, Meaning: meaning}
}

func (f Field) shows(show func(p plan.Policy) string) Field {
	f.Show = show
	return f
}

func (f Field) settable() Field {
	f.Settable = true
	return f
}

func (f Field) limits() Field {
	f.Limits = true
	return f
}

// limits makes a field one that numbers of agents depend on.
func (f specField) limits() specField {
	f.Field = f.Field.limits()
	return f
}

// over makes a field one that overrides, and where schedule is not nil schedules, can have.
func (f specField) over(override func(o *plan.Override) **int, schedule func(s *plan.Schedule) **int) specField {
	f.Override, f.Schedule = override, schedule
	return f
}

// count is a field that takes a whole number.
func count(name, comment, meaning string, into func(p *plan.Policy) *int) specField {
	return specField{
		describe(name, fmt.Sprintf("number, 0 to %d", MaxAgents), "0", comment, meaning).
			shows(func(p plan.Policy) string { return strconv.Itoa(*into(&p)) }).settable(),
		nil,
		func(r *policyReader, n *yaml.Node) { *into(&r.policy) = r.count(n, name) },
		countShape,
	}
}

// text returns a field whose value is a string that matches rule and has at most longest characters;
// 0: only rule applies. A problem reads: VALUE is not WHAT; REMEDY.
func text(name, form, comment, meaning, what, remedy string, rule *regexp.Regexp, longest int, into func(p *plan.Policy) *string) specField {
	kind := "string"
	if form != "" {
		kind += ", " + form
	}
	return specField{
		describe(name, kind, `""`, comment, meaning).shows(func(p plan.Policy) string { return *into(&p) }),
		nil,
		func(r *policyReader, n *yaml.Node) {
			switch {
			case n.Kind == yaml.ScalarNode && n.Tag != "!!str":
				r.bad(n, "spec."+name, shown(n)+" is not a string", "write it in quotes")
			case n.Kind != yaml.ScalarNode || !rule.MatchString(n.Value) || longest > 0 && utf8.RuneCountInString(n.Value) > longest:
				r.bad(n, "spec."+name, shown(n)+" is not "+what, remedy)
			default:
				*into(&r.policy) = n.Value
			}
		},
		func() keywords {
			shape := keywords{"type": "string", "pattern": rule.String()}
			if longest > 0 {
				shape["maxLength"] = longest
			}
			return shape
		},
	}
}

// span is a field that takes a length of time.
func span(name string, least, most, preset time.Duration, comment, meaning string, into func(p *plan.Policy) *time.Duration) specField {
	return specField{
		describe(name, fmt.Sprintf("duration, %s to %s", Span(least), Span(most)), Span(preset), comment, meaning).
			shows(func(p plan.Policy) string { return Span(*into(&p)) }).settable(),
		func(p *plan.Policy) { *into(p) = preset },
		func(r *policyReader, n *yaml.Node) { *into(&r.policy) = r.span(n, name, least, most) },
		func() keywords { return spanShape(least, most) },
	}
}

// needed marks a field as required.
func needed(f specField) specField {
	f.Default = ""
	return f
}

// MaxAgents is what Kubernetes allows an Indexed Job (batch/v1 validation,
// maxParallelismForIndexedJob).
const MaxAgents = 100_000
