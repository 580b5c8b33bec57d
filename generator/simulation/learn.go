package simulation

import (
	"time"

	"muster/generator/forecast"
)

// learn is what muster knows of a load when it has seen it for some days, played with other
// seeds: on the workdays before the run, or in the weeks before it where the run is
// longer than a day. Between these days nobody looks, so that nothing is learned of days
// that the load does not have. The run's own seed is not among them.
func (w World) learn(workload Workload, start time.Time) forecast.Profile {
	var learned forecast.Profile
	if w.Learn == 0 || workload.Again == nil || !w.Policy.Warm.On() {
		return learned
	}
	for i, day := range before(start, workload.Length, w.Learn) {
		seed := w.Seed + uint64(i+1)*lessonSeeds
		lesson := w
		lesson.Learn, lesson.Seed = 0, seed
		r := newRun(lesson, &Muster{}, day)
		r.overlay.State.Warm = learned
		r.arrive(workload.Again(seed))
		r.nextSync()
		end := day.Add(workload.Length)
		for at := day; at.Before(end); at = r.next(at) {
			r.buildkite.AdvanceTo(at)
			r.tick(at)
		}
		r.buildkite.AdvanceTo(end)
		r.tick(end)
		learned = r.remembered.Warm
	}
	return learned
}

// lessonSeeds lies between the seeds of two days.
const lessonSeeds = 1_000_003

// before are the days on which a load is learned, the earliest first.
func before(start time.Time, length time.Duration, days int) []time.Time {
	const day = 24 * time.Hour
	var all []time.Time
	if length > day {
		for weeks := (days + int(length/day) - 1) / int(length/day); weeks > 0; weeks-- {
			all = append(all, start.AddDate(0, 0, -7*weeks))
		}
		return all
	}
	weekend := func(t time.Time) bool { return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday }
	for at := start; len(all) < days; {
		if at = at.AddDate(0, 0, -1); weekend(at) == weekend(start) {
			all = append([]time.Time{at}, all...)
		}
	}
	return all
}
