package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// buildTemplate builds the template and prepares it for stamping. Findings on the built Job are
// computed once for each build.
func (l *Loader) buildTemplate(tree fs.FS, o *Overlay) (*finding.Finding, error) {
	dir := path.Join(o.Path, templateDir)
	v := &view{name: "template ", tree: tree}
	if v.stat(dir) == noteMissing && v.failed == nil {
		return &finding.Finding{File: dir, Problem: "does not exist", Remedy: "write " + path.Join(dir, listFile) + ", which lists the agent Job, as in ../../../base"}, nil
	}
	objects, wrong, err := l.build(v, o.Path, dir)
	if err != nil || wrong != nil {
		return wrong, err
	}
	built := l.used[v.name+dir]
	if built.noJob != nil {
		return built.noJob, nil
	}
	if built.template == nil {
		job, wrong := (&view{tree: tree, notes: built.notes}).agentJob(dir, objects)
		if wrong != nil {
			built.noJob = wrong
			return wrong, nil
		}
		if built.template, err = newTemplate(job); err != nil {
			return nil, fmt.Errorf("printing the template: %w", err)
		}
		built.objects = nil // the template says it all
	}
	o.template = built.template
	return nil, nil
}

// agentJob returns the Job that the directory of a template builds to, as nodes.
func (v *view) agentJob(dir string, objects []object) (*yaml.Node, *finding.Finding) {
	isJob := func(x object) bool { return x.Kind == "Job" && x.APIVersion == "batch/v1" }
	f := &finding.Finding{}
	switch {
	case len(objects) == 0:
		f.File, f.Line = v.kustomizationOf(dir)
		f.Problem, f.Remedy = dir+" builds to nothing", "list the agent Job in its resources, as in ../../../base"
		return nil, f
	case len(objects) > 1:
		agent := max(0, slices.IndexFunc(objects, isJob))
		second := objects[0]
		if agent == 0 {
			second = objects[1]
		}
		f.File, f.Line = v.beginning(dir, second)
		f.Problem = fmt.Sprintf("%s builds to %d objects (%s), not to one Job", dir, len(objects), someOf(objects))
		f.Remedy = "move all but the agent Job next to the overlay's own kustomization.yaml"
		return nil, f
	case !isJob(objects[0]):
		key := "kind"
		if objects[0].Kind == "Job" {
			key = "apiVersion"
		}
		f.File, f.Line = v.lineIn(dir, objects[0], key)
		f.Problem = fmt.Sprintf("%s builds to the %s (%s), not to a Job", dir, objects[0], objects[0].APIVersion)
		f.Remedy = "muster orders agents as Jobs of batch/v1: rewrite it as one"
		return nil, f
	}
	job, wrong := finding.ParseOne(dir, objects[0].YAML)
	if wrong != nil { // by the lines of what was built, which nobody can edit
		wrong.File, wrong.Line = v.beginning(dir, objects[0])
		return nil, wrong
	}
	at := []string{"spec", "template", "spec"}
	if pod := finding.Lookup(job, at...); pod == nil || pod.Kind != yaml.MappingNode {
		f.File, f.Line = v.lineIn(dir, objects[0], at...)
		f.Field, f.Problem = finding.Field(at), "is missing: the Job has no pod"
		f.Remedy = "write the agent's pod there, as in the base that muster init writes"
		return nil, f
	}
	return job, nil
}

// someOf returns the names of the first few objects.
func someOf(objects []object) string {
	const shown = 5
	var names []string
	for _, x := range objects[:min(shown, len(objects))] {
		names = append(names, x.String())
	}
	if more := len(objects) - shown; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// unreadable returns the problem that would make dispatches of the template unreadable in git;
// nil if none. It also returns the dispatch that it tried. [Loader.placed] finds the problem's
// place in the source files.
func (o *Overlay) unreadable(probe plan.Dispatch) (proof proofJob, wrong *finding.Finding, err error) {
	if proof.text, err = o.stamp(probe); err != nil {
		return proof, nil, fmt.Errorf("stamping the template: %w", err)
	}
	const other = 4 << 10 // the additional size of other dispatches
	if len(proof.text) > largestDispatch-other {
		return proof, &finding.Finding{Problem: fmt.Sprintf("%s builds to a Job of %d bytes, and a dispatch has at most %d", path.Join(o.Path, templateDir), len(proof.text), largestDispatch-other), Remedy: "keep large files in a ConfigMap or in the image"}, nil
	}
	file := o.Slug() + "-proof" + manifestType
	var d readDispatch
	if proof.job, wrong = finding.ParseOne(file, proof.text); wrong == nil {
		d, wrong = parsedDispatch(file, proof.text, proof.job)
	}
	if wrong != nil {
		return proof, &finding.Finding{Field: wrong.Field, Problem: wrong.Problem, Remedy: "Kubernetes takes strings there, and nothing else: quote it, or remove it"}, nil
	}
	if d.edited {
		return proof, &finding.Finding{Problem: path.Join(o.Path, templateDir) + " has the text " + noDigest + ", which is reserved for muster's digest", Remedy: "remove it"}, nil
	}
	return proof, nil, nil
}

// placed adds the file and line to the problem of unreadable: those of the value or the text, or
// the first line of the largest file if the Job is too large. It searches once for each build of
// the template: the same Job may come from other lines.
func (l *Loader) placed(tree fs.FS, o *Overlay, wrong *finding.Finding) *finding.Finding {
	dir := path.Join(o.Path, templateDir)
	built := l.used["template "+dir]
	if built.unplaced == wrong {
		return built.placed
	}
	v := &view{tree: tree, notes: built.notes}
	f := *wrong
	job := o.template.job()
	switch at := noString(job); {
	case f.Field != "" && at != nil:
		f.File, f.Line = newLineFinder(tree, o, built.notes).place(job, at)
	case strings.Contains(f.Problem, noDigest):
		f.File, f.Line = v.mentions(dir, noDigest)
	default:
		f.File, f.Line = v.largest(dir)
	}
	built.unplaced, built.placed = wrong, &f
	return &f
}

// noString returns the path of the first label or annotation of a Job whose value does not have
// type string, in the order in which a dispatch is read; nil if all values are strings.
func noString(job *yaml.Node) []string {
	for _, above := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		for _, key := range []string{"labels", "annotations"} {
			at := below(above, key)
			for key, value := range finding.Pairs(finding.Lookup(job, at...)) {
				if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
					return below(at, key.Value)
				}
			}
		}
	}
	return nil
}

// loadTemplate builds the template, and proves that the overlay builds.
//
// The proof covers every commit that muster makes on this template, so
// that no commit needs a build of its own (kustomize takes more than the
// square of the number of resources). It builds the overlay's own files once
// with one dispatch stamped from the template and once without any. Any set of
// dispatches then builds, because
//
//   - every dispatch on this template is the proof's except for its name, numbers
//     and muster's labels and annotations, whose form stamp checks; dispatches
//     from older templates were built alone when they were first read;
//   - all of them are Jobs whose names differ, since they are the names of
//     their files and differ from those of the overlay's own Jobs, which is
//     checked; kustomize refuses two resources of one name and checks
//     nothing else between Jobs;
//   - the list that names them is muster's own.
//
// An overlay whose kustomizations only list resources, as that of muster init,
// is built without a dispatch only: kustomize then adds each resource
// unchanged. TestAddingIsBuilding compares the two.
//
// The proof is remembered by the content of all files it read.
func (l *Loader) loadTemplate(tree fs.FS, o *Overlay) error {
	wrong, err := l.buildTemplate(tree, o)
	if err != nil || wrong != nil {
		return o.rejectIf(wrong, err)
	}
	probe := plan.Dispatch{
		ID: o.Slug() + "-proof", Purpose: plan.ForDemand, Agents: 1, IdleTimeout: time.Second,
		At: time.Unix(0, 0), NotAfter: time.Unix(0, 0),
	}
	o.Template = o.template.hash
	probe.Template = o.Template
	var proof proofJob
	wrong, err = l.readable.get(contentKey(o.Template, o.policyKey[:]), func() (wrong *finding.Finding, err error) {
		proof, wrong, err = o.unreadable(probe)
		return wrong, err
	})
	if err == nil && wrong != nil {
		wrong = l.placed(tree, o, wrong)
	}
	if err != nil || wrong != nil {
		return o.rejectIf(wrong, err)
	}
	hidden := path.Join(o.Path, dispatchDir)
	empty := &view{name: "empty ", tree: tree, hide: hidden, over: map[string][]byte{path.Join(hidden, listFile): list(nil)}}
	if o.objects, wrong, err = l.build(empty, o.Path, o.Path); err != nil || wrong != nil {
		return o.rejectIf(wrong, err)
	}
	built := l.used[empty.name+o.Path]
	if built.adds {
		return l.added(tree, o, probe, proof, built)
	}
	if o.proof, err = l.proof(o, probe, built); err != nil {
		return fmt.Errorf("stamping the template: %w", err)
	}
	full := &view{name: "full ", tree: tree, hide: hidden, over: map[string][]byte{
		path.Join(hidden, listFile): list([]string{"proof"}), path.Join(hidden, "proof"+manifestType): o.proof,
	}}
	objects, wrong, err := l.build(full, o.Path, o.Path)
	if err != nil || wrong != nil {
		return o.rejectIf(wrong, err)
	}
	o.proven(objects)
	o.refused = l.refusals(tree, o, probe, nil, l.used[full.name+o.Path])
	return nil
}
