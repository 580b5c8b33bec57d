package generator_test

import (
	"slices"
	"testing"
)

// TestTwins: worlds in which every fifth index has two pods. Nothing is ordered or counted
// for the second agent, beyond what the books of every world allow.
func TestTwins(t *testing.T) {
	came, cluster := 0, slices.Index(themes, "cluster")
	for i := range 10 {
		s := drawShape(uint64(cluster + i*len(themes)))
		s.rates.twin = 0.2
		w := startScenario(t, s)
		w.play(s.length, nil)
		w.conclude()
		came += w.seen[secondOfIndex]
	}
	if came < 20 {
		t.Errorf("%d agents were the second of their index, want some dozens", came)
	}
}
