package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// DrawDecisions returns the decisions on a random fleet, for tests that print them.
func DrawDecisions(t *rapid.T) []Decision {
	d := drawSmall(t)
	d.mostJobs = rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "Jobs in a commit")
	return d.decide()
}

// CaseDecisions returns the decisions of each case, by its file. mostJobs is the maximum number of
// Jobs in one commit; zero means any number.
func CaseDecisions(t *testing.T, mostJobs int) map[string][]Decision {
	t.Helper()
	all := map[string][]Decision{}
	for _, file := range caseFiles(t) {
		w, _ := readCase(t, file)
		overlays, snapshot, registrations := w.build(t)
		for _, o := range Observe(overlays, snapshot, registrations) {
			for i := range o.Overlays {
				o.Overlays[i].MaxJobs = mostJobs
			}
			all[file] = append(all[file], Decide("c0ffee", overlays, o)...)
		}
	}
	return all
}

// UpdateCases reports whether the flag -update is set.
func UpdateCases() bool { return *update }
