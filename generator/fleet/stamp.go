package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"

	"sigs.k8s.io/kustomize/kyaml/yaml"
	yamljson "sigs.k8s.io/yaml"
)

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
)

// digestOf returns the digest of a manifest as it is in state.yaml. It reveals accidents, and is not a
// signature: anyone who can push can write a digest.
func digestOf(manifest []byte) string {
	const digits = 16
	sum := sha256.Sum256(manifest)
	return "sha256-" + hex.EncodeToString(sum[:])[:digits]
}

// reprinted returns a Job as muster prints its values, so that neither comments nor layout matter; nil if
// a value changes when it is printed and parsed.
func reprinted(data []byte) []byte {
	values := map[string]any{}
	if yaml.Unmarshal(data, &values) != nil {
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

// StateBytes returns the size of state.yaml and of the list, which each operation writes.
func (o *Overlay) StateBytes() int { return o.stateSize + len(o.list) }

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
	text, err := o.template.encode(job)
	if err != nil {
		return nil, fmt.Errorf("printing dispatch %s: %w", d.ID, err)
	}
	return text, nil
}
