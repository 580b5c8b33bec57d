// Package kustomize builds directories with kustomize, in this process or in
// one of its own.
//
// The library takes no context, and what it is given can make it run for hours
// or need more memory than there is: five thousand small ConfigMaps, or thirty
// patches that each double what is there. It cannot be stopped from within. A
// process of its own can, and the rest goes on. It costs some 10 ms and 30 MB
// while something is built; what did not change is not built again.
package kustomize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// Object is one object that a build came to.
type Object struct {
	APIVersion, Kind, Name string
	YAML                   []byte
}

// String is its kind and name.
func (o Object) String() string { return o.Kind + " " + o.Name }

// Builder builds directories.
type Builder interface {
	// Build runs kustomize in directory dir of files, of which it calls IsDir,
	// Exists, CleanedAbs and ReadFile, one at a time. A [Failure] says why dir
	// does not build; any other error says nothing of dir.
	Build(ctx context.Context, files filesys.FileSystem, dir string) ([]Object, error)
}

// Failure says why a directory does not build.
type Failure struct {
	// Text is kustomize's, or says which limit was reached.
	Text string
}

func (f *Failure) Error() string { return f.Text }

// mostOutput bounds what a build comes to, in bytes.
const mostOutput = 4 << 20

// What the text of a [Failure] begins with where a build comes to more bytes than it
// may, and ends with where it was stopped by any limit.
const (
	TooLarge = "it comes to more than"
	Smaller  = "build fewer and smaller objects"
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
		if size += len(text); size > mostOutput {
			return nil, &Failure{fmt.Sprintf("%s %d MiB: %s", TooLarge, mostOutput>>20, Smaller)}
		}
		objects = append(objects, Object{APIVersion: r.GetApiVersion(), Kind: r.GetKind(), Name: r.GetName(), YAML: text})
	}
	return objects, nil
}

// printed is the resource's AsYAML. That prints and parses its nodes to make values of
// them; nodes of which each is plainly one value are decoded at once, which makes a build
// a fifth shorter.
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

// plain reports whether nodes say the same whether they are printed before or not: a
// time does not, and of numbers that are not whole nobody knows.
func plain(n *kyaml.Node) bool {
	switch n.ShortTag() {
	case kyaml.NodeTagMap, kyaml.NodeTagSeq, kyaml.NodeTagString, kyaml.NodeTagInt, kyaml.NodeTagBool:
		return !slices.ContainsFunc(n.Content, func(c *kyaml.Node) bool { return !plain(c) })
	}
	return false
}

// isFailure reports whether an error is of the directory.
func isFailure(err error) (*Failure, bool) {
	var f *Failure
	return f, errors.As(err, &f)
}
