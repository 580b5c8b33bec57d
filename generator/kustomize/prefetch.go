package kustomize

import (
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// A request to the other process takes longer than its response, and most requests of kustomize are
// known before it starts: a kustomization, the files that it lists, and so on. Without the responses
// in advance, a build of a patched base takes about a tenth longer.

// Lister is a file system that knows what the kustomizations list that were read
// from it; optional.
type Lister interface {
	// Listed returns the resources of the kustomization of directory dir as they are written.
	Listed(dir string) []string
}

const (
	// maxAhead is the maximum number of responses in advance, and enoughAhead the number of bytes
	// after which no more are added.
	maxAhead    = 200
	enoughAhead = 256 << 10
)

// answersAhead collects the responses to requests that kustomize will send for a directory.
type answersAhead struct {
	files filesys.FileSystem
	all   []message
	seen  map[string]bool
	size  int
}

func ahead(files filesys.FileSystem, dir string) []message {
	a := &answersAhead{files: files, seen: map[string]bool{}}
	top := path.Join("/", dir)
	a.ask("CleanedAbs", top)
	a.directory(top)
	return a.all
}

// ask adds the response to a request.
func (a *answersAhead) ask(method, name string) message {
	m := answer(a.files, message{Ask: method, Path: name})
	m.Ask, m.Path = method, name
	a.size += len(m.Data)
	a.all = append(a.all, m)
	return m
}

// find adds the first requests of kustomize for a name: whether it is a file, and its content.
func (a *answersAhead) find(name string) message {
	m := a.ask("CleanedAbs", name)
	if m.Name != "" {
		a.ask("ReadFile", name)
	}
	return m
}

func (a *answersAhead) directory(dir string) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		a.find(path.Join(dir, name))
	}
	lister, ok := a.files.(Lister)
	if !ok {
		return
	}
	for _, resource := range lister.Listed(strings.TrimPrefix(dir, "/")) {
		name := path.Join(dir, resource)
		if len(a.all) > maxAhead || a.size > enoughAhead || a.seen[name] {
			continue
		}
		a.seen[name] = true
		if m := a.find(name); m.Err == "" && m.Name == "" {
			a.directory(name)
		}
	}
}
