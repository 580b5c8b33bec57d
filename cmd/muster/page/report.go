package page

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"muster/cmd/muster/chart"
	"muster/cmd/muster/output"
	audit "muster/generator/history"
	"muster/generator/report"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Limits of the charts in a report.
const (
	maxCharts    = 12
	maxDrawn     = 400 // points of an overlay
	maxMarkDrawn = 500 // orders of an overlay, the newest
)

// sheet is a report as a page: one file that loads nothing.
type sheet struct {
	report.Report
	price report.Price
	lines []chart.Timeline
}

// WriteReport writes a report as an HTML file.
func WriteReport(w io.Writer, r report.Report, price report.Price) error {
	s := &sheet{Report: r, price: price}
	for _, o := range r.Overlays {
		if len(o.Samples) > 0 && len(s.lines) < maxCharts {
			s.lines = append(s.lines, s.timeline(o))
		}
	}
	var style strings.Builder
	for _, name := range []string{"page.css", "report.css"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		style.Write(text)
	}
	fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\">\n")
	if err := s.head(style.String()).Render(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n<body>\n")
	if err := s.body().Render(&output.Printable{To: w}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n</body>\n</html>\n")
	return err
}

func (s *sheet) head(style string) g.Node {
	sum := sha256.Sum256([]byte(style))
	allowed := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	return h.Head(
		h.Meta(h.Charset("utf-8")),
		h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content("default-src 'none'; style-src "+allowed+"; img-src data:; base-uri 'none'; form-action 'none'")),
		h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
		h.Meta(h.Name("color-scheme"), h.Content("light dark")),
		h.Meta(h.Name("referrer"), h.Content("no-referrer")),
		h.TitleEl(g.Text(s.Title())),
		h.Link(h.Rel("icon"), h.Href("data:,")),
		h.StyleEl(g.Raw(style)),
	)
}

func (s *sheet) body() g.Node {
	tables := s.Tables(s.price)
	return g.Group{
		h.A(h.Class("skip"), h.Href("#agents"), g.Text("Skip to the figures")),
		h.Header(h.H1(g.Text(s.Title())), h.P(h.Class("as-of"), g.Text(s.Source()))),
		h.Nav(
			h.Aria("label", "Parts of the page"),
			h.A(h.Href("#timelines"), g.Text("Timeline")), g.Text(" "),
			g.Map(tables, func(t report.Table) g.Node { return g.Group{h.A(h.Href("#"+t.ID), g.Text(t.Title)), g.Text(" ")} }),
			h.A(h.Href("#decisions"), g.Text("Decisions")),
		),
		h.Main(s.timelines(), g.Map(tables, table), s.decisions()),
		h.Footer(h.P(g.Text("Made by muster report from the commits of the fleet repository."))),
	}
}

// table returns a table of the report.
func table(t report.Table) g.Node {
	if len(t.Rows) == 0 {
		return section(t.ID, t.Title, h.P(g.Text("Nothing.")))
	}
	var titles []string
	for _, c := range t.Columns {
		title := c.Title
		if c.Number {
			title = "#" + title
		}
		titles = append(titles, title)
	}
	row := func(cells []report.Cell) g.Node {
		var all g.Group
		for i, c := range cells {
			switch {
			case i == 0:
				all = append(all, h.Th(h.Scope("row"), g.Text(c.Text)))
			case t.Columns[i].Number:
				all = append(all, h.Td(h.Class("n"), g.Text(c.Text)))
			case !c.Foreign:
				all = append(all, h.Td(h.Class("s"), g.Text(c.Text)))
			default:
				all = append(all, h.Td(g.Text(c.Text)))
			}
		}
		return h.Tr(all)
	}
	more := ""
	if t.LeftOut > 0 {
		more = fmt.Sprintf(" %d more are left out here.", t.LeftOut)
	}
	return section(
		t.ID, t.Title, h.P(h.Class("note"), g.Text(t.Note+more)),
		h.Div(
			h.Class("scroll"), h.Role("region"), h.Aria("labelledby", t.ID+"-head"), h.TabIndex("0"),
			h.Table(heads(titles...), h.TBody(g.Map(t.Rows, row)), g.Iff(t.Total != nil, func() g.Node { return h.TFoot(row(t.Total)) })),
		),
	)
}

func (s *sheet) timelines() g.Node {
	note := "In UTC. The lines go in steps from commit to commit; what happened between two is not known."
	if n := len(s.Overlays) - len(s.lines); n > 0 {
		note += fmt.Sprintf(" %d more overlays are in the tables alone.", n)
	}
	if longest(s.Overlays) > maxDrawn {
		note += fmt.Sprintf(" For an overlay with more than %d commits, each point is the maximum of several commits.", maxDrawn)
	}
	var lines g.Group
	for _, t := range s.lines {
		lines = append(lines, figure(t, s.summary(t.Title), "data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString(t.SVG())))
	}
	if lines == nil {
		lines = g.Group{h.P(g.Text("No commit of this time tells of an overlay."))}
	}
	return section(
		"timelines", "Timeline", h.P(h.Class("note"), g.Text(note)),
		h.Div(h.Class("lines"), lines),
	)
}

// longest returns the number of samples of the overlay that has the most.
func longest(all []report.Overlay) (most int) {
	for _, o := range all {
		most = max(most, len(o.Samples))
	}
	return most
}

// summary describes a timeline in words, for readers who cannot see it.
func (s *sheet) summary(name string) string {
	for _, o := range s.Overlays {
		if o.Name == name {
			return fmt.Sprintf("%d agents ordered in %d commits, %d registered, %d never came.", o.Agents, o.Orders, o.Registered, o.Lost)
		}
	}
	return ""
}

func (s *sheet) decisions() g.Node {
	list := g.Group{h.P(g.Text("None."))}
	if len(s.Operations) > 0 {
		list = nil
	}
	if s.LeftOut.Operations > 0 {
		list = append(list, h.P(h.Class("note"), g.Text(fmt.Sprintf("The newest %d. %d more are in the figures and not listed: muster history has them.", len(s.Operations), s.LeftOut.Operations))))
	}
	for _, a := range s.Operations {
		subject, reasons, _ := strings.Cut(a.Text, "\n")
		list = append(list, h.Details(
			h.Summary(h.Time(h.DateTime(a.At.UTC().Format(time.RFC3339)), g.Text(stamp(a.At))), g.Text(" "), h.Span(h.Class("what"), g.Text(subject))),
			g.If(a.Outcome() != "", h.P(h.Class("ids"), g.Text("What came of it: "+a.Outcome()+"."))),
			h.Pre(g.Text(strings.Trim(reasons, "\n"))),
			h.P(h.Class("ids"), codes(append([]string{fmt.Sprintf("%.12s", a.Commit)}, a.Dispatches...))),
		))
	}
	return section("decisions", "Decisions", list)
}

// timeline returns the timeline of an overlay.
func (s *sheet) timeline(o report.Overlay) chart.Timeline {
	line := chart.Timeline{Title: output.ShownAs(o.Name)}
	var values [quantities + 1][]float64
	for _, x := range thin(o.Samples, s.From, s.To, maxDrawn) {
		line.Times = append(line.Times, x.at)
		for i, v := range x.values {
			values[i] = append(values[i], v)
		}
	}
	var marks []chart.Mark
	for _, m := range o.Marks[max(0, len(o.Marks)-maxMarkDrawn):] {
		text := output.ShownAs(fmt.Sprintf("%s dispatch %d agents: %s", stamp(m.At), m.Agents, m.Subject))
		marks = append(marks, chart.Mark{At: m.At.UTC(), Label: strconv.Itoa(m.Agents), Text: text})
	}
	age := chart.Series{Name: "minutes", Values: values[quantities]}
	line.Bands = append(bands(values[:], marks), chart.Stack{Title: "Age of the oldest pending job, in minutes", Series: []chart.Series{age}})
	return line
}

// drawn is a point of a timeline; the last value is the age of the oldest pending job.
type drawn struct {
	at     time.Time
	values [quantities + 1]float64
}

// thin reduces samples to at most most points. If there are more samples, a point represents an
// interval and has the maximum of each quantity; the next point has the values at the end of the
// interval.
func thin(samples []audit.Sample, from, to time.Time, most int) []drawn {
	each := time.Duration(0)
	if len(samples) > most {
		each = to.Sub(from)/time.Duration(most/2-1) + 1
	}
	var all []drawn
	var last drawn // at the end of the interval
	for _, x := range samples {
		d := drawnOf(x, from)
		if n := len(all); each > 0 {
			at := from.Add(d.at.Sub(from).Truncate(each)).UTC()
			if n > 0 && !at.After(all[n-1].at) {
				for i := range d.values {
					all[n-1].values[i] = max(all[n-1].values[i], d.values[i])
				}
				last.values = d.values
				continue
			}
			if n > 0 && at.After(last.at) {
				all = append(all, last)
			}
			d.at = at
			last = drawn{at: at.Add(each), values: d.values}
		}
		all = append(all, d)
	}
	return all
}

// drawnOf returns the point of a sample.
func drawnOf(x audit.Sample, from time.Time) drawn {
	d := drawn{at: x.At.UTC()}
	if d.at.Before(from) {
		d.at = from.UTC()
	}
	for i, v := range map[int]int{pending: x.Pending, busy: x.Busy, idle: x.Idle, inFlight: x.InFlight} {
		if d.values[i] = float64(v); v < 0 {
			d.values[i] = math.NaN()
		}
	}
	if !x.Oldest.IsZero() {
		d.values[quantities] = math.Round(x.At.Sub(x.Oldest).Minutes()*10) / 10
	}
	return d
}
