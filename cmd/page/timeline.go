package page

import (
	"math"
	"strconv"
	"time"

	"muster/cmd/chart"
)

// timeline returns the timeline of an overlay since a time; false if the overlay is unknown.
func (h *history) timeline(name string, since time.Time) (chart.Timeline, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tracks[name]
	line := chart.Timeline{Title: name}
	if t == nil {
		return line, false
	}
	var values [quantities][]float64
	add := func(at int64, p point) {
		line.Times = append(line.Times, time.Unix(at, 0).UTC())
		for i, v := range p.values {
			f := float64(v)
			if v == unknown {
				f = math.NaN()
			}
			values[i] = append(values[i], f)
		}
	}
	for i, p := range t.points {
		if i+1 < len(t.points) && t.points[i+1].at <= since.Unix() {
			continue
		}
		add(max(p.at, since.Unix()), p)
	}
	if n := len(t.points); n > 0 && t.points[n-1].until > t.points[n-1].at {
		add(t.points[n-1].until, t.points[n-1])
	}
	var marks []chart.Mark
	for _, m := range t.marks {
		if !m.at.Before(since) {
			marks = append(marks, chart.Mark{At: m.at.UTC(), Label: strconv.Itoa(m.agents), Text: m.at.UTC().Format(time.TimeOnly) + " " + m.text})
		}
	}
	line.Bands = bands(values[:], marks)
	return line, true
}

// bands returns a band of pending jobs and one of agents, from the values of each quantity.
func bands(values [][]float64, marks []chart.Mark) []chart.Stack {
	series := func(i int, name string) chart.Series { return chart.Series{Name: name, Values: values[i]} }
	return []chart.Stack{
		{Title: "Jobs without an agent", Series: []chart.Series{series(pending, "pending")}},
		{
			Title: "Agents", Series: []chart.Series{series(busy, "busy"), series(idle, "idle"), series(inFlight, "in flight")},
			Marks: marks, MarksAre: "dispatched",
		},
	}
}
