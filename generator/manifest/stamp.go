package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// What muster writes on a dispatch, on the Job and on its pod template alike.
const (
	// LabelDispatch is the dispatch's ID, LabelOverlay the overlay's slug.
	LabelDispatch = "muster.dev/dispatch"
	LabelOverlay  = "muster.dev/overlay"
	// AnnotationAgentTags is the agents' tags as one list, but for the index.
	AnnotationAgentTags = "muster.dev/agent-tags"
	// AnnotationIdleTimeout is in whole seconds.
	AnnotationIdleTimeout = "muster.dev/idle-timeout"
	// AnnotationUptime is in whole seconds; missing where agents take one job.
	AnnotationUptime = "muster.dev/uptime"
	// AnnotationNotAfter and AnnotationOrderedAt are times as in
	// 2026-11-21T02:15:00Z: always UTC, always to the second.
	AnnotationNotAfter  = "muster.dev/not-after"
	AnnotationOrderedAt = "muster.dev/ordered-at"
	// AnnotationPurpose is a plan.Purpose.
	AnnotationPurpose = "muster.dev/purpose"
	// AnnotationCluster is the policy's Buildkite cluster when the dispatch was
	// ordered; empty if the policy named none.
	AnnotationCluster = "muster.dev/cluster"
	// AnnotationTemplate is a hash of the template that the dispatch was stamped
	// from. It is on the Job alone.
	AnnotationTemplate = "muster.dev/template"
	// AnnotationDigest is a hash of the whole file, so that an edit is noticed. It is
	// on the Job alone.
	AnnotationDigest = "muster.dev/digest"
)

const (
	// mostAgents is what Kubernetes allows an Indexed Job (batch/v1 validation,
	// maxParallelismForIndexedJob).
	mostAgents = 100_000
	// longestName is that of a DNS label: a pod's host name is the Job's name
	// and the index.
	longestName = 63
)

var nameRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// checkDispatch says what keeps a dispatch from becoming a Job; nil if nothing.
func checkDispatch(d plan.Dispatch) error {
	last := d.ID + "-" + strconv.Itoa(d.Agents-1)
	switch {
	case !nameRule.MatchString(d.ID):
		return fmt.Errorf("dispatch %s: its ID is no name for a Job: lower case letters, digits and dashes only", quote(d.ID))
	case d.ID+manifestType == listFile || d.ID+manifestType == stateFile:
		return fmt.Errorf("dispatch %s: its file would be muster's own %s%s", d.ID, d.ID, manifestType)
	case d.Agents < 1 || d.Agents > mostAgents:
		return fmt.Errorf("dispatch %s: %d agents: a Job has 1 to %d", d.ID, d.Agents, mostAgents)
	case len(last) > longestName:
		return fmt.Errorf("dispatch %s: its last pod would be named %s: %d characters, at most %d", d.ID, last, len(last), longestName)
	case d.Purpose != plan.ForDemand && d.Purpose != plan.ForWarmPool:
		return fmt.Errorf("dispatch %s: purpose %s is neither %s nor %s", d.ID, quote(string(d.Purpose)), plan.ForDemand, plan.ForWarmPool)
	case !d.At.Equal(d.At.Truncate(time.Second)) || !d.NotAfter.Equal(d.NotAfter.Truncate(time.Second)):
		return fmt.Errorf("dispatch %s: its times are not whole seconds", d.ID)
	case d.NotAfter.Before(d.At) || d.At.UTC().Year() < 1 || d.NotAfter.UTC().Year() > 9999:
		return fmt.Errorf("dispatch %s: ordered at %s, lease until %s", d.ID, d.At, d.NotAfter)
	case d.IdleTimeout < time.Second || d.IdleTimeout != d.IdleTimeout.Truncate(time.Second):
		return fmt.Errorf("dispatch %s: an idle time-out of %s is not one second or more in whole seconds", d.ID, d.IdleTimeout)
	case d.Uptime < 0 || d.Uptime != d.Uptime.Truncate(time.Second):
		return fmt.Errorf("dispatch %s: an uptime of %s is not in whole seconds", d.ID, d.Uptime)
	}
	return nil
}

// template is an agent Job that is ready to be stamped. The pod, which is most
// of it and which no dispatch changes, is printed once.
type template struct {
	// text is the whole Job; as nodes it would be twenty times as large.
	text []byte
	// pod is the part of the text that the placeholder's line stands for; empty
	// where the two do not come to the same, and the whole Job is printed each time.
	pod []byte
	// hash stands for the whole Job.
	hash string
}

// placeholder is the line that stands for the pod in a slim Job. Nothing
// before it can look the same: labels and annotations have no such indent.
const placeholder = "    spec: muster.dev/pod\n"

func newTemplate(job *yaml.Node) (*template, error) {
	whole, err := encode(job)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(whole)
	t := &template{text: bytes.Clone(whole), hash: hex.EncodeToString(sum[:8])}
	t.pod = podOf(t.text)
	if spliced, err := t.encode(t.start()); err != nil || !bytes.Equal(spliced, whole) {
		t.pod = nil
	}
	return t, nil
}

// podOf is the part of a printed Job that is its pod, with the line that names it;
// empty where that does not stand alone.
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

// start is the Job to fill in, with the placeholder for the pod.
func (t *template) start() *yaml.Node {
	if t.pod == nil {
		return t.job()
	}
	before, after, _ := bytes.Cut(t.text, t.pod)
	slim, wrong := parseOne("", slices.Concat(before, []byte(placeholder), after))
	if wrong != nil {
		return t.job() // and then the pod's place is not found
	}
	return slim
}

// job is the whole Job as nodes.
func (t *template) job() *yaml.Node {
	job, _ := parseOne("", t.text) // printed from nodes: it reads
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
		return nil, errors.New("the pod's place is gone")
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

// DispatchBytes is how large a dispatch of the template is at most; zero: it is not known.
func (o *Overlay) DispatchBytes() int {
	const stamped = 4 << 10
	if o.template == nil {
		return 0
	}
	return len(o.template.text) + stamped
}

// stamp prints the dispatch: the template with its name, its numbers and
// muster's own labels and annotations filled in, and not a byte else changed.
func (o *Overlay) stamp(d plan.Dispatch) ([]byte, error) {
	text, err := o.print(d)
	if err != nil {
		return nil, err
	}
	return seal(text), nil
}

// print is stamp with noDigest in the digest's place.
func (o *Overlay) print(d plan.Dispatch) ([]byte, error) {
	if err := checkDispatch(d); err != nil {
		return nil, err
	}
	job := o.template.start()
	meta, spec := mapping(job, "metadata"), mapping(job, "spec")
	set(meta, "name", "!!str", d.ID)
	n := strconv.Itoa(d.Agents)
	set(spec, "completions", "!!int", n)
	set(spec, "parallelism", "!!int", n)

	slug := o.Slug()
	if d.Tags == nil {
		d.Tags = o.AgentTags()
	}
	told := strings.Join(d.PodTags(), ",")
	for _, m := range []*yaml.Node{meta, mapping(mapping(spec, "template"), "metadata")} {
		labels, annotations := mapping(m, "labels"), mapping(m, "annotations")
		set(labels, LabelDispatch, "!!str", d.ID)
		set(labels, LabelOverlay, "!!str", slug)
		set(annotations, AnnotationAgentTags, "!!str", told)
		set(annotations, AnnotationIdleTimeout, "!!str", strconv.FormatInt(int64(d.IdleTimeout/time.Second), 10))
		if d.Uptime > 0 {
			set(annotations, AnnotationUptime, "!!str", strconv.FormatInt(int64(d.Uptime/time.Second), 10))
		}
		set(annotations, AnnotationNotAfter, "!!str", d.NotAfter.UTC().Format(time.RFC3339))
		set(annotations, AnnotationOrderedAt, "!!str", d.At.UTC().Format(time.RFC3339))
		set(annotations, AnnotationPurpose, "!!str", string(d.Purpose))
		set(annotations, AnnotationCluster, "!!str", d.Cluster)
	}
	set(mapping(meta, "annotations"), AnnotationTemplate, "!!str", d.Template)
	set(mapping(meta, "annotations"), AnnotationDigest, "!!str", noDigest)
	text, err := o.template.encode(job)
	if err != nil {
		return nil, fmt.Errorf("printing dispatch %s: %w", d.ID, err)
	}
	return text, nil
}
