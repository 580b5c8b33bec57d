package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"muster/generator/finding"

	"github.com/google/go-cmp/cmp"
)

// TestCheckGitHub asserts that each finding is one command, whatever it contains.
func TestCheckGitHub(t *testing.T) {
	var out bytes.Buffer
	check(t, printCheckGitHub(&out, checkResult{
		tree: fstest.MapFS{"overlays/a b/template/kustomization.yaml": {}},
		dir:  "100%",
		findings: []finding.Finding{
			{File: "overlays/a b/template", Problem: "builds to nothing"},
			{File: "overlays/x,y:z/scaling.yaml", Line: 7, Field: "spec.max", Problem: "100%\r\n::error::", Remedy: `write "1"`},
			{File: "overlays/x/dispatches/\x1b\xff.yaml", Problem: "\x00"},
		},
		failures: []error{errors.New("50%\n::warning::x")},
	}))
	want := strings.Join([]string{
		"::error file=100%25/overlays/a b/template/kustomization.yaml,title=muster check::builds to nothing",
		`::error file=100%25/overlays/x%2Cy%3Az/scaling.yaml,line=7,title=muster check::spec.max: 100%25  ::error::; write "1"`,
		"::error file=100%25/overlays/x/dispatches/ \ufffd.yaml,title=muster check:: ",
		"::error title=muster check::50%25%0A::warning::x",
	}, "\n") + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestRelativeDir asserts the directory in the paths of annotations.
func TestRelativeDir(t *testing.T) {
	for dir, want := range map[string]string{".": ".", "fleet": "fleet", "./fleet/": "fleet", "a/../b": "b", "..": ".", "/srv/fleet": "."} {
		if got := relativeDir(dir); got != want {
			t.Errorf("relativeDir(%q) = %q, want %q", dir, got, want)
		}
	}
}
