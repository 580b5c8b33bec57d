package kustomize

import (
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Each question costs the two processes more time than its answer, and most of what
// kustomize will ask is known before it begins: a kustomization, what it lists,
// and so on down. The rest it asks for.

// Lister is a file system that knows what the kustomizations list that were read
// from it; optional.
type Lister interface {
	// Listed are the resources of the kustomization of directory dir, as they stand
	// there.
	Listed(dir string) []string
}

const (
	// maxAhead bounds the questions that are answered ahead, and enoughAhead the
	// bytes after which no more are.
	maxAhead    = 200
	enoughAhead = 256 << 10
)

// answersAhead are the answers to questions that kustomize asks when it builds a
// directory.
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

// ask answers a question once.
func (a *answersAhead) ask(method, name string) message {
	m := answer(a.files, message{Ask: method, Path: name})
	m.Ask, m.Path = method, name
	a.size += len(m.Data)
	a.all = append(a.all, m)
	return m
}

// find is what kustomize begins with: is it a file, which it reads, or a directory,
// or nothing.
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
