package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"muster/cmd/muster/chart"
	audit "muster/generator/history"
	"muster/generator/report"
)

// What a report draws at most.
const (
	mostCharts    = 12
	mostDrawn     = 1500 // points of an overlay
	mostPictured  = 400  // points of an overlay in the picture, for print and where there is no script
	mostMarkDrawn = 500  // orders of an overlay, the newest
)

// sheet is a report as a page: one file that asks nobody for anything.
type sheet struct {
	report.Report
	price report.Price
	lines []chart.Timeline
	// pictures are the timelines with fewer points.
	pictures []chart.Timeline
	listed   map[string]report.Act // by commit
}

// WriteReport writes a report as an HTML file. printable is as in [Config].
func WriteReport(w io.Writer, r report.Report, price report.Price, printable func(io.Writer) io.Writer) error {
	if printable == nil {
		printable = func(w io.Writer) io.Writer { return w }
	}
	s := &sheet{Report: r, price: price, listed: map[string]report.Act{}}
	for _, a := range r.Acts {
		s.listed[a.Commit] = a
	}
	for _, o := range r.Overlays {
		if len(o.Samples) > 0 && len(s.lines) < mostCharts {
			s.lines = append(s.lines, s.timeline(o, mostDrawn, printable))
			s.pictures = append(s.pictures, s.timeline(o, mostPictured, printable))
		}
	}
	style, scripts, err := parts()
	if err != nil {
		return err
	}
	data, err := json.Marshal(s.lines) // which writes < as \u003c
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\">\n")
	if err := s.head(style, scripts).Render(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n<body>\n")
	if err := s.body().Render(printable(w)); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n<script type=\"application/json\" id=\"data\">%s</script>\n", data)
	for _, script := range scripts {
		fmt.Fprintf(w, "<script>%s</script>\n", script)
	}
	_, err = fmt.Fprintf(w, "</body>\n</html>\n")
	return err
}

// parts are the style and the scripts that stand in the page.
func parts() (style string, scripts []string, err error) {
	read := func(from interface{ ReadFile(string) ([]byte, error) }, name string) string {
		text, failed := from.ReadFile(name)
		if failed != nil {
			err = failed
		}
		return string(text)
	}
	style = read(chart.UPlot, "uplot/uPlot.min.css") + "\n" + read(assets, "assets/page.css") + read(assets, "assets/report.css")
	return style, []string{read(chart.UPlot, "uplot/uPlot.iife.min.js"), string(chart.Script), read(assets, "assets/report.js")}, err
}

func (s *sheet) head(style string, scripts []string) g.Node {
	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	allowed := ""
	for _, script := range scripts {
		allowed += digest(script)
	}
	return h.Head(
		h.Meta(h.Charset("utf-8")),
		h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content("default-src 'none'; script-src"+allowed+"; style-src"+digest(style)+"; img-src data:; base-uri 'none'; form-action 'none'")),
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
		h.Footer(h.P(g.Text("Made by muster report from the commits of the fleet repository. The charts are drawn by uPlot 1.6.32 (MIT, © 2022 Leon Sorokin)."))),
	}
}

// table is one of the figures.
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
	note := "In UTC. The lines go in steps from commit to commit; what happened between two is not known. Point at an order to read why it was made, and click to see what came of it."
	if n := len(s.Overlays) - len(s.lines); n > 0 {
		note += fmt.Sprintf(" %d more overlays are in the tables alone.", n)
	}
	if longest(s.Overlays) > mostPictured {
		note += fmt.Sprintf(" Of an overlay with more than %d commits the picture on paper shows the highest of some of them at each point, and with more than %d the chart does too.", mostPictured, mostDrawn)
	}
	var lines g.Group
	for i, t := range s.lines {
		summary := s.summary(t.Title)
		lines = append(lines, h.Figure(
			h.Data("end", "the last commit"),
			h.FigCaption(h.H3(g.Text(t.Title)), h.P(h.Class("summary"), g.Text(summary))),
			h.Div(h.Class("plain"), h.Img(h.Src("data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString(s.pictures[i].SVG())), h.Alt("Timeline of "+t.Title+": "+summary))),
		))
	}
	if lines == nil {
		lines = g.Group{h.P(g.Text("No commit of this time tells of an overlay."))}
	}
	return section(
		"timelines", "Timeline", h.P(h.Class("note"), g.Text(note)),
		h.Div(
			h.ID("zoom"), h.Class("zoom"), h.Role("group"), h.Aria("label", "Zoom"), g.Attr("hidden"),
			h.Button(h.Type("button"), h.Data("hours", "6"), g.Text("last 6 h")), g.Text(" "), h.Button(h.Type("button"), h.Data("hours", "24"), g.Text("last 24 h")), g.Text(" "),
			h.Button(h.Type("button"), h.Data("hours", "0"), h.Aria("pressed", "true"), g.Text("all")), g.Text(" "),
			h.Span(h.Class("hint"), g.Text("or drag over a chart; a double click shows all")),
		),
		h.Div(h.ID("lines"), h.Class("lines"), lines),
	)
}

// longest is how many samples the overlay has of which there are most.
func longest(all []report.Overlay) (most int) {
	for _, o := range all {
		most = max(most, len(o.Samples))
	}
	return most
}

// summary says in words what a timeline shows, for who cannot see it.
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
	if len(s.Acts) > 0 {
		list = nil
	}
	if s.LeftOut.Acts > 0 {
		list = append(list, h.P(h.Class("note"), g.Text(fmt.Sprintf("The newest %d. %d more are in the figures and not listed: muster history has them.", len(s.Acts), s.LeftOut.Acts))))
	}
	for _, a := range s.Acts {
		subject, reasons, _ := strings.Cut(a.Text, "\n")
		list = append(list, h.Details(
			h.ID(anchor(a.Commit)),
			h.Summary(h.Time(h.DateTime(a.At.UTC().Format(time.RFC3339)), g.Text(stamp(a.At))), g.Text(" "), h.Span(h.Class("what"), g.Text(subject))),
			g.If(a.Outcome() != "", h.P(h.Class("ids"), g.Text("What came of it: "+a.Outcome()+"."))),
			h.Pre(g.Text(strings.Trim(reasons, "\n"))),
			h.P(h.Class("ids"), codes(append([]string{fmt.Sprintf("%.12s", a.Commit)}, a.Dispatches...))),
		))
	}
	return section("decisions", "Decisions", list)
}

// anchor is the id of a decision in the page.
func anchor(commit string) string { return fmt.Sprintf("c%.12s", commit) }

// timeline is that of an overlay, of so many points.
func (s *sheet) timeline(o report.Overlay, most int, printable func(io.Writer) io.Writer) chart.Timeline {
	clean := func(text string) string {
		var out strings.Builder
		_, _ = io.WriteString(printable(&out), text+"\n") // into memory
		return strings.TrimSuffix(out.String(), "\n")
	}
	line := chart.Timeline{Title: clean(o.Name)}
	var values [quantities + 1][]float64
	for _, x := range thin(o.Samples, s.From, s.To, most) {
		line.Times = append(line.Times, x.at)
		for i, v := range x.values {
			values[i] = append(values[i], v)
		}
	}
	series := func(i int, name string) chart.Series { return chart.Series{Name: name, Values: values[i]} }
	agents := chart.Stack{Title: "Agents", Series: []chart.Series{series(busy, "busy"), series(idle, "idle"), series(inFlight, "in flight")}, MarksAre: "dispatched"}
	for _, m := range o.Marks[max(0, len(o.Marks)-mostMarkDrawn):] {
		mark := chart.Mark{At: m.At.UTC(), Label: strconv.Itoa(m.Agents), Text: fmt.Sprintf("%s dispatch %d agents: %s", stamp(m.At), m.Agents, m.Subject)}
		if a, listed := s.listed[m.Commit]; listed {
			mark.Text, mark.Link = stamp(m.At)+" "+a.Text+"\n"+a.Outcome(), "#"+anchor(m.Commit)
		}
		mark.Text = clean(mark.Text)
		agents.Marks = append(agents.Marks, mark)
	}
	line.Bands = []chart.Stack{
		{Title: "Jobs without an agent", Series: []chart.Series{series(pending, "pending")}}, agents,
		{Title: "Age of the oldest pending job, in minutes", Series: []chart.Series{series(quantities, "minutes")}},
	}
	return line
}

// drawn is a point of a timeline; the last value is the age of the oldest pending job.
type drawn struct {
	at     time.Time
	values [quantities + 1]float64
}

// thin makes at most so many points of samples. Where there are more, a point stands for
// a stretch of time and has the highest of each quantity; what was known at its end is
// the next point.
func thin(samples []audit.Sample, from, to time.Time, most int) []drawn {
	each := time.Duration(0)
	if len(samples) > most {
		each = to.Sub(from)/time.Duration(most/2-1) + 1
	}
	var all []drawn
	var last drawn // as it was at the end of the stretch
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

// drawnOf is the point of a sample.
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
