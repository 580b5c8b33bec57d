package ledger

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"muster/generator/plan"
)

// format is the version of the stored observation that is written. Fields may
// be added to it; one that changes its meaning makes a new version.
const format = 2

// The stored observation, version 2: the JSON of the types in package plan, whose tags must stay
// as they are so that old commits remain readable. maxJobs is before dispatches, and sets of
// indexes are text, which [readIndexes] parses within a budget.
type (
	storedObservation struct {
		Version   int              `json:"version"`
		At        time.Time        `json:"at"`
		Until     time.Time        `json:"until,omitzero"`
		Queue     string           `json:"queue"`
		Jobs      []plan.Demand    `json:"jobs,omitempty"`
		Idle      []storedIdle     `json:"idle,omitempty"`
		Overlays  []storedSupply   `json:"overlays"`
		Unmatched []plan.Unmatched `json:"unmatched,omitempty"`
	}
	storedIdle struct {
		plan.IdleAgents
		Jobs string `json:"jobs,omitempty"`
	}
	storedSupply struct {
		plan.Supply
		Dispatches map[string]storedSeen `json:"dispatches,omitempty"`
		OtherTags  map[string]storedTags `json:"otherTags,omitempty"`
	}
	storedSeen struct {
		Registered string `json:"registered,omitempty"`
		plan.Seen
	}
	storedTags struct {
		Jobs string `json:"jobs,omitempty"`
		plan.OtherTags
	}
)

// encodeObservation is one line of JSON, as a person and a forge may read it.
// What Buildkite's users wrote into it can neither end the line, nor hide or
// turn around what a terminal shows, nor call somebody or close an issue where
// the commit is shown: docs.github.com, "Linking a pull request to an issue".
func encodeObservation(o plan.Observation) string {
	text, err := json.Marshal(store(o))
	if err != nil { // as of a time that JSON cannot write: a defect, and better seen than hidden
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

// store makes the stored form of an observation.
func store(o plan.Observation) storedObservation {
	s := storedObservation{
		Version: format, At: o.At, Until: o.Until, Queue: o.Queue,
		Jobs: o.Jobs, Overlays: []storedSupply{}, Unmatched: o.Unmatched,
	}
	for _, g := range o.Idle {
		s.Idle = append(s.Idle, storedIdle{g, g.Jobs.String()})
	}
	for _, x := range o.Overlays {
		supply := storedSupply{x, map[string]storedSeen{}, map[string]storedTags{}}
		for id, seen := range x.Dispatches {
			supply.Dispatches[id] = storedSeen{seen.Registered.String(), seen}
		}
		for id, tags := range x.OtherTags {
			supply.OtherTags[id] = storedTags{tags.Jobs.String(), tags}
		}
		s.Overlays = append(s.Overlays, supply)
	}
	return s
}

// observation is the reverse of store.
func (s storedObservation) observation() (plan.Observation, error) {
	o := plan.Observation{At: s.At, Until: s.Until, Queue: s.Queue, Jobs: s.Jobs, Unmatched: s.Unmatched}
	budget := maxIndexes
	var err error
	for _, g := range s.Idle {
		if g.IdleAgents.Jobs, err = readIndexes(g.Jobs, &budget); err != nil {
			return o, fmt.Errorf("idle agents: %w", err)
		}
		o.Idle = append(o.Idle, g.IdleAgents)
	}
	for _, x := range s.Overlays {
		for id, seen := range x.Dispatches {
			if seen.Seen.Registered, err = readIndexes(seen.Registered, &budget); err != nil {
				return o, fmt.Errorf("dispatch %q: %w", id, err)
			}
			if x.Supply.Dispatches == nil {
				x.Supply.Dispatches = map[string]plan.Seen{}
			}
			x.Supply.Dispatches[id] = seen.Seen
		}
		for id, tags := range x.OtherTags {
			if tags.OtherTags.Jobs, err = readIndexes(tags.Jobs, &budget); err != nil {
				return o, fmt.Errorf("dispatch %q: %w", id, err)
			}
			if x.Supply.OtherTags == nil {
				x.Supply.OtherTags = map[string]plan.OtherTags{}
			}
			x.Supply.OtherTags[id] = tags.OtherTags
		}
		o.Overlays = append(o.Overlays, x.Supply)
	}
	return o, nil
}
