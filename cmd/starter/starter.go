// Package starter makes the files of a new fleet repository.
package starter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"muster/base"
	"muster/cmd/output"
	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
	"muster/overlays"

	"sigs.k8s.io/yaml"
)

// Attributes are the .gitattributes of a fleet repository, with which git revert and git merge keep the
// orders that were made since (gitattributes(5), "merge").
const Attributes = "# git revert and git merge keep the orders that muster made since.\n" +
	"**/dispatches/kustomization.yaml merge=union\n**/dispatches/state.yaml merge=union\n"

// DefaultQueue is the queue of the overlay if none is given.
const DefaultQueue = "default"

// Overlay is the overlay of a new fleet repository.
type Overlay struct {
	// Name is that of its directory below overlays/.
	Name string
	// Queue is the key of its queue, and Cluster the name or identifier of the queue's cluster in Buildkite;
	// an empty cluster is any.
	Queue, Cluster string
	// Policy are values of fields of the policy's spec, by name, as policy.Apply takes them.
	Policy map[string]string
}

// OverlayFiles returns the files of a new overlay. A queue or cluster that is invalid in
// Buildkite is an error.
func OverlayFiles(o Overlay) (map[string][]byte, error) {
	files, err := Embedded(overlays.Files, "default")
	if err != nil {
		return nil, err
	}
	put := func(file, before, after string) {
		files[file] = bytes.Replace(files[file], []byte(before), []byte(after), 1)
	}
	if slug := plan.Slug(o.Name); o.Name != "default" {
		put("configmap.yaml", "name: muster-default", "name: muster-"+slug)
		put("configmap.yaml", "overlay: default", "overlay: "+scalar(slug))
		put("scaling.yaml", "../../schema", strings.Repeat("../", 2+strings.Count(o.Name, "/"))+"schema")
		put("template/kustomization.yaml", "../../../base", strings.Repeat("../", 3+strings.Count(o.Name, "/"))+"base")
		put("template/kustomization.yaml", "overlays/default/template", "overlays/"+o.Name+"/template")
	}
	if o.Queue != DefaultQueue {
		put("scaling.yaml", "queue: default", "queue: "+scalar(o.Queue))
	}
	if o.Cluster != "" {
		put("scaling.yaml", `# cluster: ""  `, "cluster: "+scalar(o.Cluster))
	}
	written, err := policy.Apply("scaling.yaml", files["scaling.yaml"], policy.Edit{Set: o.Policy})
	if err == nil {
		files["scaling.yaml"] = written
	}
	var finding finding.Finding
	if errors.As(err, &finding) {
		return nil, output.Usage(fmt.Errorf("--%s: %s; %s", strings.TrimPrefix(finding.Field, "spec."), finding.Problem, finding.Remedy))
	}
	if err != nil {
		return nil, output.Usage(err)
	}
	policy, err := policy.Parse("scaling.yaml", written)
	if err != nil {
		return nil, output.Usage(err)
	}
	if policy.Queue != o.Queue {
		return nil, output.Usage(fmt.Errorf("--queue %q is not a queue's key", o.Queue))
	}
	if policy.Cluster != o.Cluster {
		return nil, output.Usage(fmt.Errorf("--cluster %q is not the name or id of a cluster", o.Cluster))
	}
	return files, nil
}

// scalar returns text as a YAML string, in quotes where necessary, as for 2024 and null.
func scalar(text string) string {
	quoted, err := yaml.Marshal(text)
	if err != nil {
		return text // the parser of the file reports it
	}
	return strings.TrimSpace(string(quoted))
}

// Embedded reads every file below dir.
func Embedded(from fs.FS, dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	tree, err := fs.Sub(from, dir)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[name], err = fs.ReadFile(tree, name)
		}
		return err
	})
	return files, err
}

// Directory is a directory of a fleet repository, with its files by relative path.
type Directory struct {
	Path  string
	Files map[string][]byte
}

// Fleet returns the directories of a new fleet repository with one overlay.
func Fleet(o Overlay) ([]Directory, error) {
	overlay, err := OverlayFiles(o)
	if err != nil {
		return nil, err
	}
	agent, err := Embedded(base.Files, ".")
	if err != nil {
		return nil, err
	}
	schema := map[string][]byte{"scaling.json": policy.Schema()}
	return []Directory{{"base", agent}, {"schema", schema}, {path.Join("overlays", o.Name), overlay}}, nil
}

// Changes returns the files of a new fleet repository with an overlay for the queue
// "default", whose policy edit changes.
func Changes(edit func(policy []byte) []byte) ([]branch.Change, error) {
	parts, err := Fleet(Overlay{Name: "default", Queue: DefaultQueue})
	var changes []branch.Change
	for _, part := range parts {
		for name, content := range part.Files {
			if name == "scaling.yaml" {
				content = edit(content)
			}
			changes = append(changes, branch.Change{Path: path.Join(part.Path, name), Content: content})
		}
	}
	slices.SortFunc(changes, func(a, b branch.Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, err
}
