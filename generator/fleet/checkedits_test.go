package fleet

import (
	"fmt"
	"strings"
	"testing"

	"muster/gitops/unraced"
)

// TestCheckEdits asserts one finding for an edited dispatch, wherever it is and with a digest or without.
func TestCheckEdits(t *testing.T) {
	const (
		withdrawn = "overlays/default/dispatches/withdrawn/default-7f3k9c2b.yaml"
		want      = ": was edited: its content does not match muster.dev/digest; " +
			"restore the file from git, as it was in the commit that added it; otherwise muster does so, " +
			"withdraws the dispatch if the edit may start more agents, " +
			"and suspends the overlay if it does not find that commit"
	)
	for _, edit := range [][2]string{{"kind: Job", "kind: Job # mine"}, {"muster.dev/digest: ", "muster.dev/other: "}} {
		name := edit[1]
		f := soundWithDispatch(t).edit(t, stampedFile, edit[0], edit[1])
		if got := strings.Join(checkErrors(f.tree()), "\n"); got != stampedFile+want {
			t.Errorf("%s: got\n  %s\nwant\n  %s", name, got, stampedFile+want)
		}
		f[withdrawn] = f[stampedFile]
		delete(f, stampedFile)
		f["overlays/default/dispatches/kustomization.yaml"] = string(list(nil))
		if got := strings.Join(checkErrors(f.tree()), "\n"); got != withdrawn+want {
			t.Errorf("%s, withdrawn: got\n  %s\nwant\n  %s", name, got, withdrawn+want)
		}
	}
	f := soundWithDispatch(t)
	f.edit(t, "base/job.yaml", "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 7200")
	if got := checkErrors(f.tree()); len(got) > 0 {
		t.Errorf("only the template was edited: %s", got)
	}
}

// TestCheckManyEdits: they are bounded, as all findings of an overlay are.
func TestCheckManyEdits(t *testing.T) {
	unraced.Only(t)
	f, text := soundWithDispatch(t), stamped(t)
	var ids []string
	for i := range maxFindings + 10 {
		id := fmt.Sprintf("default-%08d", i)
		ids = append(ids, id)
		f[strings.Replace(stampedFile, "default-7f3k9c2b", id, 1)] = strings.ReplaceAll(text, "default-7f3k9c2b", id) // of another digest
	}
	f["overlays/default/dispatches/kustomization.yaml"] = string(list(append(ids, "default-7f3k9c2b")))
	findings := check(f.tree(), "overlays")
	if last := findings[len(findings)-1]; len(findings) != maxFindings || !strings.Contains(last.Problem, "more than the 49 problems") {
		t.Errorf("%d findings, the last %s", len(findings), last)
	}
}
