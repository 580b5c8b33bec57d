package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	yamljson "sigs.k8s.io/yaml"
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

// isEdited reports whether a dispatch was edited: its digest is missing, or is that of neither its text
// nor its values. A formatter, which changes the text alone, edits nothing.
func isEdited(job *yaml.Node, data []byte) bool {
	digest := finding.Scalar(job, "metadata", "annotations", AnnotationDigest)
	return digest == "" || !sealed(data, digest) && !sealed(reprinted(data), digest)
}

// sealed reports whether a text has the digest.
func sealed(text []byte, digest string) bool {
	return digestOf(bytes.Replace(text, []byte(digest), []byte(noDigest), 1)) == digest
}

// reprinted returns a Job as muster prints its values; nil if it has comments, which muster never
// writes, or a value that changes when it is printed and parsed.
func reprinted(data []byte) []byte {
	var doc yaml.Node
	values := map[string]any{}
	if yaml.Unmarshal(data, &doc) != nil || commented(&doc) || doc.Decode(&values) != nil {
		return nil
	}
	text, err := yamljson.Marshal(values) // as kustomize prints the template
	if err != nil {
		return nil
	}
	again, wrong := finding.ParseOne("", text)
	if wrong != nil {
		return nil
	}
	text, err = encode(again)
	if err != nil {
		return nil
	}
	return text
}

func commented(n *yaml.Node) bool {
	return n.HeadComment+n.LineComment+n.FootComment != "" || slices.ContainsFunc(n.Content, commented)
}

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
