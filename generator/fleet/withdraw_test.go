package fleet

import (
	"slices"
	"strings"
	"testing"

	"muster/generator/plan"
)

// TestWithdraw moves a dispatch to where no syncer applies it: the list does not
// name it, the overlay builds without it, it is read again with its agents, and it
// can be retired from there.
func TestWithdraw(t *testing.T) {
	const moved = "overlays/default/dispatches/withdrawn/default-7f3k9c2b.yaml"
	tree := sound(t)
	o := load(t, NewLoader("overlays"), tree.tree())[0]
	d := dispatchOf(t)
	o, changes, err := o.Add([]plan.Dispatch{d})
	if err != nil {
		t.Fatal(err)
	}
	tree.apply(changes)
	before := tree[stampedFile]
	l := NewLoader("overlays")
	o = load(t, l, tree.tree())[0]
	if got := o.Dispatches[0].Template; got == "" || got != o.Template {
		t.Errorf("stamped from template %q, which is %q", got, o.Template)
	}
	next, changes, err := o.Withdraw([]string{d.ID})
	if err != nil {
		t.Fatal(err)
	}
	tree.apply(changes)
	if _, there := tree[stampedFile]; there || tree[moved] != before {
		t.Error("the manifest was not moved as it was")
	}
	for _, f := range check(tree.tree(), "overlays") {
		t.Error(f)
	}
	for _, loader := range []*Loader{l, NewLoader("overlays")} {
		o = load(t, loader, tree.tree())[0]
		if err := o.Err(); err != nil || len(o.Dispatches) != 1 || !o.Dispatches[0].Withdrawn || o.Dispatches[0].Agents != next.Dispatches[0].Agents {
			t.Errorf("read again as %+v, error %v", o.Dispatches, err)
		}
		if faults := o.Faults(); len(faults) > 0 {
			t.Errorf("faults %v", faults)
		}
	}
	if _, _, err := o.Withdraw([]string{d.ID}); err == nil {
		t.Error("it can be withdrawn twice")
	}
	if _, _, err := o.Add([]plan.Dispatch{d}); err == nil {
		t.Error("its name can be used again")
	}
	twice := files{}
	for name, content := range tree {
		twice[name] = content
	}
	twice[stampedFile] = before
	both := load(t, NewLoader("overlays"), twice.tree())[0]
	faults := both.Faults() // the list first, which does not name it
	if len(both.Dispatches) != 1 || both.Dispatches[0].Withdrawn || len(faults) != 2 || faults[1] != (Fault{File: "withdrawn/" + d.ID + ".yaml", Problem: "was in dispatches too"}) {
		t.Errorf("with the manifest in both places: %+v, faults %v", both.Dispatches, faults)
	}
	changes = both.Repair()
	twice.apply(changes)
	if _, there := twice[moved]; there || twice[stampedFile] != before {
		t.Error("the repair does not leave the one that is applied")
	}
	if _, changes, err = o.Remove([]string{d.ID}); err != nil {
		t.Fatal(err)
	}
	tree.apply(changes)
	if slices.ContainsFunc(tree.names(), func(name string) bool { return strings.Contains(name, d.ID) }) {
		t.Errorf("still there: %v", tree.names())
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
