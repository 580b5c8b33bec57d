package generator

import (
	"fmt"
	"log/slog"
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

// lasting returns the problems of before of which this tick could not tell
// whether they are over: those of queues that were not looked at, and groups of
// unmatched jobs while a queue has more of them than an observation lists.
func lasting(before, now []Problem, r Result) []Problem {
	listed := map[string]int{}
	for _, d := range r.Decisions {
		listed[d.Queue] = len(d.Observation.Unmatched)
	}
	return slices.DeleteFunc(slices.Clone(before), func(p Problem) bool {
		unmatched, looked := listed[p.Queue]
		stays := p.Queue != "" && p.Reason != "unserved" && !looked || p.Reason == "unmatched" && unmatched >= plan.MostUnmatched
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
			count(s.Strayed, "agents-elsewhere", "agents are in another queue or cluster than the policy says: they count against max until they leave")
			count(s.Namesakes, "same-name", "another fleet repository has an overlay of this name: its agents are not counted, and commits of both are easily confused")
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
