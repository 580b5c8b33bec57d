package git

import (
	"math"
	"runtime"
	"runtime/metrics"
)

// collector bounds the garbage of reading many files. The garbage collector runs concurrently
// with the program: on a busy machine its thread may wait for 100 ms, while reading makes
// 100 MB of garbage. So a reader waits for a collection whenever the heap is above the memory
// limit of the process (GOMEMLIMIT). The zero value is ready.
type collector struct {
	read    int // bytes since the heap was measured
	samples []metrics.Sample
}

// measureEvery is how many bytes are read between two measurements.
const measureEvery = 1 << 20

// add notes that n bytes were read.
func (c *collector) add(n int) {
	if c.read += n; c.read < measureEvery {
		return
	}
	c.read = 0
	if c.samples == nil {
		c.samples = []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	}
	metrics.Read(c.samples)
	if limit := c.samples[0].Value.Uint64(); limit < math.MaxInt64 && c.samples[1].Value.Uint64() > limit {
		runtime.GC()
	}
}
