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

// TestCheckEdits: a finding has the edited field of a dispatch, its original value if the digest proves
// it, and muster's response.
func TestCheckEdits(t *testing.T) {
	const (
		back     = "; restore the file from git, as it was in the commit that added it; otherwise muster "
		again    = back + "restores it with its next commit"
		withdraw = back + "withdraws it with its next commit: it moves to dispatches/withdrawn/ with the larger numbers, where no syncer applies it"
		unknown  = ": was edited: its content does not match muster.dev/digest" + back + "finds that commit: it restores the file, withdraws it if the edit may start more agents, and suspends the overlay if there is no such commit"
		image    = ":%d: spec.template.spec.containers[0].image: was edited (\"buildkite/agent:3\" → \"buildkite/agent:4\")"
	)
	for name, c := range map[string]struct {
		edits    []string // old, new, ...
		template bool     // was edited since too
		want     string   // with the line of what was edited
		line     string   // a part of it
	}{
		"none":                   {},
		"none, newer template":   {template: true},
		"fewer agents":           {[]string{"completions: 5", "completions: 1", "parallelism: 5", "parallelism: 1"}, false, ":%d: spec.completions: was edited (agents 5 → 1)" + again, "completions: 1"},
		"more agents":            {[]string{"completions: 5", "completions: 50", "parallelism: 5", "parallelism: 50"}, false, ":%d: spec.completions: was edited (agents 5 → 50)" + withdraw, "completions: 50"},
		"more, newer template":   {[]string{"completions: 5", "completions: 50", "parallelism: 5", "parallelism: 50"}, true, ":%d: spec.completions: was edited (agents 5 → 50)" + withdraw, "completions: 50"},
		"only fewer in parallel": {[]string{"parallelism: 5", "parallelism: 1"}, false, ":%d: spec.parallelism: was edited (5 → 1)" + again, "parallelism: 1"},
		"only more in parallel":  {[]string{"parallelism: 5", "parallelism: 50"}, false, ":%d: spec.parallelism: was edited (5 → 50)" + again, "parallelism: 50"},
		"only fewer completions": {[]string{"completions: 5", "completions: 1"}, false, ":%d: spec.completions: was edited (agents 5 → 1)" + again, "completions: 1"},
		"shorter lease":          {[]string{"T02:30:00Z", "T02:20:00Z"}, false, ":%d: metadata.annotations[muster.dev/not-after]: was edited (lease 2026-11-21T02:30:00Z → 2026-11-21T02:20:00Z)" + again, "T02:20:00Z"},
		"later lease":            {[]string{"T02:30:00Z", "T04:30:00Z"}, true, ":%d: metadata.annotations[muster.dev/not-after]: was edited (lease 2026-11-21T02:30:00Z → 2026-11-21T04:30:00Z)" + withdraw, "T04:30:00Z"},
		"both": {[]string{"completions: 5", "completions: 6", "parallelism: 5", "parallelism: 6", "T02:30:00Z", "T02:20:00Z"}, false,
			":%d: metadata.annotations[muster.dev/not-after]: was edited (agents 5 → 6, lease 2026-11-21T02:30:00Z → 2026-11-21T02:20:00Z)" + withdraw, "T02:20:00Z"},
		"tags":  {[]string{"os=linux", "os=mac"}, false, ":%d: metadata.annotations[muster.dev/agent-tags]: was edited (other tags)" + again, "os=mac"},
		"image": {[]string{"agent:3", "agent:4"}, false, image + again, "agent:4"},
		"image, agents": {[]string{"agent:3", "agent:4", "completions: 5", "completions: 7", "parallelism: 5", "parallelism: 7"}, false,
			":%d: spec.completions: was edited (agents 5 → 7)" + withdraw, "completions: 7"},
		"image, newer template": {[]string{"agent:3", "agent:4"}, true, unknown, ""},
		"field removed":         {[]string{"  backoffLimitPerIndex: 0\n", ""}, false, ":%d: spec.backoffLimitPerIndex: was edited" + again, "completionMode"},
		"field added":           {[]string{"  backoffLimitPerIndex: 0\n", "  backoffLimit: 3\n  backoffLimitPerIndex: 0\n"}, false, ":%d: spec.backoffLimit: was edited" + again, "backoffLimit: 3"},
		"comment":               {[]string{"kind: Job", "kind: Job # mine"}, false, ": was edited (its layout or its comments)" + again, ""},
		"layout":                {[]string{"kind: Job", "kind:   Job"}, true, ": was edited (its layout or its comments)" + again, ""},
		"no digest":             {[]string{"    muster.dev/digest: ", "    muster.dev/other: "}, false, unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, text := ordered(t)
			for i := 0; i < len(c.edits); i += 2 {
				if !strings.Contains(text, c.edits[i]) {
					t.Fatalf("no %q in\n%s", c.edits[i], text)
				}
				text = strings.ReplaceAll(text, c.edits[i], c.edits[i+1])
			}
			f[stampedFile] = text
			if c.template {
				f.edit(t, "base/job.yaml", "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 7200")
			}
			want := c.want
			if c.line != "" {
				before, _, _ := strings.Cut(text, c.line)
				want = fmt.Sprintf(c.want, 1+strings.Count(before, "\n"))
			}
			if got := strings.ReplaceAll(strings.Join(checkErrors(f.tree()), "\n"), stampedFile, ""); got != want {
				t.Errorf("got\n  %s\nwant\n  %s", got, want)
			}
		})
	}
}

// TestCheckEditsWithdrawn: what is withdrawn stays where it is.
func TestCheckEditsWithdrawn(t *testing.T) {
	f, text := ordered(t)
	delete(f, stampedFile)
	withdrawn := strings.Replace(stampedFile, "dispatches/", "dispatches/withdrawn/", 1)
	f[withdrawn] = strings.NewReplacer("completions: 5", "completions: 6", "parallelism: 5", "parallelism: 6").Replace(text)
	f["overlays/default/dispatches/kustomization.yaml"] = string(list(nil))
	findings := check(f.tree(), "overlays")
	if len(findings) != 1 || findings[0].File != withdrawn || !strings.HasSuffix(findings[0].Remedy, "restores it with its next commit, with the larger numbers") {
		t.Error(findings)
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
