package main

import (
	"bytes"
	"encoding/json"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/condition"
)

// surface is one of the places at which muster reports conditions.
type surface string

// The surfaces. Those of muster run come first. status and explain read git alone.
const (
	surfacePage    surface = "page"
	surfaceJSON    surface = "status.json"
	surfaceReadyz  surface = "readyz"
	surfaceMetrics surface = "metrics"
	surfaceLog     surface = "log"
	surfacePlan    surface = "plan"
	surfaceStatus  surface = "status"
	surfaceExplain surface = "explain"
)

var surfaces = []surface{surfacePage, surfaceJSON, surfaceReadyz, surfaceMetrics, surfaceLog, surfacePlan, surfaceStatus, surfaceExplain}

// fromGit reports whether a surface reads git alone.
func (s surface) fromGit() bool { return s == surfaceStatus || s == surfaceExplain }

// reading is what a surface reports at one time.
type reading struct {
	// found are the messages of its abnormal conditions. Metrics have none.
	found map[conditionKey]string
	// remedies are those of status.json.
	remedies map[conditionKey]string
	// text is what a person reads, without the remedies.
	text string
	// failed is the error of a command that failed.
	failed string
	// ready: the surface has the state Ready for the overlay.
	ready bool
	// musterReady: muster itself is Ready in status.json.
	musterReady bool
}

// minuteSample is what all surfaces report at a minute of an incident, and after the next tick if they
// disagree.
type minuteSample struct {
	minute          int
	readings, again map[surface]reading
	// ticks are what the surfaces of muster run report at this minute and after each tick until
	// the next one. Those before the first minute are of minute 0, which has no readings.
	ticks []map[surface]reading
}

// agree reports whether the surfaces that see all conditions report the same ones.
func (s minuteSample) agree() bool {
	first := s.readings[surfaceJSON]
	for _, name := range surfaces {
		r := s.readings[name]
		if !name.fromGit() && r.failed == "" && !maps.EqualFunc(r.found, first.found, func(string, string) bool { return true }) {
			return false
		}
	}
	return true
}

// findAddress reads from the log at which address muster listens.
func (w *incidentWorld) findAddress() {
	if w.address != "" {
		return
	}
	for _, line := range w.log.lines() {
		if line.Address != "" {
			w.address = line.Address
		}
	}
}

// readRun reads the surfaces of muster run.
func (w *incidentWorld) readRun() map[surface]reading {
	w.t.Helper()
	return withoutRemedies(map[surface]reading{
		surfacePage: readPage(w.get("/")), surfaceJSON: readJSON(w.t, w.get("/status.json")), surfaceReadyz: readLines(w.get("/readyz")),
		surfaceMetrics: readMetrics(w.get("/metrics")), surfaceLog: readLog(w.log.lines(), w.log.begins),
	})
}

// readCommands adds the readings of the commands.
func (w *incidentWorld) readCommands(all map[surface]reading) {
	w.t.Helper()
	w.sampling.Store(true)
	defer w.sampling.Store(false)
	all[surfacePlan], all[surfaceStatus], all[surfaceExplain] = w.command("plan"), w.command("status"), w.command("explain", incidentOverlay)
	withoutRemedies(all)
}

// withoutRemedies removes from the texts the remedies for all conditions in them.
func withoutRemedies(all map[surface]reading) map[surface]reading {
	var remedies []string
	for _, r := range all {
		for k := range r.found {
			general := condition.Condition{Reason: k.Reason}.WithRemedy().Remedy
			remedies = append(remedies, strings.ReplaceAll(general, "=NAME", "="+incidentOverlay), r.remedies[k])
		}
	}
	for name, r := range all {
		if name == surfaceExplain { // it wraps lines
			r.text = strings.Join(strings.Fields(r.text), " ")
		}
		for _, remedy := range remedies {
			r.text = strings.ReplaceAll(r.text, remedy, "")
		}
		all[name] = r
	}
	return all
}

// get returns what an endpoint of muster run serves.
func (w *incidentWorld) get(path string) string {
	w.t.Helper()
	return getText(w.t, "http://"+w.address+path)
}

// command runs a command of muster at this moment.
func (w *incidentWorld) command(args ...string) reading {
	w.t.Helper()
	var out, failed bytes.Buffer
	clock := endingClock{stoppedClock{w.clock.Now()}}
	p := program{invocation.Program{Args: args, Environ: w.environ(), Stdout: &out, Stderr: &failed, Clock: clock}}
	code := p.run(w.t.Context())
	r := readLines(out.String())
	r.text, _, _ = strings.Cut(out.String(), "\n# overlays/") // the manifests that plan would commit
	if code != invocation.ExitOK && code != invocation.ExitChanges {
		r.failed = failed.String()
		r.text += r.failed
	}
	return r
}

// conditionLine is the form of condition.Condition.String.
var conditionLine = regexp.MustCompile(`^(?:(overlay|queue) (\S+): )?([A-Z]\w+)=(True|False|Unknown) \((\w+)\)(?:: (.*))?$`)

// stateReady is a row of a table with the state Ready.
var stateReady = regexp.MustCompile(`(?m)^` + incidentOverlay + ` .*\bReady\b`)

// readLines reads the conditions that are printed a line each.
func readLines(text string) reading {
	r := reading{found: map[conditionKey]string{}, text: text, ready: stateReady.MatchString(text)}
	for line := range strings.Lines(text) {
		m := conditionLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		c := condition.Condition{Type: condition.Type(m[3]), Status: condition.Status(m[4]), Reason: m[5], Message: m[6]}
		if m[1] == "overlay" {
			c.Overlay = m[2]
		}
		r.add(c)
	}
	return r
}

// add adds a condition if it is abnormal. Ready is left out: its reason is that of another
// condition.
func (r *reading) add(c condition.Condition) {
	k := conditionKey{Type: c.Type, Reason: c.Reason, Overlay: c.Overlay}
	if c.Type == condition.JobsServed {
		k.Overlay = ""
	}
	if c.Abnormal() && c.Type != condition.Ready {
		r.found[k] = c.Message
		if r.remedies != nil {
			r.remedies[k] = c.Remedy
		}
	}
}

func readJSON(t failer, text string) reading {
	var s struct {
		Conditions []condition.Condition
		Overlays   []struct{ Conditions []condition.Condition }
	}
	check(t, json.Unmarshal([]byte(text), &s))
	all := s.Conditions
	for _, o := range s.Overlays {
		all = append(all, o.Conditions...)
	}
	r := reading{found: map[conditionKey]string{}, remedies: map[conditionKey]string{}}
	limited := false
	for _, c := range all {
		if c.Type == condition.Ready && c.Overlay == incidentOverlay && c.Status == condition.True {
			r.ready = true
		}
		r.musterReady = r.musterReady || c.Type == condition.Ready && c.Overlay == "" && c.Status == condition.True
		limited = limited || c.Type == condition.ScalingLimited && c.Abnormal()
		r.text += c.String() + "\n"
		r.add(c)
	}
	r.ready = r.ready && !limited
	return r
}

var (
	pageProblem = regexp.MustCompile(`(?s)<li class="(?:error|warn|info)">(.*?)</li>`)
	pageOverlay = regexp.MustCompile(`<a href="\?overlay=[^"]*"><b>(?:overlay )?([^<]*)</b>`)
	pageCode    = regexp.MustCompile(`<code>(\w+)=(\w+)</code>`)
	pageReason  = regexp.MustCompile(`<a class="reason" [^>]*>(\w+)</a>`)
	pageMessage = regexp.MustCompile(`(?s)<span class="what">(.*?)</span>`)
	pageReady   = regexp.MustCompile(`<span class="state \w+">Ready</span>`)
	pageTag     = regexp.MustCompile(`<[^>]*>`)
)

func readPage(text string) reading {
	first := func(e *regexp.Regexp, text string, group int) string {
		if m := e.FindStringSubmatch(text); m != nil { // a message may contain links
			return html.UnescapeString(pageTag.ReplaceAllString(m[group], ""))
		}
		return ""
	}
	// What follows is the history, which says what manifests are for.
	text, _, _ = strings.Cut(text, `<section id="timelines"`)
	r := reading{found: map[conditionKey]string{}, text: html.UnescapeString(pageTag.ReplaceAllString(text, " ")), ready: pageReady.MatchString(text)}
	for _, m := range pageProblem.FindAllStringSubmatch(text, -1) {
		c := condition.Condition{
			Overlay: first(pageOverlay, m[1], 1), Type: condition.Type(first(pageCode, m[1], 1)), Status: condition.Status(first(pageCode, m[1], 2)),
			Reason: first(pageReason, m[1], 1), Message: first(pageMessage, m[1], 1),
		}
		r.add(c)
		for _, o := range pageOverlay.FindAllStringSubmatch(m[1], -1) { // a card may have several
			c.Overlay = html.UnescapeString(o[1])
			r.add(c)
		}
	}
	return r
}

var metricsCondition = regexp.MustCompile(`(?m)^muster_condition\{overlay="(.*?)",reason="(.*?)",type="(.*?)"\} ([01])$`)

func readMetrics(text string) reading {
	r := reading{found: map[conditionKey]string{}}
	limited := false
	for _, m := range metricsCondition.FindAllStringSubmatch(text, -1) {
		c := condition.Condition{Type: condition.Type(m[3]), Status: condition.False, Reason: m[2], Overlay: m[1]}
		if m[4] == "1" {
			c.Status = condition.True
		}
		r.ready = r.ready || c.Type == condition.Ready && c.Status == condition.True && c.Overlay == incidentOverlay
		limited = limited || c.Type == condition.ScalingLimited && c.Abnormal()
		r.text += m[0] + "\n"
		r.add(c)
	}
	r.ready = r.ready && !limited
	return r
}

// readLog returns the problems that the log reports as begun and not as resolved. The text is that
// of the lines of the incident.
func readLog(lines []logLine, begins int) reading {
	r := reading{found: map[conditionKey]string{}}
	for i, line := range lines {
		if i >= begins {
			r.text += strings.Join([]string{line.Msg, line.Message, line.Err}, " ") + "\n"
		}
		if line.Msg == "repaired" { // an operation: for minutes afterwards, the overlay counts as drifted
			r.found[conditionKey{condition.Drifted, condition.EditedByHand, line.Overlay}] = ""
		}
		k := conditionKey{Type: condition.Type(line.Condition), Reason: line.Reason, Overlay: line.Overlay}
		switch {
		case line.Condition == "" || k.Type == condition.Ready:
		case strings.HasPrefix(line.Msg, "resolved: "):
			delete(r.found, k)
		default:
			r.found[k] = strings.TrimPrefix(line.Message+line.Err, "suspended: ")
			if r.found[k] == "" {
				r.found[k] = strings.TrimPrefix(line.Msg, "suspended: ")
			}
		}
	}
	return r
}

// keys returns the conditions of a reading in order.
func (r reading) keys() []conditionKey {
	return slices.SortedFunc(maps.Keys(r.found), func(a, b conditionKey) int { return strings.Compare(a.String(), b.String()) })
}

// figures are what differs between two messages about the same condition.
var figures = regexp.MustCompile(`; next trial at [-0-9T:Z]+|\b[0-9a-f]{12}\b|([0-9]+(\.[0-9]+)?[a-zµ]{0,2})+`)

// plurals are the forms of a message for one and for several.
var plurals = strings.NewReplacer("the last order failed", "the last 0 orders failed")

// words returns a message without figures, and with agents in the singular.
func words(message string) string {
	message = figures.ReplaceAllStringFunc(output.OneRow(strings.TrimSpace(message)), func(figure string) string {
		if strings.HasPrefix(figure, ";") {
			return ""
		}
		return "0"
	})
	return strings.ReplaceAll(plurals.Replace(strings.ToLower(message)), " agents ", " agent ")
}
