package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// ordered is the sound fleet repository with one dispatch of five agents, as the
// policy says it.
func ordered(t *testing.T) (files, string) {
	t.Helper()
	f := sound(t)
	f["overlays/default/scaling.yaml"] += "  tags: {os: linux}\n"
	o := only(t, NewLoader("overlays"), f.tree())
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	d := plan.Dispatch{ID: "default-7f3k9c2b", Purpose: plan.ForDemand, Agents: 5, At: at, NotAfter: at.Add(o.Policy.Lease), IdleTimeout: o.Policy.IdleTimeout}
	_, changes, err := o.Add([]plan.Dispatch{d})
	if err != nil {
		t.Fatal(err)
	}
	f.apply(changes)
	return f, f[stampedFile]
}

// TestCheckEdits asserts one finding for each edited dispatch, whatever was edited and wherever it is.
func TestCheckEdits(t *testing.T) {
	const (
		withdrawn = "overlays/default/dispatches/withdrawn/default-7f3k9c2b.yaml"
		want      = ": was edited: its content does not match muster.dev/digest; " +
			"restore the file from git, as it was in the commit that added it; otherwise muster does so, " +
			"withdraws the dispatch if the edit may start more agents, " +
			"and suspends the overlay if it does not find that commit"
	)
	edits := map[string]*strings.Replacer{
		"agents":        strings.NewReplacer("completions: 5", "completions: 50", "parallelism: 5", "parallelism: 50"),
		"parallelism":   strings.NewReplacer("parallelism: 5", "parallelism: 1"),
		"lease":         strings.NewReplacer("T02:30:00Z", "T04:30:00Z"),
		"tags":          strings.NewReplacer("os=linux", "os=mac"),
		"image":         strings.NewReplacer("agent:3", "agent:4"),
		"field removed": strings.NewReplacer("  backoffLimitPerIndex: 0\n", ""),
		"comment":       strings.NewReplacer("kind: Job", "kind: Job # mine"),
		"no digest":     strings.NewReplacer("    muster.dev/digest: ", "    muster.dev/other: "),
	}
	for name, edit := range edits {
		f, text := ordered(t)
		if f[stampedFile] = edit.Replace(text); f[stampedFile] == text {
			t.Fatalf("%s: nothing was edited", name)
		}
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
	f, _ := ordered(t)
	f.edit(t, "base/job.yaml", "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 7200")
	if got := checkErrors(f.tree()); len(got) > 0 {
		t.Errorf("only the template was edited: %s", got)
	}
}

// TestCheckManyEdits: they are bounded, as all findings of an overlay are.
func TestCheckManyEdits(t *testing.T) {
	unraced.Only(t)
	f, text := ordered(t)
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
