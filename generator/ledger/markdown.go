package ledger

import (
	"fmt"
	"strings"
	"unicode"
)

// MarkdownCode returns untrusted text as a code span on one line, with as many backticks as necessary
// (spec.commonmark.org, "Code spans"). It escapes bars, which would end a table cell. It returns an
// empty string for a text without visible characters.
func MarkdownCode(text string) string {
	text = shownInMarkdown(strings.Join(strings.Fields(text), " "))
	if text == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + strings.ReplaceAll(text, "|", `\|`) + fence
}

// MarkdownBlock returns untrusted text as a code block that the text cannot end. language is that of
// the block, as in "text".
func MarkdownBlock(language, text string) string {
	text = shownInMarkdown(text)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}

// shownInMarkdown returns a text with invisible characters escaped, such as those that reverse text.
func shownInMarkdown(text string) string {
	const nonJoiner, joiner = 0x200c, 0x200d // part of letters and emoji
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(text, "\ufffd") {
		switch {
		case c == '\n' || c == '\t' || c == nonJoiner || c == joiner || unicode.IsGraphic(c) && !unicode.In(c, unicode.Zl, unicode.Zp):
			b.WriteRune(c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}
