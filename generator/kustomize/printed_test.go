package kustomize

import (
	"bytes"
	"os"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
)

// invalidValues have all that YAML can say in more than one way.
const invalidValues = `apiVersion: v1
kind: ConfigMap
metadata: {name: a, annotations: {"b": 'c', n: "5", t: "true", e: "", tilde: "~", colon: "a: b", hash: "a #b", dash: "- a"}}
# a comment
numbers: [0, -0, 1, 1.0, 1.5, 1e3, 1e99, 0x10, 0o17, 017, 0b11, 1_000, 9223372036854775807, 9223372036854775808, 18446744073709551616, 123456789.123456789]
words: [yes, no, on, off, y, n, True, FALSE, ~, null, Null, "null", .5, "1.0", 1.2.3, 2001-01-01, 2001-12-14T21:59:43.10-05:00, 12:30, 12:30:45, =, "", ' ', "\t", "\e", Größe, "\U0001F600", "\u2028", "\0"]
text: |
  one
    two

  three
folded: >-
  one
  two

  three
kept: |+
  one

empty: {a: {}, b: [], c: ""}
? long key that goes on
: {x: [[1, [2]], {y: [z, {w: 1}]}]}
tagged: [!!str 5, !!str true, !!int "7", !!float 1, !!null "", !!binary aGVsbG8=]
plain: a very long text that goes on and on and on and on and on and on and on and on and on and on and on and on beyond eighty characters
`

// plainValues are those that are values at once.
const plainValues = `apiVersion: v1
kind: ConfigMap
metadata: {name: a, annotations: {"b": 'c', n: "5", t: "true", e: "", tilde: "~", colon: "a: b", hash: "a #b", dash: "- a", long: "a very long text that goes on and on and on and on and on and on and on and on and on beyond eighty characters"}}
numbers: [0, -0, 1, 0x10, 0o17, 017, 0b11, 1_000, 9223372036854775807, 9223372036854775808]
words: [yes, no, on, off, y, n, True, FALSE, "null", "1.0", "1e3", "2001-01-01", 1.2.3, 12:30, 12:30:45, "", ' ', "\t", "\e", Größe, "\U0001F600", "\u2028", "\0", !!str 5, !!int "7"]
text: |
  one
    two

  three
empty: {a: {}, b: [], c: ""}
`

// TestPrintsWhatKustomizePrints: a build comes to what kustomize writes, byte for byte.
func TestPrintsWhatKustomizePrints(t *testing.T) {
	job, err := os.ReadFile("../../base/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const patches = `resources: [a.yaml]
patches:
- target: {kind: .*}
  patch: |-
    - {op: add, path: /metadata/labels, value: {a: "5", b: "yes", c: ""}}
    - {op: add, path: /data, value: {one: "1", two: "a\nb\n", three: 5, four: 1.5, five: null, six: [1, "2"], seven: 100000000000000000000}}
- target: {kind: .*}
  patch: '{apiVersion: v1, kind: x, metadata: {name: x, annotations: {merged: "7"}}, spec: {more: {a: 010, b: 2001-01-01}}}'
commonAnnotations: {all: "1e3"}
namePrefix: "5-"
`
	quick := map[string]bool{"the base": true, "the base, patched by kind": true, "plain values": true}
	for name, files := range map[string]map[string]string{
		"the base":                  {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": string(job)},
		"the base, patched":         {"kustomization.yaml": patches, "a.yaml": string(job)},
		"the base, patched by kind": {"kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {kind: Job}\n  patch: |-\n    - {op: replace, path: /spec/template/spec/containers/0/image, value: x}\n    - {op: add, path: /metadata/labels/x, value: '5'}\n", "a.yaml": string(job)},
		"plain values":              {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": plainValues},
		"odd values":                {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": invalidValues},
		"odd, patched":              {"kustomization.yaml": patches, "a.yaml": invalidValues},
		"a key that is a number":    {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {1: x}\n"},
		"generated":                 {"kustomization.yaml": "configMapGenerator: [{name: a, literals: [a=5, b=true, 'c=', d=2001-01-01], files: [x]}]\nsecretGenerator: [{name: b, literals: [a=5]}]\n", "x": "a\n\x00\xff"},
	} {
		want, wantErr := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(directory(files), "/d")
		got, err := Here{}.Build(t.Context(), directory(files), "d")
		if wantErr != nil {
			t.Fatalf("%s: %v", name, wantErr)
		}
		for i, r := range want.Resources() {
			if quick[name] && !plain(r.YNode()) {
				t.Errorf("%s: is not plain", name)
			}
			text, wantErr := r.AsYAML()
			if (err == nil) != (wantErr == nil) {
				t.Errorf("%s: %v; kustomize: %v", name, err, wantErr)
			} else if err == nil && !bytes.Equal(got[i].YAML, text) {
				t.Errorf("%s: printed\n%s\nwant\n%s", name, got[i].YAML, text)
			}
		}
	}
}
