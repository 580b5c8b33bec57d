package main

import (
	"syscall"
	"testing"
)

// TestHangupTicksNow: SIGHUP reaches the program as it is, and means that it ticks
// now. Its interval is a day: what a job that came after the first tick is ordered by
// is the signal, or the test does not end.
func TestHangupTicksNow(t *testing.T) {
	t.Parallel()
	k := thisClock(t)
	k.addBuild(3)
	k.start(nil)
	k.says("agents=3")
	k.addBuild(5)
	k.signal(syscall.SIGHUP)
	k.says("agents=5")
	k.stop()
}
