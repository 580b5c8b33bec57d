package manifest

import (
	"fmt"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomizing keeps builds one after the other: kustomize's OpenAPI schema is a
// variable of its package, and every build sets it.
var kustomizing sync.Mutex

// object is one object that a build came to.
type object struct {
	apiVersion, kind, name string
	yaml                   []byte
}

func (o object) String() string { return o.kind + " " + o.name }

// memo is what a build came to, and all it looked at on the way.
type memo struct {
	notes   map[string]string
	objects []object
	finding *Finding
	// template is what a template's Job was made into; nil until it was.
	template *template
	// refused is what the API server would refuse of what an overlay was built to
	// from the template that judged built; nil where that was not asked.
	judged  *memo
	refused []Finding
}

// build runs kustomize in directory dir of v. What was built before from the
// same files is not built again. The finding says why dir does not build; the
// error, that v could not be read, which says nothing of dir.
func (l *Loader) build(v *view, dir string) ([]object, *Finding, error) {
	if m := l.memos[v.name+dir]; m != nil && v.unchanged(m.notes) {
		if v.failed != nil {
			return nil, nil, v.failed
		}
		l.used[v.name+dir] = m
		return m.objects, m.finding, nil
	}
	if v.failed != nil {
		return nil, nil, v.failed
	}
	v.notes, v.refused = map[string]string{}, nil
	l.builds++
	objects, err := kustomize(v, dir)
	if v.failed != nil {
		return nil, nil, v.failed
	}
	m := &memo{notes: v.notes, objects: objects}
	switch {
	case v.refused != nil:
		m.objects, m.finding = nil, v.refused
	case err != nil:
		m.finding = &Finding{File: dir, Problem: "does not build: " + oneLine(err)}
	}
	l.used[v.name+dir] = m
	return m.objects, m.finding, nil
}

func kustomize(v filesys.FileSystem, dir string) (objects []object, err error) {
	kustomizing.Lock()
	defer kustomizing.Unlock()
	defer func() {
		// kustomize panics on some nonsense; that must not end what serves the
		// other overlays.
		if said := recover(); said != nil {
			objects, err = nil, fmt.Errorf("kustomize cannot make sense of it: %v", said)
		}
	}()
	// The default options: nothing above the directory of a kustomization.yaml
	// but whole other kustomizations, and no plugins.
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(v, "/"+dir)
	if err != nil {
		return nil, err
	}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("printing %s: %w", r.CurId(), err)
		}
		objects = append(objects, object{apiVersion: r.GetApiVersion(), kind: r.GetKind(), name: r.GetName(), yaml: text})
	}
	return objects, nil
}
