package manifest

import (
	"fmt"
	"io/fs"
	"muster/gitops/branch"
	"path"
	"regexp"
	"slices"
	"strings"
)

// misnamed returns the file whose name is nearly that of a policy; empty where
// there is none. Editors, browsers and other systems make such names.
func misnamed(entries []fs.DirEntry) string {
	for _, e := range entries {
		name := strings.TrimSuffix(strings.ToLower(e.Name()), ".txt")
		if e.Type().IsRegular() && (distance(name, policyFile) <= 2 || name == "scaling" || name == "scaling.json") {
			return e.Name()
		}
	}
	return ""
}

// atTop is the finding of an overlay in the directory that holds all of them:
// either that is one overlay, or a policy lies in the wrong place.
func atTop(dir string, entries []fs.DirEntry) Finding {
	f := Finding{File: path.Join(dir, policyFile), Problem: "lies in the directory of all overlays", Remedy: "move the overlay to a directory of its own below it"}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == templateDir || e.Name() == dispatchDir }) && path.Dir(dir) != "." {
		f.Problem = dir + " is one overlay, not the directory that holds them"
		f.Remedy = "give --overlays " + path.Dir(dir)
	}
	return f
}

// pathRule is what the path of an overlay may look like: what every forge, shell
// and terminal takes as it is. An @ would call people by each commit.
var pathRule = regexp.MustCompile(`^[\pL\pN_+~=,. -]+(/[\pL\pN_+~=,. -]+)*$`)

// apart rejects overlays that lie in one another or share a slug.
func apart(overlays []Overlay) {
	slugs := map[string]int{}
	paths := map[string]int{}
	for i := range overlays {
		o := &overlays[i]
		if !pathRule.MatchString(o.Path) || branch.CheckPath(o.Path) != nil {
			o.reject(Finding{File: o.Path, Problem: "has a name that muster does not commit to", Remedy: "use letters, digits and -_. in the names of directories"})
		}
		if o.Name == "." {
			continue // rejected when it was found
		}
		if first, taken := slugs[o.Slug()]; taken {
			for _, pair := range [][2]*Overlay{{o, &overlays[first]}, {&overlays[first], o}} {
				pair[0].reject(Finding{File: pair[0].Path, Problem: fmt.Sprintf("shares the short name %s with %s", o.Slug(), pair[1].Path), Remedy: "rename one of them"})
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
			o.reject(Finding{File: o.Path, Problem: "lies inside the overlay " + above, Remedy: "move it beside it"})
			overlays[outer].reject(Finding{File: above, Problem: "has the overlay " + o.Path + " inside it", Remedy: "move that beside it"})
		}
	}
}
