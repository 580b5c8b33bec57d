package page

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"muster/generator/condition"
	audit "muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
)

// view is what the page shows.
type view struct {
	Status     status.Snapshot
	Now        time.Time
	Verdict    verdict
	Totals     totals
	Needs      []condition.Condition // what needs somebody, the most urgent first
	Notes      []condition.Condition // conditions that the policy intends
	Active     []overlay             // sorted by need
	Idle       []overlay
	Only       string // the overlay of the page; empty: all
	Lines      []series
	First      int64    // the first sample of the timelines, if it is in the period, in Unix seconds
	Hours      int      // the length of the timelines
	Names      []string // all overlays with a timeline
	Unread     string   // why git's history is not in the timelines
	From       time.Time
	Operations []operation
	Queues     []status.Queue
	Delays     []delay
	links      links
}

// delay is what makes jobs wait, by the fleet's own figures. Overlay is empty if it is muster itself.
// Page is that of the documentation.
type delay struct{ Overlay, Text, Page string }

// verdict is the state of everything in a sentence. Class is that of the style sheet and of the icon.
type verdict struct{ Class, Text, Note string }

// totals are the figures of all overlays, or of the one of the page.
type totals struct {
	Known                         bool
	Waiting, Busy, Idle, InFlight int
	Oldest                        time.Time // zero: no job waits
	P95                           time.Duration
	P95Minutes                    int // in which the wait is known
}

// overlay is a row of the table.
type overlay struct {
	status.Overlay
	Class, Reason string
	HasLine       bool
	level         slog.Level // of its worst problem
	shared        bool       // its state is that of muster itself
}

// operation is an operation with the identifier of its element.
type operation struct {
	ledger.Operation
	ElementID string
}

const (
	// maxLines limits the timelines without a chosen overlay, maxShown the operations, and maxDelays the delays.
	maxLines, maxShown, maxDelays = 2, 20, 5
)

// view returns the current view; false if the overlay does not exist.
func (p *Page) view(only string, hours int) (view, bool) {
	now := p.cfg.Now()
	s := p.cfg.Status().At(now)
	v := view{Status: s, Now: now, Only: only, Hours: hours, Names: p.history.busiest(), links: p.links}
	exists := only == "" || slices.Contains(v.Names, only)
	waits := map[string]time.Duration{}
	for _, o := range s.Overlays {
		exists = exists || o.Name == only
		waits[o.Name] = waited(o, now)
		row := newRow(o, s.Conditions, slices.Contains(v.Names, o.Name), waits[o.Name])
		if only != "" && o.Name != only {
			continue
		}
		if row.idle() && only == "" {
			v.Idle = append(v.Idle, row)
		} else {
			v.Active = append(v.Active, row)
		}
	}
	slices.SortStableFunc(v.Active, compareNeed)
	for _, c := range s.Problems() {
		switch {
		case only != "" && c.Overlay != "" && c.Overlay != only:
		case needs(c, waits[c.Overlay]):
			v.Needs = append(v.Needs, c)
		default:
			v.Notes = append(v.Notes, c)
		}
	}
	slices.SortStableFunc(v.Needs, func(a, b condition.Condition) int {
		return cmp.Or(cmp.Compare(b.Level(), a.Level()), cmp.Compare(waits[b.Overlay], waits[a.Overlay]), compareTimes(a.LastTransitionTime, b.LastTransitionTime))
	})
	v.Totals = p.totals(s, only, now)
	v.Verdict = v.verdict()
	v.addTimelines(p, hours)
	for _, o := range p.history.operations(s.Operations, only, maxShown) {
		v.Operations = append(v.Operations, operation{o, fmt.Sprintf("d%d-%x-%s", o.Decided.Unix(), o.Overlay, o.Kind)})
	}
	v.Delays = p.delays(s, only)
	for _, q := range s.Queues {
		if q.Unmatched > 0 && (only == "" || len(v.Active) == 1 && v.Active[0].Queue == q.Key) {
			v.Queues = append(v.Queues, q)
		}
	}
	return v, exists
}

// delays returns what makes jobs of an overlay wait, or of all if the name is empty. Of all overlays,
// only the one whose start-up times vary most has a delay by the syncer.
func (p *Page) delays(s status.Snapshot, only string) []delay {
	var limits, syncer, poll []delay
	var most time.Duration
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	for _, o := range s.Overlays {
		if only != "" && o.Name != only {
			continue
		}
		for _, x := range p.history.limited.By(o.Name, p.history.policies[o.Name]) {
			limits = append(limits, delay{o.Name, x.Field + " " + x.String() + "; " + x.Remedy(), audit.TuningPage})
		}
		if o.Decision == nil || !o.Decision.State.StartupTimes.Known() {
			continue
		}
		times := o.Decision.State.StartupTimes
		if text := audit.SyncerDelay(times); text != "" && len(s.Receivers) == 0 && times.Spread() > most {
			most, syncer = times.Spread(), []delay{{o.Name, text, audit.NotificationsPage}}
		}
		if text := audit.PollDelay(s.Interval()); text != "" && !s.Muster.Triggered {
			poll = []delay{{"", text, audit.NotificationsPage}}
		}
	}
	return slices.Concat(limits[:min(len(limits), maxDelays)], syncer, poll)
}

func (v *view) addTimelines(p *Page, hours int) {
	needing := map[string]bool{}
	for _, c := range v.Needs {
		needing[c.Overlay] = true
	}
	var shown []string // those that need somebody, then the others, the busiest first
	for _, need := range []bool{true, false} {
		for _, name := range v.Names {
			if needing[name] == need && len(shown) < maxLines {
				shown = append(shown, name)
			}
		}
	}
	if v.Only != "" {
		shown = []string{v.Only}
	}
	first := p.history.first(shown...)
	if first.Sub(v.Now.Add(-time.Duration(hours)*time.Hour)) > p.history.gap { // not if old samples are dropped, so that the address stays the same
		v.First = first.Unix()
	}
	for _, name := range shown {
		if t, ok := p.history.series(name, axisStart(first, hours, v.Now), v.Now); ok {
			v.Lines = append(v.Lines, t)
		}
	}
	p.history.mu.Lock()
	v.Unread, v.From = p.history.problem, p.history.from
	p.history.mu.Unlock()
	if p.cfg.Commits == nil {
		v.Unread = ""
	}
}

// compareTimes puts the earlier time first, and zero last.
func compareTimes(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		return cmp.Compare(b.Unix(), a.Unix())
	}
	return a.Compare(b)
}

// longWait is the wait of a job from which a limit or a pause needs somebody.
const longWait = 10 * time.Minute

// needs reports whether somebody must act on a condition: nobody asked for it, and the policy does not
// intend it, or a job of its overlay has waited for long because of it.
func needs(c condition.Condition, wait time.Duration) bool {
	if c.Type == condition.ScalingLimited || c.Reason == string(plan.Paused) || c.Reason == string(plan.PausedInBuildkite) {
		return c.Overlay != "" && wait >= longWait
	}
	return c.Level() >= slog.LevelWarn
}

// waited returns how long the oldest job of an overlay has waited; zero without a job.
func waited(o status.Overlay, now time.Time) time.Duration {
	if o.Sum.Pending == 0 || o.Oldest.IsZero() {
		return 0
	}
	return now.Sub(o.Oldest)
}

// newRow returns the row of an overlay. Its state, class and reason are those of one condition, or else
// the reason is the arithmetic. A condition of muster itself, which all overlays have, does not count in
// the order of rows.
func newRow(o status.Overlay, muster []condition.Condition, hasLine bool, wait time.Duration) overlay {
	r := overlay{Overlay: o, Class: class(condition.StateLevel(o.Conditions)), Reason: o.Why, HasLine: hasLine, level: slog.LevelDebug}
	chosen := condition.Chosen(o.Conditions)
	switch {
	case chosen.Abnormal():
		r.Reason = chosen.Message
		if !needs(chosen, wait) {
			r.Class = "info"
		}
	case chosen.Status != condition.True:
		r.Class = "unknown"
	}
	for _, c := range condition.Problems(o.Conditions) {
		if c.Type == condition.Ready && slices.ContainsFunc(muster, func(m condition.Condition) bool { return m.Abnormal() && m.Reason == c.Reason }) {
			r.shared = c.Reason == chosen.Reason
			continue
		}
		switch level := c.Level(); {
		case needs(c, wait):
			r.level = max(r.level, level, slog.LevelWarn)
		case level < slog.LevelWarn:
			r.level = max(r.level, level)
		}
	}
	return r
}

// idle reports whether there is nothing to see: the overlay has neither a problem of its own nor jobs.
func (o overlay) idle() bool {
	return (o.Class == "good" || o.shared) && o.level < slog.LevelInfo && o.Known && o.Sum.Pending+o.Sum.Busy+o.Sum.InFlight == 0
}

// compareNeed sorts by severity, then by the oldest wait, then by activity.
func compareNeed(a, b overlay) int {
	activity := func(o overlay) int { return o.Sum.Busy + o.Sum.InFlight }
	return cmp.Or(cmp.Compare(b.level, a.level), compareTimes(a.Oldest, b.Oldest), cmp.Compare(activity(b), activity(a)), cmp.Compare(a.Name, b.Name))
}

// class returns the class in the style sheet for a state.
func class(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "good"
	case level < slog.LevelError:
		return "warn"
	}
	return "bad"
}

// totals returns the figures of an overlay, or of all.
func (p *Page) totals(s status.Snapshot, only string, now time.Time) totals {
	var t totals
	t.P95, t.P95Minutes = p.history.waitP95(only, now)
	queues := map[string]bool{}
	for _, o := range s.Overlays {
		if !o.Known || only != "" && o.Name != only {
			continue
		}
		t.Known = true
		t.Busy += o.Sum.Busy
		t.InFlight += o.Sum.InFlight
		if only != "" {
			t.Waiting, t.Idle = o.Sum.Pending, o.Sum.Idle
		} else if o.Decision != nil && !queues[o.Queue] { // its overlays share jobs and idle agents
			queues[o.Queue] = true
			for _, i := range o.Decision.Observation.Idle {
				t.Idle += i.Agents
			}
		}
		if !o.Oldest.IsZero() && (t.Oldest.IsZero() || o.Oldest.Before(t.Oldest)) {
			t.Oldest = o.Oldest
		}
	}
	for _, q := range s.Queues {
		if only == "" {
			t.Waiting += q.Pending + q.Unmatched
			t.Known = true
		}
	}
	return t
}

// outdatedAfter is the age from which figures are shown as outdated: two intervals, and a minute
// for a slow poll.
func (v view) outdatedAfter() time.Duration { return 2*v.Status.Interval() + time.Minute }

// verdict returns the state of muster and of the overlays of the page.
func (v view) verdict() verdict {
	if seen := v.Status.Observed; !seen.IsZero() && v.Now.Sub(seen) > v.outdatedAfter() {
		return verdict{"unknown", "Unknown: no answer for " + v.age(seen), "The figures below are those of " + stamp(seen) + " UTC."}
	}
	if v.Status.Tick.Count == 0 {
		return verdict{"unknown", "Starting", "muster has started; its first tick has not finished."}
	}
	var causes []string
	overlays, queues, own, worst := map[string]bool{}, map[string]bool{}, false, slog.LevelDebug
	for _, c := range v.Needs {
		worst = max(worst, c.Level(), slog.LevelWarn)
		if title := c.Title(); !slices.Contains(causes, title) {
			causes = append(causes, title)
		}
		switch {
		case c.Overlay != "":
			overlays[c.Overlay] = true
		case c.Queue != "":
			queues[c.Queue] = true
		default:
			own = true
		}
	}
	if len(v.Needs) == 0 {
		if v.Status.Observed.IsZero() {
			return verdict{"unknown", "Unknown: Buildkite has not been polled yet", ""}
		}
		var notes []string
		for _, c := range v.Notes {
			notes = append(notes, strings.TrimPrefix(cmp.Or(c.Overlay, c.Queue)+": "+c.Title(), ": "))
		}
		if len(notes) == 0 {
			return verdict{"good", "All well", ""}
		}
		return verdict{"good", "All well", listed("notes: ", notes)}
	}
	if v.Only != "" {
		return verdict{class(worst), quantity(int64(len(v.Needs)), "problem") + " to solve", listed("", causes)}
	}
	var who []string
	if own {
		who = append(who, "muster")
	}
	if n := len(overlays); n > 0 {
		who = append(who, fmt.Sprintf("%d of %s", n, quantity(int64(len(v.Status.Overlays)), "overlay")))
	}
	if n := len(queues); n > 0 {
		who = append(who, quantity(int64(n), "queue"))
	}
	verb := " need you"
	if len(who) == 1 && len(overlays) < 2 && len(queues) < 2 {
		verb = " needs you"
	}
	return verdict{class(worst), strings.Join(who, " and ") + verb, listed("", causes)}
}

// listed returns at most three texts, after an introduction, as a sentence.
func listed(introduction string, texts []string) string {
	const most = 3
	all := introduction + strings.Join(texts[:min(most, len(texts))], "; ")
	if n := len(texts) - most; n > 0 {
		all += fmt.Sprintf("; and %d more", n)
	}
	return strings.ToUpper(all[:1]) + all[1:] + "."
}

// summary describes a timeline for readers who cannot see it.
func (s series) summary() string {
	agents := 0
	for _, m := range s.marks {
		agents += m.agents
	}
	most := func(values []float64) (most float64) {
		for _, v := range values {
			if v > most { // NaN is not
				most = v
			}
		}
		return most
	}
	return fmt.Sprintf("%s ordered in %s. At most %v pending for up to %s, %v busy, %v idle, %v in flight.", quantity(int64(agents), "agent"), quantity(int64(len(s.marks)), "commit"),
		most(s.values[pending]), short(time.Duration(most(s.wait))*time.Second), most(s.values[busy]), most(s.values[idle]), most(s.values[inFlight]))
}

// stamp is a time as the page writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// age returns how long ago a time was, in the largest suitable unit.
func (v view) age(t time.Time) string { return short(v.Now.Sub(t)) }

// short returns a duration in the largest suitable unit.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}
