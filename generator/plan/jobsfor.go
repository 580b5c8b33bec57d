package plan

import (
	"cmp"
	"slices"
)

// JobsFor returns pending jobs that agents of the named overlay could take, the longest
// pending first, so many at most; those for which skip is true are left out. Which agent
// gets which job is Buildkite's to say: it is for people who look at a job.
func JobsFor(overlays []Overlay, s Snapshot, overlay string, most int, skip func(job string) bool) []Job {
	var jobs []Job
	for _, q := range newReaders(overlays, s) {
		i := slices.IndexFunc(q.overlays, func(o Overlay) bool { return o.Name == overlay })
		if i < 0 {
			continue
		}
		for _, j := range s.Jobs {
			if j.State == JobPending && !skip(j.ID) && q.reaches(i, &class{cluster: j.Cluster}) && Satisfies(q.tags[i], j.Rules) {
				jobs = append(jobs, j)
			}
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return jobs[:min(most, len(jobs))]
}
