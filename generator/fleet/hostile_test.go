package fleet

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestHostileFiles: a few lines of YAML suspend their overlay, and neither end the
// process nor touch the other overlay.
func TestHostileFiles(t *testing.T) {
	unraced.Only(t)
	builder := hostileBuilder(t)
	const head = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: agent}\n"
	bomb := head + "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for _, c := range "bcdefghi" {
		last := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+last+", ", 8) + "*" + last + "]\n"
	}
	for name, change := range map[string]func(files){
		"a value within itself": func(f files) { f["overlays/bad/template/job.yaml"] = head + "spec: &a {template: {spec: *a}}\n" },
		"an alias bomb":         func(f files) { f["overlays/bad/template/job.yaml"] = bomb },
		"an alias bomb by another name": func(f files) {
			f["overlays/bad/template/kustomization.yaml"] = "resources: [bomb.txt]\n"
			f["overlays/bad/template/bomb.txt"] = bomb
		},
		"an alias bomb that is a patch": func(f files) {
			f["overlays/bad/template/kustomization.yaml"] += "patches: [{path: x.patch}]\n"
			f["overlays/bad/template/x.patch"] = bomb
		},
		"an alias bomb that is a strategic merge": func(f files) {
			f["overlays/bad/template/kustomization.yaml"] += "patchesStrategicMerge: [patch]\n"
			f["overlays/bad/template/patch"] = bomb
		},
		"an alias bomb that is a ConfigMap's file too": func(f files) {
			f["overlays/bad/kustomization.yaml"] += "configMapGenerator: [{name: x, files: [bomb]}]\npatches: [{path: bomb}]\n"
			f["overlays/bad/bomb"] = bomb
		},
		"an alias bomb before what is no YAML": func(f files) {
			f["overlays/bad/template/kustomization.yaml"] = "resources: [bomb.txt]\n"
			f["overlays/bad/template/bomb.txt"] = "x: |\n  y\n---\n" + bomb + "---\n{\n"
		},
		"an alias bomb in a Kustomization": func(f files) {
			delete(f, "overlays/bad/template/kustomization.yaml")
			f["overlays/bad/template/Kustomization"] = "resources: [job.yaml]\n" + strings.TrimPrefix(bomb, head)
		},
		"a patch within itself": func(f files) {
			f["overlays/bad/template/kustomization.yaml"] += "patches: [{patch: 'a: &a [*a]', target: {kind: Job}}]\n"
		},
		"a patch that is none": func(f files) { f["overlays/bad/template/kustomization.yaml"] += "patchesJson6902: [null]\n" },
		"a directory in the list's place": func(f files) {
			delete(f, "overlays/bad/dispatches/kustomization.yaml")
			f["overlays/bad/dispatches/kustomization.yaml/x"] = ""
		},
		"another overlay's manifest": func(f files) { f["overlays/bad/dispatches/default-00000001.yaml"] = f["dispatch"] },
		"another overlay's orders":   func(f files) { f["overlays/bad/dispatches/state.yaml"] = f["state"] },
	} {
		t.Run(name, func(t *testing.T) {
			tree := sound(t)
			overlay := load(t, NewLoader("overlays"), tree.tree())[0]
			_, changes, err := overlay.Add([]plan.Dispatch{order("default-00000001", 1)})
			if err != nil || len(changes) != 3 {
				t.Fatal(changes, err)
			}
			tree = tree.copy("overlays/default", "overlays/bad")
			tree["overlays/bad/template/kustomization.yaml"] = "resources: [job.yaml]\n"
			tree["overlays/bad/template/job.yaml"] = tree["base/job.yaml"]
			tree["dispatch"], tree["state"] = string(changes[0].Content), string(changes[2].Content)
			change(tree)
			delete(tree, "dispatch")
			delete(tree, "state")
			for _, o := range load(t, NewLoader("overlays").BuildWith(builder, 0), tree.tree()) {
				if bad := o.Name == "bad"; bad != (o.Err() != nil) {
					t.Errorf("%s: %v", o.Name, o.Err())
				} else if bad && strings.Contains(o.Err().Error(), "\n") {
					t.Errorf("the error has several lines: %v", o.Err())
				}
			}
		})
	}
}

// TestAnchors asserts that the files of a template can use YAML anchors.
func TestAnchors(t *testing.T) {
	f := sound(t)
	f.edit(t, "base/job.yaml", "managed-by: muster", "managed-by: &x muster\n    team: *x")
	only(t, NewLoader("overlays"), f.tree())
	f.edit(t, "overlays/default/template/kustomization.yaml", "resources:", `namePrefix: x-
patches:
- target: {kind: Job, name: agent}
  patch: '- {op: add, path: /metadata/labels/a, value: b}'
resources:`)
	if found := checkErrors(f.tree()); len(found) > 0 {
		t.Errorf("a patch of a Job with anchors: %v", found)
	}
}

func TestUnusualOverlayNames(t *testing.T) {
	for name, fine := range map[string]bool{"linux/large": true, "Größe 2": true, `team\a`: false, "line\nbreak": false, "esc\x1b]0;": false,
		".git": false, ".GIT": false, ".git.": false, "git~1": false, "large/.git": false, ".github": true, "@team": false, "a@b": false, "linux@team/large": false} {
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

// TestCountlessDirectories: a tree in which every directory contains others does not prevent other
// overlays from being read.
func TestCountlessDirectories(t *testing.T) {
	unraced.Only(t)
	var below []fs.DirEntry
	for i := range 200 {
		below = append(below, entry{fmt.Sprint(i), fs.ModeDir})
	}
	tree := endless{sound(t).tree().(fstest.MapFS), below}
	var fine, wrong int
	for _, o := range load(t, NewLoader("overlays"), tree) {
		if o.Err() == nil {
			fine++
		} else {
			wrong++
		}
	}
	if fine != 1 || wrong == 0 || wrong > 10 {
		t.Errorf("%d overlays are valid and %d invalid", fine, wrong)
	}
}

// endless is a tree in which the directory overlays/bomb, and each directory below it, has the
// entries below.
type endless struct {
	fstest.MapFS
	below []fs.DirEntry
}

func (e endless) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := e.MapFS.ReadDir(name)
	switch {
	case name == "overlays":
		return append(list, entry{"bomb", fs.ModeDir}), err
	case strings.HasPrefix(name, "overlays/bomb"):
		return slices.Clone(e.below), nil
	}
	return list, err
}

// entry is a directory entry.
type entry struct {
	name string
	mode fs.FileMode
}

func (e entry) Name() string             { return e.name }
func (e entry) IsDir() bool              { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode        { return e.mode }
func (entry) Info() (fs.FileInfo, error) { return nil, fs.ErrNotExist }

// TestLongPaths: the path of an overlay has a maximum length; overlays next to a longer one are read.
func TestLongPaths(t *testing.T) {
	fits, tooLong := strings.Repeat("f", longestPath), strings.Repeat("l", longestPath+1)
	f := sound(t)
	for _, name := range []string{fits, tooLong, tooLong + "2", "team/a", "team/" + fits} {
		f = f.copy("overlays/default", "overlays/"+name)
		if strings.Contains(name, "/") {
			f["overlays/"+name+"/template/kustomization.yaml"] = "resources: [../../../../base]\n"
		}
	}
	f["overlays/default/"+tooLong+"/x"] = ""
	fine := map[string]bool{"default": true, fits: true, "team/a": true, strings.Repeat("l", 40) + "…": false, "team/" + strings.Repeat("f", 40) + "…": false}
	for _, o := range load(t, NewLoader("overlays"), f.tree()) {
		if is, known := fine[o.Name]; !known || is != (o.Err() == nil) {
			t.Errorf("%s: %v", o.Name, o.Err())
		}
		delete(fine, o.Name)
	}
	if len(fine) > 0 {
		t.Errorf("not found: %v", fine)
	}
}

// TestLongNameOfMany: a directory of a long name in which thousands of overlays lie
// is said in few words: its name is not in the memory of each.
func TestLongNameOfMany(t *testing.T) {
	f := sound(t)
	long := "overlays/" + strings.Repeat("n", 5000)
	for i := range 100 {
		f[fmt.Sprintf("%s/d%d/scaling.yaml", long, i)] = f["overlays/default/scaling.yaml"]
	}
	said := 0
	for _, o := range load(t, NewLoader("overlays"), f.tree()) {
		said += len(o.Path)
		if err := o.Err(); err != nil {
			said += len(err.Error())
		}
	}
	if said > 10_000 {
		t.Errorf("%d bytes are said of a directory with a long name", said)
	}
}

// TestWideDirectoriesInOneAnother: while a directory is looked into, the entries of
// those above it take no memory.
func TestWideDirectoriesInOneAnother(t *testing.T) {
	below := []fs.DirEntry{entry{"in", fs.ModeDir}}
	for i := range 100_000 {
		below = append(below, entry{fmt.Sprintf("%084d", i), 0})
	}
	tree := endless{sound(t).tree().(fstest.MapFS), below}
	peak := watchHeap()
	load(t, NewLoader("overlays"), tree)
	if used := peak(); used > 40<<20 {
		t.Errorf("%d MiB", used>>20)
	}
}
