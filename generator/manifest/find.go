package manifest

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/generator/plan"
)

// find lists the overlays at and below dir without reading them. It looks
// below an overlay too, to report one inside another, but not at its template
// and its dispatches. looked is how many directories it has looked at below the
// same directory of the first ones.
func (l *Loader) find(tree fs.FS, dir string, entries []fs.DirEntry, looked *int) []Overlay {
	var overlays []Overlay
	isOverlay := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == policyFile })
	if isOverlay {
		o := Overlay{Overlay: plan.Overlay{Name: l.nameOf(dir), Fleet: l.fleet}, Path: dir, loader: l}
		if o.Name == "." {
			o.reject(atTop(dir, entries))
		}
		overlays = append(overlays, o)
	} else if name := misnamed(entries); name != "" && dir != l.dir && dir != "." {
		// It is no overlay yet, and somebody believes that it is one.
		o := Overlay{Overlay: plan.Overlay{Name: l.nameOf(dir)}, Path: dir, loader: l, misnamed: true}
		o.reject(Finding{File: path.Join(dir, name), Problem: "is not read: a policy is called " + policyFile, Remedy: "rename it to " + policyFile})
		overlays = append(overlays, o)
	}
	for _, e := range entries {
		if !e.IsDir() || isOverlay && (e.Name() == templateDir || e.Name() == dispatchDir) {
			continue
		}
		below := path.Join(dir, e.Name())
		if strings.Count(strings.TrimPrefix(below, l.dir+"/"), "/") >= deepest {
			continue
		}
		if dir == l.dir || dir == "." && l.dir == "" {
			looked = new(int)
		}
		if *looked++; *looked > mostDirs {
			o := Overlay{Overlay: plan.Overlay{Name: l.nameOf(dir)}, Path: dir, loader: l}
			o.reject(Finding{File: dir, Problem: fmt.Sprintf("is among more than %d directories in which overlays are looked for", mostDirs), Remedy: "keep what is no overlay elsewhere"})
			return append(overlays, o)
		}
		inside, err := fs.ReadDir(tree, below)
		if err != nil {
			// It may hold an overlay: that must not look as if it were gone.
			o := Overlay{Overlay: plan.Overlay{Name: l.nameOf(below)}, Path: below, loader: l}
			o.reject(Finding{File: below, Problem: "cannot be read: " + oneLine(err)})
			overlays = append(overlays, o)
			continue
		}
		found := l.find(tree, below, inside, looked)
		if isOverlay {
			found = slices.DeleteFunc(found, func(o Overlay) bool { return o.misnamed })
		}
		overlays = append(overlays, found...)
	}
	return overlays
}

// deepest is how many directories an overlay may lie below the first: looking
// further would let a few crafted objects stand for millions of directories.
const deepest = 4

// mostDirs bounds the directories that are looked at below one of the first.
const mostDirs = 5000
