// Package unraced excludes long single-threaded tests from runs with the race detector, which finds
// nothing in them and makes them five to ten times slower. It is for tests only.
package unraced

import "testing"

// Only skips a test if the program has the race detector: make test also runs it without. With the
// build tag raceall (make race) it skips nothing.
func Only(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("left to the run without the race detector: it is of one goroutine")
	}
}
