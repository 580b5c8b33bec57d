package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"
)

// keywords is a part of a JSON Schema.
type keywords = map[string]any

// Schema returns the JSON Schema (draft 7, which editors know best) of a
// policy. The parser rejects what it rejects, and accepts what it accepts, with exceptions that a
// schema cannot express:
//
//   - min above max, also while a schedule is in force;
//   - an idle time of reuse that is not below its uptime;
//   - a duration outside of its range or not in whole seconds, unless it has one
//     unit and no fraction; and one of 290 years;
//   - schedules of one name, with an empty window, or in a time zone that does not exist;
//   - how a value is written: a number otherwise than in decimal digits (0x10, 5.0, 1e3), a
//     key twice, anchors, a second document, more than 64 KiB.
func Schema() []byte {
	fields := keywords{}
	var required []string
	for _, f := range specFields() {
		shape := described(f.shape(), strings.ReplaceAll(f.Meaning, "`", ""))
		if f.Default == "" {
			required = append(required, f.Name)
		} else {
			var value any
			if err := yaml.Unmarshal([]byte(f.Default), &value); err == nil { // a test reads them all
				shape["default"] = value
			}
		}
		fields[f.Name] = shape
	}
	schema := keywords{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"title":   "muster's scaling policy",
		"type":    "object", "additionalProperties": false, "required": []string{"apiVersion", "kind", "spec"},
		"properties": keywords{
			"apiVersion": keywords{"const": Version}, "kind": keywords{"const": policyKind},
			"metadata": keywords{"description": "not read"},
			"spec":     keywords{"type": "object", "additionalProperties": false, "required": required, "properties": fields},
		},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		panic(err) // it has nothing but strings, numbers, lists and maps
	}
	return b.Bytes()
}

// described adds a description to a shape.
func described(shape keywords, text string) keywords {
	shape["description"] = text
	return shape
}

func countShape() keywords {
	return keywords{"type": "integer", "minimum": 0, "maximum": MaxAgents}
}

// spanShape has the range of durations of one unit, and the form of all others.
func spanShape(least, most time.Duration) keywords {
	var forms []string
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}} {
		forms = append(forms, "0*"+between(int((least+unit.is-1)/unit.is), int(most/unit.is))+unit.name)
	}
	const unit, other = "(ns|us|µs|μs|ms|s|m|h)", "(ns|us|µs|μs|ms)"
	forms = append(forms,
		`[0-9]+`+other,                             // one unit, of the small ones
		`([0-9]+\.[0-9]*|\.[0-9]+)`+unit,           // with a fraction
		`(([0-9]+\.?[0-9]*|\.[0-9]+)`+unit+`){2,}`, // with several units
	)
	return keywords{"type": "string", "pattern": `^\+?(` + strings.Join(forms, "|") + ")$"}
}

// between is a regular expression of the whole numbers from low to high.
func between(low, high int) string {
	var forms []string
	for low <= high {
		// The largest block of numbers that begins at low and differs in its last
		// digits only.
		size := 1
		for low%(size*10) == 0 && low+size*10-1 <= high && low >= size*10 {
			size *= 10
		}
		last := low
		for last+size-1 < high && (last/size)%10 < 9 && last+2*size-1 <= high {
			last += size
		}
		form := fmt.Sprint(low / size)
		if first, final := (low/size)%10, (last/size)%10; first != final {
			form = fmt.Sprintf("%s[%d-%d]", form[:len(form)-1], first, final)
		}
		forms = append(forms, form+strings.Repeat("[0-9]", len(fmt.Sprint(size))-1))
		low = last + size
	}
	return "(" + strings.Join(forms, "|") + ")"
}

// printed are the characters that print, but for the space (unicode.IsPrint), in
// words that all engines of regular expressions know.
const printed = `\p{L}\p{M}\p{N}\p{P}\p{S}`

const (
	longestTag     = 255
	longestCluster = 255
	longestLabel   = 60
)

func tagsShape() keywords {
	var reserved []string
	for _, tag := range reservedTags {
		reserved = append(reserved, anyCase(tag))
	}
	text := keywords{"type": "string", "maxLength": longestTag, "pattern": "^[" + printed + "]+$"}
	never := func(pattern string) keywords { return keywords{"not": keywords{"type": "string", "pattern": pattern}} }
	return keywords{
		"type":                 "object",
		"propertyNames":        keywords{"allOf": []keywords{text, never("[,=\uFFFD]"), never("^(" + strings.Join(reserved, "|") + ")$")}},
		"additionalProperties": keywords{"allOf": []keywords{text, never("[,\uFFFD]")}},
	}
}

// oneOf requires one of the fields.
func oneOf(fields []string) []keywords {
	var all []keywords
	for _, name := range fields {
		all = append(all, keywords{"required": []string{name}})
	}
	return all
}

// scheduleShape has the fields of a schedule, as scheduleFields lists them.
func scheduleShape() keywords {
	var days []string
	for i, name := range dayNames {
		days = append(days, anyCase(name), anyCase(time.Weekday(i).String()))
	}
	const time = "([01]?[0-9]|2[0-3]):[0-5][0-9]"
	agents := func(meaning string) keywords {
		return described(countShape(), meaning+" while the schedule is in force")
	}
	return keywords{
		"type": "object", "additionalProperties": false, "required": []string{"name", "from", "to", "timeZone"},
		"anyOf": oneOf(Names(Scheduled())),
		"properties": keywords{
			"name": keywords{"type": "string", "maxLength": longestLabel, "pattern": "^ *[" + printed + "][" + printed + " ]*$", "description": "commits call the schedule by it"},
			"days": keywords{"type": "array", "minItems": 1, "description": "the days on which the window begins, as in [mon, tue]; every day, if left out",
				"items": keywords{"type": "string", "pattern": "^(" + strings.Join(days, "|") + ")$"}},
			"from":     keywords{"type": "string", "pattern": "^" + time + "$", "description": "time of day at which the window begins, as in 08:00"},
			"to":       keywords{"type": "string", "pattern": "^(" + time + "|24:00)$", "description": "time of day at which it ends, as in 18:30 or 24:00; before from, it is on the next day"},
			"timeZone": keywords{"type": "string", "pattern": "^[A-Za-z0-9_+/-]+$", "not": keywords{"const": "Local"}, "description": "a name of the IANA time zone database, as in Europe/Berlin or UTC"},
			"min":      agents("minimum number of agents"), "max": agents("maximum number of agents"), "buffer": agents("idle agents"),
		},
	}
}

// anyCase is a regular expression of a text in upper or lower case, as
// strings.EqualFold compares.
func anyCase(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.SimpleFold(r) == r {
			b.WriteString(regexp.QuoteMeta(string(r)))
			continue
		}
		b.WriteString("[" + string(r))
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			b.WriteRune(f)
		}
		b.WriteString("]")
	}
	return b.String()
}
