package main

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"

	"muster/base"
	"muster/deploy"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// directory is a part of a fleet repository: its files by their path in it.
type directory struct {
	path  string
	files map[string][]byte
}

// starterFleet returns what a new fleet repository with one overlay is made of.
func starterFleet(o newOverlay) ([]directory, error) {
	overlay, err := overlayFiles(o)
	if err != nil {
		return nil, err
	}
	agent, err := embedded(base.Files, ".")
	if err != nil {
		return nil, err
	}
	schema := map[string][]byte{"scaling.json": policy.Schema()}
	parts := []directory{{"base", agent}, {"schema", schema}, {path.Join("overlays", o.name), overlay}}
	if o.withDeploy {
		own, err := deployment(o.version)
		if err != nil {
			return nil, err
		}
		parts = append(parts, own)
	}
	return parts, nil
}

// deployment returns muster's own deployment, with the image of a version.
func deployment(version string) (directory, error) {
	files, err := embedded(deploy.Files, ".")
	for name, content := range files {
		if path.Base(name) == "kustomization.yaml" {
			files[name] = bytes.Replace(content, []byte("newTag: "+Version+"\n"), []byte("newTag: "+strings.ReplaceAll(version, "+", "-")+"\n"), 1)
		}
	}
	return directory{"deploy", files}, err
}

// starterChanges are those that begin a fleet repository with an overlay for the
// queue "default", its policy edited.
func starterChanges(edit func(policy []byte) []byte) ([]branch.Change, error) {
	parts, err := starterFleet(newOverlay{name: "default", queue: defaultQueue})
	var changes []branch.Change
	for _, part := range parts {
		for name, content := range part.files {
			if name == "scaling.yaml" {
				content = edit(content)
			}
			changes = append(changes, branch.Change{Path: path.Join(part.path, name), Content: content})
		}
	}
	slices.SortFunc(changes, func(a, b branch.Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, err
}
