package preview

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/generator/history"
	"muster/generator/manifest"
	"muster/generator/simulation"
)

// outside is what is left of Markdown without code: blocks, then spans
// (spec.commonmark.org: a span ends at as many backticks as it began with).
func outside(text string) string {
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

// after is what comes behind the next run of just as many backticks.
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

// TestWordsOfOthersAreCode: whatever stands in files, nothing of it is outside of code,
// where a forge would make a mention or markup of it.
func TestWordsOfOthersAreCode(t *testing.T) {
	word := rapid.SampledFrom([]string{"@canary", "`", "``", "```", "|", "\n", " ", "<b>", "[x](y)", "# h", "a", "~~~", "\\"})
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			return strings.Join(rapid.SliceOfN(word, 1, 8).Draw(t, label), "") + "@canary"
		}
		r := Report{Base: "1111111", Head: "2222222",
			Changes: []Change{{Overlay: text("name"), Kind: Changed, Queue: text("queue"), Settings: []history.Change{{Setting: text("setting"), Before: text("before"), After: text("after")}},
				Job: "-" + text("job"), Invalid: text("invalid")}, {Overlay: text("another"), Kind: Added, Queue: text("its queue")}},
			Findings: []manifest.Finding{{File: text("file"), Problem: text("problem")}}}
		md := r.Markdown()
		if left := outside(md); strings.Contains(left, "canary") || strings.Contains(left, "<b>") {
			t.Fatalf("outside of code there is\n%s\nof\n%s", left, md)
		}
	})
}

// TestChart: both rows are on one scale, and none is wider than a comment.
func TestChart(t *testing.T) {
	hours := func(values ...int) (m simulation.Measures) {
		for _, v := range values {
			m.ByHour = append(m.ByHour, time.Duration(v)*time.Hour)
		}
		return m
	}
	if got, want := chart(hours(0, 1, 8), hours(0, 2, 4, 1)), "agents, on average of 1 hour each; the highest bar is 8.0\nbefore | ▁█ |\nafter  | ▂▄▁|\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(chart(hours(make([]int, 24*90)...), hours(1))) {
		if n := len([]rune(line)); n > chartWidth+20 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
}
