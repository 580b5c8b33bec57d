package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// template is an agent Job that is ready to be stamped. The pod, which is most of it and the
// same in every dispatch, is printed once.
type template struct {
	// text is the whole Job; as nodes it would be twenty times as large.
	text []byte
	// pod is the part of the text that the placeholder's line represents. It is empty if the two
	// texts differ; the whole Job is then printed each time.
	pod []byte
	// hash identifies the whole Job, and ttl is its ttlSecondsAfterFinished.
	hash string
	ttl  time.Duration
}

// placeholder is the line that represents the pod in a slim Job. Nothing before it can look the
// same: labels and annotations have no such indent.
const placeholder = "    spec: muster.dev/pod\n"

func newTemplate(job *yaml.Node) (*template, error) {
	whole, err := encode(job)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(whole)
	t := &template{text: bytes.Clone(whole), hash: hex.EncodeToString(sum[:8])}
	if n, ok := finding.Integer(job, "spec", "ttlSecondsAfterFinished"); ok {
		t.ttl = time.Duration(n) * time.Second
	}
	t.pod = podOf(t.text)
	if spliced, err := t.encode(t.start()); err != nil || !bytes.Equal(spliced, whole) {
		t.pod = nil
	}
	return t, nil
}

// podOf returns the pod in a printed Job, with the line of its key; empty if the pod is not
// separate.
func podOf(text []byte) []byte {
	const head, indent = "    spec:\n", "      "
	above := bytes.Index(text, []byte("\n  template:\n"))
	if above < 0 {
		return nil
	}
	from := bytes.Index(text[above:], []byte("\n"+head))
	if from < 0 {
		return nil
	}
	from += above + 1
	to := from + len(head)
	for to < len(text) && (text[to] == '\n' || bytes.HasPrefix(text[to:], []byte(indent))) {
		_, rest, _ := bytes.Cut(text[to:], []byte("\n"))
		to = len(text) - len(rest)
	}
	return text[from:to]
}

// start returns the Job to fill in, with the placeholder for the pod.
func (t *template) start() *yaml.Node {
	if t.pod == nil {
		return t.job()
	}
	before, after, _ := bytes.Cut(t.text, t.pod)
	slim, wrong := finding.ParseOne("", slices.Concat(before, []byte(placeholder), after))
	if wrong != nil {
		return t.job() // and then the placeholder is not found
	}
	return slim
}

// job returns the whole Job as nodes.
func (t *template) job() *yaml.Node {
	job, _ := finding.ParseOne("", t.text) // printed from nodes: it reads
	return job
}

// encode prints a Job that was started from t.
func (t *template) encode(job *yaml.Node) ([]byte, error) {
	text, err := encode(job)
	if err != nil || t.pod == nil {
		return text, err
	}
	before, after, found := bytes.Cut(text, []byte(placeholder))
	if !found {
		return nil, errors.New("the placeholder of the pod is missing")
	}
	return slices.Concat(before, t.pod, after), nil
}

func encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

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
	f := &finding.Finding{File: v.kustomizationOf(dir)}
	switch {
	case len(objects) == 0:
		const local = "config.kubernetes.io/local-config"
		if file, line := v.mentions(dir, local); line > 0 {
			f.File, f.Line, f.Field, f.Problem, f.Remedy = file, line, finding.Field(annotation(local)), "kustomize leaves the Job out", "remove it"
			return nil, f
		}
		f.Problem, f.Remedy = dir+" builds to nothing", "list the agent Job in its resources, as in ../../../base"
		return nil, f
	case len(objects) > 1:
		f.Problem = fmt.Sprintf("%s builds to %d objects (%s), not to one Job", dir, len(objects), someOf(objects))
		f.Remedy = "move all but the agent Job next to the overlay's own kustomization.yaml"
		return nil, f
	case objects[0].Kind != "Job" || objects[0].APIVersion != "batch/v1":
		f.File = v.fileOf(dir, objects[0].Kind)
		f.Problem = fmt.Sprintf("%s builds to the %s (%s), not to a Job", dir, objects[0], objects[0].APIVersion)
		f.Remedy = "muster orders agents as Jobs of batch/v1: rewrite it as one"
		return nil, f
	}
	f.File = v.fileOf(dir, "Job")
	job, wrong := finding.ParseOne(f.File, objects[0].YAML)
	if wrong != nil { // by the lines of what was built, which nobody can edit
		wrong.Line = 0
		return nil, wrong
	}
	at := []string{"spec", "template", "spec"}
	if pod := finding.Lookup(job, at...); pod == nil || pod.Kind != yaml.MappingNode {
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
// nil if none. It also returns the dispatch that it tried.
func (o *Overlay) unreadable(probe plan.Dispatch) (proof proofJob, wrong *finding.Finding, err error) {
	if proof.text, err = o.stamp(probe); err != nil {
		return proof, nil, fmt.Errorf("stamping the template: %w", err)
	}
	const other = 4 << 10 // the additional size of other dispatches
	if len(proof.text) > largestManifest-other {
		return proof, &finding.Finding{Problem: fmt.Sprintf("%s builds to a Job of %d bytes, and a dispatch has at most %d", path.Join(o.Path, templateDir), len(proof.text), largestManifest-other), Remedy: "keep large files in a ConfigMap or in the image"}, nil
	}
	if proof.job, wrong = finding.ParseOne(o.Slug()+"-proof"+manifestType, proof.text); wrong == nil {
		wrong = notStrings(proof.job)
	}
	if wrong != nil {
		return proof, &finding.Finding{Field: wrong.Field, Problem: wrong.Problem, Remedy: "Kubernetes takes strings there, and nothing else: quote it, or remove it"}, nil
	}
	return proof, nil, nil
}

// notStrings returns the first label or annotation of a stamped Job or its pod template that is not a
// string; nil if all are.
func notStrings(job *yaml.Node) *finding.Finding {
	for _, meta := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		for _, name := range []string{"labels", "annotations"} {
			at := below(meta, name)
			for key, value := range finding.Pairs(finding.Lookup(job, at...)) {
				if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
					return &finding.Finding{Field: finding.Field(below(at, key.Value)), Problem: "is not a string"}
				}
			}
		}
	}
	return nil
}
