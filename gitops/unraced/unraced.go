// Package unraced excludes long tests from runs with the race detector, which makes them five to ten
// times slower: tests of one goroutine, in which it finds nothing, and tests whose goroutines shorter
// tests run too. It is for tests only.
package unraced

import "testing"

// Only skips a test if the program has the race detector: make test also runs it without. With the
// build tag raceall (make race) it skips nothing.
func Only(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("left to the run without the race detector")
	}
}
