package fleet

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestKnownManifestsAreNotRead follows an overlay of a tree with identities through commits: a manifest is
// read when it is new or changed, and an edited one again at each Load. The list and state.yaml always are.
func TestKnownManifestsAreNotRead(t *testing.T) {
	const a, b = "default-aaaaaaaa.yaml", "default-bbbbbbbb.yaml"
	files, l := sound(t), NewLoader("overlays")
	var o Overlay
	expect := func(what string, read ...string) {
		t.Helper()
		tree := &identified{FS: files.tree()}
		o = load(t, l, tree)[0]
		slices.Sort(tree.read)
		read = append(read, listFile)
		if _, there := files[stateOf]; there {
			read = append(read, stateFile)
		}
		slices.Sort(read)
		if diff := cmp.Diff(read, tree.read); diff != "" {
			t.Errorf("%s: read (-want +got)\n%s", what, diff)
		}
		if plain := load(t, NewLoader("overlays"), files.tree())[0]; !cmp.Equal(plain.Dispatches, o.Dispatches) || plain.Policy.Queue != o.Policy.Queue || !cmp.Equal(plain.Policy.Tags, o.Policy.Tags) {
			t.Errorf("%s: the overlay is not what it is when all is read: %s", what, cmp.Diff(plain.Dispatches, o.Dispatches))
		}
	}
	expect("nothing there")
	files.ordered(t, order("default-aaaaaaaa", 3), order("default-bbbbbbbb", 3))
	expect("two were written", a, b)
	expect("nothing changed")
	files["overlays/default/dispatches/"+b] += "# a person's note\n"
	expect("a comment was added", b, b)
	expect("nothing changed", b)
	policy := files["overlays/default/scaling.yaml"]
	files["overlays/default/scaling.yaml"] = "nonsense"
	expect("the policy cannot be read", b)
	if o.Err() == nil || o.Policy.Queue != "default" {
		t.Errorf("without its policy the overlay is held by %v and its agents are in queue %q", o.Err(), o.Policy.Queue)
	}
	files["overlays/default/scaling.yaml"] = policy
	// The same file elsewhere is another.
	files["overlays/default/dispatches/default-cccccccc.yaml"] = files["overlays/default/dispatches/"+a]
	expect("one was copied", b, "default-cccccccc.yaml")
	if o.Err() == nil {
		t.Error("a copied dispatch is treated as its own")
	}
	// A file that is too large is read once.
	delete(files, "overlays/default/dispatches/default-cccccccc.yaml")
	files["overlays/default/dispatches/"+b] = strings.Repeat("#", largestManifest+1)
	expect("one is too large", b)
	expect("one is too large")
	if !o.Dispatches[1].Withdrawn {
		t.Error("it counts as a manifest")
	}
}

// TestUnreadManifest: a manifest that is known but cannot be read when an edit is suspected suspends the
// overlay, and its order is neither withdrawn nor edited.
func TestUnreadManifest(t *testing.T) {
	files, l := soundWithDispatch(t), NewLoader("overlays")
	files[stampedFile] += "# a person's note\n"
	o := only(t, l, &identified{FS: files.tree()})
	want := o.Dispatches
	for range 2 {
		s := &spy{FS: &identified{FS: files.tree()}, read: map[string]bool{}, broken: stampedFile}
		o = load(t, l, s)[0]
		o.Join(want, func(string) bool { return false }, want[0].At)
		if o.Err() == nil || !strings.Contains(o.Err().Error(), stampedFile+": cannot be read: ") || strings.Contains(o.Err().Error(), "\n") || !cmp.Equal(want, o.Dispatches) || o.Repair() != nil {
			t.Errorf("%v, %v, repair %v", o.Err(), o.Dispatches, o.Repair())
		}
	}
	if o = only(t, l, &identified{FS: files.tree()}); !cmp.Equal(want, o.Dispatches) || o.Repair() != nil {
		t.Errorf("afterwards: %v, repair %v", o.Dispatches, o.Repair())
	}
}
