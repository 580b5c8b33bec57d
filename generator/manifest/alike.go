package manifest

import (
	"path"
	"strings"
)

// Overlays are often alike: the same files in directories of other names. What one
// of them builds to, the others do, since kustomize looks at files by their paths
// from the overlay's directory and from those beside it. So a build is shared by an
// overlay in which everything that it looked at is the same, with these
// exceptions: builds that fail, whose words have paths in them; kustomizations that
// write paths into what they build (buildMetadata); and references that name
// the directory of either overlay, as ../default/x does.

// origin is what a build was made of, for others that may share it.
type origin struct {
	// key is the same for builds that may be alike, and root the overlay's path;
	// an empty key: nothing shares it.
	key, root string
	// parts are the elements of all paths that the kustomizations name.
	parts map[string]bool
	// selects says that the build changes objects by their names or labels.
	selects bool
	// adds says that the build lists the directory of dispatches once and changes
	// nothing: it comes to what it comes to without dispatches, and to these.
	adds bool
}

// mostAlike bounds the builds of one key that are compared.
const mostAlike = 4

// origin returns what a build of the overlay in root begins with.
func (v *view) origin(root, dir string) origin {
	_, note, err := v.read(path.Join(dir, listFile))
	if err != nil || root == "" {
		return origin{root: root}
	}
	return origin{key: strings.Join([]string{v.name, path.Dir(root), note}, "\x00"), root: root}
}

// alike returns what the build that begins with from comes to, if it was made
// for another overlay; otherwise nil.
func (l *Loader) alike(v *view, from origin) *memo {
	if from.key == "" {
		return nil
	}
	for _, m := range l.builtFor[from.key] {
		if m.parts[path.Base(from.root)] || m.parts[path.Base(m.root)] {
			continue
		}
		notes := make(map[string]string, len(m.notes))
		for name, note := range m.notes {
			if rest, below := strings.CutPrefix(name, m.root); below && (rest == "" || rest[0] == '/') {
				name = from.root + rest
			}
			notes[name] = note
		}
		if v.unchanged(notes) && v.failed == nil && v.refused == nil {
			from.parts, from.selects, from.adds = m.parts, m.selects, m.adds
			return &memo{notes: notes, objects: m.objects, template: m.template, origin: from}
		}
		v.failed, v.refused = nil, nil
	}
	return nil
}

// share lets overlays that are alike share a build.
func (l *Loader) share(m *memo) {
	if m.key != "" && m.finding == nil && len(l.builtFor[m.key]) < mostAlike {
		l.builtFor[m.key] = append(l.builtFor[m.key], m)
	}
}
