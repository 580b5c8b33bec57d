package fleet

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
	"muster/generator/plan"
)

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
		// No patch has this number of agents.
		ID: o.Slug() + "-proof", Purpose: plan.ForDemand, Agents: 83, IdleTimeout: time.Second,
		At: time.Unix(0, 0), NotAfter: time.Unix(0, 0),
	}
	o.Template, o.JobTTL = o.template.hash, o.template.ttl
	probe.Template = o.Template
	var proof proofJob
	wrong, err = l.readable.get(contentKey(o.Template, o.policyKey[:]), func() (wrong *finding.Finding, err error) {
		proof, wrong, err = o.unreadable(probe)
		return wrong, err
	})
	if err == nil && wrong != nil {
		f := *wrong
		f.File = o.templateFile()
		wrong = &f
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
		return l.added(o, probe, proof, built)
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
	l.judge(o, probe, nil, l.used[full.name+o.Path])
	return nil
}

// proofJob is the stamped dispatch of the proof, and its nodes; empty if it was not needed.
type proofJob struct {
	text []byte
	job  *yaml.Node
}

// added is the proof of an overlay that adds its dispatches unchanged.
func (l *Loader) added(o *Overlay, probe plan.Dispatch, proof proofJob, built *memo) error {
	if proof.text == nil && (built.judged != l.used["template "+path.Join(o.Path, templateDir)] || built.judgedFor != o.policyKey) {
		var err error
		if proof.text, err = o.stamp(probe); err != nil {
			return fmt.Errorf("stamping the template: %w", err)
		}
	}
	o.proven(append(slices.Clone(o.objects), object{APIVersion: "batch/v1", Kind: "Job", YAML: append([]byte{}, proof.text...)}))
	l.judge(o, probe, proof.job, built)
	o.built = []byte{}
	return nil
}

// proof returns the proof's dispatch, which is the same for every overlay on the template, so that
// equal overlays share a build. It is the overlay's own if the overlay changes objects by their names
// or labels.
func (l *Loader) proof(o *Overlay, probe plan.Dispatch, empty *memo) ([]byte, error) {
	if empty.selects {
		return l.proofs.get(contentKey(o.Template, o.policyKey[:]), func() ([]byte, error) { return o.stamp(probe) })
	}
	return l.proofs.get(contentKey(o.Template, nil), func() ([]byte, error) {
		probe.ID, probe.Tags = "muster-proof", []string{plan.TagQueue + "=proof"}
		anybody := Overlay{Overlay: plan.Overlay{Name: "proof"}, template: o.template}
		return anybody.stamp(probe)
	})
}

// proven returns the proof's dispatch in the output of the overlay's build.
func (o *Overlay) proven(objects []object) {
	var added []object
	rest := slices.Clone(o.objects)
	for _, x := range objects {
		at := slices.IndexFunc(rest, func(y object) bool { return x.Kind == y.Kind && bytes.Equal(x.YAML, y.YAML) })
		if at < 0 {
			added = append(added, x)
			continue
		}
		rest = slices.Delete(rest, at, at+1)
	}
	for _, x := range o.objects {
		if x.Kind == "Job" {
			o.jobs = append(o.jobs, x.Name)
		}
	}
	at := slices.IndexFunc(added, func(x object) bool { return x.Kind == "Job" })
	if at < 0 {
		file := path.Join(o.Path, listFile)
		o.reject(finding.Finding{File: file, Line: finding.LineOf(o.tree, file, "resources"), Field: "resources", Problem: "the overlay builds without its dispatches", Remedy: "add " + dispatchDir + " to the list, or nothing that muster orders is applied"})
		return
	}
	o.built = added[at].YAML
}
