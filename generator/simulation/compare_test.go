package simulation

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
