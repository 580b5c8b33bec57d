package page

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"muster/cmd/chart"
	"muster/generator/condition"
	"muster/generator/status"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// The page is written element by element and not by html/template, which calls methods by names
// at run time, so that the linker could not remove unused methods. gomponents escapes all text
// and attributes; [overlayQuery] escapes names in addresses.

// live marks elements that the script replaces after each tick.
func live() g.Node { return g.Attr("data-live") }

// overlayQuery returns the query for one overlay.
func overlayQuery(name string) string { return "?overlay=" + url.QueryEscape(name) }

// document is the whole page.
func (v view) document() g.Node {
	title := "muster: " + v.Status.Muster.Organisation
	if v.Errors > 0 {
		title = fmt.Sprintf("(%d) %s", v.Errors, title)
	}
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.TitleEl(g.Text(title)),
			h.Link(h.Rel("icon"), h.Href("assets/icon.svg"), h.Type("image/svg+xml")),
			h.Link(h.Rel("stylesheet"), h.Href("assets/page.css")),
			h.Script(h.Src("assets/page.js"), h.Defer()),
		),
		h.Body(
			h.A(h.Class("skip"), h.Href("#overlays"), g.Text("Skip to the overlays")),
			v.header(),
			h.Nav(
				h.Aria("label", "Parts of the page"),
				h.A(h.Href("#wrong"), g.Text("What is wrong")), g.Text(" "), h.A(h.Href("#overlays"), g.Text("Overlays")), g.Text(" "),
				h.A(h.Href("#timelines"), g.Text("Timeline")), g.Text(" "), h.A(h.Href("#decisions"), g.Text("Decisions")), g.Text(" "),
				h.A(h.Href("status.json"), g.Text("JSON")),
			),
			h.Main(v.wrong(), v.overlays(), v.timelines(), v.decisions()),
			v.footer(),
		),
	))
}

func (v view) header() g.Node {
	m, seen := v.Status.Muster, v.Status.Observed
	asOf := h.Span(h.Class("as-of"), g.Text("Buildkite has not been polled yet"))
	if !seen.IsZero() {
		// The script continues to count from these seconds, and greys figures that are outdated.
		asOf = h.Span(h.Class("as-of"), h.Data("age", fmt.Sprint(v.Now.Sub(seen).Seconds())), h.Data("outdated-after", fmt.Sprint(v.outdatedAfter().Seconds())),
			g.Text("Figures of "), v.time(seen), g.Text(" UTC, "), h.Span(h.Class("age"), g.Text(v.age(seen))), g.Text(" ago"))
	}
	return h.Header(
		h.H1(g.Text("muster")),
		h.P(
			h.ID("summary"), live(),
			h.Span(h.Class("of"), g.Text(m.Organisation)), g.Text(" · "), h.Span(h.Class("of"), g.Text(m.Repository)), g.Text(", "+m.Branch+":"+m.Overlays),
			g.If(m.DryRun, g.Group{g.Text(" · "), h.Strong(h.Class("warn"), g.Text("dry run: nothing is committed"))}),
			g.Text("\n"), asOf,
		),
		h.P(h.ID("live"), h.Role("status")),
	)
}

// outdatedAfter is the age from which figures are shown as outdated: two intervals, and a minute
// for a slow poll.
func (v view) outdatedAfter() time.Duration { return 2*v.Status.Interval() + time.Minute }

// wrong returns the problems and their remedies.
func (v view) wrong() g.Node {
	count := "Nothing."
	switch {
	case len(v.Problems) > 0:
		count = quantity(int64(len(v.Problems)), "problem")
	case v.Status.Tick.Count == 0:
		count = "muster has started; its first tick has not finished."
	}
	return section(
		"wrong", "What is wrong",
		h.P(h.ID("count"), h.Role("status"), live(), g.If(len(v.Problems) == 0 && v.Status.Tick.Count > 0, h.Class("fine")), g.Text(count)),
		h.Div(h.ID("troubles"), live(), g.If(len(v.Problems) > 0, h.Ul(h.Class("troubles"), g.Map(v.Problems, v.problem)))),
	)
}

func (v view) problem(c condition.Condition) g.Node {
	level := strings.ToLower(c.Level().String())
	return h.Li(
		h.Class(level),
		h.P(
			h.Strong(h.Class("level"), g.Text(level)), g.Text(" "),
			g.If(c.Overlay != "", g.Group{h.B(g.Text("overlay " + c.Overlay)), g.Text(" ")}),
			g.If(c.Queue != "", g.Group{h.B(g.Text("queue " + c.Queue)), g.Text(" ")}),
			h.Code(g.Text(fmt.Sprintf("%s=%s", c.Type, c.Status))), g.Text(" "), h.Span(h.Class("reason"), g.Text(c.Reason+": ")),
			h.Span(h.Class("what"), g.Text(c.Message)),
			g.If(!c.LastTransitionTime.IsZero(), g.Group{g.Text(" "), h.Span(h.Class("since"), g.Text("for "+v.age(c.LastTransitionTime)+", since "), v.time(c.LastTransitionTime))}),
		),
		g.If(c.Remedy != "", h.P(h.Class("remedy"), h.B(g.Text("What to do:")), g.Text(" "+c.Remedy))),
	)
}

// overlays returns the tables of overlays and of queues without an overlay.
func (v view) overlays() g.Node {
	table := h.P(g.Text("No overlay has been read yet."))
	if len(v.Overlays) > 0 {
		table = h.Table(
			h.Caption(g.Text("What each overlay has, what it wants, and why")),
			heads("Overlay", "State", "#Pending", "#In flight", "#Idle", "#Busy", "#Current", "#Desired", "#Min–max", "Why"),
			h.TBody(g.Map(v.Overlays, v.overlay)),
		)
	}
	return section(
		"overlays", "Overlays",
		scroll("overlay-table", g.Group{h.Aria("labelledby", "overlays-head"), g.If(v.Now.Sub(v.Status.Observed) > v.outdatedAfter(), h.Data("outdated", ""))}, table),
		g.If(len(v.Queues) > 0, scroll(
			"queues", h.Aria("label", "Jobs that no overlay serves"),
			h.Table(
				h.Caption(g.Text("Jobs that no overlay serves")),
				heads("Queue", "#Jobs", "Rules", "Missing"),
				h.TBody(g.Map(v.Queues, unserved)),
			),
		)),
	)
}

func (v view) overlay(o overlay) g.Node {
	name := g.Text(o.Name)
	if o.HasLine {
		name = h.A(h.Href(overlayQuery(o.Name)+"#timelines"), name)
	}
	queue := "queue " + o.Queue
	if o.Schedule != "" {
		queue += ", schedule " + o.Schedule
	}
	return h.Tr(
		h.Th(h.Scope("row"), name, g.If(o.Queue != "", h.Span(h.Class("queue"), g.Text(queue)))),
		h.Td(h.Span(h.Class("state "+o.Class), g.Text(o.State))),
		v.figures(o),
		h.Td(h.Class("why"), g.Text(o.Reason)),
	)
}

// figures returns the numbers of an overlay's row; unknown ones are dashes.
func (v view) figures(o overlay) g.Group {
	s := o.Sum
	texts := []string{
		fmt.Sprint(s.Pending), fmt.Sprint(s.InFlight), fmt.Sprint(s.Idle), fmt.Sprint(s.Busy), fmt.Sprint(s.Current), fmt.Sprint(s.Desired),
		fmt.Sprintf("%d–%d", s.Min, s.Max),
	}
	var cells g.Group
	for i, text := range texts {
		if !o.Known {
			text = "–"
		}
		oldest := o.Known && i == 0 && s.Pending > 0 && !o.Oldest.IsZero()
		cells = append(cells, h.Td(h.Class("n"), g.Text(text), g.If(oldest, h.Span(h.Class("age"), g.Text("oldest "+v.age(o.Oldest))))))
	}
	return cells
}

// unserved are the rows of a queue: one for each kind of job.
func unserved(q status.Queue) g.Node {
	row := func(jobs int, rules, missing g.Node) g.Node {
		return h.Tr(h.Th(h.Scope("row"), g.Text(q.Key)), h.Td(h.Class("n"), g.Text(fmt.Sprint(jobs))), h.Td(rules), h.Td(missing))
	}
	var rows g.Group
	for _, u := range q.Unserved {
		rows = append(rows, row(u.Jobs, g.Text("any"), g.Text("an overlay for the queue"+u.Where())))
	}
	for _, group := range q.Groups {
		missing := g.Node(codes(group.Missing))
		if group.Unclustered {
			missing = g.Text("a cluster")
		}
		rows = append(rows, row(group.Jobs, codes(group.Rules), missing))
	}
	return rows
}

func (v view) timelines() g.Node {
	title := "Timeline"
	if v.Only != "" {
		title += " of " + v.Only
	}
	note := "In UTC."
	if !v.From.IsZero() {
		note += " Since " + stamp(v.From) + " from each tick; before that from commits."
	}
	if v.Unread != "" {
		note += " The history in git is missing: " + v.Unread + "."
	}
	lines := h.P(g.Text("No data yet."))
	if len(v.Lines) > 0 {
		lines = g.Map(v.Lines, v.timeline)
	}
	return section(
		"timelines", title,
		h.Div(
			h.ID("lines"), live(),
			h.P(h.Class("note"), g.Text(note)),
			g.If(v.Only != "" || len(v.Names) > len(v.Lines), v.choose()),
			v.period(),
			h.Div(h.Class("lines"), lines),
		),
	)
}

// period links to the timelines of each length.
func (v view) period() g.Node {
	return h.Nav(
		h.Aria("label", "Length of the timelines"),
		g.Map(periods, func(hours int) g.Node {
			return g.Group{h.A(h.Href(timelineQuery(v.Only, hours)+"#timelines"), current(hours == v.Hours), g.Textf("last %d h", hours)), g.Text(" ")}
		}),
	)
}

// timelineQuery is the query for the timelines of an overlay, or of the busiest if it is
// empty.
func timelineQuery(overlay string, hours int) string {
	query := url.Values{"hours": {strconv.Itoa(hours)}}
	if overlay != "" {
		query.Set("overlay", overlay)
	}
	return "?" + query.Encode()
}

// current marks the link to what is shown.
func current(is bool) g.Node { return g.If(is, h.Aria("current", "page")) }

// choose links to the timeline of each overlay.
func (v view) choose() g.Node {
	return h.Nav(
		h.Class("choose"), h.Aria("label", "Timeline of an overlay"),
		h.A(h.Href(timelineQuery("", v.Hours)+"#timelines"), current(v.Only == ""), g.Text("the busiest")),
		g.Map(v.Names, func(name string) g.Node {
			return g.Group{g.Text(" "), h.A(h.Href(timelineQuery(name, v.Hours)+"#timelines"), current(name == v.Only), g.Text(name))}
		}),
	)
}

// timeline shows the picture of an overlay. The time in its address lets a browser load
// the new picture after a tick.
func (v view) timeline(t chart.Timeline) g.Node {
	return figure(t, summary(t), fmt.Sprintf("timeline.svg%s&at=%d", timelineQuery(t.Title, v.Hours), v.Now.Unix()))
}

// figure is the picture of a timeline with its caption.
func figure(t chart.Timeline, summary, source string) g.Node {
	width, height := t.Size()
	return h.Figure(
		h.FigCaption(h.H3(g.Text(t.Title)), h.P(h.Class("summary"), g.Text(summary))),
		h.Div(h.Class("picture"), h.Img(h.Src(source), h.Width(fmt.Sprint(width)), h.Height(fmt.Sprint(height)), h.Alt("Timeline of "+t.Title+": "+summary))),
	)
}

func (v view) decisions() g.Node {
	list := g.Group{h.P(g.Text("None in the last 24 hours."))}
	if len(v.Operations) > 0 {
		list = nil
	}
	for i, o := range v.Operations {
		list = append(list, h.Details(
			h.ID(o.ElementID), g.If(i == 0, g.Attr("open")),
			h.Summary(v.time(o.Decided), g.Text(" "), h.Span(h.Class("what"), g.Text(o.Subject()))),
			h.Pre(g.Text(strings.Trim(o.Reasons(), "\n"))),
			g.If(len(o.Orders) > 0, h.P(h.Class("ids"), codes(o.Dispatches()))),
		))
	}
	return section("decisions", "Last decisions", h.Div(h.ID("decision-list"), live(), list))
}

func (v view) footer() g.Node {
	s := v.Status
	ticks := quantity(int64(s.Tick.Count), "tick") + " since " + stamp(s.Started) + " UTC"
	if s.Tick.Outcome != "" {
		ticks += ", the last one " + string(s.Tick.Outcome)
	}
	if s.Tick.Count > 0 {
		ticks += fmt.Sprintf(" in %.2f s", s.Tick.Seconds)
	}
	ticks += "."
	for _, service := range s.Services {
		ticks += " " + service.Name + ": " + quantity(service.Requests, "request")
		if service.Failures > 0 {
			ticks += fmt.Sprintf(", %d failed", service.Failures)
		}
		for _, l := range service.Limits {
			ticks += fmt.Sprintf(", %d of %d left (%s)", l.Remaining, l.Limit, l.Scope)
		}
		ticks += "."
	}
	program := "muster " + s.Muster.Version
	if s.Muster.Commit != "" {
		program += " (" + s.Muster.Commit + ")"
	}
	return h.Footer(
		h.ID("foot"), live(),
		h.P(
			g.Text(ticks+"\n"+program+". "),
			h.A(h.Href("metrics"), g.Text("Metrics")), g.Text("."),
		),
	)
}

// section is a part of the page with its heading.
func section(id, title string, content ...g.Node) g.Node {
	return h.Section(h.ID(id), h.Aria("labelledby", id+"-head"), h.H2(h.ID(id+"-head"), g.Text(title)), g.Group(content))
}

// scroll wraps content that scrolls if it is too wide.
func scroll(id string, named, content g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), named, h.TabIndex("0"), h.ID(id), live(), content)
}

// heads returns the heads of columns; a column of numbers begins with #.
func heads(titles ...string) g.Node {
	return h.THead(h.Tr(g.Map(titles, func(title string) g.Node {
		if title[0] == '#' {
			return h.Th(h.Scope("col"), h.Class("n"), g.Text(title[1:]))
		}
		return h.Th(h.Scope("col"), g.Text(title))
	})))
}

func codes(texts []string) g.Group {
	return g.Map(texts, func(text string) g.Node { return g.Group{h.Code(g.Text(text)), g.Text(" ")} })
}

func (v view) time(t time.Time) g.Node {
	return h.Time(h.DateTime(t.UTC().Format(time.RFC3339)), g.Text(stamp(t)))
}

// quantity returns a number with its noun.
func quantity(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
