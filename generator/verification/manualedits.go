package verification

import (
	"context"
	"path"
	"slices"
	"strings"

	"muster/gitops/branch"
)

// others checks a commit that neither muster nor its commands made, or whose trailers can no longer be
// parsed. It returns the zero value if there is nothing to report.
func (w *worker) others(ctx context.Context, u *unit) (Finding, error) {
	r := &u.op
	f, nothing := finding(r), Finding{}
	if r.Damage != nil {
		f.Verdict, f.Why = Differs, []string{"its message cannot be read: " + r.Damage.Error()}
		return f, nil
	}
	var touched []branch.Difference
	for i, parent := range r.Commit.Parents {
		files, added, err := w.touches(ctx, parent, r.Commit.ID)
		if unread(err) {
			return nothing, nil // a shallow clone ends here
		}
		if err != nil {
			return nothing, err
		}
		if i == 0 {
			touched = files
		} else { // of a merge, files that differ from all parents
			touched = slices.DeleteFunc(touched, func(d branch.Difference) bool {
				return !slices.ContainsFunc(files, func(x branch.Difference) bool { return x.Path == d.Path })
			})
		}
		if len(touched) == 0 || added && len(r.Commit.Parents) == 1 {
			return nothing, nil
		}
	}
	if len(touched) == 0 {
		return nothing, nil
	}
	dir, _, _ := strings.Cut(touched[0].Path, "/"+dispatches+"/")
	f.Verdict, f.Overlay = NotMuster, strings.TrimPrefix(dir, path.Clean(w.Overlays)+"/")
	var names []string
	for _, d := range touched {
		names = append(names, d.Path)
	}
	f.Why = []string{"changes " + some(names)}
	return f, nil
}

// touches returns the files owned by muster that differ from those of an earlier commit. added reports
// whether all of them are those of new overlays.
func (w *worker) touches(ctx context.Context, before, after string) (files []branch.Difference, added bool, err error) {
	all, err := w.files.Differences(ctx, before, after, path.Clean(w.Overlays))
	added = true
	for _, d := range all {
		dir, name, inside := strings.Cut(d.Path, "/"+dispatches+"/")
		if !inside {
			continue
		}
		files = append(files, d)
		policy := slices.ContainsFunc(all, func(x branch.Difference) bool { return x.Path == dir+"/scaling.yaml" && x.Before.ID == "" })
		added = added && policy && name == "kustomization.yaml" && d.Before.ID == ""
	}
	return files, added, err
}
