package plan

import (
	"slices"
	"time"

	"pgregory.net/rapid"
)

// drawMoment draws what is known of when an upcoming job can run, and what overlays
// remember of its stage.
func (d drawn) drawMoment(t *rapid.T, j *Job) {
	stage := rapid.SampledFrom([]string{"", "", "one", "two", "three"}).Draw(t, "stage")
	if j.State != JobUpcoming || stage == "" {
		return
	}
	j.Stage = stage
	for _, other := range d.snapshot.Jobs {
		if other.Stage == stage {
			j.Due = other.Due
			return
		}
	}
	if seconds := rapid.SampledFrom([]int{0, -30, 75, 76, 600}).Draw(t, "due"); seconds != 0 {
		j.Due = d.snapshot.At.Add(time.Duration(seconds) * time.Second)
	}
	for i := range d.overlays {
		if o := &d.overlays[i]; o.Policy.Lookahead > 0 && rapid.IntRange(0, 2).Draw(t, "remembers") == 0 {
			o.State.AheadOf = append(slices.Clip(o.State.AheadOf), AheadOf{
				Stage: nameOf(*j), Agents: rapid.IntRange(1, 3).Draw(t, "agents ahead"),
				At: d.snapshot.At.Add(-time.Duration(rapid.SampledFrom([]int{1, 4, 5, 20}).Draw(t, "minutes ahead")) * time.Minute),
			})
		}
	}
}
