// Package markdowntest looks at Markdown as a forge does, for tests.
package markdowntest

import "strings"

// Outside is what is left of Markdown without code: blocks, then spans
// (spec.commonmark.org: a span ends at as many backticks as it began with).
func Outside(text string) string {
	var left strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "":
			if strings.TrimRight(line, "\n") == fence {
				fence = ""
			}
		case len(ticks) >= 3 && !strings.Contains(line[len(ticks):], "`"):
			fence = ticks
		default:
			for line != "" {
				at := strings.IndexByte(line, '`')
				if at < 0 {
					left.WriteString(line)
					break
				}
				left.WriteString(line[:at])
				rest := strings.TrimLeft(line[at:], "`")
				open := line[at : len(line)-len(rest)]
				line = after(rest, open)
			}
		}
	}
	return left.String()
}

// after returns the text after the next run of exactly n backticks.
func after(text, open string) string {
	for text != "" {
		at := strings.IndexByte(text, '`')
		if at < 0 {
			return ""
		}
		rest := strings.TrimLeft(text[at:], "`")
		if len(text)-at-len(rest) == len(open) {
			return rest
		}
		text = rest
	}
	return ""
}
