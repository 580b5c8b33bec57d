package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"muster/generator/finding"
	"muster/gitops/branch"
)

// misnamed returns the file whose name is nearly that of a policy; empty if no file has such a
// name. Editors, browsers and other systems make such names.
func misnamed(entries []fs.DirEntry) string {
	for _, e := range entries {
		name := strings.TrimSuffix(strings.ToLower(e.Name()), ".txt")
		if e.Type().IsRegular() && (finding.Distance(name, policyFile) <= 2 || name == "scaling" || name == "scaling.json") {
			return e.Name()
		}
	}
	return ""
}

// atTop returns the finding on a policy in the directory of all overlays: either the directory is
// one overlay, or the policy is in the wrong place.
func atTop(dir string, entries []fs.DirEntry) finding.Finding {
	f := finding.Finding{File: path.Join(dir, policyFile), Problem: "lies in the directory of all overlays", Remedy: "move the overlay to a directory of its own below it"}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == templateDir || e.Name() == dispatchDir }) && path.Dir(dir) != "." {
		f.Problem = dir + " is one overlay, not the directory of overlays"
		f.Remedy = "give --overlays " + path.Dir(dir)
	}
	return f
}

// pathRule matches the valid paths of overlays, which need no quotes in forges, shells and terminals.
// An @ would mention people in each commit.
var pathRule = regexp.MustCompile(`^[\pL\pN_+~=,. -]+(/[\pL\pN_+~=,. -]+)*$`)

// committable reports whether muster commits to an overlay with this path.
func committable(dir string) bool { return pathRule.MatchString(dir) && branch.CheckPath(dir) == nil }

// rejectClashes rejects overlays that are inside one another or share a slug.
func rejectClashes(overlays []Overlay) {
	slugs := map[string]int{}
	paths := map[string]int{}
	for i := range overlays {
		o := &overlays[i]
		if !committable(o.Path) {
			o.reject(finding.Finding{File: o.Path, Problem: "has a name that muster does not commit to", Remedy: "use letters, digits and -_. in the names of directories"})
		}
		if o.Name == "." {
			continue // rejected when it was found
		}
		if first, taken := slugs[o.Slug()]; taken {
			for _, pair := range [][2]*Overlay{{o, &overlays[first]}, {&overlays[first], o}} {
				pair[0].reject(finding.Finding{File: pair[0].Path, Problem: fmt.Sprintf("shares the short name %s with %s", o.Slug(), pair[1].Path), Remedy: "rename one of them"})
			}
		} else {
			slugs[o.Slug()] = i
		}
		paths[o.Path] = i
	}
	for i := range overlays {
		o := &overlays[i]
		for above := path.Dir(o.Path); above != "." && above != "/"; above = path.Dir(above) {
			outer, ok := paths[above]
			if !ok {
				continue
			}
			o.reject(finding.Finding{File: o.Path, Problem: "lies inside the overlay " + above, Remedy: "move it next to it"})
			overlays[outer].reject(finding.Finding{File: above, Problem: "has the overlay " + o.Path + " inside it", Remedy: "move that next to it"})
		}
	}
}

// place is a directory that is an overlay, or one for which muster reports why it is not an
// overlay.
type place struct {
	dir   string
	wrong *finding.Finding
	// misnamed: it has no policy, but a file that may be meant as one.
	misnamed bool
}

// find returns the overlays at and below dir, sorted by name, without reading them.
func (l *Loader) find(tree fs.FS, dir string, entries []fs.DirEntry) []Overlay {
	places := l.places(nil, tree, dir, entries, new(int))
	overlays := make([]Overlay, len(places)) // thousands of them fill megabytes: no room to grow
	for i, p := range places {
		o := &overlays[i]
		o.Name, o.Path, o.loader, o.misnamed = l.nameOf(p.dir), p.dir, l, p.misnamed
		if p.wrong != nil {
			o.reject(*p.wrong)
		}
	}
	slices.SortFunc(overlays, func(a, b Overlay) int { return strings.Compare(a.Name, b.Name) })
	return overlays
}

// places appends the places at and below dir. It also searches inside an overlay, to report one
// inside another, except in its template and its dispatches. looked is the number of directories
// that were searched below the same top-level directory.
func (l *Loader) places(all []place, tree fs.FS, dir string, entries []fs.DirEntry, looked *int) []place {
	isOverlay := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == policyFile })
	if isOverlay {
		p := place{dir: dir}
		if l.nameOf(dir) == "." {
			p.wrong = new(atTop(dir, entries))
		}
		all = append(all, p)
	} else if name := misnamed(entries); name != "" && dir != l.dir && dir != "." {
		// A user may mean it as an overlay.
		wrong := finding.Finding{File: path.Join(dir, name), Problem: "is ignored: a policy is named " + policyFile, Remedy: "rename it to " + policyFile}
		all = append(all, place{dir: dir, wrong: &wrong, misnamed: true})
	}
	long := false
	for _, name := range directories(entries, isOverlay) {
		below := path.Join(dir, name)
		if strings.Count(strings.TrimPrefix(below, l.dir+"/"), "/") >= deepest {
			continue
		}
		if len(l.nameOf(below)) > longestPath {
			if !long && !isOverlay {
				long = true
				all = append(all, tooLong(dir, name))
			}
			continue
		}
		if dir == l.dir || dir == "." && l.dir == "" {
			looked = new(int)
		}
		if *looked++; *looked > maxDirs {
			wrong := finding.Finding{File: dir, Problem: fmt.Sprintf("is among more than %d directories in which overlays are looked for", maxDirs), Remedy: "keep other directories elsewhere"}
			return append(all, place{dir: dir, wrong: &wrong})
		}
		inside, err := fs.ReadDir(tree, below)
		if err != nil {
			// It may contain an overlay, which must not appear to be deleted.
			wrong := finding.Unreadable(below, err)
			all = append(all, place{dir: below, wrong: &wrong})
			continue
		}
		above := len(all)
		all = l.places(all, tree, below, inside, looked)
		if isOverlay {
			all = append(all[:above], slices.DeleteFunc(all[above:], func(p place) bool { return p.misnamed })...)
		}
	}
	return all
}

// directories returns the names of the directories that may contain overlays. The entries are not
// kept during the search: a few nested directories may have half a million.
func directories(entries []fs.DirEntry, isOverlay bool) []string {
	var names []string
	for _, e := range entries {
		if e.IsDir() && !(isOverlay && (e.Name() == templateDir || e.Name() == dispatchDir)) {
			names = append(names, e.Name())
		}
	}
	return names
}

// longestPath is the maximum length, in bytes, of the path of an overlay below the directory of
// all overlays. No file system has longer names. One long name may be in the paths of thousands
// of overlays, and each overlay repeats its path several times.
const longestPath = 255

// tooLong returns a place that represents the directories in dir whose paths are too long. It
// contains the name of the first one, cut: each of thousands may be megabytes long.
func tooLong(dir, name string) place {
	const shown = 40
	name = strings.Clone(strings.ToValidUTF8(name[:min(len(name), shown)], "") + "…")
	wrong := finding.Finding{File: path.Join(dir, name), Problem: fmt.Sprintf("has a path of more than %d bytes, and is not read", longestPath), Remedy: "give it a shorter name"}
	return place{dir: path.Join(dir, name), wrong: &wrong}
}

// deepest is how many directories an overlay may lie below the first: a deeper search would let
// a few crafted objects represent millions of directories.
const deepest = 4

// maxDirs is the maximum number of directories that are searched below a top-level directory.
const maxDirs = 5000
