package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops/branch"

	"github.com/google/go-cmp/cmp"
)

// TestMonth simulates a fleet with a fault in every hour, against muster in a separate process.
// It asserts that every job is served, that no agent ordered for jobs is unused, and that the
// metrics agree with the ledger. With -month-days, and without the race detector, which needs
// memory of its own, it also asserts the memory.
func TestMonth(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system has no /proc to read memory from")
	}
	t.Parallel()
	queues, jobs := 3, 6
	begin, length := simulation.Start().Add(13*time.Hour), 2*time.Hour // of a Monday
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
	want, commits := p.ledger()
	if diff := cmp.Diff(want, p.metrics()); diff != "" {
		t.Errorf("metrics (+) are not what the ledger says (-):\n%s", diff)
	}
	if len(p.unused) > 0 {
		t.Errorf("%d agents were ordered for jobs and had none: %v", len(p.unused), p.unused)
	}
	memory = append(memory, most)
	took := p.end()
	t.Logf("%s: %+v, at most %d agents at once, %d commits, troubles %v", p.since(), p.buildkite.Stats(), p.most, commits, p.problems)
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
	if err != nil {
		p.t.Fatal(err)
	}
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

// sample matches a line of the metrics.
var sample = regexp.MustCompile(`(?m)^(muster_[a-z_]+)\{(.*)\} (\S+)$`)

// sums are the totals of an overlay in its commits and in its metrics.
type sums struct {
	// Commits of each kind.
	Dispatching, Retiring, Repairing float64
	// Dispatches for jobs and for the warm pool, and all their agents.
	Dispatched, Warm, Agents float64
	// Dispatches that were retired, all their agents, and those that never registered.
	Retired, RetiredAgents, Never float64
	// Dispatches that are in git.
	Live float64
}

// field returns the field that a metric with its labels adds to; nil if there is none.
func (s *sums) field(metric string) *float64 {
	return map[string]*float64{
		"muster_commits_total dispatch": &s.Dispatching, "muster_commits_total retire": &s.Retiring, "muster_commits_total repair": &s.Repairing,
		"muster_dispatches_total demand": &s.Dispatched, "muster_dispatches_total warm-pool": &s.Warm,
		"muster_dispatched_agents_total demand": &s.Agents, "muster_dispatched_agents_total warm-pool": &s.Agents,
		"muster_retired_dispatches_total ": &s.Retired, "muster_retired_agents_total ": &s.RetiredAgents,
		"muster_never_registered_agents_total ": &s.Never, "muster_live_dispatches ": &s.Live,
	}[metric]
}

// metrics returns the totals in the metrics, by overlay.
func (p *production) metrics() map[string]sums {
	p.t.Helper()
	all := map[string]sums{}
	for _, m := range sample.FindAllStringSubmatch(p.scrape(), -1) {
		of := map[string]string{}
		for _, l := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			of[l[1]] = l[2]
		}
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			p.t.Fatal(err)
		}
		s := all[of["overlay"]]
		if field := s.field(m[1] + " " + of["act"] + of["purpose"]); field != nil {
			*field += n
			all[of["overlay"]] = s
		}
	}
	return all
}

// scrape returns the metrics as text.
func (p *production) scrape() string {
	p.t.Helper()
	if p.address == "" {
		text, err := os.ReadFile(p.log.Name())
		if err != nil {
			p.t.Fatal(err)
		}
		p.address = listenAddress(string(text))
	}
	return getText(p.t, "http://"+p.address+"/metrics")
}

// ledger returns the same totals from the commits, and the number of commits.
func (p *production) ledger() (all map[string]sums, commits int) {
	p.t.Helper()
	head, err := p.syncer.Head(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	all = map[string]sums{"default": {}} // it never orders
	for _, queue := range p.queues {
		all[queue] = sums{}
	}
	for r, err := range ledger.Read(p.syncer.Commits(p.t.Context(), head.Commit, branch.Limit{})) {
		if err != nil || r.Damage != nil {
			p.t.Fatal(err, r.Damage)
		}
		if r.Entry == nil {
			continue
		}
		commits++
		overlay := strings.TrimPrefix(r.Entry.Overlay, "overlays/")
		all[overlay] = all[overlay].and(*r.Entry)
	}
	return all, commits
}

// and adds a commit.
func (s sums) and(e ledger.Entry) sums {
	n, agents := float64(len(e.Dispatches)), float64(e.Agents)
	switch e.Kind {
	case ledger.Repair:
		s.Repairing++
	case ledger.Dispatch:
		s.Dispatching++
		for _, id := range e.Dispatches {
			if strings.Contains(id, "-warm-") {
				s.Warm++
			} else {
				s.Dispatched++
			}
		}
		s.Agents += agents
		s.Live += n
	case ledger.Retire:
		s.Retiring++
		s.Retired += n
		s.RetiredAgents += agents
		s.Live -= n
		s.Never += agents
		for _, x := range e.Observation.Overlays {
			for _, id := range e.Dispatches {
				s.Never -= float64(x.Dispatches[id].Registered.Below(plan.MaxIndex))
			}
		}
	}
	return s
}
