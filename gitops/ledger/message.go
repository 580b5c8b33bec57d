package ledger

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"

	"muster/generator/plan"
)

// Message renders the commit message of an act: a subject with its outcome, the
// reasons with their arithmetic, and trailers that hold every input of the
// decision which is not in the parent's tree. The last trailer keeps Buildkite,
// GitHub and GitLab from building the commit: a build per scaling decision would
// be a loop (buildkite.com/docs/pipelines/configure/skipping). The version is
// muster's own.
func Message(act Act, version string) string {
	d := act.Decision
	var subject, body string
	var trailers []string
	trailer := func(key, value string) { trailers = append(trailers, key+": "+value) }
	trailer("Overlay", act.Path)
	trailer("Act", string(act.Kind))
	switch act.Kind {
	case Repair:
		subject, body = "repair dispatches/", repairProse(act)
	case Dispatch:
		subject, body = dispatchSubject(d), dispatchProse(d)
		for _, x := range d.Dispatch {
			trailer("Dispatch", x.ID)
		}
		trailer("Agents", fmt.Sprint(d.Sum.Dispatch))
	case Retire:
		subject, body = retireSubject(d.Retire), retireProse(d)
		agents := 0
		for _, r := range d.Retire {
			trailer("Dispatch", r.ID)
			agents += r.Agents
		}
		trailer("Agents", fmt.Sprint(agents))
	}
	trailer("Observation", observationJSON(d.Observation))
	trailer("Muster", version)
	trailer("CI", "[skip ci]")
	return fmt.Sprintf("%s: %s\n\n%s\n\n%s\n", d.Overlay, subject, body, strings.Join(trailers, "\n"))
}

// observationJSON is one line of JSON, as a person and a forge may read it.
// What Buildkite's users wrote into it can neither end the line, nor hide or
// turn around what a terminal shows, nor call somebody or close an issue where
// the commit is shown: docs.github.com, "Linking a pull request to an issue".
func observationJSON(o plan.Observation) string {
	text, err := json.Marshal(o)
	if err != nil { // an observation is plain data: this is a defect, and better seen than hidden
		return fmt.Sprintf("%q", err)
	}
	line := closing.ReplaceAllStringFunc(string(text), func(keyword string) string {
		return strings.ReplaceAll(keyword, " ", `\u0020`)
	})
	var plain strings.Builder
	for _, c := range line {
		switch {
		case c != '@' && unicode.IsPrint(c):
			plain.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&plain, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&plain, `\u%04x`, c)
		}
	}
	return plain.String()
}

// closing is what stands before an issue that a commit closes.
var closing = regexp.MustCompile(`(?i)(close[sd]?|fix(es|ed)?|resolve[sd]?):? `)
