package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"muster/generator/finding"
	"muster/gitops/unraced"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// beyond are the problems that a schema cannot see; see [PolicySchema].
var beyond = regexp.MustCompile(`is above max|is not below uptime|is too (short|long)$|is not in whole seconds|is not a known time zone|is the same as from|is the name of another schedule`)

// values returns values of each field: some that are valid, some just outside, some of
// another type.
func values() map[string][]any {
	counts := []any{0, 1, 7, 100000, 100001, -1, 1.5, "7", true, nil, []any{}}
	spans := []any{"15m", "1m", "59s", "60s", "10s", "9s", "0m", "24h", "25h", "1440m", "1441m", "168h", "169h", "604800s", "604801s", "090s", "+15m", "-15m",
		"1h30m", "1h90m", "0.5h", ".5h", "1.h", "60000ms", "1500ms", "60000000µs", "60000000μs", "15", "m", "", "15 m", "15M", "1h 30m", 15, nil, "99999999999h", "1h30", "\n15m", "15m\n"}
	texts := []any{"a", "", "A-_9", "ci eu", " ci", "ci ", "a,b", "a=b", "a\tb", "a\u00a0b", "größe", "日本", "\ufffd", "\x7f", strings.Repeat("q", 60), strings.Repeat("q", 61),
		strings.Repeat("q", 100), strings.Repeat("q", 101), strings.Repeat("é", 255), strings.Repeat("é", 256), 5, true, nil, []any{"a"}, "a\n", "   ", "null"}
	return map[string][]any{
		"queue": texts, "cluster": texts, "min": counts, "max": counts, "buffer": counts, "priority": counts, "maxPerHour": counts,
		"lookahead": {0, 1, 0.5, 1.1, -0.1, 2, "0.5", "50%", true, nil}, "lease": append([]any{"auto", "Auto", "auto "}, spans...), "idleTimeout": spans, "warmIdleTimeout": spans,
		"reuse": {map[string]any{"idle": "1m", "uptime": "30m"}, map[string]any{}, map[string]any{"idle": "1m"}, map[string]any{"uptime": "30m"}, map[string]any{"idle": "9s", "uptime": "30m"}, map[string]any{"idle": "auto", "uptime": "30m"}, map[string]any{"idle": "Auto", "uptime": "30m"}, map[string]any{"idle": "1m", "uptime": "auto"},
			map[string]any{"idle": "30m", "uptime": "1m"}, map[string]any{"idle": "1m", "uptime": "169h"}, map[string]any{"idle": 1, "uptime": "1h"}, map[string]any{"idle": "1m", "uptime": nil},
			map[string]any{"idle": "1m", "uptime": "30m", "jobs": 3}, []any{}, "30m", true, nil},
		"paused": {true, false, "true", 1, nil, "yes"}, "nonsense": {1}, "Queue": {"a"}, "name": texts,
		"day":      {"mon", "Tuesday", "WED", "ſun", "mond", "", "tues", 1, nil, "sat\n"},
		"time":     {"08:00", "8:00", "24:00", "23:59", "24:01", "25:00", "8:0", "8:60", "+8:00", "08:+5", "-0:30", "008:00", "0800", "", 800, nil, "08:00\n"},
		"timeZone": {"UTC", "Europe/Berlin", "Berlin", "Local", "", "../UTC", "Etc/GMT+5", 5, nil, "EST5EDT", "Europe/Berlin\n"},
		"tagKey":   {"os", "queue", "Queue", "diſpatch", "muster-warm", "index2", "a=b", "a b", "", "größe", strings.Repeat("é", 256), "<<"},
		"tagValue": texts,
	}
}

// agree asserts that the schema and the parser both accept or both refuse a policy. The
// parser alone may refuse it for problems beyond the schema.
func agree(t *testing.T, s *jsonschema.Schema, policy map[string]any) {
	t.Helper()
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	_, findings := Zones{}.Parse("p", text)
	refused := s.Validate(document)
	within := slices.ContainsFunc(findings, func(f finding.Finding) bool { return !beyond.MatchString(f.Problem) })
	if refused != nil && len(findings) == 0 || refused == nil && within {
		t.Errorf("%s: the schema says %v, the parser %v", text, refused, findings)
	}
}

func policyOf(spec any) map[string]any {
	return map[string]any{"apiVersion": Version, "kind": policyKind, "spec": spec}
}

// TestSchemaValue: the schema accepts a value of a field if the parser does.
func TestSchemaValue(t *testing.T) {
	s := compiled(t)
	for name, all := range values() {
		for _, value := range all {
			spec := map[string]any{"queue": "q", "max": 100000}
			schedule := map[string]any{"name": "s", "from": "06:00", "to": "18:00", "timeZone": "UTC", "max": 100000}
			switch name {
			case "name", "timeZone":
				schedule[name] = value
				spec["schedules"] = []any{schedule}
			case "time":
				schedule["to"] = value
				spec["schedules"] = []any{schedule}
			case "day":
				schedule["days"] = []any{value}
				spec["schedules"] = []any{schedule}
			case "tagKey":
				spec["tags"] = map[string]any{value.(string): "a"}
			case "tagValue":
				spec["tags"] = map[string]any{"a": value}
			default:
				spec[name] = value
			}
			agree(t, s, policyOf(spec))
		}
	}
}

// TestSchemaStructure: the same for fields that are missing, unknown or of another type.
func TestSchemaStructure(t *testing.T) {
	s := compiled(t)
	odd := []any{"x", 1, nil, []any{}, map[string]any{"a": "b"}}
	spec := func() map[string]any { return map[string]any{"queue": "q", "max": 50} }
	for _, field := range []string{"apiVersion", "kind", "spec", "metadata", "status"} {
		missing := policyOf(spec())
		delete(missing, field)
		agree(t, s, missing)
		for _, value := range odd {
			other := policyOf(spec())
			other[field] = value
			agree(t, s, other)
		}
	}
	for _, field := range []string{"queue", "max"} {
		missing := spec()
		delete(missing, field)
		agree(t, s, policyOf(missing))
	}
	schedule := func() map[string]any {
		return map[string]any{"name": "s", "from": "06:00", "to": "18:00", "timeZone": "UTC", "min": 1}
	}
	withSchedules := func(schedules any) {
		t.Helper()
		with := spec()
		with["schedules"] = schedules
		agree(t, s, policyOf(with))
	}
	for _, field := range []string{"name", "from", "to", "timeZone", "min"} {
		missing := schedule()
		delete(missing, field)
		withSchedules([]any{missing})
	}
	for _, field := range []string{"min", "max", "buffer", "days", "nonsense"} {
		for _, value := range append(odd, 2) {
			other := schedule()
			other[field] = value
			withSchedules([]any{other})
		}
	}
	for _, schedules := range append(odd, []any{schedule(), schedule()}, schedule(), []any{nil}) {
		withSchedules(schedules)
	}
}

// TestBetween: the expression of a range is that range.
func TestBetween(t *testing.T) {
	unraced.Only(t)
	for _, c := range [][2]int{{1, 1}, {1, 9}, {1, 24}, {1, 168}, {60, 86400}, {10, 86400}, {60, 604800}, {1, 10080}, {7, 1234}} {
		pattern := regexp.MustCompile("^" + between(c[0], c[1]) + "$")
		for n := range c[1] + 2000 {
			if got, want := pattern.MatchString(fmt.Sprint(n)), n >= c[0] && n <= c[1]; got != want {
				t.Fatalf("%d to %d: %d matches %s: %t", c[0], c[1], n, pattern, got)
			}
		}
	}
}

// TestFieldDefaults: what the table calls the default of a field is what a policy
// has that does not say it.
func TestFieldDefaults(t *testing.T) {
	bare, findings := Zones{}.Parse("p", []byte(header+"spec: {queue: q, max: 1}\n"))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	for _, f := range Fields() {
		if f.Default == "" {
			continue
		}
		var value any
		if err := yaml.Unmarshal([]byte(f.Default), &value); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		said, findings := Zones{}.Parse("p", fmt.Appendf(nil, "%sspec: {queue: q, max: 1, %s: %s}\n", header, f.Name, f.Default))
		if len(findings) > 0 {
			t.Errorf("%s: %v", f.Name, findings)
		}
		if diff := cmp.Diff(bare, said); diff != "" {
			t.Errorf("%s is not the default of %s:\n%s", f.Default, f.Name, diff)
		}
	}
}

// TestScheduleFields: the schema has the fields of a schedule that the parser has.
func TestScheduleFields(t *testing.T) {
	properties := scheduleShape()["properties"].(keywords)
	for _, name := range scheduleFields() {
		if properties[name] == nil {
			t.Errorf("the schema has no %s", name)
		}
	}
	if len(properties) != len(scheduleFields()) {
		t.Errorf("the schema has %d fields, the parser %d", len(properties), len(scheduleFields()))
	}
}

var update = flag.Bool("update", false, "write the schema and the policies that are compared with it")

// TestSchemaFile writes, with -update, what other validators are tried with: the
// schema, and policies with what is to be said of them.
func TestSchemaFile(t *testing.T) {
	type policy struct {
		YAML    string `json:"yaml"`
		Refused bool   `json:"refused"`
	}
	var policies []policy
	for _, spec := range []string{
		"{queue: q, max: 5}", "{queue: q, max: 5, lease: 90s, lookahead: 0.5, tags: {os: linux, größe: L}, paused: true}",
		"{queue: q, max: 5, cluster: 'ci eu', schedules: [{name: office hours, days: [mon, Tuesday], from: 08:00, to: 18:30, timeZone: Europe/Berlin, min: 2}]}",
		"{queue: q, max: 5, reuse: {idle: 1m, uptime: 30m}}", "{queue: q, max: 5, reuse: {idle: 1m}}",
		"{queue: q}", "{queue: q, max: 5, maxx: 7}", "{queue: q, max: '5'}", "{queue: q, max: 100001}", "{queue: q, max: 5, lookahead: 50%}",
		"{queue: q, max: 5, lease: 1s}", "{queue: q, max: 5, lease: 15}", "{queue: q, max: 5, tags: {Queue: x}}", "{queue: q, max: 5, tags: {a: 'x,y'}}",
		"{queue: 'a b', max: 5}", "{queue: q, max: 5, cluster: ' ci'}", "{queue: q, max: 5, paused: 'yes'}",
		"{queue: q, max: 5, schedules: [{name: s, from: 08:00, to: 18:30, timeZone: UTC}]}",
		"{queue: q, max: 5, schedules: [{name: s, days: [mond], from: 08:00, to: 18:30, timeZone: UTC, max: 9}]}",
		"{queue: q, max: 5, schedules: [{name: s, from: 08:00, to: 24:30, timeZone: UTC, max: 9}]}",
	} {
		text := header + "spec: " + spec + "\n"
		_, findings := Zones{}.Parse("p", []byte(text))
		policies = append(policies, policy{text, len(findings) > 0})
	}
	text, err := json.MarshalIndent(policies, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "testdata", "schema", "testdata")
	for name, want := range map[string][]byte{"scaling.json": Schema(), "policies.json": append(text, '\n')} {
		file := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is behind: run go test -update (-want +got)\n%s", file, diff)
		}
	}
}
