package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"muster/generator/finding"
	"muster/generator/plan"
)

// Removed finds objects that overlays had before and have no more, although pods of dispatches in git need
// them that may still start.
func Removed(before, after []Overlay, now time.Time) (findings []finding.Finding) {
	for i := range after {
		o := &after[i]
		k := slices.IndexFunc(before, func(b Overlay) bool { return b.Path == o.Path })
		if k < 0 || o.built == nil {
			continue
		}
		for _, x := range before[k].objects {
			own, wrong := finding.ParseOne("", x.YAML)
			same := func(y object) bool { return y.Kind == x.Kind && y.Name == x.Name }
			if wrong != nil || len(prunedBy(own)) == 0 || slices.ContainsFunc(o.objects, same) {
				continue
			}
			var last plan.Dispatch
			for _, d := range o.Dispatches {
				data, err := fs.ReadFile(o.tree, o.FileOf(d))
				job, wrong := finding.ParseOne("", data)
				if err == nil && wrong == nil && !d.Withdrawn && !d.Expired(now) && neededBy(job)[x.Kind+" "+x.Name] && d.NotAfter.After(last.NotAfter) {
					last = d
				}
			}
			if last.ID != "" {
				file := path.Join(o.Path, listFile)
				findings = append(findings, finding.Finding{
					File: file, Line: finding.LineOf(o.tree, file, "resources"), Field: "resources",
					Problem: fmt.Sprintf("the %s %s is removed, and pods of the dispatch %s that start later would wait for it forever", x.Kind, x.Name, last.ID),
					Remedy:  "keep it until " + last.NotAfter.UTC().Format(time.RFC3339) + ", when no such pod starts any more",
				})
			}
		}
	}
	return findings
}
