package generator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"muster/generator/plan"
	"muster/gitops/ledger"
)

// reportActs logs one line for each act of a tick.
func (g *Generator) reportActs(r Result) {
	if len(r.Acts) == 0 {
		g.cfg.Log.Debug("nothing to do", "tip", r.Tip.Commit)
		return
	}
	for _, a := range r.Acts {
		level, text := describe(a)
		if g.cfg.DryRun {
			text = "dry run: " + text
		}
		attrs := append(actAttrs(a), slog.String("tip", r.Tip.Commit))
		if r.Races > 0 {
			attrs = append(attrs, slog.Int("races", r.Races))
		}
		g.cfg.Log.LogAttrs(context.Background(), level, text, attrs...)
	}
}

// describe says what an act did. A dispatch that failed is a warning from the
// first on.
func describe(a ledger.Act) (slog.Level, string) {
	switch a.Kind {
	case ledger.Dispatch:
		if a.Decision.Probe {
			return slog.LevelInfo, "dispatched a probe"
		}
		return slog.LevelInfo, "dispatched"
	case ledger.Retire:
		if worst := plan.WorstFailure(a.Decision.Retire); worst != "" {
			return slog.LevelWarn, "retired, the order failed: " + worst.String()
		}
		if slices.ContainsFunc(a.Decision.Retire, func(r plan.Retirement) bool { return r.Reason == plan.Withdrawn }) {
			return slog.LevelWarn, "withdrawn: the template changed before an agent came"
		}
		return slog.LevelInfo, "retired"
	}
	return slog.LevelInfo, "repaired"
}

func actAttrs(a ledger.Act) []slog.Attr {
	d := a.Decision
	attrs := []slog.Attr{slog.String("overlay", d.Overlay), slog.String("queue", d.Queue)}
	var ids []string
	agents := 0
	switch a.Kind {
	case ledger.Dispatch:
		for _, x := range d.Dispatch {
			ids = append(ids, x.ID)
			agents += x.Agents
		}
	case ledger.Retire:
		registered := 0
		for _, x := range d.Retire {
			ids = append(ids, x.ID)
			agents += x.Agents
			registered += x.Registered
		}
		attrs = append(attrs, slog.Int("registered", registered))
	}
	if len(ids) > 0 {
		attrs = append(attrs, slog.Int("agents", agents), slog.String("dispatch", strings.Join(ids, " ")))
	}
	return attrs
}

// Summary says in a few words what the acts do, as in "default: dispatch 12;
// default: retire 1".
func Summary(acts []ledger.Act) string {
	words := make([]string, len(acts))
	for i, a := range acts {
		d := a.Decision
		switch a.Kind {
		case ledger.Dispatch:
			words[i] = fmt.Sprintf("%s: dispatch %d", d.Overlay, d.Sum.Dispatch)
		case ledger.Retire:
			words[i] = fmt.Sprintf("%s: retire %d", d.Overlay, len(d.Retire))
		default:
			words[i] = fmt.Sprintf("%s: %s", d.Overlay, a.Kind)
		}
	}
	return strings.Join(words, "; ")
}

// condition is something that is wrong for as long as it lasts. It is logged
// when it appears and when it is resolved.
type condition struct {
	level   slog.Level
	text    string
	overlay string
	queue   string
	reason  string
	// more is logged with the line, but the condition is the same when it changes.
	more []slog.Attr
}

func (c condition) attrs() []slog.Attr {
	var attrs []slog.Attr
	for _, a := range []slog.Attr{slog.String("overlay", c.overlay), slog.String("queue", c.queue), slog.String("reason", c.reason)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return append(attrs, c.more...)
}

// in reports whether a condition is among others.
func (c condition) in(others []condition) bool {
	return slices.ContainsFunc(others, func(o condition) bool {
		return o.level == c.level && o.text == c.text && o.overlay == c.overlay && o.queue == c.queue && o.reason == c.reason
	})
}

// reportConditions logs one line for each condition that appears, changes or is
// resolved, and none while it lasts.
func (g *Generator) reportConditions(r Result) {
	now := conditions(r)
	now = append(now, lasting(g.conditions, now, r)...)
	for _, c := range now {
		if !c.in(g.conditions) {
			g.cfg.Log.LogAttrs(context.Background(), c.level, c.text, c.attrs()...)
		}
	}
	for _, c := range g.conditions {
		if !c.in(now) {
			g.cfg.Log.LogAttrs(context.Background(), slog.LevelInfo, "resolved: "+c.text, c.attrs()...)
		}
	}
	g.conditions = now
}

// lasting returns the conditions of before of which this tick could not tell
// whether they are over: those of queues that were not looked at, and groups of
// unmatched jobs while a queue has more of them than an observation lists.
func lasting(before, now []condition, r Result) []condition {
	listed := map[string]int{}
	for _, d := range r.Decisions {
		listed[d.Queue] = len(d.Observation.Unmatched)
	}
	return slices.DeleteFunc(slices.Clone(before), func(c condition) bool {
		unmatched, looked := listed[c.queue]
		stays := c.queue != "" && c.reason != "unserved" && !looked || c.reason == "unmatched" && unmatched >= plan.MostUnmatched
		return !stays || c.in(now)
	})
}

// conditions lists what is wrong after a tick, each once.
func conditions(r Result) []condition {
	var all []condition
	add := func(c condition) {
		if !c.in(all) {
			all = append(all, c)
		}
	}
	for _, s := range r.Suspended {
		c := condition{level: slog.LevelError, overlay: s.Overlay, reason: string(s.Why.Code), text: "suspended: " + s.Why.String()}
		if s.Why.Wanted() {
			c.level = slog.LevelWarn
		}
		if s.Why.Code == plan.BackingOff { // one text for as long as the breaker is open
			c.text = "suspended: backing off: the circuit breaker is open, see the git log"
		}
		add(c)
	}
	for _, w := range r.Warnings {
		add(condition{level: slog.LevelWarn, overlay: w.Overlay, reason: "invalid-state", text: w.Err.Error()})
	}
	for _, d := range r.Decisions {
		for _, u := range d.Observation.Unmatched {
			c := condition{level: slog.LevelWarn, queue: d.Queue, reason: "unmatched", more: []slog.Attr{slog.Int("jobs", u.Jobs), slog.String("example", u.Example)},
				text: fmt.Sprintf("jobs that no overlay serves: rules %q, missing %q", u.Rules, u.Missing)}
			if u.Unclustered {
				c.text = fmt.Sprintf("jobs that no overlay serves: rules %q, in no cluster, and the queue is in one", u.Rules)
			}
			add(c)
		}
		for _, s := range d.Observation.Overlays {
			count := func(n int, reason, text string) {
				if n > 0 {
					add(condition{level: slog.LevelWarn, overlay: s.Overlay, queue: d.Queue, reason: reason, text: text, more: []slog.Attr{slog.Int("agents", n)}})
				}
			}
			count(s.Strayed, "agents-elsewhere", "agents are in another queue or cluster than the policy says: they count against max until they leave")
			count(s.Namesakes, "same-name", "another fleet repository has an overlay of this name: its agents are not counted, and commits of both are easily confused")
		}
	}
	for _, u := range r.Unserved {
		add(condition{level: slog.LevelWarn, queue: u.Queue, reason: "unserved", text: "jobs are pending in a queue that no overlay serves",
			more: []slog.Attr{slog.Int("jobs", u.Jobs), slog.String("example", u.Example)}})
	}
	return all
}
