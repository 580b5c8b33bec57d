package manifest

import (
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
)

// TestWarm: what warm says is read, and what it cannot say is refused.
func TestWarm(t *testing.T) {
	parse := func(warm string) (plan.Policy, error) {
		return ParsePolicy("x", []byte("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: a\n  max: 1\n  warm: "+warm+"\n"))
	}
	for text, want := range map[string]plan.Warm{
		"{}": {},
		"{wait: 10s, share: 0.95, idleHours: 40}": {Wait: 10 * time.Second, Share: 0.95, IdleHours: 40},
		"{idleHours: 1, share: 0.01, wait: 10m}":  {Wait: 10 * time.Minute, Share: 0.01, IdleHours: 1},
	} {
		if p, err := parse(text); err != nil || p.Warm != want {
			t.Errorf("%s: %+v, %v", text, p.Warm, err)
		}
	}
	for text, want := range map[string]string{
		"yes":         "is not a mapping",
		"{wait: 10s}": "spec.warm.share: is missing",
		"{wait: 10s, share: 0.95, idlehours: 40}":   "is not a field of warm",
		"{wait: 0s, share: 0.95, idleHours: 40}":    "too short",
		"{wait: 61m, share: 0.95, idleHours: 40}":   "too long",
		"{wait: 10s, share: 1, idleHours: 40}":      "1 is not a share",
		"{wait: 10s, share: .nan, idleHours: 40}":   "is not a share",
		"{wait: 10s, share: '0.9', idleHours: 40}":  "is not a share",
		"{wait: 10s, share: 95, idleHours: 40}":     "95 is not a share",
		"{wait: 10s, share: 0.95, idleHours: 0}":    "0 is too small",
		"{wait: 10s, share: 0.95, idleHours: 0.5}":  "is not a whole number",
		"{wait: 10s, share: [0.95], idleHours: 40}": "a list is not a share",
	} {
		if p, err := parse(text); err == nil || !strings.Contains(err.Error(), want) || p.Warm != (plan.Warm{}) {
			t.Errorf("%s: %+v, %v, want %q", text, p.Warm, err, want)
		}
	}
}

// TestLearnedRefused: what no muster has written is not taken for something learned.
func TestLearnedRefused(t *testing.T) {
	for _, warm := range []string{
		"{until: \"2026-01-12T12:00:00Z\", workdays: -1}",
		"{until: \"2026-01-12T12:00:30Z\"}",
		"{until: \"2026-01-12T12:00:00Z\", workday: \"1*289\"}",
		"{until: \"2026-01-12T12:00:00Z\", workday: \"1000000000\"}",
		"{until: \"2026-01-12T12:00:00Z\", slot: \"1*4\"}",
		"{until: \"2026-01-12T12:00:00Z\", minutes: \"x\"}",
		"{until: \"2026-01-12T12:00:00Z\", plan: {hour: \"2026-01-12T12:00:00Z\", worth: 1001}}",
	} {
		text := "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\nwarm: " + warm + "\n"
		if state, finding := readState("state.yaml", []byte(text)); finding == nil || !state.Equal(plan.State{}) {
			t.Errorf("%s is read as %+v", warm, state.Warm)
		}
	}
}
