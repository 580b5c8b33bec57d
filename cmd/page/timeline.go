package page

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"muster/cmd/chart"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// series are the figures of an overlay in a period, for charts. A value is valid until the next time; NaN
// is unknown.
type series struct {
	name     string
	from, to time.Time
	times    []time.Time
	values   [quantities + 1][]float64
	wait     []float64 // of the oldest pending job, in seconds
	marks    []mark
}

// shortestAxis is the minimum length of the axis of time.
const shortestAxis = 5 * time.Minute

// first returns the time of the first sample or order of some overlays; zero without one.
func (h *history) first(names ...string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []time.Time
	for _, name := range names {
		t := h.tracks[name]
		if t == nil {
			continue
		}
		if i := slices.IndexFunc(t.points, func(p point) bool { return p.figures != unknownFigures() }); i >= 0 {
			all = append(all, time.Unix(t.points[i].at, 0))
		}
		if len(t.marks) > 0 {
			all = append(all, t.marks[0].at)
		}
	}
	if len(all) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(all, time.Time.Compare)
}

// axisStart returns the beginning of the axis of a period: the first sample if it is later than that of
// the period.
func axisStart(first time.Time, hours int, now time.Time) time.Time {
	from := now.Add(-time.Duration(hours) * time.Hour)
	if first.After(from) {
		from = first
	}
	if least := now.Add(-shortestAxis); from.After(least) {
		return least
	}
	return from
}

// series returns the figures of an overlay from a time until now; false if the overlay is unknown.
func (h *history) series(name string, from, now time.Time) (series, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tracks[name]
	s := series{name: name, from: from, to: now}
	if t == nil {
		return s, false
	}
	for i, p := range t.points {
		end := now.Unix() // of the figures of the point
		if i+1 < len(t.points) {
			end = t.points[i+1].at
		} else if h.gap > 0 && end-p.until > int64(h.gap/time.Second) {
			end = p.until
		}
		if end <= from.Unix() && i+1 < len(t.points) {
			continue
		}
		start := max(p.at, from.Unix())
		s.add(start, p)
		grows := p.oldest > 0 || i+1 < len(t.points) && t.points[i+1].oldest > 0
		if grows && end-1 > start { // charts connect the waits
			s.add(end-1, p)
		}
		if i+1 == len(t.points) {
			s.add(end, p)
			if end < now.Unix() {
				s.add(end+1, point{figures: unknownFigures()})
				s.add(now.Unix(), point{figures: unknownFigures()})
			}
		}
	}
	for _, m := range t.marks {
		if !m.at.Before(from) {
			s.marks = append(s.marks, m)
		}
	}
	return s, true
}

// add adds the figures of a point at a time.
func (s *series) add(at int64, p point) {
	s.times = append(s.times, time.Unix(at, 0).UTC())
	for i, v := range p.values {
		f := float64(v)
		if v == unknown {
			f = math.NaN()
		}
		s.values[i] = append(s.values[i], f)
	}
	wait := 0.0
	switch {
	case p.values[pending] == unknown:
		wait = math.NaN()
	case p.oldest > 0:
		wait = float64(max(0, at-p.oldest))
	}
	s.wait = append(s.wait, wait)
}

// picture returns the figures as a picture.
func (s series) picture() chart.Timeline {
	line := chart.Timeline{Title: s.name, Times: s.times, From: s.from.UTC(), To: s.to.UTC()}
	var marks []chart.Mark
	for _, m := range s.marks {
		marks = append(marks, chart.Mark{At: m.at.UTC(), Label: strconv.Itoa(m.agents), Text: m.at.UTC().Format(time.TimeOnly) + " " + m.text})
	}
	minutes := make([]float64, len(s.wait))
	for i, w := range s.wait {
		if i+1 < len(s.wait) && s.wait[i+1] > w { // the picture has steps
			w = s.wait[i+1]
		}
		minutes[i] = w / 60
	}
	line.Bands = append(bands(s.values[:], marks), chart.Stack{Title: "Wait of the oldest job, in minutes", Series: []chart.Series{{Name: "oldest wait", Values: minutes}}})
	return line
}

// bands returns a band of pending jobs and one of agents, from the values of each quantity.
func bands(values [][]float64, marks []chart.Mark) []chart.Stack {
	series := func(i int, name string) chart.Series { return chart.Series{Name: name, Values: values[i]} }
	return []chart.Stack{
		{Title: "Pending jobs", Series: []chart.Series{series(pending, "pending")}},
		{
			Title: "Agents", Series: []chart.Series{series(busy, "busy"), series(idle, "idle"), series(inFlight, "in flight")},
			Marks: marks, MarksAre: "ordered",
		},
	}
}

// MarshalJSON implements [json.Marshaler]: columns for the script, in which an unknown value is null.
func (s series) MarshalJSON() ([]byte, error) {
	column := func(values []float64) []*float64 {
		all := make([]*float64, len(values))
		for i, v := range values {
			if !math.IsNaN(v) {
				all[i] = &v
			}
		}
		return all
	}
	at := make([]int64, len(s.times))
	for i, t := range s.times {
		at[i] = t.Unix()
	}
	type order struct {
		At     int64  `json:"at"`
		Agents int    `json:"agents"`
		Text   string `json:"text"`
	}
	orders := []order{}
	for _, m := range s.marks {
		orders = append(orders, order{m.at.Unix(), m.agents, m.text})
	}
	return json.Marshal(map[string]any{
		"overlay": s.name, "from": s.from.Unix(), "to": s.to.Unix(), "at": at, "orders": orders,
		"pending": column(s.values[pending]), "wait": column(s.wait), "busy": column(s.values[busy]),
		"idle": column(s.values[idle]), "inFlight": column(s.values[inFlight]), "max": column(s.values[limit]),
	})
}

// requested returns the figures of the overlay and the period in the query, whose first sample is that of
// the overlay, or of all charts of a page. It answers itself, and returns false, if there is no such overlay.
func (p *Page) requested(w http.ResponseWriter, r *http.Request) (series, bool) {
	query := r.URL.Query()
	now := p.cfg.Now()
	first := p.history.first(query.Get("overlay"))
	if shared, err := strconv.ParseInt(query.Get("first"), 10, 64); err == nil {
		first = time.Unix(shared, 0)
	}
	s, ok := p.history.series(query.Get("overlay"), axisStart(first, periodOf(query), now), now)
	if !ok {
		http.Error(w, "unknown overlay", http.StatusNotFound)
	}
	return s, ok
}

// timelineJSON serves the figures of the overlay and the period in the query.
func (p *Page) timelineJSON(w http.ResponseWriter, r *http.Request) {
	s, ok := p.requested(w, r)
	if !ok {
		return
	}
	p.send(w, "application/json", func(to io.Writer) error { return json.NewEncoder(to).Encode(s) })
}

// tableRows is the maximum number of rows of a table of a timeline.
const tableRows = 24

// table returns the figures in a table: the maximum of each part of the period, of at least a minute.
func (s series) table() g.Node {
	n := min(tableRows, s.to.Sub(s.from)/time.Minute)
	each := s.to.Sub(s.from) / n
	var rows g.Group
	for i := range n {
		begin := s.from.Add(i * each)
		end := begin.Add(each)
		most := func(values []float64) (most float64) {
			most = math.NaN()
			for k, t := range s.times {
				if next := k + 1; t.Before(end) && (!t.Before(begin) || next < len(s.times) && s.times[next].After(begin)) && !math.IsNaN(values[k]) {
					if math.IsNaN(most) || values[k] > most {
						most = values[k]
					}
				}
			}
			return most
		}
		ordered := 0
		for _, m := range s.marks {
			if !m.at.Before(begin) && m.at.Before(end) {
				ordered += m.agents
			}
		}
		cells := g.Group{h.Th(h.Scope("row"), g.Text(begin.UTC().Format("15:04")+"–"+end.UTC().Format("15:04")))}
		for column, values := range [][]float64{s.values[pending], s.wait, s.values[busy], s.values[idle], s.values[inFlight]} {
			text := "unknown"
			if v := most(values); !math.IsNaN(v) {
				text = fmt.Sprint(v)
				if column == 1 {
					text = short(time.Duration(v) * time.Second)
				}
			}
			cells = append(cells, h.Td(h.Class("n"), g.Text(text)))
		}
		rows = append(rows, h.Tr(append(cells, h.Td(h.Class("n"), g.Textf("%d", ordered)))))
	}
	return h.Table(
		h.Caption(g.Text("The highest value of each part of the period, in UTC")),
		heads("Time", "#Pending", "#Oldest wait", "#Busy", "#Idle", "#In flight", "#Ordered"), h.TBody(rows),
	)
}
