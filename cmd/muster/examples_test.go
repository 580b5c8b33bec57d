package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/cmd/invocation"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

// TestExamples asserts that the YAML of every page is valid, and that muster check accepts an
// overlay with the policy or the kustomization of a page. TestDocumentedManifests of
// testdata/apiserver reads the other objects.
func TestExamples(t *testing.T) {
	checked := map[string]int{}
	for page, text := range documents(t) {
		for _, f := range fences(text) {
			if f.language != "yaml" {
				continue
			}
			for _, document := range strings.Split(f.text, "\n---\n") {
				var object struct{ APIVersion, Kind string }
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Errorf("%s:%d: %v", page, f.line, err)
				}
				file := map[string]string{"muster.dev/v1alpha1 ScalingPolicy": "scaling.yaml", "kustomize.config.k8s.io/v1beta1 Kustomization": "template/kustomization.yaml"}[object.APIVersion+" "+object.Kind]
				if file == "" {
					continue
				}
				checked[object.Kind]++
				dir := t.TempDir()
				muster := func(args ...string) {
					t.Helper()
					if code, out, errs := execute(t, program{invocation.Program{Args: args}}); code != invocation.ExitOK {
						t.Errorf("%s:%d: muster %s: exit code %d\n%s%s", page, f.line, args[0], code, out, errs)
					}
				}
				muster("init", dir)
				check(t, os.WriteFile(filepath.Join(dir, "overlays", "default", filepath.FromSlash(file)), []byte(document), 0o600))
				muster("check", dir)
			}
		}
	}
	if checked["ScalingPolicy"] == 0 || checked["Kustomization"] == 0 {
		t.Errorf("the pages show %v", checked)
	}
}

// unrun are the commands of README.md and docs/tutorial.md that no script runs, with the reason.
var unrun = map[string]string{
	"make demo": "TestEveryCommitBuilds runs what it calls, bin/muster-sim demo",
	"make test": "runs these tests",

	"bin/muster-sim serve": "ends by a signal; TestServeForMuster and make release-test run it",
	"cd ..":                "a script has a directory of its own",

	"make build":                 "the scripts run the program that the tests build",
	"export PATH=$PWD/bin:$PATH": "the scripts run the program that the tests build",
	"mkdir ../muster-tutorial":   "a script has a directory of its own",
	"cd ../muster-tutorial":      "a script has a directory of its own",
	"muster run":                 "ends by a signal; tutorial.txtar runs its ticks with --once",
	"kubectl apply -f syncer":    "needs a cluster; testdata/e2e applies what muster init writes",
	"kubectl wait kustomization/agents-default --namespace flux-system --for=condition=Ready --timeout=5m": "needs a cluster",
	"kubectl get jobs --namespace buildkite": "needs a cluster",
	"kubectl delete -f syncer":               "needs a cluster",
	"kubectl delete namespace buildkite":     "needs a cluster",
	"kubectl create namespace buildkite":     "needs a cluster; tutorial.txtar runs it with --dry-run=client",
	"kubectl create secret generic buildkite-agent --namespace buildkite --from-file=token=../agent-token": "needs a cluster; tutorial.txtar runs it with --dry-run=client",
}

// TestTutorialCommands asserts that a script runs every command in README.md and
// docs/tutorial.md that unrun does not list.
func TestTutorialCommands(t *testing.T) {
	var run []string
	for _, name := range []string{"readme.txtar", "tutorial.txtar"} {
		archive := txtar.Parse([]byte(readText(t, filepath.Join("testdata", "script", name))))
		script := string(archive.Comment)
		for line := range strings.Lines(script) {
			run = append(run, typed(line))
		}
		for _, f := range archive.Files {
			if !strings.HasSuffix(f.Name, ".sh") {
				continue
			}
			if !strings.Contains(script, " "+f.Name+"\n") && !strings.Contains(script, "/"+f.Name+"\n") {
				t.Errorf("%s does not run its %s", name, f.Name)
			}
			for line := range strings.Lines(string(f.Data)) {
				run = append(run, strings.TrimSpace(line))
			}
		}
	}
	shown := map[string]bool{}
	for _, page := range []string{"README.md", "docs/tutorial.md"} {
		for _, f := range fences(readText(t, page)) {
			for line := range strings.Lines(f.commands()) {
				line = strings.TrimSpace(line)
				if line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				line = strings.TrimSpace(strings.Split(line, " # ")[0])
				shown[line] = true
				if unrun[line] == "" && !slices.Contains(run, line) && !slices.Contains(run, strings.Replace(line, "export ", "env ", 1)) {
					t.Errorf("%s:%d: no script runs %q", page, f.line, line)
				}
			}
		}
	}
	if len(shown) < 10 {
		t.Errorf("the pages show %d commands only", len(shown))
	}
	for command := range unrun {
		if !shown[command] {
			t.Errorf("neither README.md nor docs/tutorial.md shows %q, which unrun lists", command)
		}
	}
}

// typed is what a person types for a line of a script.
func typed(line string) string {
	line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "! "), "exec ")
	if inner, ok := strings.CutPrefix(line, "sh -c '"); ok {
		line = strings.ReplaceAll(strings.TrimSuffix(inner, "'"), "''", "'")
	}
	return line
}
