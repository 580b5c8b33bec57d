package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestManyBrokenOverlays: the findings on thousands of overlays are limited together, and each overlay
// is suspended.
func TestManyBrokenOverlays(t *testing.T) {
	f := sound(t)
	broken := "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n"
	for i := range maxFindings {
		broken += fmt.Sprintf("  y%d: 1\n", i)
	}
	const overlays = 2 * maxLogged / maxFindings
	for i := range overlays {
		f[fmt.Sprintf("overlays/a%03d/scaling.yaml", i)] = fmt.Sprintf("%s  z%d: 1\n", broken, i)
	}
	l := NewLoader("overlays")
	for range 2 {
		said, remembered := 0, 0
		for _, o := range load(t, l, f.tree()) {
			if (o.Err() == nil) != (o.Name == "default") {
				t.Fatalf("%s: %v", o.Name, o.Err())
			}
			said += len(o.findings)
		}
		for _, p := range l.policies.last {
			remembered += len(p.findings)
		}
		if most := maxLogged + maxFindings + overlays*fewFindings; said > most || remembered > most+overlays {
			t.Errorf("%d findings, and %d are remembered, want %d at most", said, remembered, most)
		}
	}
}

// large shows files of a tree with as many bytes as the largest dispatch may have, and
// counts how often one of them is read.
type large struct {
	identified
	files map[string]bool
	reads int
}

func (f *large) ReadFile(name string) ([]byte, error) {
	if f.files[name] {
		f.reads++
		return []byte(strings.Repeat("\x00", largestDispatch)), nil
	}
	return fs.ReadFile(&f.identified, name)
}

// TestTotalOfDispatches: of an overlay whose files in dispatches/ come to more than a
// fleet may have, the first are read and the others are not. It is suspended, in the same
// words at each look, what it may have ordered is asked for, and its neighbour is served.
func TestTotalOfDispatches(t *testing.T) {
	const fit, more = maxOfDispatches/largestDispatch + 1, 100
	tree := sound(t).copy("overlays/default", "overlays/next")
	tree.edit(t, "overlays/next/scaling.yaml", "queue: default", "queue: next")
	tree.edit(t, "overlays/next/configmap.yaml", "muster-default", "muster-next")
	names := map[string]bool{}
	for i := range fit + more {
		dir := "overlays/default/" + dispatchDir
		if i >= fit+more/2 {
			dir = path.Join(dir, withdrawnDir)
		}
		names[path.Join(dir, fmt.Sprintf("x%05d", i)+manifestType)] = true
	}
	for name := range names {
		tree[name] = "#" // shown as larger
	}
	l := NewLoader("overlays")
	for n, reads := range []int{fit, 0} {
		shown := &large{identified: identified{FS: tree.tree()}, files: names}
		overlays := load(t, l, fs.FS(shown))
		o := overlays[0]
		want := fmt.Sprintf("overlays/default/dispatches/x%05d.yaml: is not read, as %d others: the files in overlays/default/dispatches have more than 192 MiB; delete those that are not dispatches of muster", fit, more-1)
		if first, _, _ := strings.Cut(o.Suspended.Finding, "\n"); first != want || len(o.findings) != maxFindings {
			t.Errorf("poll %d: %d findings, the first: %s", n, len(o.findings), first)
		}
		if len(o.unread) != more || o.unread[0] != fmt.Sprintf("overlays/default/dispatches/x%05d.yaml", fit) {
			t.Errorf("poll %d: %d files are not read", n, len(o.unread))
		}
		if shown.reads != reads {
			t.Errorf("poll %d: %d files are read, want %d", n, shown.reads, reads)
		}
		if len(o.Edits()) != fit+more {
			t.Errorf("poll %d: %d files may be dispatches", n, len(o.Edits()))
		}
		if overlays[1].Err() != nil {
			t.Errorf("poll %d: the overlay beside it: %v", n, overlays[1].Err())
		}
	}
}

// TestFullOfDispatches: an overlay with nearly as many bytes of dispatches as are read
// orders nothing more, and retires: ten thousand of 8 KB are below that.
func TestFullOfDispatches(t *testing.T) {
	tree := soundWithDispatch(t)
	for size, full := range map[int]bool{10_000 * 8 << 10: false, fullAt: false, fullAt + 1: true} {
		o := load(t, NewLoader("overlays"), tree.tree())[0]
		if o.size != len(stamped(t)) {
			t.Errorf("%d bytes are read, want %d", o.size, len(stamped(t)))
		}
		o.size = size
		o.checkSize()
		if o.Err() != nil || len(o.refused) > 0 != full {
			t.Errorf("%d bytes: suspended %v, refused %v", size, o.Err(), o.refused)
		}
		if _, _, err := o.Add([]plan.Dispatch{order("default-aaaaaaaa", 3)}); (err != nil) != full {
			t.Errorf("%d bytes: added with %v", size, err)
		}
		if _, _, err := o.Remove([]string{"default-7f3k9c2b"}); err != nil {
			t.Errorf("%d bytes: removed with %v", size, err)
		}
	}
}

// TestLargestOrder: one order adds no more than is read of what it leaves.
func TestLargestOrder(t *testing.T) {
	unraced.Only(t)
	tree := sound(t).edit(t, "base/job.yaml", "            - {name: TAGS", "            - {name: BIG, value: "+strings.Repeat("x", 100<<10)+"}\n            - {name: TAGS")
	o := load(t, NewLoader("overlays"), tree.tree())[0]
	var orders []plan.Dispatch
	for i := range largestOrder/(100<<10) + 1 {
		orders = append(orders, order(fmt.Sprintf("default-%08d", i), 1))
	}
	if _, changes, err := o.Add(orders); err == nil || changes != nil || !strings.Contains(err.Error(), "more than 96 MiB of dispatches: keep large files") {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	if _, _, err := o.Add(orders[:100]); err != nil {
		t.Error(err)
	}
}

// TestUnprovenIsReadOnce: the dispatches of an overlay without a template are read once, and proven
// when there is a template.
func TestUnprovenIsReadOnce(t *testing.T) {
	tree, l := sound(t), NewLoader("overlays")
	tree[stampedFile] = strings.Replace(stamped(t), "        env:\n", "        env: 5\n        more:\n", 1) // which kustomize cannot read
	template := tree["overlays/default/template/kustomization.yaml"]
	for n, broken := range []bool{true, true, false} {
		tree["overlays/default/template/kustomization.yaml"] = template
		if broken {
			tree["overlays/default/template/kustomization.yaml"] = "resources: []\n"
		}
		shown := &identified{FS: tree.tree()}
		o := load(t, l, shown)[0]
		if read := slices.Contains(shown.read, path.Base(stampedFile)); read != (n != 1) {
			t.Errorf("poll %d: read %q", n, shown.read)
		}
		if len(o.Dispatches) > 0 != broken || o.Err() == nil {
			t.Errorf("poll %d: %d dispatches, %v", n, len(o.Dispatches), o.Err())
		}
	}
}
