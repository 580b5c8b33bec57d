package git

import (
	"math"
	"runtime"
	"runtime/metrics"
)

// heapLimit bounds the garbage of reading many files. The garbage collector runs concurrently
// with the program: on a busy machine its thread may wait for 100 ms, while reading makes
// 100 MB of garbage. So a reader waits for a collection whenever the heap is above the memory
// limit of the process (GOMEMLIMIT). The zero value is ready.
type heapLimit struct {
	read    int // bytes since the heap was measured
	samples []metrics.Sample
}

// measureEvery is how many bytes are read between two measurements.
const measureEvery = 1 << 20

// add notes that n bytes were read.
func (l *heapLimit) add(n int) {
	if l.read += n; l.read < measureEvery {
		return
	}
	l.read = 0
	if l.samples == nil {
		l.samples = []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	}
	metrics.Read(l.samples)
	if limit := l.samples[0].Value.Uint64(); limit < math.MaxInt64 && l.samples[1].Value.Uint64() > limit {
		runtime.GC()
	}
}
