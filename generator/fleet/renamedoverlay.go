package fleet

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"muster/generator/finding"
	"muster/generator/plan"
)

// orderedAs returns the slug of the overlay that a dispatch was ordered for, as in its agents'
// tags.
func orderedAs(d plan.Dispatch) string {
	slug, _ := plan.TagValue(d.Tags, plan.TagOverlay)
	return slug
}

// ours reports whether a dispatch may belong to this fleet repository: a directory that was
// copied from another contains Jobs that exist already.
func (l *Loader) ours(d plan.Dispatch) bool {
	loaded, _ := plan.TagValue(d.Tags, plan.TagFleet)
	return loaded == "" || l.fleet == "" || loaded == l.fleet
}

func another(file, of string) *finding.Finding {
	return &finding.Finding{File: file, Field: "metadata.labels[" + LabelOverlay + "]", Problem: "is " + finding.Quote(of) + ": the dispatch is another overlay's", Remedy: "it is a copy of the same Job: delete it"}
}

// renamed finds the overlays whose directory was renamed while they had dispatches in git or
// running agents. A dispatch that was ordered under a name that no overlay has now belongs to
// the overlay in whose directory it is, and so do agents with that name. (For agents of retired
// dispatches, the permanent ConfigMap of muster init contains the overlay's first name.) If an
// overlay has that name, or two directories have its dispatches, one is a copy: its agents would
// count twice.
func renamed(overlays []Overlay) {
	taken := map[string]bool{}
	for i := range overlays {
		taken[overlays[i].Slug()] = true
	}
	owner := map[string]int{}
	for i := range overlays {
		o := &overlays[i]
		o.Former = nil
		o.Dispatches = slices.DeleteFunc(slices.Clone(o.Dispatches), func(d plan.Dispatch) bool {
			of := orderedAs(d)
			if of == o.Slug() || of == "" {
				return false
			}
			first, owned := owner[of]
			switch {
			case taken[of]:
				o.reject(*another(o.file(d.ID+manifestType), of))
				return true
			case owned && first != i:
				for _, pair := range [][2]*Overlay{{o, &overlays[first]}, {&overlays[first], o}} {
					f := finding.Finding{File: path.Join(pair[0].Path, dispatchDir), Problem: fmt.Sprintf("has dispatches of the former overlay %s, as %s has", of, pair[1].Path), Remedy: "one of them is a copy: delete its dispatches"}
					if !slices.Contains(pair[0].findings, f) {
						pair[0].reject(f)
					}
				}
				return true
			case !owned:
				owner[of] = i
				o.Former = append(o.Former, of)
			}
			return false
		})
	}
	for i := range overlays {
		o := &overlays[i]
		if made := o.builtAs(); made != "" && !taken[made] {
			if first, owned := owner[made]; !owned || first == i && !slices.Contains(o.Former, made) {
				o.Former = append(o.Former, made)
			}
		}
		slices.Sort(o.Former)
	}
}

// builtAs returns the slug that the overlay had when muster init made it, according to its
// permanent ConfigMap, if the overlay has another slug now.
func (o *Overlay) builtAs() string {
	for _, x := range o.objects {
		if x.Kind != "ConfigMap" || !strings.HasPrefix(x.Name, "muster-") || bytes.Contains(x.YAML, []byte("  overlay: "+o.Slug()+"\n")) {
			continue
		}
		object, wrong := finding.ParseOne("", x.YAML)
		if wrong == nil && finding.Scalar(object, "metadata", "labels", "app.kubernetes.io/managed-by") == "muster" && x.Name == "muster-"+finding.Scalar(object, "data", "overlay") {
			if made := finding.Scalar(object, "data", "overlay"); made != o.Slug() {
				return made
			}
		}
	}
	return ""
}
