package main

import (
	"io/fs"
	"path"

	"sigs.k8s.io/yaml"
)

// deployedInto returns the namespaces into which a fleet repository deploys muster, as the
// kustomizations that init --with-deploy writes name them. dir is the directory of the
// fleet. A missing or invalid file contributes no namespace.
func deployedInto(tree fs.FS, dir string) []string {
	var namespaces []string
	for _, part := range []string{"base", "overlays/argocd", "overlays/flux", "overlays/two-replicas"} {
		text, err := fs.ReadFile(tree, path.Join(dir, "deploy", part, "kustomization.yaml"))
		if err != nil {
			continue
		}
		var k struct {
			Namespace string `json:"namespace"`
		}
		if yaml.Unmarshal(text, &k) == nil && k.Namespace != "" {
			namespaces = append(namespaces, k.Namespace)
		}
	}
	return namespaces
}
