package fleet

import (
	"bytes"
	"regexp"
	"sync"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"muster/generator/finding"
)

// noAnchors rejects YAML anchors and aliases: kustomize expands them, and a few lines can
// expand to more than any machine has memory for, or refer to themselves. The finding contains
// the line of the first one in the file.
func noAnchors(file, field string, data []byte) finding.Finding {
	return finding.Finding{File: file, Line: anchorLine(data), Field: field, Problem: "uses a YAML anchor or alias", Remedy: "write the value out"}
}

// anchorLine returns the line of the first anchor or alias of a file. If the file is large,
// cannot be parsed, or contains one only in a text, it returns the line of the first text that
// looks like one.
func anchorLine(data []byte) int {
	if len(data) <= maxParsed {
		for doc, err := range finding.Documents(data) {
			if err != nil {
				break
			}
			if n := firstAnchor(doc, 0); n != nil {
				return n.Line
			}
		}
	}
	if m := mark.FindSubmatchIndex(data); m != nil {
		return 1 + bytes.Count(data[:m[2]], []byte("\n"))
	}
	return 1
}

// anchored reports whether any document of a file uses anchors or aliases. A file that is not
// YAML is judged by its text: kustomize splits documents differently, and may parse it.
func anchored(data []byte) bool {
	if !bytes.ContainsAny(data, "&*") {
		return false
	}
	if len(data) > maxParsed {
		return looksAnchored(data)
	}
	for doc, err := range finding.Documents(data) {
		switch {
		case err != nil:
			return looksAnchored(data)
		case firstAnchor(doc, 0) != nil:
			return true
		}
	}
	return false
}

// anchorsOf caches which contents use anchors: overlays share large files. The zero value is
// empty.
type anchorsOf struct {
	mu    sync.Mutex
	known map[string]bool // by a key of the content
}

func (a *anchorsOf) in(data []byte, note string) bool {
	if a == nil || !bytes.ContainsAny(data, "&*") {
		return anchored(data)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	found, known := a.known[note]
	if !known {
		found = anchored(data)
		if a.known == nil {
			a.known = map[string]bool{}
		}
		a.known[note] = found
	}
	return found
}

// mark matches an anchor or an alias, judged by the character before it and the name after it.
var mark = regexp.MustCompile(`(?:^|[\s,:\[{-])([&*])([^\s,\[\]{}]+)`)

// maxParsed is the maximum size, in bytes, of a file that is parsed in this process: a parsed
// file takes a hundred times its size.
const maxParsed = 128 << 10

// looksAnchored reports whether a name appears after both an & and a *, or whether more names
// than it compares appear after either.
func looksAnchored(data []byte) bool {
	const most, longest = 10_000, 1000
	anchors, aliases := map[string]bool{}, map[string]bool{}
	for len(data) > 0 {
		m := mark.FindSubmatchIndex(data)
		if m == nil {
			return false
		}
		name := string(data[m[4]:min(m[5], m[4]+longest)])
		if data[m[2]] == '&' {
			anchors[name] = true
		} else {
			aliases[name] = true
		}
		if anchors[name] && aliases[name] || len(anchors)+len(aliases) > most {
			return true
		}
		data = data[m[5]:]
	}
	return false
}

// firstAnchor returns the first node that has an anchor, is an alias, or is nested too deeply.
func firstAnchor(n *yaml.Node, depth int) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || depth > 1000 {
		return n
	}
	for _, c := range n.Content {
		if found := firstAnchor(c, depth+1); found != nil {
			return found
		}
	}
	return nil
}

// inlinePatches returns the patches inside a kustomization.
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
