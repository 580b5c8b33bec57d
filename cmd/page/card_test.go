package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/plan"
)

// TestCards asserts that conditions with the same type and reason are one card, in the order of severity
// and of waits, and that the verdict counts overlays.
func TestCards(t *testing.T) {
	w := newScenario(t, nil)
	of := func(kind condition.Type, reason, overlay, queue, message string) condition.Condition {
		c := condition.Condition{Type: kind, Status: condition.False, Reason: reason, Overlay: overlay, Queue: queue, Message: message, LastTransitionTime: w.now.Add(-time.Minute)}
		if kind == condition.Suspended || kind == condition.Degraded {
			c.Status = condition.True
		}
		return c.WithRemedy()
	}
	var all []condition.Condition
	var decisions []plan.Decision
	for i := range 40 {
		name := fmt.Sprintf("o%02d", 39-i)
		decisions = append(decisions, decided(name, w.now, plan.Figures{Max: 9}))
		overdue := of(condition.AgentsArriving, condition.Overdue, name, "", fmt.Sprintf("0 of %d agents registered", i))
		overdue.Remedy = strings.ReplaceAll(overdue.Remedy, "=NAME", "="+name)
		overdue.LastTransitionTime = w.now.Add(-time.Duration(i) * time.Hour)
		all = append(all, overdue, of(condition.Degraded, condition.OtherMuster, name, "", "the queue has agents of another muster: they count"))
		if i < 2 {
			all = append(all, of(condition.Suspended, string(plan.Invalid), name, "", "scaling.yaml: "+name))
			all = append(all, of(condition.JobsServed, condition.NoOverlay, "", "q-"+name, name+" jobs"))
		}
	}
	all = append(all, of(condition.Degraded, condition.PollSlow, "", "", "a"))
	w.tick(func(r *generator.Report) { r.Conditions = all }, decisions...)
	page := text(t, w.ask("GET", "/"))
	wellFormed(t, page)
	_, list, _ := strings.Cut(page, `<ul class="troubles">`)
	list, _, _ = strings.Cut(list, "</ul>")
	cards := strings.Split(list, "<li ")[1:]
	for i, want := range []string{
		"error 2 overlays: files of the overlay are invalid for 60 s | o38: scaling.yaml: o38 | o39: scaling.yaml: o39 | muster check",
		"warn 40 overlays: agents that were ordered have not registered for 39 h | o00: 0 of 39 agents registered | o01: 0 of 38 agents registered | o02: 0 of 37 agents registered | o03: 0 of 36 agents registered | o04: 0 of 35 agents registered | and 35 more | -l muster.dev/overlay=NAME | --selector='muster.dev/overlay in (o00,o01,",
		"warn 2 queues: jobs are pending in a queue that no overlay serves for 60 s | q-o38: o38 jobs | q-o39: o39 jobs | What to do",
		"warn polls of Buildkite are slow for 60 s | a | What to do",
		"warn 40 overlays: the queue has agents of another muster for 60 s | o00, o01, o02, o03, o04 and 35 more | they count | Give the two",
	} {
		if i >= len(cards) {
			t.Fatalf("%d cards", len(cards))
		}
		got := plain(cards[i])
		rest := got
		for _, part := range strings.Split(want, " | ") {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("no %q in order in the card\n%s", part, got)
				break
			}
			rest = after
		}
	}
	if len(cards) != 5 {
		t.Errorf("%d cards", len(cards))
	}
	if !strings.Contains(page, "muster and 40 of 40 overlays and 2 queues need you") {
		t.Errorf("the verdict does not count overlays:\n%.500s", page)
	}
}

// plain returns the text of markup.
func plain(markup string) string {
	var out strings.Builder
	for i, part := range strings.Split("<"+markup, "<") {
		if _, text, found := strings.Cut(part, ">"); found && i > 0 {
			out.WriteString(text)
		}
	}
	return strings.NewReplacer("&#39;", "'", "&#34;", `"`).Replace(out.String())
}

// TestDetails asserts that a card does not repeat its title.
func TestDetails(t *testing.T) {
	for message, want := range map[string]string{
		"the queue has agents of another muster: 2 are connected":                  "2 are connected",
		"the queue has agents of another muster":                                   "",
		"the queue has agents of another musterer":                                 "the queue has agents of another musterer",
		"2 are connected: the queue has agents of another muster, as Buildkite is": "2 are connected: the queue has agents of another muster, as Buildkite is",
	} {
		if got := details(condition.Condition{Type: condition.Degraded, Reason: condition.OtherMuster, Message: message}); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	unmatched := condition.Condition{Reason: condition.NoMatch, Message: `jobs match no overlay of the queue: 3 with the agent query rules ["a=b"]`}
	if got, want := details(unmatched), `3 with the agent query rules ["a=b"]`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
