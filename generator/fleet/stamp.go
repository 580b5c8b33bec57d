package fleet

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

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// A dispatch contains a digest of its own file, which reveals an edit without reading anything
// else. It detects accidents, and is not a signature: anyone who can push can write a digest.

// digestPrefix keeps a digest from looking like a number, which YAML would quote.
const digestPrefix = "sha256-"

// digestLength is that of its hexadecimal digits.
const digestLength = 32

// noDigest is the placeholder for the digest.
var noDigest = digestPrefix + strings.Repeat("0", digestLength)

// seal fills in the digest of a text that has noDigest in its place.
func seal(text []byte) []byte {
	return bytes.Replace(text, []byte(noDigest), []byte(digestOf(text)), 1)
}

func digestOf(blank []byte) string {
	sum := sha256.Sum256(blank)
	return digestPrefix + hex.EncodeToString(sum[:])[:digestLength]
}

// isEdited reports whether a dispatch was edited: its digest is missing or wrong.
func isEdited(job *yaml.Node, data []byte) bool {
	digest := finding.Scalar(job, "metadata", "annotations", AnnotationDigest)
	return digest == "" || digestOf(bytes.Replace(data, []byte(digest), []byte(noDigest), 1)) != digest
}

// raised is a dispatch as muster wrote it, with more agents and a later end of its
// lease: what may come of it at most. It contains the number of agents that were ordered, and when the
// dispatch was withdrawn, unless d lacks them. It is not for a syncer.
func raised(original []byte, d plan.Dispatch) ([]byte, error) {
	job, wrong := finding.ParseOne("", original)
	if wrong != nil {
		return nil, *wrong
	}
	spec := finding.Mapping(job, "spec")
	n := strconv.Itoa(d.Agents)
	finding.Set(spec, "completions", "!!int", n)
	finding.Set(spec, "parallelism", "!!int", n)
	for _, meta := range []*yaml.Node{finding.Mapping(job, "metadata"), finding.Mapping(finding.Mapping(spec, "template"), "metadata")} {
		finding.Set(finding.Mapping(meta, "annotations"), AnnotationNotAfter, "!!str", d.NotAfter.UTC().Format(time.RFC3339))
	}
	annotations := finding.Mapping(finding.Mapping(job, "metadata"), "annotations")
	if d.Ordered > 0 {
		finding.Set(annotations, AnnotationOrderedAgents, "!!str", strconv.Itoa(d.Ordered))
	}
	if !d.WithdrawnAt.IsZero() {
		finding.Set(annotations, AnnotationWithdrawnAt, "!!str", d.WithdrawnAt.UTC().Format(time.RFC3339))
	}
	finding.Set(annotations, AnnotationDigest, "!!str", noDigest)
	text, err := encode(job)
	if err != nil {
		return nil, err
	}
	return seal(text), nil
}

// Raised reports whether a text is an order as muster wrote it, with as many agents and
// as late an end of its lease, or more of either: see [Overlay.Restore]. The file is the
// order's path, and at the latest time at which it can have been withdrawn. Earlier versions did not write
// how many agents were ordered.
func Raised(file string, text, order []byte, at time.Time) bool {
	d, err := ParseDispatch(file, text)
	if err != nil {
		return false
	}
	before, err := Original(file, order)
	if err != nil || d.Agents < before.Agents || d.NotAfter.Before(before.NotAfter) {
		return false
	}
	more := d.Agents > before.Agents || d.NotAfter.After(before.NotAfter)
	if d.Ordered != 0 && (!more || d.Ordered != before.Agents) || !d.WithdrawnAt.IsZero() && (d.Ordered == 0 || d.WithdrawnAt.After(at)) {
		return false
	}
	want, err := raised(order, d)
	return err == nil && bytes.Equal(text, want)
}

// Rough returns the dispatch that a file may have created although the file is invalid or
// edited: the number of agents and the end of the lease. They are zero if the file does not
// contain them.
func Rough(id string, data []byte) plan.Dispatch {
	d := plan.Dispatch{ID: id}
	if len(data) > largestDispatch {
		return d
	}
	job, wrong := finding.ParseOne("", data)
	if wrong != nil {
		return d
	}
	for _, key := range []string{"parallelism", "completions"} { // an Indexed Job starts no more pods than completions
		if n, ok := finding.Integer(job, "spec", key); ok && n <= policy.MaxAgents {
			d.Agents = n
		}
	}
	for _, at := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		t, err := time.Parse(time.RFC3339, finding.Scalar(finding.Lookup(job, at...), "annotations", AnnotationNotAfter))
		if err == nil && t.After(d.NotAfter) {
			d.NotAfter = t.UTC()
		}
	}
	return d
}

// The labels and annotations of a dispatch, on the Job and on its pod template.
const (
	// LabelDispatch is the dispatch's ID, LabelOverlay the overlay's slug.
	LabelDispatch = "muster.dev/dispatch"
	LabelOverlay  = "muster.dev/overlay"
	// AnnotationAgentTags is the agents' tags as one list, but for the index.
	AnnotationAgentTags = "muster.dev/agent-tags"
	// AnnotationIdleTimeout is in whole seconds.
	AnnotationIdleTimeout = "muster.dev/idle-timeout"
	// AnnotationUptime is in whole seconds; missing if agents take one job.
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
	// AnnotationTemplate is a hash of the dispatch's template. Only the Job has it.
	AnnotationTemplate = "muster.dev/template"
	// AnnotationDigest is a hash of the whole file, which reveals an edit. Only the Job has it.
	AnnotationDigest = "muster.dev/digest"
	// AnnotationOrderedAgents and AnnotationWithdrawnAt are plan.Dispatch's Ordered and WithdrawnAt.
	// They are on the Job alone, and only of a dispatch that an edit by hand raised.
	AnnotationOrderedAgents = "muster.dev/ordered-agents"
	AnnotationWithdrawnAt   = "muster.dev/withdrawn-at"
)

// longestName is that of a DNS label: a pod's host name is the Job's name
// and the index.
const longestName = 63

var nameRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// checkDispatch returns the reason why a dispatch would be an invalid Job; nil if it is valid.
func checkDispatch(d plan.Dispatch) error {
	last := d.ID + "-" + strconv.Itoa(d.Agents-1)
	switch {
	case !nameRule.MatchString(d.ID):
		return fmt.Errorf("dispatch %s: its ID is not a valid Job name: lower case letters, digits and dashes only", finding.Quote(d.ID))
	case d.ID+manifestType == listFile || d.ID+manifestType == stateFile:
		return fmt.Errorf("dispatch %s: its file would be muster's own %s%s", d.ID, d.ID, manifestType)
	case d.Agents < 1 || d.Agents > policy.MaxAgents:
		return fmt.Errorf("dispatch %s: %d agents: a Job has 1 to %d", d.ID, d.Agents, policy.MaxAgents)
	case len(last) > longestName:
		return fmt.Errorf("dispatch %s: its last pod would be named %s: %d characters, at most %d", d.ID, last, len(last), longestName)
	case d.Purpose != plan.ForDemand && d.Purpose != plan.ForWarmPool:
		return fmt.Errorf("dispatch %s: purpose %s is neither %s nor %s", d.ID, finding.Quote(string(d.Purpose)), plan.ForDemand, plan.ForWarmPool)
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

// template is an agent Job that is ready to be stamped. The pod, which is most of it and the
// same in every dispatch, is printed once.
type template struct {
	// text is the whole Job; as nodes it would be twenty times as large.
	text []byte
	// pod is the part of the text that the placeholder's line represents. It is empty if the two
	// texts differ; the whole Job is then printed each time.
	pod []byte
	// hash identifies the whole Job.
	hash string
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

// DispatchBytes returns the maximum size of a dispatch of the template; zero if unknown.
func (o *Overlay) DispatchBytes() int {
	const stamped = 4 << 10
	if o.template == nil {
		return 0
	}
	return len(o.template.text) + stamped
}

// stamp returns the dispatch: the template with the dispatch's name and numbers, and muster's
// labels and annotations. Nothing else changes.
func (o *Overlay) stamp(d plan.Dispatch) ([]byte, error) {
	if err := checkDispatch(d); err != nil {
		return nil, err
	}
	job := o.template.start()
	meta, spec := finding.Mapping(job, "metadata"), finding.Mapping(job, "spec")
	finding.Set(meta, "name", "!!str", d.ID)
	n := strconv.Itoa(d.Agents)
	finding.Set(spec, "completions", "!!int", n)
	finding.Set(spec, "parallelism", "!!int", n)

	slug := o.Slug()
	if d.Tags == nil {
		d.Tags = o.AgentTags()
	}
	tags := strings.Join(d.PodTags(), ",")
	for _, m := range []*yaml.Node{meta, finding.Mapping(finding.Mapping(spec, "template"), "metadata")} {
		labels, annotations := finding.Mapping(m, "labels"), finding.Mapping(m, "annotations")
		finding.Set(labels, LabelDispatch, "!!str", d.ID)
		finding.Set(labels, LabelOverlay, "!!str", slug)
		finding.Set(annotations, AnnotationAgentTags, "!!str", tags)
		finding.Set(annotations, AnnotationIdleTimeout, "!!str", strconv.FormatInt(int64(d.IdleTimeout/time.Second), 10))
		if d.Uptime > 0 {
			finding.Set(annotations, AnnotationUptime, "!!str", strconv.FormatInt(int64(d.Uptime/time.Second), 10))
		}
		finding.Set(annotations, AnnotationNotAfter, "!!str", d.NotAfter.UTC().Format(time.RFC3339))
		finding.Set(annotations, AnnotationOrderedAt, "!!str", d.At.UTC().Format(time.RFC3339))
		finding.Set(annotations, AnnotationPurpose, "!!str", string(d.Purpose))
		finding.Set(annotations, AnnotationCluster, "!!str", d.Cluster)
	}
	finding.Set(finding.Mapping(meta, "annotations"), AnnotationTemplate, "!!str", d.Template)
	finding.Set(finding.Mapping(meta, "annotations"), AnnotationDigest, "!!str", noDigest)
	text, err := o.template.encode(job)
	if err != nil {
		return nil, fmt.Errorf("printing dispatch %s: %w", d.ID, err)
	}
	return seal(text), nil
}
