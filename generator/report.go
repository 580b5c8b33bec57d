package generator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// reportActs logs one line for each act of a tick.
func (g *Generator) reportActs(r Result, took time.Duration) {
	for _, a := range r.Landed {
		g.reportAct(a, slog.String("head", r.Tip.Commit), slog.Bool("late", true))
	}
	for _, a := range r.Acts {
		attrs := []slog.Attr{slog.String("head", r.Tip.Commit), lasted(took)}
		if r.Races > 0 {
			attrs = append(attrs, slog.Int("races", r.Races))
		}
		g.reportAct(a, attrs...)
	}
	if len(r.Acts)+len(r.Landed) == 0 {
		g.cfg.Log.LogAttrs(context.Background(), slog.LevelDebug, "nothing to do", slog.String("head", r.Tip.Commit), lasted(took))
	}
}

func (g *Generator) reportAct(a ledger.Act, more ...slog.Attr) {
	level, text := describe(a)
	if g.cfg.DryRun {
		text = "dry run: " + text
	}
	if a.Kind == ledger.Dispatch {
		more = append(more, slog.String("why", a.Decision.Why()))
	}
	g.cfg.Log.LogAttrs(context.Background(), level, text, append(actAttrs(a), more...)...)
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
			return slog.LevelWarn, "withdrawn: the template changed before an agent registered"
		}
		return slog.LevelInfo, "retired"
	}
	return slog.LevelInfo, "repaired"
}

// actAttrs returns the overlay, queue, reason, agents and dispatches of an act, and the
// command that deletes pods that have not started.
func actAttrs(a ledger.Act) []slog.Attr {
	d := a.Decision
	attrs := []slog.Attr{slog.String("overlay", d.Overlay), slog.String("queue", d.Queue)}
	var reasons []string
	reason := func(r string) {
		if !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	registered := 0
	switch a.Kind {
	case ledger.Dispatch:
		for _, x := range d.Dispatch {
			reason(string(x.Purpose))
		}
	case ledger.Retire:
		for _, x := range d.Retire {
			reason(x.Outcome())
			registered += x.Registered
		}
	case ledger.Repair:
		for _, f := range a.Faults {
			reason(f.File + " " + f.Problem)
		}
	}
	if ids, agents := a.Dispatches(); len(ids) > 0 {
		attrs = append(attrs, slog.Int("agents", agents))
		if a.Kind == ledger.Retire {
			attrs = append(attrs, slog.Int("registered", registered))
		}
		attrs = append(attrs, slog.String("dispatch", strings.Join(ids, " ")))
	}
	if len(reasons) > 0 {
		attrs = append(attrs, slog.String("reason", strings.Join(reasons, ", ")))
	}
	if command := ledger.DeleteUnstarted(d.Retire); command != "" && a.Kind == ledger.Retire {
		attrs = append(attrs, slog.String("delete-unstarted", command))
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
