package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"muster/generator/fleet"

	"github.com/fluxcd/pkg/envsubst"
	"sigs.k8s.io/yaml"
)

const substitute = "kustomize.toolkit.fluxcd.io/substitute"

// substituted is what kustomize-controller makes of an object if its Kustomization has
// spec.postBuild (SubstituteVariables of github.com/fluxcd/pkg/kustomize).
func substituted(t *testing.T, object map[string]any) (string, error) {
	t.Helper()
	text, err := yaml.Marshal(object)
	must(t, err)
	if at(object, "metadata", "annotations")[substitute] == "disabled" {
		return string(text), nil
	}
	return envsubst.Eval(string(text), func(string) (string, bool) { return "east", true })
}

// TestFluxLeavesTheCommand: the command of a dispatch survives postBuild. Without the annotation, it
// would not.
func TestFluxLeavesTheCommand(t *testing.T) {
	job := dispatch(t, "default-7f3k9c2b", 3)
	want, err := yaml.Marshal(job)
	must(t, err)
	if got, err := substituted(t, job); err != nil || got != string(want) {
		t.Errorf("Flux applies, %v:\n%s", err, got)
	}
	delete(at(job, "metadata", "annotations"), substitute)
	if got, err := substituted(t, job); err == nil && strings.Contains(got, "case ${MUSTER_NOT_AFTER:-} in") {
		t.Error("the command needs no annotation")
	}
}

// TestCheckFindsSubstitutions: muster check finds the texts that Flux replaces or refuses, and no
// others.
func TestCheckFindsSubstitutions(t *testing.T) {
	text, err := os.ReadFile("../../generator/fleet/testdata/sound.txtar")
	must(t, err)
	for _, word := range []string{
		"$HOME", "$", "$(date)", "{}", "}", "${", "$ {A}", "${A}", "a ${A:-b} c", "${A:+b}", "${A:=b}", "${#A}", "${A/b/c}", "${A%%b}", "${1}", "${@}", "${A", "$$",
		"$$A", "/proc/$$/fd", "$${A}", "$$$", "\\${A}", "\\$", "%{A}", "$A}", "$[A]", "${}",
	} {
		tree := fstest.MapFS{}
		for part := range strings.SplitSeq("\n"+strings.Replace(string(text), "[agent,", "[agent, "+strconv.Quote(word)+",", 1), "\n-- ") {
			name, content, _ := strings.Cut(part, " --\n")
			tree[strings.TrimSpace(name)] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
		got, err := envsubst.Eval(word, func(string) (string, bool) { return "east", true })
		changes := err != nil || got != word
		found, err := fleet.NewLoader("overlays").Check(context.Background(), tree)
		must(t, err)
		if len(found) > 1 || changes != (len(found) == 1) || changes && !strings.Contains(found[0].Field, substitute) {
			t.Errorf("%s: Flux makes it %q; findings %v", word, got, found)
		}
	}
}
