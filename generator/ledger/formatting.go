package ledger

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Count returns a number with a noun, as in "no agent", "1 agent" and "2 agents".
func Count(n int, noun string) string {
	switch {
	case n == 0:
		return "no " + noun
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// are returns the verb that follows [Count].
func are(n int) string { return Pick(max(n, 1), " is", " are") }

// Pick returns one if n is 1, and many otherwise.
func Pick(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// sentence returns a text that begins with a capital letter.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// quoted returns the quoted words of other people. Spaces are escaped, so that a line cannot break
// within a word, and so are mentions.
func quoted(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = strings.NewReplacer(" ", `\x20`, "@", `\x40`).Replace(fmt.Sprintf("%q", w))
	}
	return strings.Join(q, " ")
}

// ticket matches an issue after a keyword that closes it, as in "Fixes PROJ-12".
var ticket = regexp.MustCompile(`(?i)((?:close[sd]?|fix(?:es|ed)?|resolve[sd]?):? +[a-z][a-z0-9_]*)-([0-9])`)

// Plain sanitizes other people's text for a message: one line, unquoted, without control
// characters, mentions, and references to issues that the commit would close. The result is close
// to the original.
func Plain(text string) string {
	text = strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, text)
	text = strings.NewReplacer("@", "(at)", "#", "no. ", "://", ":").Replace(text)
	text = ticket.ReplaceAllString(text, "$1 $2")
	return strings.Join(strings.Fields(text), " ")
}

// safe returns the [Plain] form of other people's text, with at most 100 characters.
func safe(text string) string {
	const most = 100
	text = Plain(text)
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "…"
	}
	return text
}

// width is the maximum length of a line of prose.
const width = 76

// wrap breaks text at 76 columns.
func wrap(text string) string { return hanging("", text) }

// hanging breaks text at 76 columns. Every line begins with the indent. If that is not empty, every
// line but the first is indented by four more columns.
func hanging(indent, text string) string {
	var b strings.Builder
	b.WriteString(indent)
	column := len(indent)
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = len(indent)
			b.WriteString(indent)
			if indent != "" {
				b.WriteString("    ")
				column += 4
			}
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// span returns a duration in words, as in "1 hour 30 minutes".
func span(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		is   time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := int(d / unit.is); n > 0 {
			parts = append(parts, Count(n, unit.name))
			d -= time.Duration(n) * unit.is
		}
	}
	return strings.Join(parts, " ")
}
