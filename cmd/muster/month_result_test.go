package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"muster/generator/simulation"
)

// TestMonth simulates a fleet with a fault in every hour, against muster in a separate process.
// It asserts that every job is served, and that no agent ordered for jobs is unused. With
// -month-days, and without the race detector, which needs memory of its own, it also asserts the
// memory. TestMetricsAreTheLedgers compares the metrics with the ledger.
func TestMonth(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system has no /proc to read memory from")
	}
	t.Parallel()
	queues, jobs := 3, 6
	begin, length := simulation.Start().Add(13*time.Hour), time.Hour // of a Monday
	if *monthDays > 0 {
		queues, jobs = 20, 60
		begin, length = simulation.Start(), time.Duration(*monthDays*24*float64(time.Hour))
	}
	p := newProduction(t, queues, begin, length, jobs)
	var memory []float64 // of each day, the most
	most := 0.0
	p.every(5*time.Minute, func() {
		p.scrape() // as Prometheus would
		most = max(most, p.resident("RssAnon"))
		if p.since()%(24*time.Hour) == 0 {
			t.Logf("day %d: %+v, %.1f MiB", len(memory)+1, p.buildkite.Stats(), most)
			memory = append(memory, most)
			most = 0
		}
	})
	p.play()
	if len(p.unused) > 0 {
		t.Errorf("%d agents were ordered for jobs and had none: %v", len(p.unused), p.unused)
	}
	memory = append(memory, most)
	took := p.end()
	t.Logf("%s: %+v, at most %d agents at once, troubles %v", p.since(), p.buildkite.Stats(), p.most, p.problems)
	t.Logf("muster: at most %.1f MiB, processor %s, %.2f %% of a core", slices.Max(memory), took, 100*took.Seconds()/p.since().Seconds())
	if *monthDays > 0 && !raced {
		p.judge(memory)
	}
}

// judge asserts that memory is flat and, with every page of the program, under 64 MB. The
// program's own pages are excluded from the measurement, because they are those of the test.
func (p *production) judge(memory []float64) {
	p.t.Helper()
	binary := shipped(p.t)
	info, err := os.Stat(binary)
	check(p.t, err)
	program, bound := float64(info.Size())/(1<<20), 64e6/(1<<20)
	p.t.Logf("with all of the program: %.1f MiB, of at most %.1f", slices.Max(memory)+program, bound)
	if slices.Max(memory)+program > bound {
		p.t.Error("muster needs too much memory")
	}
	const week = 7
	if len(memory) < 3*week {
		return
	}
	first, last := slices.Max(memory[week:2*week]), slices.Max(memory[len(memory)-week:])
	if last > first*1.1 {
		p.t.Errorf("memory grows: %.1f MiB in the second week, %.1f in the last", first, last)
	}
}

// scrape returns the metrics as text.
func (p *production) scrape() string {
	p.t.Helper()
	if p.address == "" {
		text, err := os.ReadFile(p.log.Name())
		check(p.t, err)
		p.address = listenAddress(string(text))
	}
	return getText(p.t, "http://"+p.address+"/metrics")
}
