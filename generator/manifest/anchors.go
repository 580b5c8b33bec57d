package manifest

import (
	"bytes"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// noAnchors refuses YAML anchors and aliases: kustomize expands them, and a few
// lines can stand for more than any machine has memory for, or for themselves.
func noAnchors(file, field string) Finding {
	return Finding{File: file, Field: field, Problem: "uses a YAML anchor or alias", Remedy: "write the value out"}
}

// anchored reports whether any document of a file uses anchors or aliases. What
// is not YAML does not, as far as it could be read.
func anchored(data []byte) bool {
	if !bytes.ContainsAny(data, "&*") {
		return false
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if dec.Decode(&doc) != nil {
			return false
		}
		if hasAnchor(&doc, 0) {
			return true
		}
	}
}

func hasAnchor(n *yaml.Node, depth int) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || depth > 1000 {
		return true
	}
	for _, c := range n.Content {
		if hasAnchor(c, depth+1) {
			return true
		}
	}
	return false
}

// inlinePatches are the patches that a kustomization holds itself.
func inlinePatches(k types.Kustomization) []string {
	var all []string
	for _, patches := range [][]types.Patch{k.Patches, k.PatchesJson6902} {
		for _, p := range patches {
			all = append(all, p.Patch)
		}
	}
	for _, p := range k.PatchesStrategicMerge {
		all = append(all, string(p))
	}
	return all
}
