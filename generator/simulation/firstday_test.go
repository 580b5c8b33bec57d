package simulation

import (
	"cmp"
	"math"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// firstHour returns the builds of the first hour of a load, from eight in the morning if it begins
// then.
func firstHour(t *testing.T, load string, seed uint64) Workload {
	t.Helper()
	w := loadNamed(t, load).Generate(seed, 24*time.Hour)
	var from time.Duration
	if load == "merge-queue" {
		from = 8 * time.Hour
	}
	var hour []Arrival
	for _, a := range w.Arrivals {
		if a.At -= from; a.At >= 0 && a.At < time.Hour {
			hour = append(hour, a)
		}
	}
	w.Arrivals, w.Length, w.Start = hour, time.Hour, Start().Add(from)
	return w
}

// playFirstHour plays that hour, and returns how many agents were ordered.
func playFirstHour(t *testing.T, load string, seed uint64, change func(*Scenario)) (m Measures, ordered int) {
	t.Helper()
	w := DefaultScenario()
	w.Seed = seed
	change(&w)
	m = Play(w, firstHour(t, load, seed), &Muster{}, func(o Operation) {
		for _, d := range o.Order {
			ordered += d.Agents
		}
	})
	return m, ordered
}

// TestFirstHour compares the first hour of a new overlay with that of one whose agents have
// registered before. On a healthy fleet 95 % of the jobs wait at most one start-up longer, and no
// agent is unused. On a fleet where no agent ever registers, few agents are ordered.
func TestFirstHour(t *testing.T) {
	unraced.Only(t)
	for _, load := range []string{"steady", "merge-queue"} {
		for name, startup := range map[string][2]time.Duration{
			"25-70 s":  {25 * time.Second, 70 * time.Second},
			"60-240 s": {time.Minute, 4 * time.Minute},
			"5-8 min":  {5 * time.Minute, 8 * time.Minute},
		} {
			t.Run(load+"/"+name, func(t *testing.T) {
				t.Parallel()
				for seed := uint64(1); seed <= 3; seed++ {
					before, _ := playFirstHour(t, load, seed, func(w *Scenario) { w.Startup = startup })
					m, ordered := playFirstHour(t, load, seed, func(w *Scenario) { w.Startup, w.FirstDay = startup, true })
					t.Logf("mean %s, p95 %s; before %s, %s", m.Wait.Mean, m.Wait.P95, before.Wait.Mean, before.Wait.P95)
					if m.Unserved > 0 || m.Unused > 0 || ordered != m.Jobs {
						t.Errorf("%d agents for %d jobs, %d unused, %d jobs never served", ordered, m.Jobs, m.Unused, m.Unserved)
					}
					if m.Wait.Mean > before.Wait.Mean+startup[1] || m.Wait.P95 > before.Wait.P95+startup[1] {
						t.Errorf("waits are %+v, and %+v if agents have registered before", m.Wait, before.Wait)
					}
				}
			})
		}
		t.Run(load+"/broken", func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 3; seed++ {
				m, ordered := playFirstHour(t, load, seed, func(w *Scenario) { w.Faults.NoShow, w.FirstDay = 1, true })
				if m.Agents > 0 || ordered > 3*plan.FirstAgents {
					t.Errorf("%d agents are ordered, of which %d register", ordered, m.Agents)
				}
			}
		})
	}
}

// fromBusiest returns a day of a workload that begins with its busiest five minutes, when a new fleet waits longest for
// its first agents.
func fromBusiest(w Workload) Workload {
	jobsAt := map[time.Duration]int{}
	for _, a := range w.Arrivals {
		jobsAt[a.At.Truncate(5*time.Minute)] += Workload{Arrivals: []Arrival{a}}.Jobs()
	}
	var from time.Duration
	for at, jobs := range jobsAt {
		if jobs > jobsAt[from] || jobs == jobsAt[from] && at < from {
			from = at
		}
	}
	var day []Arrival
	for _, a := range w.Arrivals {
		if a.At -= from; a.At >= 0 && a.At < 24*time.Hour {
			day = append(day, a)
		}
	}
	w.Arrivals, w.Length, w.Start = day, min(24*time.Hour, w.Length-from), cmp.Or(w.Start, Start()).Add(from)
	return w
}

// TestFirstDay asserts that on the first day of a healthy fleet, which begins when it is busiest, jobs wait on
// average at most 1.1 times as long as if agents had registered before, with both policies that init writes.
func TestFirstDay(t *testing.T) {
	unraced.Only(t)
	loads := []Load{loadNamed(t, "merge-queue"), loadNamed(t, "fan"), loadNamed(t, "cron")}
	for _, seed := range []uint64{1, 2, 3, 4, 6, 14} { // two of each kind of start-up
		loads = append(loads, Drawn(seed))
	}
	for _, name := range []string{"muster", "muster-reuse-auto"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := 0.0
			for _, l := range loads {
				mean := func(first bool) time.Duration {
					a := algorithmNamed(t, name)
					w := a.In(l.Scenario(DefaultScenario()))
					w.FirstDay = first
					return Play(w, fromBusiest(l.Generate(1, 0)), a.New(), nil).Wait.Mean
				}
				before, m := mean(false), mean(true)
				t.Logf("%s: mean wait %s, %s if agents have registered before", l.Name, m, before)
				logs += math.Log(m.Seconds() / before.Seconds())
			}
			if ratio := math.Exp(logs / float64(len(loads))); ratio > 1.1 {
				t.Errorf("jobs wait %.2f times as long as if agents had registered before", ratio)
			}
		})
	}
}
