package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"muster/generator/plan"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// A dispatch carries a digest of its own file, so that an edit is noticed where the
// file is read, and nothing else has to be. It tells accidents, and is no signature:
// who can push can also write another digest.

// digestPrefix keeps a digest from looking like a number, which YAML would quote.
const digestPrefix = "sha256-"

// digestLength is that of its hexadecimal digits.
const digestLength = 32

// noDigest stands where the digest will be while it is made.
var noDigest = digestPrefix + strings.Repeat("0", digestLength)

// seal fills in the digest of a text that has noDigest in its place.
func seal(text []byte) []byte {
	return bytes.Replace(text, []byte(noDigest), []byte(digestOf(text)), 1)
}

func digestOf(blank []byte) string {
	sum := sha256.Sum256(blank)
	return digestPrefix + hex.EncodeToString(sum[:])[:digestLength]
}

// isEdited reports whether a dispatch is not the file that muster wrote: its digest is
// missing or another.
func isEdited(job *yaml.Node, data []byte) bool {
	digest := scalar(job, "metadata", "annotations", AnnotationDigest)
	return digest == "" || digestOf(bytes.Replace(data, []byte(digest), []byte(noDigest), 1)) != digest
}

// raised is a dispatch as muster wrote it, with more agents and a later end of its
// lease: what may come of it at most. It is not for a syncer.
func raised(original []byte, d plan.Dispatch) ([]byte, error) {
	job, wrong := parseOne("", original)
	if wrong != nil {
		return nil, *wrong
	}
	spec := mapping(job, "spec")
	n := strconv.Itoa(d.Agents)
	set(spec, "completions", "!!int", n)
	set(spec, "parallelism", "!!int", n)
	for _, meta := range []*yaml.Node{mapping(job, "metadata"), mapping(mapping(spec, "template"), "metadata")} {
		set(mapping(meta, "annotations"), AnnotationNotAfter, "!!str", d.NotAfter.UTC().Format(time.RFC3339))
	}
	set(mapping(mapping(job, "metadata"), "annotations"), AnnotationDigest, "!!str", noDigest)
	text, err := encode(job)
	if err != nil {
		return nil, err
	}
	return seal(text), nil
}

// Raised reports whether a text is an order as muster wrote it, with as many agents and
// as late an end of its lease, or more of either: see [Overlay.Restore]. The file is the
// order's path.
func Raised(file string, text, order []byte) bool {
	d, err := ParseDispatch(file, text)
	if err != nil {
		return false
	}
	before, err := Original(file, order)
	if err != nil || d.Agents < before.Agents || d.NotAfter.Before(before.NotAfter) {
		return false
	}
	want, err := raised(order, d)
	return err == nil && bytes.Equal(text, want)
}

// Rough reads what a file that is no dispatch, or was edited, may have made of one
// all the same: how many agents, until when. Zero where it does not say.
func Rough(id string, data []byte) plan.Dispatch {
	d := plan.Dispatch{ID: id}
	if len(data) > largestDispatch {
		return d
	}
	job, wrong := parseOne("", data)
	if wrong != nil {
		return d
	}
	for _, key := range []string{"completions", "parallelism"} {
		if n, ok := integer(job, "spec", key); ok && n <= mostAgents {
			d.Agents = max(d.Agents, n)
		}
	}
	for _, at := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		t, err := time.Parse(time.RFC3339, scalar(lookup(job, at...), "annotations", AnnotationNotAfter))
		if err == nil && t.After(d.NotAfter) {
			d.NotAfter = t.UTC()
		}
	}
	return d
}
