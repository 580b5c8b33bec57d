package notify

import (
	"fmt"
	"regexp"
	"strings"
)

// field is a place in a template, as in {{.After}}.
var field = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// fields returns the fields of a push for a template of JSON: a list of paths, and texts without
// quotes.
func fields(a about, p Push) map[string]string {
	inner := func(text string) string {
		quoted := string(inJSON(text))
		return quoted[1 : len(quoted)-1]
	}
	return map[string]string{
		"Repository": inner(a.repository), "Branch": inner(a.branch), "Before": inner(p.Before), "After": inner(p.After),
		"Paths": string(inJSON(list(p.paths()))),
	}
}

// fill replaces the fields of a template.
func fill(template string, a about, p Push) (string, error) {
	values := fields(a, p)
	unknown := ""
	text := field.ReplaceAllStringFunc(template, func(place string) string {
		name := strings.TrimSpace(place[2 : len(place)-2])
		value, ok := values[strings.TrimPrefix(name, ".")]
		if !ok || !strings.HasPrefix(name, ".") {
			unknown = place
		}
		return value
	})
	if unknown != "" {
		return "", fmt.Errorf("the template has %s: it may have {{.Repository}}, {{.Branch}}, {{.Before}}, {{.After}} and {{.Paths}}", unknown)
	}
	return text, nil
}
