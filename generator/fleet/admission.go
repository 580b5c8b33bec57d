package fleet

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"muster/generator/finding"
	"muster/generator/kubernetes"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// refusals returns the reasons for which the Kubernetes API server would refuse the overlay's
// dispatches as built, and a finding on a reserved namespace. It computes them once for each build of
// the template and of the overlay. job is the built Job as nodes; nil if it was not parsed yet.
func (l *Loader) refusals(tree fs.FS, o *Overlay, probe plan.Dispatch, job *yaml.Node, full *memo) []finding.Finding {
	template := l.used["template "+path.Join(o.Path, templateDir)]
	if o.built == nil || template == nil || full == nil {
		return nil
	}
	if full.judged == template {
		return full.refused
	}
	if job == nil {
		var wrong *finding.Finding
		if job, wrong = finding.ParseOne(o.Path, o.built); wrong != nil {
			return []finding.Finding{*wrong}
		}
	}
	longestNamed(job, probe.ID, o)
	full.judged, full.refused = template, nil
	var find *lineFinder
	for _, p := range append(l.intoReserved(job), kubernetes.Validate(job)...) {
		if find == nil {
			find = newLineFinder(tree, o, template.notes, full.notes)
		}
		f := finding.Finding{Field: finding.Field(p.Path), Problem: p.Problem, Remedy: p.Remedy}
		if !strings.Contains(f.Problem, "Kubernetes") {
			f.Problem += ": Kubernetes " + kubernetes.Version + " refuses that"
		}
		f.File, f.Line = find.place(job, p.Path)
		full.refused = append(full.refused, f)
		if len(full.refused) > maxFindings {
			full.refused = atMost(o, full.refused)
			break
		}
	}
	return full.refused
}

// intoReserved is a problem of a Job whose namespace is reserved; see [Loader.Reserve].
func (l *Loader) intoReserved(job *yaml.Node) []kubernetes.Problem {
	at := []string{"metadata", "namespace"}
	if !slices.Contains(l.reserved, finding.Scalar(job, at...)) {
		return nil
	}
	return []kubernetes.Problem{{
		Path: at, Problem: "is the namespace of muster itself, where Kubernetes lets every pod mount muster's Secrets",
		Remedy: "use a namespace for agents, such as buildkite",
	}}
}

// longestNamed gives the proof's dispatch a name as long as the overlay's longest, including the
// index of its last pod.
func longestNamed(job *yaml.Node, id string, o *Overlay) {
	name := finding.Lookup(job, "metadata", "name")
	if name == nil {
		return
	}
	last := strconv.Itoa(plan.JobAgents - 1)
	longest := o.Slug() + "-warm-" + strings.Repeat("0", 8) + strings.Repeat("0", len(last)-1)
	name.Value = strings.Replace(name.Value, id, longest, 1)
}

// withoutFields returns the findings except those on fields that others concern.
func withoutFields(findings, others []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(findings, func(f finding.Finding) bool {
		return f.Field != "" && slices.ContainsFunc(others, func(x finding.Finding) bool { return strings.HasPrefix(x.Field, f.Field) })
	})
}
