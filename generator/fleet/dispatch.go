package fleet

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"

	"sigs.k8s.io/kustomize/kyaml/yaml"
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
	// AnnotationDigest is a hash of the whole file, which reveals an edit. Only the Job has it.
	AnnotationDigest = "muster.dev/digest"
	// AnnotationOrderedAgents and AnnotationWithdrawnAt are plan.Dispatch's Ordered and WithdrawnAt.
	// They are on the Job alone, and only of a dispatch that an edit by hand raised.
	AnnotationOrderedAgents = "muster.dev/ordered-agents"
	AnnotationWithdrawnAt   = "muster.dev/withdrawn-at"
)

// repair is the remedy for a dispatch that cannot be read.
const repair = "restore the file from git, as it was in the commit that added it"

// largestDispatch is the maximum size of a dispatch in bytes, far above the size of any
// template's dispatch. A larger file is never a dispatch, whatever it contains.
const largestDispatch = 128 << 10

// ParseDispatch reads a dispatch as muster wrote it; file is its path in the
// repository. It is strict about what muster wrote (the name, the numbers, its
// labels and annotations) and leaves the rest to Kubernetes. The error is a
// [finding.Finding].
func ParseDispatch(file string, data []byte) (plan.Dispatch, error) {
	d, err := parseDispatch(file, data)
	if err != nil {
		return plan.Dispatch{}, *err
	}
	return d.Dispatch, nil
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

// noDispatch contains the reason why a file below dispatches/ is not a valid dispatch, and the
// dispatch that it may describe anyway.
type noDispatch struct {
	wrong *finding.Finding
	rough plan.Dispatch
	size  int // of the file, in bytes
}

// rejectFile rejects an overlay for a file that is not a dispatch.
func (o *Overlay) rejectFile(file string, no noDispatch) {
	o.reject(*no.wrong)
	o.edits = append(o.edits, Edit{File: file, Dispatch: no.rough})
}

// readDispatch is a dispatch that was read.
type readDispatch struct {
	plan.Dispatch
	overlay string // slug of the one that it was ordered for, in the Job's label
	// edited: it differs from what muster wrote. proven: kustomize can read it too, which is
	// unknown if its overlay has no template.
	edited, proven bool
	size           int // of its file, in bytes
}

// dispatchReader reads fields, and stores the first problem.
type dispatchReader struct {
	file  string
	job   *yaml.Node
	wrong *finding.Finding
}

func parseDispatch(file string, data []byte) (d readDispatch, wrong *finding.Finding) {
	if len(data) > largestDispatch {
		return d, &finding.Finding{File: file, Problem: fmt.Sprintf("has %d bytes: a dispatch has at most %d", len(data), largestDispatch), Remedy: repair}
	}
	job, wrong := finding.ParseOne(file, data)
	if wrong != nil {
		wrong.Remedy = repair
		return d, wrong
	}
	return parsedDispatch(file, data, job)
}

// parsedDispatch reads a dispatch from a parsed file.
func parsedDispatch(file string, data []byte, job *yaml.Node) (d readDispatch, wrong *finding.Finding) {
	r := &dispatchReader{file: file, job: job}
	r.is("batch/v1", "apiVersion")
	r.is("Job", "kind")
	d.ID = strings.TrimSuffix(path.Base(file), ".yaml")
	r.is(d.ID, "metadata", "name")
	d.Agents = r.number("spec", "completions")
	r.number("spec", "parallelism") // if only this was edited, an Indexed Job still starts no more pods
	for _, at := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		r.is(d.ID, below(at, "labels", LabelDispatch)...)
		r.text(below(at, "labels", LabelOverlay)...)
		r.strings(below(at, "labels")...)
		r.strings(below(at, "annotations")...)
	}
	d.overlay = finding.Scalar(job, "metadata", "labels", LabelOverlay)
	d.Purpose = plan.Purpose(r.note(AnnotationPurpose))
	if d.Purpose != plan.ForDemand && d.Purpose != plan.ForWarmPool {
		r.bad(fmt.Sprintf("%s is neither %s nor %s", finding.Quote(string(d.Purpose)), plan.ForDemand, plan.ForWarmPool), "metadata", "annotations", AnnotationPurpose)
	}
	d.At = r.time(AnnotationOrderedAt)
	d.NotAfter = r.time(AnnotationNotAfter)
	d.IdleTimeout = r.seconds(AnnotationIdleTimeout)
	d.Tags = strings.Split(r.note(AnnotationAgentTags), ",")
	own := slices.Index(d.Tags, plan.TagDispatch+"="+d.ID)
	if own < 0 {
		r.bad("does not have the tag dispatch="+d.ID, "metadata", "annotations", AnnotationAgentTags)
	} else {
		d.Tags = slices.Delete(d.Tags, own, own+1)
	}
	d.Tags = slices.DeleteFunc(d.Tags, func(tag string) bool {
		key, _, _ := strings.Cut(tag, "=")
		return slices.Contains([]string{plan.TagWarm, plan.TagUptime, plan.TagTemplate}, key)
	})
	d.Cluster = r.note(AnnotationCluster)
	d.Template = r.note(AnnotationTemplate)
	if finding.Lookup(job, "metadata", "annotations", AnnotationUptime) != nil {
		d.Uptime = r.seconds(AnnotationUptime)
		r.same(AnnotationUptime)
	}
	if finding.Lookup(job, "metadata", "annotations", AnnotationOrderedAgents) != nil {
		d.Ordered = int(r.count(AnnotationOrderedAgents, "agents", math.MaxInt))
	}
	if finding.Lookup(job, "metadata", "annotations", AnnotationWithdrawnAt) != nil {
		d.WithdrawnAt = r.time(AnnotationWithdrawnAt)
	}
	d.edited = isEdited(job, data)
	for _, key := range []string{AnnotationAgentTags, AnnotationCluster, AnnotationIdleTimeout, AnnotationNotAfter, AnnotationOrderedAt, AnnotationPurpose} {
		r.same(key)
	}
	if r.wrong != nil {
		return readDispatch{}, r.wrong
	}
	if err := checkDispatch(d.Dispatch); err != nil {
		return readDispatch{}, &finding.Finding{File: file, Problem: err.Error(), Remedy: repair}
	}
	return d, nil
}

func (r *dispatchReader) bad(problem string, at ...string) {
	if r.wrong != nil {
		return
	}
	r.wrong = &finding.Finding{File: r.file, Field: finding.Field(at), Problem: problem, Remedy: repair}
	if n := finding.Lookup(r.job, at...); n != nil {
		r.wrong.Line = n.Line
	}
}

// text reads a required string.
func (r *dispatchReader) text(at ...string) string {
	n := finding.Lookup(r.job, at...)
	switch {
	case n == nil:
		r.bad("is missing", at...)
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
		r.bad("is not a string", at...)
	default:
		return n.Value
	}
	return ""
}

func (r *dispatchReader) is(want string, at ...string) {
	if got := r.text(at...); got != want {
		r.bad(fmt.Sprintf("is %s, not %s", finding.Quote(got), finding.Quote(want)), at...)
	}
}

func (r *dispatchReader) number(at ...string) int {
	n, ok := finding.Integer(r.job, at...)
	switch {
	case finding.Lookup(r.job, at...) == nil:
		r.bad("is missing", at...)
	case !ok || n < 1:
		r.bad("is not a whole number of at least 1", at...)
	}
	return n
}

// strings requires a mapping of strings, as kustomize and Kubernetes do for labels and
// annotations.
func (r *dispatchReader) strings(at ...string) {
	n := finding.Lookup(r.job, at...)
	if n == nil || n.Kind != yaml.MappingNode {
		r.bad("is not a mapping", at...)
		return
	}
	for key := range finding.Pairs(n) {
		r.text(below(at, key.Value)...)
	}
}

// note reads one of muster's annotations.
func (r *dispatchReader) note(key string) string { return r.text("metadata", "annotations", key) }

// same requires that the pod has the Job's annotation: the agent reads it there.
func (r *dispatchReader) same(key string) {
	at := []string{"spec", "template", "metadata", "annotations", key}
	if job, pod := r.note(key), r.text(at...); pod != job {
		r.bad(fmt.Sprintf("is %s, but on the Job it is %s", finding.Quote(pod), finding.Quote(job)), at...)
	}
}

func (r *dispatchReader) time(key string) time.Time {
	v := r.note(key)
	t, err := time.Parse(time.RFC3339, v)
	if err != nil || t.UTC().Format(time.RFC3339) != v {
		r.bad(fmt.Sprintf("%s is not a time as in 2026-11-21T02:15:00Z", finding.Quote(v)), "metadata", "annotations", key)
		return time.Time{}
	}
	return t.UTC()
}

func (r *dispatchReader) seconds(key string) time.Duration {
	return time.Duration(r.count(key, "seconds", math.MaxInt64/int64(time.Second))) * time.Second
}

// count reads a number of agents or seconds from 1 to most.
func (r *dispatchReader) count(key, of string, most int64) int64 {
	v := r.note(key)
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > most || strconv.FormatInt(n, 10) != v {
		r.bad(fmt.Sprintf("%s is not a number of %s", finding.Quote(v), of), "metadata", "annotations", key)
		return 0
	}
	return n
}
