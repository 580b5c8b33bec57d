package explanation

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/verification"
	"muster/gitops/branch"
)

// found explains a commit.
func (c Config) found(ctx context.Context, o *ledger.Operation) ([]Explanation, error) {
	switch {
	case o.ByMuster():
		x, err := c.own(ctx, o)
		return []Explanation{x}, err
	case o.Kind.Command():
		why := fmt.Sprintf("%s ran muster %s, which %s.", o.Author, o.Kind, o.Why)
		if o.Reason != "" {
			why += " The reason: " + o.Reason
		}
		return []Explanation{{Subject: o.Subject(), At: o.At, Overlay: o.Overlay, Commit: o, DecidedOn: o.Base, Why: []string{why}}}, nil
	case o.Damage != nil:
		return []Explanation{{
			Subject: fmt.Sprintf("commit %.7s cannot be read", o.ID), At: o.At, Overlay: o.Overlay, Commit: o,
			Why: []string{
				fmt.Sprintf("Its message is malformed (%s): somebody changed it, or muster did not write it.", o.Damage),
				"So its decision is unknown. git show prints what it changed. Only a signature proves who made it.",
			},
		}}, nil
	}
	return c.foreign(ctx, *o)
}

// foreign explains a commit by people: its changes, for each overlay.
func (c Config) foreign(ctx context.Context, r ledger.Operation) ([]Explanation, error) {
	subject := fmt.Sprintf("commit %.7s was not made by muster", r.Commit.ID)
	rows, err := c.edits(ctx, func(yield func(ledger.Operation, error) bool) { yield(r, nil) })
	if err != nil {
		return nil, err
	}
	var all []Explanation
	for _, row := range rows {
		who := "every overlay"
		if row.Overlay != "" {
			who = "the overlay " + row.Overlay
		}
		why := fmt.Sprintf("%s changed %s: %s.", row.Author, who, row.Why)
		if row.Kind == ledger.Unknown {
			why = fmt.Sprintf("%s made it. What it changed %s.", row.Author, row.Why)
		}
		all = append(all, Explanation{Subject: subject, At: row.At, Overlay: row.Overlay, Commit: &row, Why: []string{why,
			"muster uses it from the next tick on: muster history shows what followed."}})
	}
	if len(all) == 0 {
		all = []Explanation{{Subject: subject, At: r.Commit.At, Why: []string{
			fmt.Sprintf("%s made it, and it changes nothing that muster reads: no policy, template or dispatch.", r.Commit.Author)}}}
	}
	return all, nil
}

// edits returns the rows of commits by people.
func (c Config) edits(ctx context.Context, log iter.Seq2[ledger.Operation, error]) ([]ledger.Operation, error) {
	rows := history.Config{Overlays: c.Overlays, Now: c.Now}
	rows.Edits = func(commits []branch.Commit, trees map[string]string) ([]branch.Edits, error) {
		return c.Repository.Edits(ctx, commits, trees, rows.Selection())
	}
	var all []ledger.Operation
	for row, err := range rows.Rows(log) {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// meanings are what each operation of a kind means, which its message need not say.
var meanings = map[ledger.Kind][]string{
	ledger.Retire:   {"All agents of a retired order have registered, or its lease has expired. Its manifest leaves git, so that no syncer creates the Job again; this ends no agent."},
	ledger.Withdraw: {"No syncer applies a withdrawn manifest any more, so that a refused Job does not block others. Its agents count as in flight until the lease expires: the Job may have been created just before."},
}

// own explains a commit by muster.
func (c Config) own(ctx context.Context, e *ledger.Operation) (Explanation, error) {
	x := Explanation{Subject: e.Subject(), At: e.At, Overlay: e.Overlay, Queue: e.Queue, Commit: e, Poll: e.Decided}
	if e.Kind == ledger.Dispatch {
		x.Timeline = timeline(e)
	} else {
		x.Why = append(paragraphs(e.Reasons()), meanings[e.Kind]...)
	}
	if e.Kind == ledger.Repair { // it is made before the poll, and nothing is decided
		x.Poll, x.DecidedOn = time.Time{}, e.Base
		return x, nil
	}
	r, err := c.replay().Decide(ctx, e)
	switch {
	case ctx.Err() != nil:
		return x, ctx.Err()
	case err != nil:
		x.unread(e, fmt.Sprintf("Its decision cannot be replayed, so this is what its message says: the files of commit %.7s, on which it was decided, cannot be read. A shallow clone lacks them (git fetch --unshallow). %v", e.Base, err))
		return x, nil
	}
	x.DecidedOn = e.Base
	x.judge(e, r)
	if r.Overlay == nil || r.Decision.Overlay == "" {
		return x, nil
	}
	d, follows := r.Decision, len(r.Differences) == 0
	x.Uncounted = uncounted(d, r.Overlay.Policy)
	if follows {
		x.Steps, x.Limits = d.Steps(), d.Limits()
	}
	if e.Kind == ledger.Dispatch && follows {
		x.NotMore = notMore(d)
		x.Why = append(x.Why, paragraphs(ledger.GapsSentence(d))...)
		if d.Trial {
			x.Why = append(x.Why, fmt.Sprintf("The circuit breaker is open (%s, last of %s): one agent is ordered as a trial, and more when it takes a job.", d.State.Breaker.Cause, d.State.Breaker.Dispatch))
		}
	}
	x.Policy, err = c.policy(ctx, e.Base, r.Overlay, d, limiting(x.Limits))
	if err != nil {
		x.Notes = append(x.Notes, "Who wrote the policy cannot be read: "+err.Error()+".")
	}
	if by := x.Policy.setBy(limiting(x.Limits), d.Schedule); by != "" && len(x.NotMore) > 0 {
		x.NotMore[0] += " " + by
	}
	return x, ctx.Err()
}

// judge adds a note if the commit does not follow from the replayed decision.
func (x *Explanation) judge(e *ledger.Operation, r verification.Result) {
	if len(r.Differences) > 0 {
		x.unread(e, fmt.Sprintf("This commit does not follow from the commit that it was decided on: %s. Somebody changed it, another version decided (%s), or the decision used something that git does not contain. This is what its message says.",
			strings.Join(r.Differences, "; "), e.Version))
	}
}

// unread adds a note, and uses the commit's message as the answer if the decision cannot be
// replayed.
func (x *Explanation) unread(e *ledger.Operation, note string) {
	x.Notes = append(x.Notes, note)
	if len(x.Why) == 0 {
		x.Why = paragraphs(e.Reasons())
	}
}

// paragraphs returns the paragraphs of a message, with the lines of prose joined.
func paragraphs(prose string) []string {
	var all []string
	for p := range strings.SplitSeq(prose, "\n\n") {
		lines := strings.Split(p, "\n")
		for i, line := range lines {
			if i > 0 && !strings.HasPrefix(line, "  ") {
				lines[i-1], lines[i] = "", lines[i-1]+" "+line
			}
		}
		for _, line := range slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" }) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// notMore returns why no more agents were dispatched.
func notMore(d plan.Decision) []string {
	var all []string
	for _, l := range d.Limits() {
		all = append(all, l.Why+": "+ledger.Count(l.Agents, "agent")+ledger.Pick(l.Agents, " is", " are")+" left out.")
	}
	if len(all) == 0 {
		all = []string{"No limit applied: it is the number that jobs, min and buffer need."}
	}
	return all
}

// limiting returns the field of the policy that limited the agents most; empty if none did.
func limiting(limits []plan.Limit) string {
	if len(limits) == 0 {
		return ""
	}
	switch limits[0].Name {
	case "max", "maxPerHour":
		return limits[0].Name
	case string(plan.Paused):
		return pausedSetting
	}
	return ""
}

// pausedSetting is the policy field of the limit [plan.Paused].
const pausedSetting = "paused"

// timeline returns the events from the oldest pending job to the registration of the agents.
func timeline(e *ledger.Operation) []Event {
	name, o := e.Overlay, e.Observation
	var all []Event
	say := func(at time.Time, format string, args ...any) {
		all = append(all, Event{At: at.UTC(), What: fmt.Sprintf(format, args...)})
	}
	ordered := o.At
	if since := o.Oldest(name); !since.IsZero() {
		pending, _ := o.Count(name)
		say(since, "the oldest of %s became runnable", ledger.Count(pending, "pending job"))
	}
	say(o.At, "Buildkite was polled")
	if o.Until.After(o.At) {
		ordered = o.Until
		say(o.Until, "the poll, which took several ticks, was complete")
	}
	say(e.At, "%s ordered, in this commit", ledger.Count(e.Agents(), "agent")+ledger.Pick(e.Agents(), " was", " were"))
	if out := e.Outcome; out != nil {
		after := func(n *int) time.Time { return ordered.Add(time.Duration(*n) * time.Second) }
		if out.FirstAfter != nil {
			say(after(out.FirstAfter), "the first agent was known to have registered")
		}
		if out.AllAfter != nil {
			say(after(out.AllAfter), "all of them were")
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all
}
