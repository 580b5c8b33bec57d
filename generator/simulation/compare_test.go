package simulation

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/plan"
)

// TestCompareReportsEachCaseAsItEnds asserts that the rows of a case are reported before
// the next case ends.
func TestCompareReportsEachCaseAsItEnds(t *testing.T) {
	var cases []Case
	for _, l := range Loads()[:3] {
		cases = append(cases, Case{Scenario: DefaultScenario(), Workload: l.Generate(1, 10*time.Minute)})
	}
	algorithms := Algorithms()[:2]
	var complete []int
	rows, err := Compare(t.Context(), cases, algorithms, 1, func(known []Row, runs int) error {
		complete = append(complete, len(known))
		if runs != len(complete) {
			t.Errorf("%d runs finished, want %d", runs, len(complete))
		}
		for i, r := range known {
			if want := cases[i/2].Workload.Name + " " + algorithms[i%2].Name; r.Workload+" "+r.Algorithm != want {
				t.Errorf("row %d is of %s %s, want %s", i, r.Workload, r.Algorithm, want)
			}
		}
		return nil
	})
	if diff := cmp.Diff([]int{0, 2, 2, 4, 4, 6}, complete); err != nil || len(rows) != 6 || diff != "" {
		t.Errorf("%d rows, %v (-want +got):\n%s", len(rows), err, diff)
	}
	full := errors.New("no space left on device")
	runs := 0
	if _, err := Compare(t.Context(), cases, algorithms, 2, func([]Row, int) error { runs++; return full }); err != full || runs != 1 {
		t.Errorf("error %v after %d runs, want that of the first", err, runs)
	}
}

// TestPolicyInSimulatedTime asserts that overrides, which begin with a commit, do not apply to the past,
// and that schedules apply to all algorithms at their times.
func TestPolicyInSimulatedTime(t *testing.T) {
	most := func(n int) *int { return &n }
	var workload Workload
	for _, l := range Loads() {
		if l.Name == DefaultLoad {
			workload = l.Generate(1, 5*time.Minute)
		}
	}
	plain, few, scheduled := DefaultScenario(), DefaultScenario(), DefaultScenario()
	overridden := plain
	overridden.Policy.Overrides = []plan.Override{{Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Max: most(1)}}
	few.Policy.Max = 12
	scheduled.Policy.Schedules = []plan.Schedule{{Name: "always", Days: [7]bool{true, true, true, true, true, true, true}, To: 24 * 60, Zone: time.UTC, Max: most(12)}}
	var cases []Case
	for _, w := range []Scenario{plain, overridden, few, scheduled} {
		cases = append(cases, Case{Scenario: w, Workload: workload})
	}
	algorithms := slices.DeleteFunc(Algorithms(), func(a Named) bool { return !slices.Contains(DefaultAlgorithms()[:3], a.Name) })
	rows, err := Compare(t.Context(), cases, algorithms, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(c int) []Row { return rows[c*len(algorithms):][:len(algorithms)] }
	if diff := cmp.Diff(of(0), of(1)); diff != "" {
		t.Errorf("with an override (-without +with):\n%s", diff)
	}
	if diff := cmp.Diff(of(2), of(3)); diff != "" {
		t.Errorf("with a schedule (-policy +schedule):\n%s", diff)
	}
	if cmp.Equal(of(0), of(2)) {
		t.Error("max changes nothing")
	}
}
