package plan

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSteps: in every case, and at random, the terms of a step come to its value within
// its bounds, in the words of the formula, and the limits say exactly what is missing.
func TestSteps(t *testing.T) {
	limited, active := map[string]int{}, map[string]int{}
	for name, d := range formulaCases(t) {
		if wrong := againstSteps(d); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
		for _, l := range d.Limits() {
			limited[l.Name]++
		}
		for _, s := range d.Steps() {
			for _, b := range s.ActiveBounds() {
				active[b.Name]++
			}
		}
	}
	for _, name := range []string{"max", "maxPerHour", "commit", "probe", string(Paused)} {
		if limited[name] == 0 {
			t.Errorf("no case is limited by %s: %v", name, limited)
		}
	}
	for _, name := range []string{"", "min", "room", "leftThisHour", "maxAtOnce", "suspended", "probe"} {
		if active[name] == 0 {
			t.Errorf("in no case a step is bounded by %q: %v", name, active)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for _, d := range drawLife(t).decide() {
			if wrong := againstSteps(d); wrong != "" {
				t.Fatalf("%s: %s", d.Overlay, wrong)
			}
		}
	})
}

// againstSteps says what is wrong with a decision's steps and limits.
func againstSteps(d Decision) string {
	lines := strings.Split(strings.TrimSpace(Formula), "\n")
	steps := d.Steps()
	if len(steps) != len(lines) {
		return "not a step for each line of the formula"
	}
	short := 0
	for i, s := range steps {
		n := s.Sum()
		for _, b := range s.Bounds {
			n = b.apply(n)
		}
		if n != s.Value {
			return s.Name + " does not add up"
		}
		words := strings.FieldsFunc(lines[i], func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') })
		has := func(name string) bool {
			return name == "" || strings.Contains(" "+strings.Join(words, " ")+" ", " "+name+" ")
		}
		if words[0] != s.Name {
			return s.Name + " stands where the formula has " + words[0]
		}
		for _, x := range s.Terms {
			if !has(x.Name) {
				return s.Name + " has the term " + x.Name
			}
		}
		for _, b := range s.Bounds {
			if !has(b.Name) {
				return s.Name + " has the bound " + b.Name
			}
		}
		if s.Name == "dispatch" {
			short = s.Sum() - s.Value
		}
	}
	limits, sum := d.Limits(), d.Sum
	switch {
	case sum.OtherOverlays < 0 || sum.OtherOverlays > sum.Pending:
		return "more jobs are left elsewhere than are pending"
	case sum.NonMatching < 0 || sum.NonMatching > sum.Idle-sum.Replacing+sum.InFlight-sum.Overdue:
		return "more agents are unusable than are there"
	case (short > 0) != (len(limits) > 0):
		return "limits where nothing is left out, or none where something is"
	case short > 0 && limits[0].Agents != short:
		return "the first limit does not say how many are left out"
	case !reflect.DeepEqual(steps, d.Steps()):
		return "other steps the second time"
	}
	return ""
}
