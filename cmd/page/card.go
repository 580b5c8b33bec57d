package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/generator/condition"
	"muster/generator/plan"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// card is a problem of one or more overlays or queues, by name.
type card []condition.Condition

// maxSubjects is the number of overlays or queues that a card names.
const maxSubjects = 5

// newCards returns the cards of conditions, in the order of the conditions. Those of several overlays, or of several
// queues, with the same type, reason and remedy are one card.
func newCards(all []condition.Condition) []card {
	type key struct {
		kind           condition.Type
		reason, remedy string
		queue          bool
		misspelled     bool
	}
	var cards []card
	index := map[key]int{}
	for _, c := range all {
		own := c.Overlay == "" && c.Queue == "" // of muster itself
		k := key{c.Type, c.Reason, remedyOfMany(c), c.Queue != "", c.Misspelled}
		if i, known := index[k]; known && !own {
			cards[i] = append(cards[i], c)
			continue
		}
		if !own {
			index[k] = len(cards)
		}
		cards = append(cards, card{c})
	}
	for _, c := range cards {
		slices.SortStableFunc(c, func(a, b condition.Condition) int {
			return cmp.Or(cmp.Compare(a.Overlay, b.Overlay), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Cluster, b.Cluster))
		})
	}
	return cards
}

// remedyOfMany returns the remedy with NAME in place of the overlay.
func remedyOfMany(c condition.Condition) string {
	if c.Overlay == "" {
		return c.Remedy
	}
	return strings.NewReplacer("muster.dev/overlay="+plan.Slug(c.Overlay), "muster.dev/overlay=NAME", "overlays/"+c.Overlay+"/", "overlays/NAME/").Replace(c.Remedy)
}

// details returns the message of a condition without the words of its title at the beginning.
func details(c condition.Condition) string {
	title := c.Title()
	if rest, found := strings.CutPrefix(c.Message, title); found && (rest == "" || strings.ContainsRune(":;,. ", rune(rest[0]))) {
		return strings.TrimLeft(rest, ":;,. ")
	}
	head, rest, _ := strings.Cut(c.Message, ": ")
	words, known := strings.Fields(head), append(strings.Fields(title), "the")
	if len(words) > 2 && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(known, w) }) {
		return rest
	}
	return c.Message
}

// since returns when the first of the conditions began; zero if that is unknown.
func (c card) since() time.Time {
	return slices.MinFunc(c, func(a, b condition.Condition) int { return compareTimes(a.LastTransitionTime, b.LastTransitionTime) }).LastTransitionTime
}

// subject returns the name of the overlay or queue of a condition, after a word; nil for muster itself.
func subject(c condition.Condition, overlay, queue string) g.Node {
	switch {
	case c.Overlay != "":
		return h.A(h.Href(overlayQuery(c.Overlay)), h.B(g.Text(overlay+c.Overlay)))
	case c.Queue != "":
		return h.B(g.Text(queue + c.Queue))
	}
	return nil
}

// count returns the number of overlays or queues of a card.
func (c card) count() string {
	noun := "overlay"
	if c[0].Overlay == "" {
		noun = "queue"
	}
	return quantity(int64(len(c)), noun)
}

// body returns the names of several overlays or queues, and the messages: each on a line of its own, or
// once if they are equal.
func (c card) body(l links) g.Node {
	what := func(c condition.Condition) g.Node { return h.Span(h.Class("what"), l.text(details(c))) }
	equal := !slices.ContainsFunc(c, func(o condition.Condition) bool { return details(o) != details(c[0]) })
	message := g.If(details(c[0]) != "", h.P(what(c[0])))
	if len(c) == 1 {
		return message
	}
	var names, lines g.Group
	for i, o := range c[:min(len(c), maxSubjects)] {
		names = append(names, g.If(i > 0, g.Text(", ")), subject(o, "", ""))
		lines = append(lines, h.P(h.Class("subject"), subject(o, "", ""), g.Text(": "), what(o)))
	}
	if n := len(c) - maxSubjects; n > 0 {
		more := fmt.Sprintf("and %d more", n)
		names, lines = append(names, g.Text(" "+more)), append(lines, h.P(g.Text(more)))
	}
	if equal {
		return g.Group{h.P(h.Class("subject"), names), message}
	}
	return lines
}

// card returns a problem with its remedy.
func (v view) card(c card) g.Node {
	first, since := c[0], c.since()
	level := strings.ToLower(first.Level().String())
	who, remedy, command := subject(first, "overlay ", "queue "), first.Remedy, condition.Command(c)
	if len(c) > 1 {
		who, remedy = h.B(g.Text(c.count()+":")), remedyOfMany(first)
	}
	return h.Li(
		h.Class(level),
		h.P(
			h.Class("headline"), h.Strong(h.Class("level"), g.Text(level)), g.Text(" "),
			g.If(who != nil, g.Group{who, g.Text(" ")}),
			h.Strong(h.Class("cause"), g.Text(first.Title())),
			g.If(!since.IsZero(), g.Group{g.Text(" "), h.Span(h.Class("since"), g.Text("for "+v.age(since)+", since "), v.time(since))}),
		),
		c.body(v.links),
		g.If(remedy != "", h.P(h.Class("remedy"), h.B(g.Text("What to do:")), g.Text(" "+remedy))),
		g.If(command != "", h.P(
			h.Class("command"), h.Code(g.Text(command)), g.Text(" "),
			h.Button(h.Type("button"), h.Class("copy"), h.Data("copy", command), h.Aria("label", "Copy the command"), g.Text("Copy")),
		)),
		h.P(h.Class("type"), h.Code(g.Text(fmt.Sprintf("%s=%s", first.Type, first.Status))), g.Text(" "), h.A(h.Class("reason"), h.Href(reasonLink(first.Reason)), g.Text(first.Reason))),
	)
}
