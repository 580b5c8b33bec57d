package steptime

import (
	"cmp"
	"slices"
	"time"
)

const (
	// maxAdded is the number of kinds of jobs, by their rules, that are kept of each step.
	maxAdded = 4
	// minBuilds is the number of builds from which the jobs of another one are expected.
	minBuilds = 5
	// quantile is that of the numbers of jobs of earlier builds that is expected. With a low number a job waits, with a
	// high one an agent gets none.
	quantile = 0.25
	// longestWait is how long a first step may wait for an agent while its jobs are expected. One that waits longer may
	// wait for hours: its queue is paused, or its overlay is at max.
	longestWait = 3 * time.Minute
)

// added is how many jobs with equal rules a step adds to builds that start with it. Builds without such jobs are left
// out.
type added struct {
	rules uint64
	jobs  history
}

// upload returns the last attempt of the first step of a build, and the jobs of other steps; nil if the first step is
// unknown.
func (b Build) upload() (u *Job, others []Job) {
	if len(b.Jobs) == 0 || b.Jobs[0].Step == 0 {
		return nil, nil
	}
	n := 1
	for n < len(b.Jobs) && b.Jobs[n].Step == b.Jobs[0].Step {
		n++
	}
	return &b.Jobs[n-1], b.Jobs[n:]
}

// Uploading reports whether a build has one step, with one unfinished job that has an agent or needs one: it may add
// jobs to the build, as "buildkite-agent pipeline upload" does.
func (b Build) Uploading() bool {
	u, others := b.upload()
	if u == nil || len(others) > 0 || u.Rules == 0 || u.Over || u.Runnable.IsZero() {
		return false
	}
	return !slices.ContainsFunc(b.Jobs[:len(b.Jobs)-1], func(j Job) bool { return !j.Over })
}

// learnAdded counts the jobs that were added to a build while its first step ran, and that could run at once: zero if the
// step ended without adding jobs, as most that fail or are canceled. The order of builds has no effect.
func (t *Times) learnAdded(b Build) {
	u, others := b.upload()
	if u == nil || !u.Over {
		return
	}
	ended := cmp.Or(u.Finished, u.Created)
	s := t.step(u.Step)
	s.newest = max(s.newest, seconds(ended))
	s.builds.add(uint32(b.ID), ended, 0)
	counts := make([]uint32, len(s.adds), maxAdded)
	for i := range others {
		j := &others[i]
		if j.Rules == 0 || !addedBy(u, j) {
			continue
		}
		k := slices.IndexFunc(s.adds, func(a added) bool { return a.rules == j.Rules })
		if k < 0 {
			if k = len(s.adds); k == maxAdded {
				continue
			}
			s.adds, counts = append(s.adds, added{rules: j.Rules}), append(counts, 0)
		}
		counts[k]++
	}
	for k, n := range counts {
		if n > 0 {
			s.adds[k].jobs.add(uint32(b.ID), ended, n)
		}
	}
	s.adds = slices.DeleteFunc(s.adds, func(a added) bool { return len(a.numbers(s.builds)) == 0 })
}

// addedBy reports whether a job was created while another one ran, and could run at once.
func addedBy(u, j *Job) bool {
	return j.Created.After(u.Runnable.Add(instant)) && !j.Created.After(u.Finished.Add(instant)) &&
		!j.Runnable.IsZero() && j.Runnable.Sub(j.Created) <= instant
}

// numbers returns the numbers of jobs of the builds, from the first one that has some.
func (a *added) numbers(builds history) (all []uint32) {
	for _, b := range builds.samples {
		i := slices.IndexFunc(a.jobs.samples, func(x sample) bool { return x.build == b.build })
		switch {
		case i >= 0:
			all = append(all, a.jobs.samples[i].value)
		case len(all) > 0:
			all = append(all, 0)
		}
	}
	return all
}

// expected returns the number of jobs that is predicted for the next build: a low quantile of those of the last builds,
// from the first one that has some; zero with fewer than minBuilds of them.
func (a *added) expected(builds history) int {
	numbers := a.numbers(builds)
	if len(numbers) < minBuilds {
		return 0
	}
	slices.Sort(numbers)
	return int(numbers[int(quantile*float64(len(numbers)))])
}

// expect predicts the jobs that the first step of a build will add when it ends, and returns when their agents are in
// use, if the step ends at from since the creation of the build, as in other builds.
func (t *Times) expect(b Build, now time.Time, from time.Duration) (all []Prediction, uses []use) {
	if !b.Uploading() {
		return nil, nil
	}
	u, _ := b.upload()
	s := t.steps[u.Step]
	if s == nil {
		return nil, nil
	}
	elapsed := time.Duration(0)
	switch {
	case !u.Started.IsZero():
		elapsed = now.Sub(u.Started)
	case now.Sub(u.Runnable) > longestWait:
		return nil, nil
	}
	next := Prediction{Job: -1, Due: now.Add(s.length.left(elapsed)), Stage: name(b.ID, u.Step)}
	for _, a := range s.adds {
		next.Rules = a.rules
		for range a.expected(s.builds) {
			uses = append(uses, use{rules: a.rules, from: from, to: from + 1, prediction: len(all)})
			all = append(all, next)
		}
	}
	return all, uses
}
