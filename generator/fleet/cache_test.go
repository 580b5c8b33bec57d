package fleet

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/generator/plan"
)

func TestRemembered(t *testing.T) {
	var r remembered[int]
	var found int
	load := func(keys ...string) (values []int) {
		t.Helper()
		r.begin()
		for _, k := range keys {
			v, err := r.get(contentKey(k, nil), func() (int, error) {
				found++
				if k == "wrong" {
					return 0, errors.New("wrong")
				}
				return found, nil
			})
			if (err != nil) != (k == "wrong") {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		r.end()
		return values
	}
	for i, step := range []struct {
		keys  []string
		found int // how often it was looked for, so far
	}{
		{[]string{"a", "b", "a"}, 2},
		{[]string{"b", "a"}, 2},
		{[]string{"a"}, 2},
		{[]string{"a", "b"}, 3}, // b was not used and is forgotten
		{[]string{"wrong", "wrong"}, 5},
		{[]string{"wrong", "a"}, 7}, // and so was a
	} {
		if load(step.keys...); found != step.found {
			t.Errorf("step %d: looked %d times, want %d", i, found, step.found)
		}
	}
	if v := load("a"); v[0] != 7 {
		t.Errorf("a is %d, want 7", v[0])
	}
}

// identified is a tree that tells its files' contents apart without their being
// read, as git does, and lists what is read below dispatches/ nevertheless.
type identified struct {
	fs.FS
	read []string
}

func (i *identified) Open(name string) (fs.File, error) {
	f, err := i.FS.Open(name)
	if info, statErr := fs.Stat(i.FS, name); statErr == nil && !info.IsDir() && strings.Contains(name, "/"+dispatchDir+"/") {
		i.read = append(i.read, path.Base(name))
	}
	return f, err
}

func (i *identified) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(i.FS, name)
	for k, e := range entries {
		entries[k] = identifiedEntry{e, i.FS, path.Join(name, e.Name())}
	}
	return entries, err
}

type identifiedEntry struct {
	fs.DirEntry
	tree fs.FS
	path string
}

func (e identifiedEntry) Identity() string {
	content, _ := fs.ReadFile(e.tree, e.path)
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// TestKnownDispatchesAreNotRead follows an overlay of a tree with identities
// through commits: a manifest is read when it is new or changed, and not again.
func TestKnownDispatchesAreNotRead(t *testing.T) {
	files, l := sound(t), NewLoader("overlays")
	var o Overlay
	expect := func(what string, read ...string) {
		t.Helper()
		tree := &identified{FS: files.tree()}
		o = load(t, l, tree)[0]
		if diff := cmp.Diff(read, tree.read); diff != "" {
			t.Errorf("%s: read (-want +got)\n%s", what, diff)
		}
		if plain := load(t, NewLoader("overlays"), files.tree())[0]; !cmp.Equal(plain.Dispatches, o.Dispatches) || plain.Policy.Queue != o.Policy.Queue || !cmp.Equal(plain.Policy.Tags, o.Policy.Tags) {
			t.Errorf("%s: the overlay is not what it is when all is read: %s", what, cmp.Diff(plain.Dispatches, o.Dispatches))
		}
	}
	expect("nothing there", listFile)
	_, changes, err := o.Add([]plan.Dispatch{order("default-aaaaaaaa", 3), order("default-bbbbbbbb", 3)})
	if err != nil {
		t.Fatal(err)
	}
	files.apply(changes)
	expect("two were written", "default-aaaaaaaa.yaml", "default-bbbbbbbb.yaml", listFile)
	expect("nothing changed", listFile)
	files["overlays/default/dispatches/default-bbbbbbbb.yaml"] += "# a person's note\n"
	expect("one was edited", "default-bbbbbbbb.yaml", listFile)
	expect("nothing changed", listFile)
	policy := files["overlays/default/scaling.yaml"]
	files["overlays/default/scaling.yaml"] = "nonsense"
	expect("the policy cannot be read", listFile)
	if o.Err() == nil || o.Policy.Queue != "default" {
		t.Errorf("without its policy the overlay is held by %v and its agents are in queue %q", o.Err(), o.Policy.Queue)
	}
	files["overlays/default/scaling.yaml"] = policy
	// The same file elsewhere is another.
	files["overlays/default/dispatches/default-cccccccc.yaml"] = files["overlays/default/dispatches/default-aaaaaaaa.yaml"]
	expect("one was copied", "default-cccccccc.yaml", listFile)
	if o.Err() == nil {
		t.Error("a copied dispatch is treated as its own")
	}
}

// TestNoDispatchIsReadOnce: what can be no dispatch, as a file that is too large, is
// named at each Load, and read at the first only. Its agents count as far as it says.
func TestNoDispatchIsReadOnce(t *testing.T) {
	const dir = "overlays/default/" + dispatchDir + "/"
	files, l := sound(t), NewLoader("overlays")
	for i := range 3 {
		files[fmt.Sprint(dir, "large", i, manifestType)] = strings.Repeat("#", largestDispatch+1)
	}
	files[dir+"none.yaml"] = "spec: {completions: 7}"
	files[dir+withdrawnDir+"/other.yaml"] = "no: {dispatch"
	want := []string{
		dir + "large0.yaml: has 131073 bytes: a dispatch has at most 131072; " + repair,
		dir + "large1.yaml: has 131073 bytes: a dispatch has at most 131072; " + repair,
		dir + "large2.yaml: has 131073 bytes: a dispatch has at most 131072; " + repair,
		dir + "none.yaml: apiVersion: is missing; " + repair,
		dir + withdrawnDir + "/other.yaml:1: is not valid YAML: did not find expected ',' or '}'; " + repair,
	}
	for n, read := range []int{6, 1, 1} { // the list is read each time
		tree := &identified{FS: files.tree()}
		o := load(t, l, tree)[0]
		if len(tree.read) != read {
			t.Errorf("load %d: read %q", n, tree.read)
		}
		var got []string
		for _, f := range o.findings {
			got = append(got, f.Error())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("load %d: findings (-want +got)\n%s", n, diff)
		}
		agents := 0
		for _, e := range o.Edits() {
			agents += e.Agents
		}
		if len(o.Edits()) != len(want) || agents != 7 {
			t.Errorf("load %d: %d edits, %d agents", n, len(o.Edits()), agents)
		}
	}
	files[dir+"large0.yaml"] += "#"
	tree := &identified{FS: files.tree()}
	if o := load(t, l, tree)[0]; len(tree.read) != 2 || !strings.Contains(o.Err().Error(), "131074 bytes") {
		t.Errorf("another file: read %q: %v", tree.read, o.Err())
	}
}
