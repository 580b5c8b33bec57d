package history

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// people returns the rows of a commit by people: for each changed overlay one for its policy, one for
// its template, and one for its other files.
func (b *rowBuilder) people(c branch.Commit, edits branch.Edits) []ledger.Operation {
	blank := ledger.Operation{Commit: c}
	if edits.Unknown != nil {
		b.Count.Unknown++
		blank.Kind, blank.Why = ledger.Unknown, "cannot be said: "+edits.Unknown.Error()
		return []ledger.Operation{blank}
	}
	merge := len(c.Parents) > 1
	touched := map[string]*touches{}
	for _, f := range edits.Files {
		overlay, kind := b.place(f.Path)
		if merge && kind == ofDispatches {
			continue // changes by commits of muster, which have rows of their own
		}
		if touched[overlay] == nil {
			touched[overlay] = &touches{}
		}
		touched[overlay][kind] = append(touched[overlay][kind], f)
	}
	var rows []ledger.Operation
	for _, overlay := range slices.Sorted(maps.Keys(touched)) {
		for _, row := range touched[overlay].rows(edits.More, c.At) {
			row.Commit, row.Overlay = c, overlay
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		b.Count.Unrelated++
	}
	reason := reasonOf(c.Message)
	reverted := revertedCommit(c.Message)
	for i := range rows {
		rows[i].Reason = reason
		switch {
		case merge:
			rows[i].Kind, rows[i].Why = ledger.Merge, "brings in: "+rows[i].Why
		case reverted != "":
			rows[i].Kind, rows[i].Why = ledger.Revert, fmt.Sprintf("reverts %.7s: %s", reverted, rows[i].Why)
		}
	}
	return rows
}

// revertedCommit returns the commit that a message names as git revert does; empty if it names none.
func revertedCommit(message string) string {
	if found := revertRule.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

// revertRule matches the commit that git revert names in its message.
var revertRule = regexp.MustCompile(`(?m)^This reverts commit ([0-9a-f]{40,64})\b`)

// kind is the purpose of a file of an overlay.
type kind int

const (
	ofPolicy kind = iota
	ofTemplate
	ofDispatches
	ofOther
)

// place returns the overlay and the purpose of a file. The base is a template of no overlay.
func (b *rowBuilder) place(name string) (overlay string, k kind) {
	if name == b.base() || strings.HasPrefix(name, b.base()+"/") {
		return "", ofTemplate
	}
	dir := path.Dir(name)
	for _, x := range []struct {
		part string
		kind kind
	}{{"dispatches", ofDispatches}, {"template", ofTemplate}} {
		if at := strings.Index(dir+"/", "/"+x.part+"/"); at >= 0 {
			return ledger.Name(b.Overlays, dir[:at]), x.kind
		}
	}
	if path.Base(name) == policyFile {
		return ledger.Name(b.Overlays, dir), ofPolicy
	}
	return ledger.Name(b.Overlays, dir), ofOther
}

// touches contains the files of one overlay that a commit changed, by kind.
type touches [ofOther + 1][]branch.Edit

// rows returns the rows of one overlay that a commit of the time at changed, without the fields of the commit.
func (t *touches) rows(more bool, at time.Time) []ledger.Operation {
	var rows []ledger.Operation
	if files := t[ofPolicy]; len(files) > 0 {
		row := policyRow(files[len(files)-1], at)
		if row.Kind == ledger.Create || row.Kind == ledger.Delete { // its other files add nothing
			return []ledger.Operation{row}
		}
		rows = append(rows, row)
	}
	for _, x := range []struct {
		kind kind
		act  ledger.Kind
	}{{ofTemplate, ledger.Template}, {ofDispatches, ledger.Edit}, {ofOther, ledger.Edit}} {
		files := t[x.kind]
		if len(files) == 0 {
			continue
		}
		rows = append(rows, filesRow(x.act, files, more))
	}
	return rows
}

// maxNamed is the maximum number of files or dispatches in a text.
const maxNamed = 3

// filesRow returns a row that names files without describing their changes.
func filesRow(kind ledger.Kind, files []branch.Edit, more bool) ledger.Operation {
	row := ledger.Operation{Kind: kind}
	var words []string
	for i, f := range files {
		sign, verb := "~", "changes "
		switch {
		case f.Added:
			sign, verb = "+", "adds "
		case f.Removed:
			sign, verb = "-", "deletes "
		}
		row.Files = append(row.Files, sign+f.Path)
		if i < maxNamed {
			words = append(words, verb+path.Base(path.Dir(f.Path))+"/"+path.Base(f.Path))
		}
	}
	switch rest := len(files) - maxNamed; {
	case more:
		words = append(words, "and many more")
	case rest > 0:
		words = append(words, fmt.Sprintf("and %d more", rest))
	}
	row.Why = strings.Join(words, ", ")
	return row
}

// policyRow returns the row of a policy that was edited at a time.
func policyRow(f branch.Edit, at time.Time) ledger.Operation {
	before, wasBad := policy.Parse(f.Path, f.Before)
	after, isBad := policy.Parse(f.Path, f.After)
	switch {
	case f.Removed:
		return ledger.Operation{Kind: ledger.Delete, Why: "the overlay is removed"}
	case f.Added && isBad != nil:
		return ledger.Operation{Kind: ledger.Create, Why: "its policy is invalid: " + firstLine(isBad)}
	case f.Added:
		return ledger.Operation{Kind: ledger.Create, Why: fmt.Sprintf("queue %s, max %d", after.Queue, after.Max)}
	case isBad != nil:
		return ledger.Operation{Kind: ledger.Policy, Why: "is invalid now: " + firstLine(isBad)}
	case wasBad != nil:
		return ledger.Operation{Kind: ledger.Policy, Why: fmt.Sprintf("is valid again: queue %s, max %d", after.Queue, after.Max)}
	}
	row := ledger.Operation{Kind: ledger.Policy, Changes: Changes(before, after)}
	row.Why = sentence(row.Changes)
	switch {
	case len(row.Changes) == 0:
		row.Why = "no setting changes"
	case onlyPauses(before, after, at):
		row.Kind = ledger.Resume
		if during, _ := after.During(at); during.Paused {
			row.Kind = ledger.Pause
		}
	}
	return row
}

// onlyPauses reports whether the only effect of a change at a time is on a pause: a permanent one, or an override
// that pauses until a time. Overrides that are over have no effect.
func onlyPauses(before, after plan.Policy, at time.Time) bool {
	was, wasUntil := withoutPause(before, at)
	is, isUntil := withoutPause(after, at)
	return len(Changes(was, is)) == 0 && (before.Paused != after.Paused || !wasUntil.Equal(isUntil))
}

// withoutPause returns a policy without its pauses and without overrides that are over, and the time until which
// overrides pause it; zero if none does.
func withoutPause(p plan.Policy, at time.Time) (plan.Policy, time.Time) {
	var until time.Time
	var kept []plan.Override
	p.Paused = false
	for _, o := range p.Overrides {
		if !at.Before(o.Until) {
			continue
		}
		if o.Paused && o.Until.After(until) {
			until = o.Until
		}
		o.Paused = false
		if slices.ContainsFunc(policy.Overridable(), func(f policy.Field) bool { return *f.Override(&o) != nil }) {
			kept = append(kept, o)
		}
	}
	p.Overrides = kept
	return p, until
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// ReasonTrailer is the trailer with the reason for a person's commit.
const ReasonTrailer = "Reason"

// longestReason is the maximum length of a reason, in bytes.
const longestReason = 200

// reasonOf returns the reason in a commit message, which is untrusted text; empty if it has none.
func reasonOf(message string) string {
	lines := strings.Split(strings.TrimRight(message, "\n"), "\n")
	for i := len(lines) - 1; i > 0 && lines[i] != ""; i-- { // trailers are the last paragraph: git-interpret-trailers(1)
		reason, ok := strings.CutPrefix(lines[i], ReasonTrailer+": ")
		switch reason = strings.TrimSpace(reason); {
		case !ok:
		case len(reason) > longestReason:
			return strings.ToValidUTF8(reason[:longestReason], "") + "..."
		default:
			return reason
		}
	}
	return ""
}
