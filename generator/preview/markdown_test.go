package preview

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/generator/finding"
	"muster/generator/ledger"
	"muster/generator/markdowntest"
	"muster/generator/simulation"
	"muster/gitops/leaktest"
)

// TestUntrustedTextIsCode: all text of files is in code spans, in which forges interpret no mention or
// markup, and no character is hidden.
func TestUntrustedTextIsCode(t *testing.T) {
	word := rapid.SampledFrom([]string{"@canary", "`", "``", "```", "|", "\n", " ", "<b>", "[x](y)", "# h", "a", "~~~", "\\", leaktest.Words(), "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			return strings.Join(rapid.SliceOfN(word, 1, 8).Draw(t, label), "") + "@canary"
		}
		r := Report{Base: "1111111", Head: "2222222",
			Changes: []Change{{Overlay: text("name"), Kind: Changed, Queue: text("queue"), Settings: []ledger.Change{{Setting: text("setting"), Before: text("before"), After: text("after")}},
				Job: "-" + text("job"), Invalid: text("invalid")}, {Overlay: text("another"), Kind: Added, Queue: text("its queue")}},
			Findings: []finding.Finding{{File: text("file"), Problem: text("problem")}}}
		md := r.Markdown()
		if left := markdowntest.Outside(md); strings.Contains(left, "canary") || strings.Contains(left, "<b>") {
			t.Fatalf("outside of code there is\n%s\nof\n%s", left, md)
		}
		if found := leaktest.Controls(md); len(found) > 0 {
			t.Fatalf("%q in\n%s", found, md)
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
