package page

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"muster/cmd/muster/chart"
)

// timeline is that of one overlay; false: nothing is known of such a one.
func (h *history) timeline(name string) (chart.Timeline, bool) {
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
	for _, p := range t.points {
		add(p.at, p)
	}
	if n := len(t.points); n > 0 && t.points[n-1].until > t.points[n-1].at {
		add(t.points[n-1].until, t.points[n-1])
	}
	series := func(i int, name string) chart.Series { return chart.Series{Name: name, Values: values[i]} }
	agents := chart.Stack{Title: "Agents", Series: []chart.Series{series(busy, "busy"), series(idle, "idle"), series(inFlight, "in flight")}, MarksAre: "dispatched"}
	for _, m := range t.marks {
		agents.Marks = append(agents.Marks, chart.Mark{At: m.at.UTC(), Label: strconv.Itoa(m.agents), Text: m.at.UTC().Format(time.TimeOnly) + " " + m.text})
	}
	line.Bands = []chart.Stack{{Title: "Jobs without an agent", Series: []chart.Series{series(pending, "pending")}}, agents}
	return line, true
}

// The JSON of a timeline is what the page's script draws. A value that is not known
// is null.
type (
	jsonTimeline struct {
		Title string     `json:"title"`
		Times []int64    `json:"times"`
		Bands []jsonBand `json:"bands"`
	}
	jsonBand struct {
		Title  string       `json:"title"`
		Series []jsonSeries `json:"series"`
		Marks  []jsonMark   `json:"marks"`
	}
	jsonSeries struct {
		Name   string      `json:"name"`
		Values []jsonValue `json:"values"`
	}
	jsonMark struct {
		At    int64  `json:"at"`
		Label string `json:"label"`
		Text  string `json:"text"`
	}
	jsonValue float64
)

// MarshalJSON implements [json.Marshaler].
func (v jsonValue) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(v), 'f', -1, 64), nil
}

var _ json.Marshaler = jsonValue(0)

// marshalled is a timeline for the script. uPlot wants times that rise: of those
// within one second it gets the last.
func marshalled(t chart.Timeline) jsonTimeline {
	out := jsonTimeline{Title: t.Title, Times: []int64{}}
	var kept []int
	for i, at := range t.Times {
		if n := len(out.Times); n > 0 && out.Times[n-1] >= at.Unix() {
			kept[n-1] = i
			continue
		}
		out.Times = append(out.Times, at.Unix())
		kept = append(kept, i)
	}
	for _, b := range t.Bands {
		band := jsonBand{Title: b.Title, Marks: []jsonMark{}}
		for _, s := range b.Series {
			values := make([]jsonValue, len(kept))
			for i, k := range kept {
				values[i] = jsonValue(s.Values[k])
			}
			band.Series = append(band.Series, jsonSeries{Name: s.Name, Values: values})
		}
		for _, m := range b.Marks {
			band.Marks = append(band.Marks, jsonMark{At: m.At.Unix(), Label: m.Label, Text: m.Text})
		}
		slices.SortStableFunc(band.Marks, func(a, b jsonMark) int { return int(a.At - b.At) })
		out.Bands = append(out.Bands, band)
	}
	return out
}
