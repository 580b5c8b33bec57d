package fleet

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// checkEdits finds readable dispatches that were edited. Unreadable ones are found when they are
// read.
func checkEdits(tree fs.FS, o *Overlay) []finding.Finding {
	var findings []finding.Finding
	for _, e := range o.edits {
		if !e.Readable {
			continue
		}
		data, err := fs.ReadFile(tree, e.File)
		if err != nil {
			continue // it was read a moment ago
		}
		if job, wrong := finding.ParseOne(e.File, data); wrong == nil {
			findings = append(findings, o.checkEdit(e, job))
		}
		if len(findings) > maxFindings {
			return atMost(o, findings)
		}
	}
	return findings
}

// checkEdit returns a finding with the edited field of a dispatch and what muster will do about it.
// It reads no log: the original is known if the digest in the file proves a guess.
func (o *Overlay) checkEdit(e Edit, job *yaml.Node) finding.Finding {
	f := finding.Finding{File: e.File, Problem: "was edited", Remedy: repair + "; otherwise muster "}
	original, before := o.unedited(e, job)
	if original == nil {
		f.Problem += ": its content does not match " + AnnotationDigest
		f.Remedy += "finds that commit: it restores the file, withdraws it if the edit may start more agents, and suspends the overlay if there is no such commit"
		return f
	}
	switch {
	case covers(before, Larger(before, e.Dispatch)):
		f.Remedy += "restores it with its next commit"
	case e.Withdrawn:
		f.Remedy += "restores it with its next commit, with the larger numbers"
	default:
		f.Remedy += "withdraws it with its next commit: it moves to " + path.Join(dispatchDir, withdrawnDir) + "/ with the larger numbers, where no syncer applies it"
	}
	at, was, is := differs(original, job)
	f.Field, f.Line = finding.Field(at), is.Line
	changed := changes(before, e.Dispatch)
	switch {
	case len(changed) > 0:
	case len(at) == 0:
		f.Line = 0
		changed = []string{"its layout or its comments"}
	case was != nil && was.Kind == yaml.ScalarNode && is.Kind == yaml.ScalarNode:
		changed = []string{policy.Shown(was) + " → " + policy.Shown(is)}
	default:
		return f
	}
	f.Problem += " (" + strings.Join(changed, ", ") + ")"
	return f
}

// maxGuessed bounds the numbers of agents that are tried, and maxHashed the bytes.
const (
	maxGuessed = 1000
	maxHashed  = 8 << 20
)

// unedited guesses the original of a dispatch: another number of agents, the lease or the tags of the
// policy, or the fields of the template. The digest in the file proves the guess. It returns nil if
// no guess is right.
func (o *Overlay) unedited(e Edit, job *yaml.Node) (*yaml.Node, plan.Dispatch) {
	digest := finding.Scalar(job, "metadata", "annotations", AnnotationDigest)
	if digest == "" {
		return nil, plan.Dispatch{}
	}
	for _, text := range o.unsealed(e.Dispatch, job) {
		for n := range min(maxGuessed, max(plan.JobAgents, e.Agents), 1+maxHashed/len(text)) {
			guess := withAgents(text, e.Agents, n+1)
			if digestOf(guess) != digest {
				continue
			}
			before, err := Original(e.File, bytes.Replace(guess, []byte(noDigest), []byte(digest), 1))
			if original, wrong := finding.ParseOne(e.File, guess); err == nil && wrong == nil {
				return original, before
			}
		}
	}
	return nil, plan.Dispatch{}
}

// unsealed returns the texts that a dispatch may have had, except for its agents, with noDigest in
// place of the digest.
func (o *Overlay) unsealed(d plan.Dispatch, job *yaml.Node) [][]byte {
	var texts [][]byte
	leases := []time.Time{d.NotAfter}
	for _, lease := range policy.LeasesOf(o.Policy) {
		leases = append(leases, d.At.Add(lease))
	}
	for _, lease := range leases {
		file := finding.Copy(job)
		for _, m := range []*yaml.Node{finding.Mapping(file, "metadata"), finding.Mapping(finding.Mapping(finding.Mapping(file, "spec"), "template"), "metadata")} {
			finding.Set(finding.Mapping(m, "annotations"), AnnotationNotAfter, "!!str", lease.UTC().Format(time.RFC3339))
		}
		finding.Set(finding.Mapping(finding.Mapping(file, "metadata"), "annotations"), AnnotationDigest, "!!str", noDigest)
		for _, field := range []string{"completions", "parallelism"} {
			finding.Set(finding.Mapping(file, "spec"), field, "!!int", strconv.Itoa(d.Agents))
		}
		if text, err := encode(file); err == nil {
			texts = append(texts, text)
		}
		if o.template == nil {
			continue
		}
		for _, tags := range [][]string{d.Tags, o.AgentTags()} {
			d := d
			d.NotAfter, d.Tags = lease, tags
			if text, err := o.print(d); err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// withAgents returns the text of a dispatch with another number of agents.
func withAgents(text []byte, before, after int) []byte {
	for _, field := range []string{"completions", "parallelism"} {
		text = bytes.Replace(text, fmt.Appendf(nil, "\n  %s: %d\n", field, before), fmt.Appendf(nil, "\n  %s: %d\n", field, after), 1)
	}
	return text
}

// differs returns the first field of a dispatch that was changed or removed; if it was removed, is
// is its parent. It ignores the digest. The path is empty if nothing differs.
func differs(before, after *yaml.Node, at ...string) (path []string, was, is *yaml.Node) {
	switch {
	case before.Kind != after.Kind || before.Kind == yaml.SequenceNode && len(before.Content) != len(after.Content):
		return at, before, after
	case before.Kind == yaml.ScalarNode:
		if before.Value != after.Value || before.Tag != after.Tag {
			return at, before, after
		}
	case before.Kind == yaml.SequenceNode:
		for i := range before.Content {
			if path, was, is = differs(before.Content[i], after.Content[i], below(at, nth(i))...); len(path) > 0 {
				return path, was, is
			}
		}
	case before.Kind == yaml.MappingNode:
		return differentFields(before, after, at)
	}
	return nil, nil, after
}

// differentFields is differs of mappings.
func differentFields(before, after *yaml.Node, at []string) (path []string, was, is *yaml.Node) {
	for key, value := range finding.Pairs(after) {
		at := below(at, key.Value)
		was := finding.Lookup(before, key.Value)
		if was == nil {
			return at, nil, value
		}
		if key.Value == AnnotationDigest {
			continue
		}
		if path, was, is := differs(was, value, at...); len(path) > 0 {
			return path, was, is
		}
	}
	for key := range finding.Pairs(before) {
		if finding.Lookup(after, key.Value) == nil {
			return below(at, key.Value), nil, after
		}
	}
	return nil, nil, after
}
