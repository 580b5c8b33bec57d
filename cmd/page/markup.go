package page

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"muster/generator/condition"
	"muster/generator/plan"
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
	subject := v.Status.Muster.Organisation
	if v.Only != "" {
		subject = v.Only
	}
	content := g.Group{v.needs(), v.overlays(), v.timelines(), v.decisions()}
	if v.Only != "" {
		content = g.Group{v.needs(), v.overlays(), v.arithmetic(), v.orders(), v.timelines(), v.decisions()}
	}
	return document(
		v.Verdict.Text+" · "+subject+" · muster", "assets/icon-"+v.Verdict.Class+".svg",
		g.Group{h.Script(h.Src("assets/uPlot.js"), h.Defer()), h.Script(h.Src("assets/page.js"), h.Defer())},
		h.A(h.Class("skip"), h.Href("#overlays"), g.Text("Skip to the overlays")),
		v.header(),
		h.Main(v.head(), content),
		v.footer(),
	)
}

// document returns a page.
func document(title, icon string, head g.Node, body ...g.Node) g.Node {
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.TitleEl(g.Text(title)),
			h.Link(h.ID("icon"), h.Rel("icon"), h.Href(icon), h.Type("image/svg+xml")),
			h.Link(h.Rel("stylesheet"), h.Href("assets/page.css")),
			head,
		),
		h.Body(body...),
	))
}

func (v view) header() g.Node {
	m := v.Status.Muster
	title := h.H1(g.Text("muster"))
	if v.Only != "" {
		title = g.Group{h.P(h.Class("back"), h.A(h.Href("./"), g.Text("← All overlays"))), h.H1(g.Text(v.Only))}
	}
	return h.Header(
		title,
		h.P(
			h.ID("summary"), live(),
			h.Span(h.Class("of"), g.Text(m.Organisation)), g.Text(" · "), h.Span(h.Class("of"), g.Text(m.Repository)), g.Text(", "+m.Branch+":"+m.Overlays),
			g.If(m.DryRun, g.Group{g.Text(" · "), h.Strong(h.Class("warn"), g.Text("dry run: nothing is committed"))}),
		),
		h.P(h.ID("live"), h.Role("status")),
	)
}

// head returns the verdict and the figures of all overlays.
func (v view) head() g.Node {
	seen := v.Status.Observed
	asOf := h.P(h.Class("as-of"), g.Text("Buildkite has not been polled yet."))
	if !seen.IsZero() {
		// The script continues to count from these seconds, and greys figures that are outdated.
		asOf = h.P(h.Class("as-of"), h.Data("age", fmt.Sprint(v.Now.Sub(seen).Seconds())), h.Data("outdated-after", fmt.Sprint(v.outdatedAfter().Seconds())),
			g.Text("Figures of "), v.time(seen), g.Text(" UTC, "), h.Span(h.Class("age"), g.Text(v.age(seen))), g.Text(" ago"))
	}
	t := v.Totals
	figure := func(name, value string, known bool) g.Node {
		if !known {
			value = "–"
		}
		return h.Div(h.Dt(g.Text(name)), h.Dd(g.Text(value)))
	}
	p95 := "Oldest wait, p95 (last 1 h)"
	if t.P95Minutes < 60 {
		p95 = "Oldest wait, p95 (last " + strconv.Itoa(t.P95Minutes) + " min)"
	}
	oldest := "none"
	if t.Oldest.IsZero() && t.Waiting > 0 {
		oldest = "–" // of jobs that no overlay serves, each problem states it
	} else if !t.Oldest.IsZero() {
		oldest = v.age(t.Oldest)
	}
	return h.Section(
		h.ID("verdict"), live(), h.Class("verdict "+v.Verdict.Class), h.Aria("labelledby", "verdict-head"),
		h.H2(h.ID("verdict-head"), g.Text(v.Verdict.Text)),
		g.If(v.Verdict.Note != "", h.P(h.Class("note"), g.Text(v.Verdict.Note))),
		h.Dl(
			h.Class("figures"),
			figure("Pending jobs", strconv.Itoa(t.Waiting), t.Known), figure("Oldest wait", oldest, t.Known), figure(p95, short(t.P95), t.P95Minutes > 0),
			figure("Agents busy", strconv.Itoa(t.Busy), t.Known), figure("Idle", strconv.Itoa(t.Idle), t.Known), figure("In flight", strconv.Itoa(t.InFlight), t.Known),
		),
		asOf,
	)
}

// needs returns the problems and their remedies.
func (v view) needs() g.Node {
	notes := newCards(v.Notes)
	return section(
		"wrong", "What needs you",
		h.Div(
			h.ID("troubles"), live(),
			g.If(len(v.Needs) == 0, h.P(h.ID("count"), g.Text("Nothing."))),
			g.If(len(v.Needs) > 0, h.Ul(h.Class("troubles"), g.Map(newCards(v.Needs), v.card))),
			g.If(len(v.Notes) > 0, h.Details(
				h.ID("notes"), g.If(v.Only != "", g.Attr("open")),
				h.Summary(g.Text(quantity(int64(len(notes)), "note")+": nothing to do")),
				h.Ul(h.Class("troubles"), g.Map(notes, v.card)),
			)),
		),
	)
}

// overlays returns the tables of overlays and of queues without an overlay.
func (v view) overlays() g.Node {
	table := func(caption string, rows []overlay) g.Node {
		return h.Table(
			h.Class("overlays"), h.Caption(h.Class("hidden"), g.Text(caption)),
			heads("Overlay", "State", "#Pending", "#Oldest", "#Busy", "#Idle", "#In flight", "#Agents", "Why"),
			h.TBody(g.Map(rows, v.overlay)),
		)
	}
	tables := g.Group{h.P(g.Text("No overlay has been read yet."))}
	if len(v.Active)+len(v.Idle) > 0 {
		tables = nil
	}
	if len(v.Active) > 0 {
		tables = append(tables, table("What each overlay has, what it wants, and why", v.Active))
	}
	if len(v.Idle) > 0 {
		tables = append(tables, h.Details(
			h.ID("idle"), h.Class("fold"), g.If(len(v.Active)+len(v.Idle) <= 5, g.Attr("open")),
			h.Summary(g.Text(strconv.Itoa(len(v.Idle))+" idle")),
			table("Overlays without jobs", v.Idle),
		))
	}
	title := "Overlays"
	if v.Only != "" {
		title = "State"
	}
	return section(
		"overlays", title,
		g.If(v.Only == "" && len(v.Status.Overlays) > 5, h.P(
			h.Class("filter"), h.Label(h.For("filter"), g.Text("Filter")), g.Text(" "),
			h.Input(h.ID("filter"), h.Type("search"), h.Placeholder("name, queue or state"), h.AutoComplete("off")), h.Span(h.ID("filtered"), h.Role("status")),
		)),
		h.Div(h.ID("overlay-table"), live(), g.If(v.Only != "", h.Class("one")), tables),
		h.Div(
			h.ID("queues"), live(),
			g.If(len(v.Queues) > 0, h.Table(
				h.Class("cards"), h.Caption(g.Text("Jobs that no overlay serves")),
				heads("Queue", "#Jobs", "Rules", "Missing"),
				h.TBody(g.Map(v.Queues, unserved)),
			)),
		),
		h.Div(h.ID("delays"), live(), g.If(len(v.Delays) > 0, g.Group{
			h.H3(g.Text("What makes jobs wait")),
			h.Ul(g.Map(v.Delays, v.delay)),
		})),
	)
}

// delay returns a delay, with a link to its page of the documentation if the address is known.
func (v view) delay(d delay) g.Node {
	page := g.Text(d.Page)
	if docs != "" {
		page = h.A(h.Href(docs+strings.TrimPrefix(d.Page, "docs")), g.Text(d.Page))
	}
	return h.Li(g.If(d.Overlay != "" && v.Only == "", g.Group{h.A(h.Href(overlayQuery(d.Overlay)), g.Text(d.Overlay)), g.Text(": ")}), g.Text(d.Text+": "), page)
}

func (v view) overlay(o overlay) g.Node {
	name := h.A(h.Href(overlayQuery(o.Name)), g.Text(o.Name))
	if v.Only != "" {
		name = g.Text(o.Name)
	}
	queue := ""
	if o.Queue != "" {
		queue = "queue " + o.Queue
		if o.Cluster != "" {
			queue += " of " + o.Cluster
		}
	}
	schedule := ""
	if o.Schedule != "" {
		schedule = " schedule " + o.Schedule
	}
	if o.Decision != nil && o.Decision.OverriddenUntil != nil {
		schedule += " override until " + stamp(*o.Decision.OverriddenUntil)
	}
	return h.Tr(
		h.Data("find", strings.ToLower(o.Name+" "+o.Queue+" "+o.State)),
		h.Th(h.Scope("row"), h.Title(o.Name), name, g.If(queue != "", g.Group{g.Text(" "), h.Span(h.Class("queue"), v.links.queue(o, queue), g.Text(schedule))})),
		h.Td(h.Class("s"), h.Span(h.Class("state "+o.Class), g.Text(o.State))),
		v.figures(o),
		h.Td(h.Class("why"), h.Title(o.Reason), h.Span(g.Text(o.Reason))),
	)
}

// figures returns the numbers of an overlay's row; unknown ones are dashes.
func (v view) figures(o overlay) g.Group {
	s := o.Sum
	oldest := "–"
	if s.Pending > 0 && !o.Oldest.IsZero() {
		oldest = v.age(o.Oldest)
	}
	var cells g.Group
	for i, text := range []string{strconv.Itoa(s.Pending), oldest, strconv.Itoa(s.Busy), strconv.Itoa(s.Idle), strconv.Itoa(s.InFlight), fmt.Sprintf("%d of %d", s.Current+s.Stopping, s.Max)} {
		if !o.Known {
			text = "–"
		}
		class := "n"
		if text == "0" || text == "–" {
			class = "n zero"
		}
		label := []string{"Pending", "Oldest", "Busy", "Idle", "In flight", "Agents"}[i]
		cells = append(cells, h.Td(h.Class(class), h.Data("label", label), g.Text(text)))
	}
	return cells
}

// unserved are the rows of a queue: one for each kind of job.
func unserved(q status.Queue) g.Node {
	row := func(jobs int, rules, missing g.Node) g.Node {
		return h.Tr(h.Th(h.Scope("row"), g.Text(q.Key)), h.Td(h.Class("n"), g.Text(strconv.Itoa(jobs))), h.Td(rules), h.Td(missing))
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

// arithmetic returns the sums of the decision on the overlay of the page.
func (v view) arithmetic() g.Node {
	body := h.P(g.Text("muster could not decide on the overlay."))
	if len(v.Active) == 1 && v.Active[0].Decision != nil {
		d := v.Active[0].Decision
		var rows g.Group
		for _, s := range d.Steps() {
			var bounds []string
			for _, b := range s.ActiveBounds() {
				bounds = append(bounds, b.String())
			}
			rows = append(rows, h.Tr(h.Th(h.Scope("row"), g.Text(s.Name)), h.Td(g.Text(s.String())), h.Td(g.Text(strings.Join(bounds, "; "))), h.Td(h.Class("n"), g.Text(strconv.Itoa(s.Value)))))
		}
		body = h.Table(h.Class("cards"), heads("Figure", "Sum", "Limits with an effect", "#Result"), h.TBody(rows))
	}
	return section("arithmetic", "Arithmetic", h.Div(h.ID("steps"), live(), body))
}

// orders returns the orders of the overlay of the page that are in git.
func (v view) orders() g.Node {
	body := h.P(g.Text("None."))
	note := ""
	if len(v.Active) == 1 && len(v.Active[0].Orders) > 0 {
		o := v.Active[0]
		registered := map[string]int{}
		if o.Decision != nil {
			for id, seen := range o.Decision.Observation.Capacity(o.Name).Dispatches {
				registered[id] = seen.Registered.Below(plan.MaxIndex)
			}
			if times := o.Decision.State.StartupTimes; times.Known() {
				note = fmt.Sprintf("Half of the latest %d agents registered within %s of their order, and 95 of 100 within %s.", times.Agents(), short(times.Within(50)), short(times.Within(95)))
			} else {
				note = "Start-up times are not known yet."
			}
		}
		var rows g.Group
		for _, d := range o.Orders {
			state := "in flight"
			switch {
			case registered[d.ID] >= d.Agents:
				state = "registered"
			case d.Withdrawn:
				state = "withdrawn"
			case v.Now.After(d.NotAfter):
				state = "lease is over"
			case o.Sum.OverdueAfter > 0 && v.Now.Sub(d.At) > time.Duration(o.Sum.OverdueAfter)*time.Second:
				state = "overdue"
			}
			rows = append(rows, h.Tr(
				h.Th(h.Scope("row"), h.Code(g.Text(d.ID))), h.Td(g.Text(string(d.Purpose))), h.Td(g.Text(state)), h.Td(h.Class("n"), g.Textf("%d of %d", registered[d.ID], d.Agents)),
				h.Td(h.Class("n"), g.Text(v.age(d.At))), h.Td(h.Class("n"), g.Text(short(d.NotAfter.Sub(v.Now)))),
			))
		}
		body = h.Table(h.Class("cards"), heads("Order", "Purpose", "State", "#Registered", "#Age", "#Lease left"), h.TBody(rows))
	}
	return section("orders", "Orders in git", h.Div(h.ID("order-list"), live(), g.If(note != "", h.P(h.Class("note"), g.Text(note))), body))
}

func (v view) timelines() g.Node {
	title := "Timeline"
	if v.Only == "" && len(v.Names) > len(v.Lines) {
		title = fmt.Sprintf("Timeline of %d of %s", len(v.Lines), quantity(int64(len(v.Names)), "overlay"))
	}
	note := "In UTC."
	if !v.From.IsZero() {
		note += " Since " + stamp(v.From) + ", one value per tick; before, only those in commits are known."
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

// timeline shows an overlay: a picture, which the script replaces by charts, and a table.
func (v view) timeline(s series) g.Node {
	query := timelineQuery(s.name, v.Hours) + fmt.Sprintf("&first=%d", v.First)
	t := s.picture()
	width, height := t.Size()
	id := fmt.Sprintf("t%x", s.name)
	name := h.A(h.Href(overlayQuery(s.name)), g.Text(s.name))
	if v.Only != "" {
		name = g.Text(s.name)
	}
	return h.Figure(
		h.FigCaption(h.H3(name), h.P(h.Class("summary"), g.Text(s.summary()))),
		// The time in the address lets a browser load the new picture after a tick.
		h.Div(h.Class("picture"), h.ID(id), h.Data("chart", "timeline.json"+query), h.Data("name", s.name), h.Img(
			h.Src(fmt.Sprintf("timeline.svg%s&at=%d", query, v.Now.Unix())), h.Width(fmt.Sprint(width)), h.Height(fmt.Sprint(height)), h.Alt("Timeline of "+s.name+": "+s.summary()),
		)),
		h.Details(h.ID(id+"-table"), h.Summary(g.Text("As a table")), h.Div(h.Class("scroll"), h.Role("region"), h.Aria("label", "Figures of "+s.name), h.TabIndex("0"), s.table())),
	)
}

func (v view) decisions() g.Node {
	list := g.Group{h.P(g.Text("None in the last 24 hours."))}
	if len(v.Operations) > 0 {
		list = nil
	}
	for _, o := range v.Operations {
		list = append(list, h.Div(
			h.Class("operation"),
			h.Details(
				h.ID(o.ElementID),
				h.Summary(v.time(o.Decided), g.Text(" "), h.Span(h.Class("what"), g.Text(o.Subject()))),
				h.Pre(v.links.text(strings.Trim(o.Reasons(), "\n"))),
				g.If(len(o.Orders) > 0, h.P(h.Class("ids"), codes(o.Dispatches()))),
			),
			v.links.commitLink(o.ID),
		))
	}
	return section("decisions", "Last operations", h.Div(h.ID("decision-list"), live(), list))
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
			h.A(h.Href("status.json"), g.Text("JSON")), g.Text(" · "), h.A(h.Href("metrics"), g.Text("Metrics")), g.Text(" · "), h.A(h.Href("reasons"), g.Text("Reasons of conditions")),
			g.If(docs != "", g.Group{g.Text(" · "), h.A(h.Href(docs+"/README.md"), g.Text("Documentation"))}),
		),
	)
}

// reasons is the page of all reasons of conditions.
func reasons() g.Node {
	return document(
		"Reasons of conditions · muster", "assets/icon.svg", nil,
		h.Header(h.P(h.Class("back"), h.A(h.Href("./"), g.Text("← All overlays"))), h.H1(g.Text("Reasons of conditions"))),
		h.Main(g.Map(condition.Reasons(), func(r condition.Reason) g.Node {
			return h.Section(h.ID(r.Name), h.Class("reason"), h.Aria("label", r.Name), h.H2(h.Code(g.Text(r.Name))), h.P(h.B(g.Text(r.Title))), h.P(g.Text(r.Remedy)))
		})),
	)
}

// section is a part of the page with its heading.
func section(id, title string, content ...g.Node) g.Node {
	return h.Section(h.ID(id), h.Aria("labelledby", id+"-head"), h.H2(h.ID(id+"-head"), g.Text(title)), g.Group(content))
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
