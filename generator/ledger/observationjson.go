package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"

	"muster/generator/plan"
)

// format is the version of the stored observation. Fields may be added to it; a change of the
// meaning of a field needs a new version.
const format = 2

// storedObservation is an observation as commits contain it: the JSON of the types in package plan,
// whose tags and order must stay as they are so that old commits remain readable.
type storedObservation struct {
	Version int `json:"version"`
	plan.Observation
}

// encodeObservation returns an observation as one line of JSON, as people and forges read it. Text
// by users of Buildkite can neither end the line, hide or reverse what a terminal shows, mention
// anybody, nor close an issue (docs.github.com, "Linking a pull request to an issue").
func encodeObservation(o plan.Observation) string {
	if o.Overlays == nil {
		o.Overlays = []plan.Capacity{}
	}
	text, err := json.Marshal(storedObservation{format, o})
	if err != nil { // for example, a time that JSON cannot represent: a defect, which must be visible
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

// closing matches the keyword before an issue that a commit closes.
var closing = regexp.MustCompile(`(?i)(close[sd]?|fix(es|ed)?|resolve[sd]?):? `)

// decodeObservation parses a stored observation, and checks the bounds of its numbers and times.
func decodeObservation(text string) (plan.Observation, error) {
	var s storedObservation
	err := json.Unmarshal([]byte(text), &s)
	if err != nil || s.Version != format {
		// A newer version may have fields of other types: its number explains the error.
		var head struct {
			Version int `json:"version"`
		}
		if err := json.Unmarshal([]byte(text), &head); err != nil {
			return plan.Observation{}, err
		}
		if head.Version != format {
			return plan.Observation{}, fmt.Errorf("version %d is not supported, only version %d", head.Version, format)
		}
		return plan.Observation{}, err
	}
	if s.At.IsZero() {
		return plan.Observation{}, errors.New("it has no time")
	}
	return s.Observation, plan.CheckStored(s.Observation)
}
