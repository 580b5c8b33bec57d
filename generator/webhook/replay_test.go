package webhook

import (
	"encoding/binary"
	"testing"
	"time"
)

// TestSeenDoesNotGrow: what is remembered is bounded, however many events come.
func TestSeenDoesNotGrow(t *testing.T) {
	var s seen
	now := time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)
	for i := range uint64(100_000) {
		sum := binary.BigEndian.AppendUint64(make([]byte, 0, 32), i)
		if !s.add(append(sum, make([]byte, 24)...), now) {
			t.Fatal(i)
		}
		if n := len(s.young) + len(s.old); n > 2*maxSeen {
			t.Fatalf("%d are remembered", n)
		}
	}
}
