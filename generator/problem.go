package generator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"muster/generator/plan"
)

// Problem is something that is wrong for as long as it lasts. It is logged when
// it appears and when it is over.
type Problem struct {
	// Level is how much it needs a person: [slog.LevelWarn] or [slog.LevelError].
	Level slog.Level
	// Text says what is wrong, and what to do where that is not plain.
	Text string
	// Overlay and Queue are what it is about, each empty where it is about more.
	Overlay, Queue string
	// Reason tells kinds of problems apart, as in "invalid" or "unmatched".
	Reason string
	// Since is when it was first seen.
	Since time.Time
	// more is logged with the line, but the problem is the same when it changes.
	more []slog.Attr
	// step is where a tick fails, news is its error, and words what of that is not
	// numbers. They may change while it is the same problem; a change of the words is
	// logged, though not often. Empty: it is a problem of what was read, and no
	// failure.
	step        Step
	news, words string
}

// Words are the text, with the error where it is that of a tick that failed.
func (p Problem) Words() string {
	if p.news != "" {
		return p.Text + ": " + p.news
	}
	return p.Text
}

func (p Problem) attrs() []slog.Attr {
	var attrs []slog.Attr
	for _, a := range []slog.Attr{slog.String("overlay", p.Overlay), slog.String("queue", p.Queue), slog.String("reason", p.Reason)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// same reports whether two problems are one.
func (p Problem) same(o Problem) bool {
	return o.Level == p.Level && o.Text == p.Text && o.Overlay == p.Overlay && o.Queue == p.Queue && o.Reason == p.Reason
}

// in reports whether a problem is among others.
func (p Problem) in(others []Problem) bool { return slices.ContainsFunc(others, p.same) }

// lasting returns the earlier problems that may persist although this tick could not check
// them: those of queues that were not polled, and groups of unmatched jobs while a queue has
// more of them than an observation lists.
func lasting(before, now []Problem, r Result) []Problem {
	listed := map[string]int{}
	for _, d := range r.Decisions {
		listed[d.Queue] = len(d.Observation.Unmatched)
	}
	return slices.DeleteFunc(slices.Clone(before), func(p Problem) bool {
		unmatched, looked := listed[p.Queue]
		stays := p.Queue != "" && p.Reason != "unserved" && !looked || p.Reason == "unmatched" && unmatched >= plan.MaxUnmatched
		return !stays || p.in(now)
	})
}

// problems lists what is wrong after a tick, each once.
func problems(r Result) []Problem {
	var all []Problem
	add := func(p Problem) {
		if !p.in(all) {
			all = append(all, p)
		}
	}
	queues := map[string]string{}
	for _, d := range r.Decisions {
		queues[d.Overlay] = d.Queue
	}
	for _, s := range r.Suspended {
		p := Problem{Level: slog.LevelError, Overlay: s.Overlay, Reason: string(s.Why.Code), Text: "suspended: " + s.Why.String()}
		if s.Why.Wanted() {
			p.Level = slog.LevelWarn
		}
		if s.Why.Code == plan.BackingOff { // one text for as long as the breaker is open
			p.Text = "suspended: backing off: the circuit breaker is open, see the git log"
		}
		if queue := queues[s.Overlay]; queue != "" {
			p.more = []slog.Attr{slog.String("queue", queue)}
		}
		add(p)
	}
	for _, w := range r.Warnings {
		add(Problem{Level: slog.LevelWarn, Overlay: w.Overlay, Reason: "invalid-state", Text: w.Err.Error()})
	}
	for _, d := range r.Decisions {
		if reason := d.Arrival.Reason(); reason != "" {
			text, orders := "agents that were ordered have not registered", d.Arrival.Describe(d.At())
			if reason == plan.OrdersFailed {
				text = "orders fail"
			}
			add(Problem{Level: slog.LevelWarn, Overlay: d.Overlay, Queue: d.Queue, Reason: reason, Text: text, news: orders, more: []slog.Attr{slog.String("orders", orders)}})
		}
		for _, u := range d.Observation.Unmatched {
			add(Problem{Level: slog.LevelWarn, Queue: d.Queue, Reason: "unmatched", more: []slog.Attr{slog.Int("jobs", u.Jobs), slog.String("example", u.Example)},
				Text: fmt.Sprintf("jobs that no overlay serves: rules %q, %s", u.Rules, u.Why())})
		}
		for _, s := range d.Observation.Overlays {
			count := func(n int, reason, text string) {
				if n > 0 {
					add(Problem{Level: slog.LevelWarn, Overlay: s.Overlay, Queue: d.Queue, Reason: reason, Text: text, more: []slog.Attr{slog.Int("agents", n)}})
				}
			}
			count(s.OtherQueue, "agents-elsewhere", "agents are in another queue or cluster than the policy says: they count against max until they leave")
			count(s.OtherFleets, "same-name", "another fleet repository has an overlay of this name: its agents are not counted, and commits of both are easily confused")
		}
	}
	if unread := r.Looked.Snapshot.Unread; unread != "" {
		add(Problem{Level: slog.LevelWarn, Reason: "unread", Text: unread})
	}
	if r.Metrics != nil {
		add(metricsProblem(r.Metrics))
	}
	for _, u := range r.Unserved {
		add(Problem{Level: slog.LevelWarn, Queue: u.Queue, Reason: "unserved", Text: "jobs are pending in a queue that no overlay serves" + u.Where(),
			more: []slog.Attr{slog.Int("jobs", u.Jobs), slog.String("example", u.Example)}})
	}
	return all
}

// problemLog contains the recent problems. Each is logged when it begins and when it ends,
// and rarely in between: a day of problems is a few lines. The zero value is empty.
type problemLog struct {
	known []problemState
}

// problemState is one problem, and what the log contains about it.
type problemState struct {
	Problem
	seen   time.Time // last
	logged time.Time // when there was last a line of it that was not about its end
	over   time.Time // when its end was logged; zero: not ended
	// ticks is how many have shown it since it began, and gone reports that the last
	// one did not.
	ticks int
	ended bool
	// recurred says that it came back soon after it was over: its end is not said
	// until it stays away.
	recurred bool
}

const (
	// forgetAfter is how long a problem that comes and goes must stay away to be over,
	// and how long one that is over is remembered.
	forgetAfter = 10 * time.Minute
	// newsEvery is how often at most a problem is logged again because its words
	// have changed, and remindEvery how often because ticks still fail.
	newsEvery   = 10 * time.Minute
	remindEvery = time.Hour
)

// update applies the problems that a tick has shown to the problem log, and logs the changes.
// Problems for which stays returns true may or may not be over.
func (t *problemLog) update(log *slog.Logger, now time.Time, shown []Problem, stays func(Problem) bool) {
	for _, p := range shown {
		t.saw(log, now, p)
	}
	t.known = slices.DeleteFunc(t.known, func(k problemState) bool { return !k.over.IsZero() && now.Sub(k.over) >= forgetAfter })
	for i := range t.known {
		k := &t.known[i]
		if k.in(shown) || !k.over.IsZero() || stays(k.Problem) {
			continue
		}
		k.ended = true
		if k.recurred && now.Sub(k.seen) < forgetAfter {
			continue
		}
		k.over = now
		attrs := append(k.attrs(), lasted(now.Sub(k.Since)))
		if k.step != "" {
			attrs = append(attrs, slog.Int("ticks", k.ticks))
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "resolved: "+k.Text, attrs...)
	}
}

// saw notes a problem, and logs it when it begins, or has news.
func (t *problemLog) saw(log *slog.Logger, now time.Time, p Problem) {
	i := slices.IndexFunc(t.known, func(k problemState) bool { return k.same(p) })
	if i < 0 {
		i = len(t.known)
		p.Since = now
		t.known = append(t.known, problemState{Problem: p})
	}
	k := &t.known[i]
	says := k.logged.IsZero()
	if !k.over.IsZero() {
		says, k.recurred, k.over, k.Since, k.ticks = true, true, time.Time{}, now, 0
	}
	quiet := now.Sub(k.logged)
	says = says || k.words != p.words && quiet >= newsEvery || p.step != "" && quiet >= remindEvery
	k.seen, k.ended, k.more, k.news = now, false, p.more, p.news
	k.ticks++
	if !says {
		return
	}
	k.logged, k.words = now, p.words
	attrs := append(k.attrs(), k.more...)
	if k.ticks > 1 {
		attrs = append(attrs, slog.Time("since", k.Since), slog.Int("ticks", k.ticks))
	}
	log.LogAttrs(context.Background(), p.Level, p.Text, attrs...)
}

// current are the problems that the last ticks have shown, the oldest first.
func (t *problemLog) current() []Problem {
	var all []Problem
	for _, k := range t.known {
		if k.over.IsZero() && !k.ended {
			all = append(all, k.Problem)
		}
	}
	slices.SortStableFunc(all, func(a, b Problem) int { return a.Since.Compare(b.Since) })
	return all
}

// lasted is the attribute that says how long something took.
func lasted(d time.Duration) slog.Attr {
	return slog.Duration("duration", d.Round(time.Millisecond))
}

// reportTick logs what a tick did, and what began to be wrong or is over.
func (rep *reporter) reportTick(r Result, err error, took time.Duration) {
	now := rep.clock.Now()
	var wait plan.SpreadError
	switch {
	case errors.As(err, &wait): // nothing is wrong; what was wrong before may go on
	case err != nil:
		failed := failure(rep.progress.failed, err, took)
		rep.problems.update(rep.log, now, []Problem{failed}, func(p Problem) bool {
			return p.step == "" || slices.Index(Steps(), p.step) > slices.Index(Steps(), failed.step)
		})
	default:
		found := problems(r)
		rest := lasting(rep.problems.current(), found, r)
		rep.problems.update(rep.log, now, found, func(p Problem) bool { return p.in(rest) })
	}
	if err == nil || len(r.Operations)+len(r.Landed) > 0 {
		rep.reportOperations(r, took)
	}
}

// digits are what differs in the words of an error that is the same.
var digits = regexp.MustCompile(`[0-9]+`)

// failure is the problem that a tick failed in a step.
func failure(step Step, err error, took time.Duration) Problem {
	p := Problem{Level: slog.LevelError, Text: "tick failed", Reason: string(step), step: step, news: err.Error(), words: digits.ReplaceAllString(err.Error(), "0")}
	var refused plan.RetryError
	switch {
	case errors.Is(err, ErrConflicts): // nothing is wrong
		p.Level, p.Reason, p.step = slog.LevelWarn, string(Conflict), StepCommit
	case errors.As(err, &refused):
		p.Level, p.Reason = slog.LevelWarn, string(Limited)
	}
	p.more = []slog.Attr{slog.String("err", err.Error()), lasted(took)}
	return p
}
