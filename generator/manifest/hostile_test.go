package manifest

import (
	"muster/generator/plan"
	"strings"
	"testing"
)

// TestHostileFiles: a few lines of YAML hold their overlay, and neither end the
// process nor touch the other overlay.
func TestHostileFiles(t *testing.T) {
	const head = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: agent}\n"
	bomb := head + "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for _, c := range "bcdefghi" {
		last := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+last+", ", 8) + "*" + last + "]\n"
	}
	for name, change := range map[string]func(files){
		"a value within itself": func(f files) { f["overlays/bad/template/job.yaml"] = head + "spec: &a {template: {spec: *a}}\n" },
		"an alias bomb":         func(f files) { f["overlays/bad/template/job.yaml"] = bomb },
		"a patch within itself": func(f files) {
			f["overlays/bad/template/kustomization.yaml"] += "patches: [{patch: 'a: &a [*a]', target: {kind: Job}}]\n"
		},
		"a patch that is none": func(f files) { f["overlays/bad/template/kustomization.yaml"] += "patchesJson6902: [null]\n" },
		"a directory in the list's place": func(f files) {
			delete(f, "overlays/bad/dispatches/kustomization.yaml")
			f["overlays/bad/dispatches/kustomization.yaml/x"] = ""
		},
		"another overlay's dispatch": func(f files) { f["overlays/bad/dispatches/default-00000001.yaml"] = f["dispatch"] },
	} {
		t.Run(name, func(t *testing.T) {
			tree := sound(t)
			overlay := load(t, NewLoader("overlays"), tree.tree())[0]
			_, changes, err := overlay.Add([]plan.Dispatch{order("default-00000001", 1)})
			if err != nil {
				t.Fatal(err)
			}
			tree = tree.copy("overlays/default", "overlays/bad")
			tree["overlays/bad/template/kustomization.yaml"] = "resources: [job.yaml]\n"
			tree["overlays/bad/template/job.yaml"] = tree["base/job.yaml"]
			tree["dispatch"] = string(changes[0].Content)
			change(tree)
			delete(tree, "dispatch")
			for _, o := range load(t, NewLoader("overlays"), tree.tree()) {
				if bad := o.Name == "bad"; bad != (o.Err() != nil) {
					t.Errorf("%s: %v", o.Name, o.Err())
				} else if bad && strings.Contains(o.Err().Error(), "\n") {
					t.Errorf("the error has several lines: %v", o.Err())
				}
			}
		})
	}
}

func TestOddOverlayNames(t *testing.T) {
	for name, fine := range map[string]bool{"linux/large": true, "Größe 2": true, `team\a`: false, "line\nbreak": false, "esc\x1b]0;": false,
		".git": false, ".GIT": false, ".git.": false, "git~1": false, "large/.git": false, ".github": true} {
		tree := sound(t)
		tree = tree.copy("overlays/default", "overlays/"+name)
		if strings.Contains(name, "/") {
			tree["overlays/"+name+"/template/kustomization.yaml"] = "resources: [../../../../base]\n"
		}
		for _, o := range load(t, NewLoader("overlays"), tree.tree()) {
			if o.Name == name && (o.Err() == nil) != fine {
				t.Errorf("%q: %v", name, o.Err())
			}
		}
	}
}
