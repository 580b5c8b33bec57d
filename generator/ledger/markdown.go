package ledger

import (
	"fmt"
	"strings"
	"unicode"
)

// MarkdownCode is a text of others on one line, between as many backticks as it needs
// (spec.commonmark.org, "Code spans"). A bar would end a cell of a table. It is empty
// for a text without a visible character.
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

// MarkdownBlock is a text of others in a block that it cannot end. language is the block's,
// as in "text".
func MarkdownBlock(language, text string) string {
	text = shownInMarkdown(text)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}

// shownInMarkdown is a text with what nobody would see in it, as characters that turn text around,
// written as an escape.
func shownInMarkdown(text string) string {
	const nonJoiner, joiner = 0x200c, 0x200d // of letters and emoji
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
