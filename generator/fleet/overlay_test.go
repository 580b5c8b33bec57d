package fleet

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		return []byte(strings.Repeat("\x00", largestManifest)), nil
	}
	return fs.ReadFile(&f.identified, name)
}

// TestTotalOfDispatches: of an overlay whose files in dispatches/ come to more than a
// fleet may have, the first are read and the others are not. It is suspended, in the same
// words at each look, and its neighbour is served.
func TestTotalOfDispatches(t *testing.T) {
	const fit, more = maxOfDispatches/largestManifest + 1, 100
	tree := sound(t).copy("overlays/default", "overlays/next")
	tree.edit(t, "overlays/next/scaling.yaml", "queue: default", "queue: next")
	tree.edit(t, "overlays/next/configmap.yaml", "muster-default", "muster-next")
	names := map[string]bool{}
	for i := range fit + more {
		names[path.Join("overlays/default", dispatchDir, fmt.Sprintf("x%05d", i)+manifestType)] = true
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
		if first, _, _ := strings.Cut(o.Suspended.Finding, "\n"); first != want || len(o.findings) != 1 || len(o.unexplainedFindings()) != fit+more {
			t.Errorf("poll %d: %d findings, the first: %s", n, len(o.findings), first)
		}
		if len(o.unread) != more || o.unread[0] != fmt.Sprintf("overlays/default/dispatches/x%05d.yaml", fit) {
			t.Errorf("poll %d: %d files are not read", n, len(o.unread))
		}
		if shown.reads != reads {
			t.Errorf("poll %d: %d files are read, want %d", n, shown.reads, reads)
		}
		if len(o.unexplained) != fit+more {
			t.Errorf("poll %d: %d files are unexplained", n, len(o.unexplained))
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

// TestWithdraw removes the manifest of an order: the overlay builds without it, its agents count, and it
// can be retired.
func TestWithdraw(t *testing.T) {
	tree, d := soundWithDispatch(t), dispatchOf(t)
	l := NewLoader("overlays")
	o := only(t, l, tree.tree())
	if got := o.Dispatches[0].Template; got == "" || got != o.Template {
		t.Errorf("stamped from template %q, which is %q", got, o.Template)
	}
	next, changes, err := o.Withdraw([]string{d.ID})
	if err != nil {
		t.Fatal(err)
	}
	tree.apply(changes)
	if _, there := tree[stampedFile]; there {
		t.Error("the manifest is still there")
	}
	for _, f := range check(tree.tree(), "overlays") {
		t.Error(f)
	}
	for _, loader := range []*Loader{l, NewLoader("overlays")} {
		o = only(t, loader, tree.tree())
		want := d
		want.Withdrawn = true
		if diff := cmp.Diff([]plan.Dispatch{want}, o.Dispatches); diff != "" || !cmp.Equal(next.Dispatches, o.Dispatches) {
			t.Errorf("read again (-want +got)\n%s", diff)
		}
		if faults := o.Faults(); len(faults) > 0 || !o.RecordedWithdrawn(d.ID) {
			t.Errorf("faults %v", faults)
		}
	}
	if _, _, err := o.Withdraw([]string{d.ID}); err == nil {
		t.Error("it can be withdrawn twice")
	}
	if _, _, err := o.Add([]plan.Dispatch{d}); err == nil {
		t.Error("its name can be used again")
	}
	next, changes, err = o.Remove([]string{d.ID})
	if err != nil || len(next.Dispatches) > 0 {
		t.Fatal(next.Dispatches, err)
	}
	tree.apply(changes)
	if o = only(t, l, tree.tree()); len(o.Dispatches) > 0 || len(o.Faults()) > 0 || slices.ContainsFunc(changes, func(c branch.Change) bool { return c.Path == stampedFile }) {
		t.Errorf("still there: %v, faults %v, changes %v", o.Dispatches, o.Faults(), changes)
	}
}

// TestOperationsInOneTick: an operation starts from the result of the one before it, without a Load.
func TestOperationsInOneTick(t *testing.T) {
	tree := sound(t)
	o := only(t, NewLoader("overlays"), tree.tree())
	step := func(next Overlay, changes []branch.Change, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		tree.apply(changes)
		o = next
		if again := only(t, NewLoader("overlays"), tree.tree()); !cmp.Equal(again.Dispatches, o.Dispatches, cmpopts.EquateEmpty()) || len(again.Faults()) > 0 {
			t.Errorf("read again: faults %v %s", again.Faults(), cmp.Diff(again.Dispatches, o.Dispatches))
		}
	}
	step(o.Add([]plan.Dispatch{order("default-aaaaaaaa", 1), order("default-bbbbbbbb", 2)}))
	step(o.Withdraw([]string{"default-aaaaaaaa"}))
	step(o.Remove([]string{"default-bbbbbbbb"}))
	step(o.Add([]plan.Dispatch{order("default-cccccccc", 1)}))
	step(o.Remove([]string{"default-aaaaaaaa", "default-cccccccc"}))
	if names := tree.below("overlays/default/dispatches/"); !slices.Equal(names, []string{listFile}) {
		t.Errorf("left: %v", names)
	}
}

// TestCancel: a person can withdraw an order of an overlay whose policy or template is invalid, but not if
// dispatches/ contains what muster cannot explain.
func TestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(f files)
		withers bool
	}{
		"valid":                 {func(files) {}, true},
		"invalid policy":        {func(f files) { f["overlays/default/scaling.yaml"] = "nonsense" }, true},
		"no template":           {func(f files) { delete(f, "overlays/default/template/kustomization.yaml") }, true},
		"unexplained manifest":  {func(f files) { f["overlays/default/dispatches/mine.yaml"] = "a: 1" }, false},
		"a directory of a name": {func(f files) { f["overlays/default/dispatches/mine.yaml/x"] = "" }, false},
	} {
		tree := soundWithDispatch(t)
		c.edit(tree)
		o := load(t, NewLoader("overlays"), tree.tree())[0]
		next, changes, err := o.Cancel([]string{"default-7f3k9c2b"})
		if withdrawn := err == nil && next.Dispatches[0].Withdrawn && len(changes) == 3; withdrawn != c.withers {
			t.Errorf("%s: %v, %d changes, error %v", name, next.Dispatches, len(changes), err)
		}
	}
}

// TestLargestState: an order never makes state.yaml larger than what is read, and an overlay that is
// close to it still withdraws and retires.
func TestLargestState(t *testing.T) {
	unraced.Only(t)
	tree := sound(t)
	o := only(t, NewLoader("overlays"), tree.tree())
	var all []plan.Dispatch
	for i := range 200 {
		d := order(fmt.Sprintf("default-%08d", i), 1)
		d.Tags = append(o.AgentTags(), "long="+strings.Repeat("x", 48<<10))
		all = append(all, d)
	}
	if _, changes, err := o.Add(all); err == nil || changes != nil || !strings.Contains(err.Error(), "state.yaml would have more than 3840 KiB: use fewer or shorter tags") {
		t.Errorf("%d changes, error %v", len(changes), err)
	}
	_, changes, err := o.Add(all[:75])
	if err != nil {
		t.Fatal(err)
	}
	tree.apply(changes)
	o = only(t, NewLoader("overlays"), tree.tree())
	if _, _, err := o.Add([]plan.Dispatch{order("default-aaaaaaaa", 1)}); err == nil || !o.Refused.Active() || !strings.Contains(err.Error(), "KiB of orders, and muster orders nothing more above 3584 KiB") {
		t.Errorf("refused %v, error %v", o.Refused, err)
	}
	o, _, err = o.Withdraw([]string{all[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.Remove([]string{all[0].ID, all[1].ID}); err != nil {
		t.Error(err)
	}
}

// TestTemplateHash: another template has another hash, another policy has not.
func TestTemplateHash(t *testing.T) {
	hash := func(tree files) string { return load(t, NewLoader("overlays"), tree.tree())[0].Template }
	was := hash(sound(t))
	if got := hash(sound(t).edit(t, "base/job.yaml", "agent:3", "agent:4")); got == was || got == "" {
		t.Errorf("another image: %s, was %s", got, was)
	}
	if got := hash(sound(t).edit(t, "overlays/default/scaling.yaml", "max: 50", "max: 51")); got != was {
		t.Errorf("another max: %s, was %s", got, was)
	}
}

// TestKeepsJob reads the annotations that prevent the deletion of a Job from its manifest: the
// template may have been another one.
func TestKeepsJob(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		want     bool
	}{
		"as in base":             {"", "", true},
		"Argo CD may prune":      {"Prune=false,", "", false},
		"Flux may prune":         {"kustomize.toolkit.fluxcd.io/prune: disabled", "kustomize.toolkit.fluxcd.io/prune: enabled", false},
		"another order of words": {"Prune=false,Delete=false", "Delete=false,Prune=false", true},
	} {
		t.Run(name, func(t *testing.T) {
			tree := soundWithDispatch(t)
			changed := strings.Replace(tree[stampedFile], test.from, test.to, 1)
			if test.from != "" && changed == tree[stampedFile] {
				t.Fatalf("%s does not have %q", stampedFile, test.from)
			}
			tree[stampedFile] = changed
			o := load(t, NewLoader("overlays"), tree.tree())[0]
			if got := o.KeepsJob(o.Dispatches[0]); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
