package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// TestPastOverrides asserts from when on and until when each override of a branch's history was in force:
// from its commit, or from the merge that brought it to the branch, until its end or the commit that
// removed it.
func TestPastOverrides(t *testing.T) {
	begin := time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Hour) }
	const file = "overlays/a/scaling.yaml"
	text := func(overrides ...string) string {
		s := "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: default\n  max: 10\n"
		if len(overrides) > 0 {
			s += "  overrides:\n    - " + strings.Join(overrides, "\n    - ") + "\n"
		}
		return s
	}
	override := func(until int, rest string) string {
		return fmt.Sprintf("{until: %q, %s}", hour(until).Format(time.RFC3339), rest)
	}
	type commit struct {
		at      int
		parents string
		text    string // after it; empty: it changes no policy
	}
	for name, c := range map[string]struct {
		before  string
		commits []commit // oldest first, each the parent of the next unless it names others
		want    string
	}{
		"none":         {text(), []commit{{at: 1}}, "[]"},
		"unchanged":    {text(override(8, "max: 5")), []commit{{at: 1}}, "[0-8 5]"},
		"made":         {text(), []commit{{at: 1}, {at: 2, text: text(override(8, "max: 5"))}}, "[2-8 5]"},
		"removed":      {text(override(8, "max: 5")), []commit{{at: 1}, {at: 2, text: text()}, {at: 3}}, "[0-2 5]"},
		"changed":      {text(override(8, "max: 5")), []commit{{at: 3, text: text(override(8, "max: 7"))}}, "[0-3 5 3-8 7]"},
		"over":         {text(override(2, "max: 5")), []commit{{at: 3, text: text()}}, "[0-2 5]"},
		"another edit": {text(override(8, "max: 5")), []commit{{at: 3, text: text(override(8, "max: 5")) + "  buffer: 1\n"}}, "[0-3 5 3-8 5]"},
		"invalid":      {"spec: no", []commit{{at: 3, text: text(override(8, "max: 5"))}}, "[3-8 5]"},
		"merged": {text(), []commit{{at: 1}, {at: 2, text: text(override(8, "max: 5"))}, {at: 4, parents: "0 1", text: text(override(8, "max: 5"))}},
			"[4-8 5]"},
	} {
		t.Run(name, func(t *testing.T) {
			var past Past
			edits := map[string]branch.Edits{}
			texts := []string{c.before}
			for i, x := range c.commits {
				last := texts[len(texts)-1]
				if x.parents != "" {
					last = c.before
				}
				texts = append(texts, last)
				if x.text != "" {
					edits[fmt.Sprint(i)] = branch.Edits{Files: []branch.Edit{{Path: file, Before: []byte(last), After: []byte(x.text)}}}
					texts[i+1] = x.text
				}
			}
			for i := len(c.commits) - 1; i >= 0; i-- {
				parents := strings.Fields(c.commits[i].parents)
				if len(parents) == 0 && i > 0 {
					parents = []string{fmt.Sprint(i - 1)}
				}
				past.Add(ledger.Operation{Commit: branch.Commit{ID: fmt.Sprint(i), Parents: parents, At: hour(c.commits[i].at)}})
			}
			now, err := policy.Parse(file, []byte(texts[len(texts)-1]))
			if err != nil {
				t.Fatal(err)
			}
			all, err := past.Overrides("overlays", map[string]plan.Policy{"overlays/a": now}, func(commits []branch.Commit, _ branch.Selection) (list []branch.Edits, err error) {
				for _, x := range commits {
					list = append(list, edits[x.ID])
				}
				return list, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, o := range all["overlays/a"] {
				since := 0
				if !o.Since.IsZero() {
					since = int(o.Since.Sub(begin) / time.Hour)
				}
				got = append(got, fmt.Sprintf("%d-%d %d", since, int(o.Until.Sub(begin)/time.Hour), *o.Max))
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("the overrides are %s, want %s", got, c.want)
			}
		})
	}
}
