package policy

import (
	"strings"
	"testing"
)

// TestOverrideFindings: what is wrong with an override is said with its line.
func TestOverrideFindings(t *testing.T) {
	for _, c := range []struct{ overrides, want string }{
		{"{until: \"2026-11-21T18:00:00Z\", max: 40}", ""},
		{"{until: 2026-11-21T18:00:00+01:00, min: 1, max: 40, buffer: 0, maxPerHour: 0, paused: true}", ""},
		{"{max: 40}", ":7: spec.overrides[0].until: is missing; write a time with its time zone, as in 2026-11-21T18:00:00Z or 2026-11-21T18:00:00+01:00"},
		{"{until: 2026-11-21, max: 40}", ":7: spec.overrides[0].until: 2026-11-21 is not a time; *"},
		{"{until: 18:00, max: 40}", ":7: spec.overrides[0].until: \"18:00\" is not a time; *"},
		{"{until: [], max: 40}", ":7: spec.overrides[0].until: a list is not a time; *"},
		{"{until: \"2026-11-21T18:00:00.5Z\", max: 40}", ":7: spec.overrides[0].until: \"2026-11-21T18:00:00.5Z\" is not a time; *"},
		{"{until: \"2026-11-21T18:00:00Z\"}", ":7: spec.overrides[0]: changes nothing; give it min, max, buffer, maxPerHour or paused"},
		{"{until: \"2026-11-21T18:00:00Z\", max: -1}", ":7: spec.overrides[0].max: -1 is too small; write one from 0 to 100000"},
		{"{until: \"2026-11-21T18:00:00Z\", paused: false}", ":7: spec.overrides[0].paused: false is not true; an override can pause, but not end a pause: use spec.paused"},
		{"{until: \"2026-11-21T18:00:00Z\", maximum: 4}", ":7: spec.overrides[0].maximum: is not a field of an override; did you mean max?"},
		{"{until: \"2026-11-21T18:00:00Z\", min: 11}", ":7: spec.overrides: until 2026-11-21T18:00:00Z min 11 is above max 10; give the override a max or a min that fits"},
		{"{until: \"2026-11-21T18:00:00Z\", max: 1}", ""}, // min goes with it
		{"4", ":7: spec.overrides[0]: 4 is not a mapping; its fields are until, min, max, buffer, maxPerHour, paused"},
	} {
		_, err := Parse("scaling.yaml", []byte(header+"spec:\n  queue: q\n  min: 2\n  max: 10\n  overrides: ["+c.overrides+"]\n"))
		got := ""
		if err != nil {
			got = strings.TrimPrefix(strings.SplitN(err.Error(), "\n", 2)[0], "scaling.yaml")
		}
		prefix, open := strings.CutSuffix(c.want, "*")
		if got != c.want && !(open && strings.HasPrefix(got, prefix)) {
			t.Errorf("%s:\n got %s\nwant %s", c.overrides, got, c.want)
		}
	}
	_, err := Parse("scaling.yaml", []byte(header+"spec:\n  queue: q\n  max: 10\n  overrides:\n"+strings.Repeat("  - {until: \"2026-11-21T18:00:00Z\", max: 40}\n", maxOverrides+1)))
	if err == nil || !strings.Contains(err.Error(), "are 21; write at most 20: remove those that are over") {
		t.Errorf("21 overrides: %v", err)
	}
}
