package chart

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

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
		Link  string `json:"link,omitempty"`
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

var _ json.Marshaler = Timeline{}

// MarshalJSON implements [json.Marshaler]: what [Script] draws. uPlot wants times that
// rise: of those within one second it gets the last.
func (t Timeline) MarshalJSON() ([]byte, error) {
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
				values[i] = jsonValue(math.NaN())
				if k < len(s.Values) {
					values[i] = jsonValue(s.Values[k])
				}
			}
			band.Series = append(band.Series, jsonSeries{Name: s.Name, Values: values})
		}
		for _, m := range b.Marks {
			band.Marks = append(band.Marks, jsonMark{At: m.At.Unix(), Label: m.Label, Text: m.Text, Link: m.Link})
		}
		slices.SortStableFunc(band.Marks, func(a, b jsonMark) int { return int(a.At - b.At) })
		out.Bands = append(out.Bands, band)
	}
	return json.Marshal(out)
}
