package fleet

import (
	"fmt"
	"strings"
	"testing"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestCheckEdits asserts one finding for an edited manifest, and none for another template.
func TestCheckEdits(t *testing.T) {
	const want = stampedFile + ": was edited since muster wrote it, which suspends the overlay while its agents may still register; " +
		"restore the file from git, as it was in the commit that added it"
	f := soundWithDispatch(t).edit(t, stampedFile, "completions: 12", "completions: 11")
	if got := strings.Join(checkErrors(f.tree()), "\n"); got != want {
		t.Errorf("got\n  %s\nwant\n  %s", got, want)
	}
	f = soundWithDispatch(t).edit(t, "base/job.yaml", "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 7200")
	if got := checkErrors(f.tree()); len(got) > 0 {
		t.Errorf("only the template was edited: %s", got)
	}
}

// TestCheckManyEdits: they are bounded, as all findings of an overlay are.
func TestCheckManyEdits(t *testing.T) {
	unraced.Only(t)
	var all []plan.Dispatch
	for i := range maxFindings + 10 {
		all = append(all, order(fmt.Sprintf("default-%08d", i), 12))
	}
	f := sound(t).ordered(t, all...)
	for _, d := range all {
		f.edit(t, "overlays/default/dispatches/"+d.ID+".yaml", "completions: 12", "completions: 11")
	}
	findings := check(f.tree(), "overlays")
	if last := findings[len(findings)-1]; len(findings) != maxFindings || !strings.Contains(last.Problem, "more than the 49 problems") {
		t.Errorf("%d findings, the last %s", len(findings), last)
	}
}
