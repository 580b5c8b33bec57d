// Package markdown writes the words of others into Markdown such that a forge makes
// neither markup, nor a mention, nor a link of them.
package markdown

import "strings"

// Code is a text of others on one line, between as many backticks as it needs
// (spec.commonmark.org, "Code spans"). A bar would end a cell of a table. It is empty
// for a text without a visible character.
func Code(text string) string {
	text = strings.Join(strings.Fields(text), " ")
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

// Fenced is a text of others in a block that it cannot end. language is the block's,
// as in "text".
func Fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}
