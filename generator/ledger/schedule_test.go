package ledger

import (
	"strings"
	"testing"

	"muster/generator/plan"
)

// TestScheduleClosesNothing: the name of a schedule calls nobody and closes no
// issue where the commit is shown.
func TestScheduleClosesNothing(t *testing.T) {
	for _, name := range []string{"fixes acme/x#1 @torvalds", "closes https://github.com/acme/x/issues/1"} {
		message := Message(Operation{Kind: Dispatch, Path: "overlays/a", Decision: plan.Decision{Overlay: "a", Schedule: name, Sum: plan.Sum{Dispatch: 1}}}, "v1")
		prose, _, _ := strings.Cut(message, "\nOverlay:")
		if strings.ContainsAny(prose, "@#") || strings.Contains(prose, "://") || !strings.Contains(prose, "Schedule \"") {
			t.Error(prose)
		}
	}
}
