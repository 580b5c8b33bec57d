// Package policy reads and edits an overlay's scaling.yaml, the ScalingPolicy. One table,
// [Fields], defines each field for the parser, the schema and the documentation.
package policy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/generator/finding"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	// MaxSize is the size above which scaling.yaml is not parsed.
	MaxSize = 32 << 10
	// maxSchedules is how many schedules a policy may have.
	maxSchedules = 100
	// maxOverrides is how many overrides it may have, those that are over among them.
	maxOverrides = 20
)

const (
	// Version is the apiVersion of a policy.
	Version    = "muster.dev/v1alpha1"
	policyKind = "ScalingPolicy"
)

// Parse reads a scaling policy; file is its name in errors. The errors are findings
// ([finding.Finding]), one line each. Fields that are not set have their defaults.
func Parse(file string, data []byte) (plan.Policy, error) {
	p, findings := Zones{}.Parse(file, data)
	if len(findings) > 0 {
		return plan.Policy{}, finding.Join(findings)
	}
	return p, nil
}

// policyReader reads one policy and collects its problems.
type policyReader struct {
	file     string
	policy   plan.Policy
	lines    []*yaml.Node // where the policy's schedules stand
	ends     []*yaml.Node // and its overrides
	zones    Zones
	fields   []specField // made once for each policy
	findings []finding.Finding
}

// Zones are time zones by name. A zone is some 20 KB, and policies share them.
type Zones map[string]*time.Location

func (z Zones) load(name string) (*time.Location, error) {
	if zone := z[name]; zone != nil {
		return zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		z[name] = zone
	}
	return zone, err
}

// Parse is [Parse] with zones that are loaded once, and returns the findings as a list.
func (z Zones) Parse(file string, data []byte) (plan.Policy, []finding.Finding) {
	r := &policyReader{file: file, zones: z, fields: specFields()}
	for _, f := range r.fields {
		if f.preset != nil {
			f.preset(&r.policy)
		}
	}
	if len(data) > MaxSize {
		return plan.Policy{}, []finding.Finding{{File: file, Problem: fmt.Sprintf("is %d bytes and was not read", len(data)), Remedy: fmt.Sprintf("a policy has at most %d", MaxSize)}}
	}
	top, wrong := finding.ParseOne(file, data)
	if wrong != nil {
		return plan.Policy{}, []finding.Finding{*wrong}
	}
	r.top(top)
	if spec := finding.Lookup(top, "spec"); spec == nil {
		r.bad(nil, "spec", "is missing", "it has queue and max at least")
	} else if spec.Kind != yaml.MappingNode {
		r.bad(spec, "spec", "is not a mapping", "it has queue and max at least")
	} else {
		r.spec(spec)
	}
	return r.policy, r.findings
}

func (r *policyReader) bad(n *yaml.Node, field, problem, remedy string) {
	f := finding.Finding{File: r.file, Field: field, Problem: problem, Remedy: remedy}
	if n != nil {
		f.Line = n.Line
	}
	r.findings = append(r.findings, f)
}

func (r *policyReader) top(top *yaml.Node) {
	for key := range finding.Pairs(top) {
		switch key.Value {
		case "apiVersion", "kind", "spec":
		case "metadata": // nothing reads it; people and tools like to have it
		default:
			r.bad(key, key.Value, "is not a field of a policy", finding.DidYouMean(key.Value, []string{"apiVersion", "kind", "spec"}, "the fields are apiVersion, kind and spec"))
		}
	}
	for _, want := range [][2]string{{"apiVersion", Version}, {"kind", policyKind}} {
		n := finding.Lookup(top, want[0])
		switch {
		case n == nil:
			r.bad(nil, want[0], "is missing", "write "+want[0]+": "+want[1])
		case n.Kind != yaml.ScalarNode || n.Value != want[1]:
			r.bad(n, want[0], "is "+shown(n), "write "+want[0]+": "+want[1])
		}
	}
}

func (r *policyReader) spec(spec *yaml.Node) {
	fields := r.fields
	for key, value := range finding.Pairs(spec) {
		at := slices.IndexFunc(fields, func(f specField) bool { return f.Name == key.Value })
		switch {
		case at < 0:
			names := Names(Fields())
			r.bad(key, "spec."+key.Value, "is not a field of a policy", finding.DidYouMean(key.Value, names, "the fields of spec are "+strings.Join(names, ", ")))
		case value.Tag == "!!null":
			remedy := "write one"
			if fields[at].Default != "" {
				remedy += ", or remove the line"
			}
			r.bad(value, "spec."+key.Value, "has no value", remedy)
		default:
			fields[at].read(r, value)
		}
	}
	for _, f := range fields {
		if f.Default == "" && finding.Lookup(spec, f.Name) == nil {
			r.bad(spec, "spec."+f.Name, "is missing", "write the "+f.Comment)
		}
	}
	if len(r.findings) == 0 && r.policy.Min > r.policy.Max {
		r.bad(finding.Lookup(spec, "min"), "spec.min", fmt.Sprintf("%d is above max, which is %d", r.policy.Min, r.policy.Max), "raise max or lower min")
	}
	if len(r.findings) == 0 {
		r.checkSchedules()
		r.checkOverrides()
	}
}

// shown returns a value as a person wrote it, in a few words.
func shown(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!str":
		return finding.Quote(n.Value)
	case n.Tag == "!!null":
		return "nothing"
	}
	return strings.Trim(finding.Quote(n.Value), `"`)
}

func (r *policyReader) count(n *yaml.Node, name string) int {
	problem, remedy := " is not a whole number", fmt.Sprintf("write one from 0 to %d", MaxAgents)
	v, err := strconv.Atoi(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
	case n.Tag == "!!str":
		remedy += ", without quotes"
	case n.Tag != "!!int":
	case v < 0:
		problem = " is too small"
	case v > MaxAgents:
		problem = " is too large"
	default:
		return v
	}
	r.bad(n, "spec."+name, shown(n)+problem, remedy)
	return 0
}

func (r *policyReader) span(n *yaml.Node, name string, least, most time.Duration) time.Duration {
	remedy := fmt.Sprintf("write one from %s to %s", Span(least), Span(most))
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str" || err != nil:
		r.bad(n, "spec."+name, shown(n)+" is not a duration as in 90s, 15m or 1h30m", remedy)
	case d < least:
		r.bad(n, "spec."+name, n.Value+" is too short", remedy)
	case d > most:
		r.bad(n, "spec."+name, n.Value+" is too long", remedy)
	case d%time.Second != 0:
		r.bad(n, "spec."+name, n.Value+" is not in whole seconds", remedy)
	default:
		return d
	}
	return 0
}

func (r *policyReader) lookahead(n *yaml.Node) {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || err != nil || math.IsNaN(v) || v < 0 || v > 1 {
		remedy := "write 0 to start agents for runnable jobs only, 1 for every waiting job too"
		said, isPercent := strings.CutSuffix(n.Value, "%")
		share, err := strconv.ParseFloat(said, 64)
		switch {
		case n.Kind != yaml.ScalarNode || err != nil || share < 0 || share > 100:
		case isPercent || share >= 2:
			remedy = "write " + strconv.FormatFloat(share/100, 'f', -1, 64)
		case share <= 1:
			remedy = "write " + n.Value + ", without quotes"
		}
		r.bad(n, "spec.lookahead", shown(n)+" is not a share from 0 to 1", remedy)
		return
	}
	r.policy.Lookahead = math.Abs(v) // -0 is 0
}

func (r *policyReader) paused(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		r.bad(n, "spec.paused", shown(n)+" is neither true nor false", "")
		return
	}
	r.policy.Paused = strings.EqualFold(n.Value, "true")
}

// queueRule is Buildkite's own: the key of a queue "can only contain letters,
// numbers, hyphens, and underscores" and has at most 100 characters
// (buildkite/docs, pages/agent/queues/managing.md).
var queueRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// clusterRule accepts printable characters (unicode.IsPrint), with spaces only between them.
var clusterRule = regexp.MustCompile("^([" + printed + "]|[" + printed + "][" + printed + " ]*[" + printed + "])?$")

// reservedTags are those that muster and the agent Job fill in.
var reservedTags = []string{plan.TagQueue, plan.TagDispatch, plan.TagIndex, plan.TagOverlay, plan.TagIdentity, plan.TagWarm, plan.TagUptime, plan.TagTemplate}

// tagText reports whether s can be the key or value of a tag: 1 to longestTag printable characters
// without spaces and commas, which separate tags.
func tagText(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= longestTag && !strings.ContainsFunc(s, func(c rune) bool {
		return c == ',' || c == unicode.ReplacementChar || unicode.IsSpace(c) || !unicode.IsPrint(c)
	})
}

func (r *policyReader) tags(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "spec.tags", shown(n)+" is not a mapping", "write tags as in {os: linux, size: large}")
		return
	}
	for key, value := range finding.Pairs(n) {
		at := "spec.tags." + strings.Trim(finding.Quote(key.Value), `"`)
		switch {
		case slices.ContainsFunc(reservedTags, func(s string) bool { return strings.EqualFold(s, key.Value) }):
			r.bad(key, at, "is filled in by muster", "remove it; tags of your own go here")
		case !tagText(key.Value) || strings.Contains(key.Value, "="):
			r.bad(key, at, "is not the key of an agent tag", "a key has no comma, no = and no white space")
		case value.Kind != yaml.ScalarNode || value.Tag != "!!str":
			r.bad(value, at, shown(value)+" is not a string", "write it in quotes")
		case !tagText(value.Value):
			r.bad(value, at, shown(value)+" is not the value of an agent tag", "a value has no comma and no white space, and is not empty")
		default:
			r.policy.Tags = append(r.policy.Tags, key.Value+"="+value.Value)
		}
	}
	slices.Sort(r.policy.Tags)
}

// entries defines the form of a list of mappings in a policy's spec, such as schedules and
// overrides.
type entries struct {
	// field is the list's name below spec, and one what an entry is called.
	field, one string
	// fields are those that an entry may have, in the order of the documentation.
	fields []string
	// form is the remedy for a value that is not a list.
	form string
	// max is how many entries there may be, and fewer the remedy for more.
	max   int
	fewer string
}

// entries calls read for each mapping of a list, with the path of the entry and a function that
// reports whether the entry has no findings so far, unknown fields included.
func (r *policyReader) entries(n *yaml.Node, list entries, read func(item *yaml.Node, at string, sound func() bool)) {
	if n.Kind != yaml.SequenceNode {
		r.bad(n, "spec."+list.field, shown(n)+" is not a list", list.form)
		return
	}
	if len(n.Content) > list.max {
		r.bad(n, "spec."+list.field, fmt.Sprintf("are %d", len(n.Content)), fmt.Sprintf("write at most %d: %s", list.max, list.fewer))
		return
	}
	remedy := "its fields are " + strings.Join(list.fields, ", ")
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", list.field, i)
		if item.Kind != yaml.MappingNode {
			r.bad(item, "spec."+at, shown(item)+" is not a mapping", remedy)
			continue
		}
		before := len(r.findings)
		r.known(item, at, list.one, list.fields, remedy)
		read(item, at, func() bool { return len(r.findings) == before })
	}
}

// known reports the unknown fields of a mapping.
func (r *policyReader) known(n *yaml.Node, at, one string, fields []string, remedy string) {
	for key := range finding.Pairs(n) {
		if !slices.Contains(fields, key.Value) {
			r.bad(key, "spec."+at+"."+key.Value, "is not a field of "+one, finding.DidYouMean(key.Value, fields, remedy))
		}
	}
}

// counts reads the numbers of agents that an entry sets; the others stay nil. into returns the
// destination of a field. counts reports whether the entry sets any.
func (r *policyReader) counts(item *yaml.Node, at string, fields []Field, into func(f Field) **int) (given bool) {
	for _, f := range fields {
		if v := finding.Lookup(item, f.Name); v != nil {
			*into(f), given = new(r.count(v, at+"."+f.Name)), true
		}
	}
	return given
}

// Span is a length of time without its empty parts: 1m, not 1m0s.
func Span(d time.Duration) string {
	s := d.String()
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, unit) {
			s = strings.TrimSuffix(s, unit[1:])
		}
	}
	return s
}
