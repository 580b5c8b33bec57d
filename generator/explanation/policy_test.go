package explanation

import (
	"strings"
	"testing"
)

// TestSetBySchedule asserts that a max which a schedule may set is not said to be as old as the policy.
func TestSetBySchedule(t *testing.T) {
	if got := (&Policy{}).setBy("max", "night"); !strings.Contains(got, `"night" is in force`) {
		t.Errorf("%q", got)
	}
}
