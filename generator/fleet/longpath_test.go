package fleet

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// TestLongPaths: the path of an overlay has a bound, and what lies beside a longer
// one, or around it, is read.
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
