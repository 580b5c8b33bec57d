package kustomize

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// building keeps builds of one process one after the other: kustomize's OpenAPI
// schema is a variable of its package, and every build sets it.
var building sync.Mutex

// Here builds in this process, without any limit on time and memory.
type Here struct{}

// Build implements [Builder].
func (Here) Build(_ context.Context, files filesys.FileSystem, dir string) (objects []Object, err error) {
	building.Lock()
	defer building.Unlock()
	defer func() {
		// kustomize panics on some input; that must not end what serves the
		// other overlays.
		if said := recover(); said != nil {
			objects, err = nil, &Failure{fmt.Sprintf("kustomize cannot read it: %v", said)}
		}
	}()
	// The default options: nothing above the directory of a kustomization.yaml
	// but whole other kustomizations, and no plugins.
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/"+dir)
	if err != nil {
		return nil, &Failure{err.Error()}
	}
	size := 0
	for _, r := range resources.Resources() {
		text, err := printed(r)
		if err != nil {
			return nil, &Failure{fmt.Sprintf("printing %s: %v", r.CurId(), err)}
		}
		if size += len(text); size > maxOutput {
			return nil, &Failure{fmt.Sprintf("%s %d MiB: %s", TooLarge, maxOutput>>20, Smaller)}
		}
		objects = append(objects, Object{APIVersion: r.GetApiVersion(), Kind: r.GetKind(), Name: r.GetName(), YAML: text})
	}
	return objects, nil
}

// printed returns the AsYAML text of r. AsYAML prints nodes and parses them into values;
// printed decodes them directly if each node is plainly a single value, which makes a build a
// fifth shorter.
func printed(r *resource.Resource) ([]byte, error) {
	if !plain(r.YNode()) {
		return r.AsYAML()
	}
	values := map[string]any{}
	if err := r.YNode().Decode(&values); err != nil {
		return nil, err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(text)
}

// plain reports whether printing and parsing a node certainly yields the same value. It does not for
// times and fractions.
func plain(n *kyaml.Node) bool {
	switch n.ShortTag() {
	case kyaml.NodeTagMap, kyaml.NodeTagSeq, kyaml.NodeTagString, kyaml.NodeTagInt, kyaml.NodeTagBool:
		return !slices.ContainsFunc(n.Content, func(c *kyaml.Node) bool { return !plain(c) })
	}
	return false
}
