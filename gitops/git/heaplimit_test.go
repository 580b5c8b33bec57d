package git

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestCollector: a reader waits for a collection when the heap is above the memory limit, and
// never where there is no limit.
func TestCollector(t *testing.T) {
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	var c heapLimit
	before := collections()
	c.add(10 * measureEvery)
	if got := collections() - before; got != 0 {
		t.Errorf("%d collections without a limit", got)
	}
	debug.SetMemoryLimit(1)
	for range 10 {
		c.add(measureEvery / 2)
	}
	if got := collections() - before; got != 5 {
		t.Errorf("%d collections above the limit, want one per MiB", got)
	}
}
