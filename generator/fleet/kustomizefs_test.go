package fleet

import (
	"errors"
	"fmt"
	"os"
	"path"
	"testing"
)

// TestNothingIsFetched names what kustomize would fetch or run, in every field
// that could.
func TestNothingIsFetched(t *testing.T) {
	const notHere = "; copy it there: muster fetches nothing"
	const runs = ": would run a program; muster and the syncer build plain kustomizations only: use resources, components and patches"
	for text, want := range map[string]string{
		"resources: [https://127.0.0.1:1/job.yaml]":                                 `resources: "https://127.0.0.1:1/job.yaml" is not in the repository` + notHere,
		"resources: [HTTP://127.0.0.1:1/job.yaml]":                                  `resources: "HTTP://127.0.0.1:1/job.yaml" is not in the repository` + notHere,
		"Resources: [github.com/a/b]":                                               `resources: "github.com/a/b" is not in the repository` + notHere,
		"resources: ['git@127.0.0.1:a/b']":                                          `resources: "git@127.0.0.1:a/b" is not in the repository` + notHere,
		"resources: ['git::https://127.0.0.1:1/a/b']":                               `resources: "git::https://127.0.0.1:1/a/b" is not in the repository` + notHere,
		"resources: ['ssh://git@127.0.0.1/a/b?ref=x']":                              `resources: "ssh://git@127.0.0.1/a/b?ref=x" is not in the repository` + notHere,
		"resources: ['file:///etc']":                                                `resources: "file:///etc" is not in the repository` + notHere,
		"bases: ['https://127.0.0.1:1/a/b']":                                        `resources: "https://127.0.0.1:1/a/b" is not in the repository` + notHere,
		"components: ['https://127.0.0.1:1/a/b']":                                   `components: "https://127.0.0.1:1/a/b" is not in the repository` + notHere,
		"crds: ['https://127.0.0.1:1/a']":                                           `crds: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"configurations: ['https://127.0.0.1:1/a']":                                 `configurations: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"openapi: {path: 'https://127.0.0.1:1/a'}":                                  `openapi: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"patches: [{path: 'https://127.0.0.1:1/a'}]":                                `patches: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"patchesStrategicMerge: ['https://127.0.0.1:1/a']":                          `patchesStrategicMerge: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"patchesJson6902: [{path: 'https://127.0.0.1:1/a', target: {version: v1}}]": `patches: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"replacements: [{path: 'https://127.0.0.1:1/a'}]":                           `replacements: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"configMapGenerator: [{name: x, files: ['k=https://127.0.0.1:1/a']}]":       `configMapGenerator: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"secretGenerator: [{name: x, env: 'https://127.0.0.1:1/a'}]":                `secretGenerator: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"secretGenerator: [{name: x, envs: ['https://127.0.0.1:1/a']}]":             `secretGenerator: "https://127.0.0.1:1/a" is not in the repository` + notHere,
		"helmCharts: [{name: x, repo: 'https://127.0.0.1:1/a'}]":                    `helmCharts` + runs,
		"helmChartInflationGenerator: [{chartName: x}]":                             `helmCharts` + runs,
		"helmGlobals: {chartHome: x}":                                               `helmGlobals` + runs,
		"generators: ['{apiVersion: x/v1, kind: Exec, metadata: {name: x}}']":       `generators` + runs,
		"transformers: [t.yaml]":                                                    `transformers` + runs,
		"validators: [t.yaml]":                                                      `validators` + runs,
	} {
		t.Run(text, func(t *testing.T) {
			for _, dir := range []string{"base", "overlays/default/template", "overlays/default"} {
				tree, file := sound(t), dir+"/kustomization.yaml"
				tree[file] = text + "\n"
				got := fmt.Sprint(load(t, NewLoader("overlays"), tree.tree())[0].Err())
				if got != file+":1: "+want {
					t.Errorf("%s: got\n  %s\nwant\n  %s", file, got, want)
				}
			}
		})
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	job := path.Join(dir, "base/job.yaml")
	if err := errors.Join(os.CopyFS(dir, sound(t).tree()), os.Remove(job), os.Symlink("/etc/passwd", job)); err != nil {
		t.Fatal(err)
	}
	const want = "base/job.yaml: is a link, which muster does not follow; put a file in its place"
	if got := fmt.Sprint(load(t, NewLoader("overlays"), os.DirFS(dir))[0].Err()); got != want {
		t.Errorf("got\n  %s\nwant\n  %s", got, want)
	}
}
