package buildkite

import (
	"testing"
	"time"
)

// TestForgetsRequests: a server that tells no limit costs no memory either: a month of
// requests is as many as those of a minute.
func TestForgetsRequests(t *testing.T) {
	for _, perMinute := range []int{0, 25} {
		var b budget
		at := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
		for range 30 * 24 * 4 {
			b.note(at)
			at = at.Add(15 * time.Second)
			b.begin(at, perMinute)
		}
		if len(b.sent) > 4 {
			t.Errorf("with a limit of %d, %d requests are remembered", perMinute, len(b.sent))
		}
	}
}
