package chart

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func eight(minutes ...int) []time.Time {
	var all []time.Time
	for _, m := range minutes {
		all = append(all, time.Date(2026, time.November, 23, 8, m, 0, 0, time.UTC))
	}
	return all
}

// TestTimelineShowsEverything asserts that every series has its area and name, every mark its
// line and text, and that a quantity has one colour in all bands.
func TestTimelineShowsEverything(t *testing.T) {
	times := eight(0, 10, 20, 40)
	timeline := Timeline{Title: "A & B", Times: times, Bands: []Stack{
		{Title: "<jobs>", Series: []Series{{"pending", []float64{0, 3, 1, 0}}}},
		{Title: "agents", Series: []Series{{"busy", []float64{0, 1, 2, 2}}, {"idle", []float64{1, 1, 0, 0}}},
			Marks: []Mark{{times[1], "7", "dispatch <7>", "the largest"}, {times[1], "8", "too close for a label", ""}, {times[3].Add(time.Minute), "9", "too late", "never"}}, MarksAre: "dispatched"},
		{Title: "others", Series: []Series{{"pending", []float64{2, 2, 2, 2}}}},
	}}
	picture := timeline.SVG()
	got := texts(t, picture)
	for _, want := range []string{"A & B", "<jobs>", "agents", "pending", "busy", "idle", "dispatched", "7", "the largest", "08:00", "08:30", "23 Nov 2026 UTC"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among the texts %q", want, got)
		}
	}
	for _, unwanted := range []string{"8", "9", "never"} {
		if slices.Contains(got, unwanted) {
			t.Errorf("%q has no room, and is drawn", unwanted)
		}
	}
	paths := map[string]int{}
	marks := 0
	for _, e := range elements(t, picture) {
		if e.name == "path" {
			paths[e.class]++
		}
		if e.name == "g" && e.class == "happened" {
			marks++
		}
	}
	if want := "map[s0:2 s1:1 s2:1]"; fmt.Sprint(paths) != want {
		t.Errorf("areas by class: %v, want %s", paths, want)
	}
	if marks != 2 || !strings.Contains(string(picture), "dispatch &lt;7&gt;") {
		t.Errorf("%d marks, want 2 with their texts\n%s", marks, picture)
	}
	if !bytes.Equal(picture, timeline.SVG()) {
		t.Error("drawn twice, it is not the same")
	}
}

// TestTimelineSteps asserts that values are valid until the next time, are stacked, and leave a
// gap if unknown.
func TestTimelineSteps(t *testing.T) {
	timeline := Timeline{Times: eight(0, 10, 20, 30, 40), Bands: []Stack{{Series: []Series{
		{"below", []float64{1, 2, 2, 0, 0}}, {"above", []float64{1, 1, math.NaN(), 3}},
	}}}}
	var got []string
	for _, e := range elements(t, timeline.SVG()) {
		if e.name == "path" {
			got = append(got, e.d)
		}
	}
	// From 52 to 1104 pixels are 40 minutes; 160 is zero, and 44 pixels are one.
	want := []string{
		"M52 116H315V72H841V160H1104V160H52Z",
		"M52 72H315V28H578V72H315V116H52Z" + "M841 28H1104V160H841Z",
	}
	if !slices.Equal(got, want) {
		t.Errorf("areas\n%q, want\n%q", got, want)
	}
}

// TestTimelineOfPoints asserts that values are drawn at their times only, on an axis from From to To, and that a
// quantity has the same colour if others have no value.
func TestTimelineOfPoints(t *testing.T) {
	timeline := Timeline{Points: true, From: eight(0)[0], To: eight(40)[0], Width: 552, BandHeight: 66, Times: eight(10, 40), Bands: []Stack{{Series: []Series{
		{"none", []float64{0, 0}}, {"below", []float64{1, 2}}, {"above", []float64{1, math.NaN()}},
	}}}}
	var got []string
	for _, e := range elements(t, timeline.SVG()) {
		if e.name == "path" {
			got = append(got, e.class+" "+e.d)
		}
	}
	// From 52 to 536 pixels are 40 minutes; 94 is zero, and 13.2 pixels are one.
	want := []string{"s1 M171.8 80.8H174.2V94H171.8ZM533.5 67.6H536V94H533.5Z", "s2 M171.8 67.6H174.2V80.8H171.8Z"}
	if !slices.Equal(got, want) {
		t.Errorf("bars\n%q, want\n%q", got, want)
	}
}

// TestTimelineWithFewTimes asserts that charts without times, or with one, are drawn.
func TestTimelineWithFewTimes(t *testing.T) {
	texts(t, Timeline{}.SVG())
	one := Stack{Title: "one", Series: []Series{{"a", []float64{1}}, {"none", nil}}, Marks: []Mark{{At: eight(0)[0]}}}
	texts(t, Timeline{Bands: []Stack{one}}.SVG())
	picture := Timeline{Times: eight(0), Bands: []Stack{one}}.SVG()
	texts(t, picture)
	if bytes.Contains(picture, []byte("NaN")) || bytes.Contains(picture, []byte("Inf")) {
		t.Errorf("what is drawn has no place:\n%s", picture)
	}
}

func TestTimeAxis(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from   time.Time
		length time.Duration
		width  float64
		want   string
	}{
		{eight(0)[0], 4 * time.Hour, 930, "08:00 08:30 09:00 09:30 10:00 10:30 11:00 11:30 12:00"},
		{eight(7)[0], 20 * time.Second, 300, "08:07:00 08:07:05 08:07:10 08:07:15 08:07:20"},
		{time.Date(2026, time.November, 23, 21, 0, 0, 0, time.UTC), 9 * time.Hour, 300, "21:00 24 Nov 03:00 06:00"},
		{time.Date(2026, time.October, 24, 0, 0, 0, 0, berlin), 72 * time.Hour, 300, "24 Oct 25 Oct 26 Oct"}, // a day of 25 hours
		{eight(0)[0], 200 * day, 300, "18 Jan 15 Mar 10 May"},
		{eight(0)[0], 0, 300, "08:00:00 08:00:01"},
		{eight(0)[0], math.MaxInt64, 300, "25 May 24 Nov 26 May"}, // 292 years, the longest duration
	} {
		var got []string
		axis := newTimeAxis(test.from, test.from.Add(test.length), test.width)
		for _, tick := range axis.ticks() {
			got = append(got, tick.label)
			if x := axis.at(tick.at); x < 0 || x > test.width {
				t.Errorf("%s stands at %v of %v", tick.label, x, test.width)
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s from %s: %q, want %q", test.length, test.from, text, test.want)
		}
	}
}
