// Package unraced is for tests that leave the race detector nothing to find: they
// compute in one goroutine, for so long that it, which makes them five to ten times as
// slow, is most of what all tests take. It is for tests alone.
package unraced

import "testing"

// Only leaves a test to the run without the race detector: where that is in the
// program, the test is skipped, and make test plays it without. The build tag raceall, as of make race, skips nothing.
func Only(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("left to the run without the race detector: it is of one goroutine")
	}
}
