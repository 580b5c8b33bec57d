package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"muster/cmd/invocation"
)

// mostMemory is what the program and the processes that build for it may need
// together, in bytes, counted in two ways. The first is objects of the heap here, and
// of each other process all that it may have: it knows nothing of the runtime's own.
// The second is what the kernel counts as resident where there is a /proc (VmHWM),
// less the pages of the program's file: some 20 MiB of what is shipped, which all of
// its processes share, and 35 MiB of this test.
const mostMemory = 128 << 20

// watchMemory watches how much memory is taken until the function that it returns is
// called: objects of the heap; what is resident of this process; and of this one and
// those that build, which is the most of each, be it at the same time or not. The last two are zero where there is no /proc.
func watchMemory() (stop func() (heap, own, all uint64)) {
	debug.FreeOSMemory()                                      // what was written for the test
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // VmHWM begins anew
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	var heap, building uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			metrics.Read(sample)
			heap = max(heap, sample[0].Value.Uint64())
			if n%10 == 0 {
				var now uint64
				for _, pid := range builders() {
					now += resident(pid)
				}
				building = max(building, now)
			}
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() (uint64, uint64, uint64) {
		close(done)
		<-ended
		own := resident("self")
		return heap, own, own + building
	}
}

// builders are the numbers of the processes that build.
func builders() []string {
	var pids []string
	for _, pid := range childrenOf("self") {
		if args, _ := os.ReadFile("/proc/" + pid + "/cmdline"); bytes.Contains(args, []byte(invocation.BuildArgument)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// resident is the most that was resident of a process, in bytes, less the pages of
// the program's file, which the kernel has once for all of its processes; zero where
// it is not known.
func resident(pid string) uint64 {
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	kib := map[string]uint64{}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			kib[fields[0]], _ = strconv.ParseUint(fields[1], 10, 64)
		}
	}
	return max(kib["VmHWM:"], kib["RssFile:"])<<10 - kib["RssFile:"]<<10
}
