package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
)

// spy records what is read of a tree, and fails on request.
type spy struct {
	fs.FS
	read   map[string]bool
	broken string
}

func (s *spy) Open(name string) (fs.File, error) {
	s.read[name] = true
	if s.broken != "" && strings.HasPrefix(name, s.broken) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("the server hung up")}
	}
	return s.FS.Open(name)
}

func TestLoadReadsOnlyWhatItNeeds(t *testing.T) {
	tree := sound(t).copy("overlays/default", "overlays/linux/large")
	tree["overlays/linux/large/template/kustomization.yaml"] = "resources: [../../../../base]\n"
	tree["app/values.yaml"] = "a: 1\n"
	tree["overlays/default/notes.txt"] = "not for muster\n"
	tree["overlays/default/dispatches/notes.txt"] = "nor this\n"
	s := &spy{FS: tree.tree(), read: map[string]bool{}}
	overlays := load(t, NewLoader("./overlays/"), s)
	var names []string
	for _, o := range overlays {
		names = append(names, o.Name+" at "+o.Path)
		if o.Err() != nil {
			t.Error(o.Err())
		}
	}
	if diff := cmp.Diff([]string{"default at overlays/default", "linux/large at overlays/linux/large"}, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, name := range []string{"app", "app/values.yaml", "overlays/default/notes.txt", "overlays/default/dispatches/notes.txt"} {
		if s.read[name] {
			t.Errorf("read %s", name)
		}
	}
	if !s.read["base/job.yaml"] || !s.read["overlays/default/scaling.yaml"] {
		t.Errorf("the spy sees nothing: %v", s.read)
	}
}

// TestBuildsOncePerChange counts builds. An overlay takes two: its template,
// and itself without dispatches.
func TestBuildsOncePerChange(t *testing.T) {
	tree := sound(t).copy("overlays/default", "overlays/other").
		edit(t, "overlays/other/scaling.yaml", "queue: default", "queue: other")
	l := NewLoader("overlays")
	var overlays []Overlay
	expect := func(what string, builds int) {
		t.Helper()
		before := l.builds
		overlays = load(t, l, tree.tree())
		for _, o := range overlays {
			if o.Err() != nil {
				t.Errorf("%s: %v", what, o.Err())
			}
		}
		if got := l.builds - before; got != builds {
			t.Errorf("%s: %d builds, want %d", what, got, builds)
		}
	}
	expect("the first time, in overlays that are alike", 2)
	expect("nothing changed", 0)
	_, changes, err := overlays[0].Add([]plan.Dispatch{order("default-aaaaaaaa", 3), order("default-bbbbbbbb", 3)})
	if err != nil {
		t.Fatal(err)
	}
	tree.apply(changes)
	expect("two dispatches written", 0)
	old := l
	l = NewLoader("overlays")
	expect("a fresh loader, which does not build dispatches", 2)
	l = old
	tree.edit(t, "overlays/default/scaling.yaml", "max: 50", "max: 51")
	expect("a policy changed, but no tag", 0)
	tree["overlays/default/README.md"] = "of a person"
	expect("a file that no build reads", 0)
	_, changes, err = overlays[0].Remove([]string{"default-aaaaaaaa"})
	if err != nil {
		t.Fatal(err)
	}
	tree.apply(changes)
	expect("a dispatch removed", 0)
	tree.edit(t, "overlays/other/configmap.yaml", "muster-default", "muster-other")
	expect("one overlay's own file, so not its template", 1)
	tree.edit(t, "base/job.yaml", "buildkite/agent:3", "buildkite/agent:4")
	expect("the base, which both templates read", 1)
	fresh := l
	l = NewLoader("overlays")
	expect("a fresh loader, which does not build dispatches of an older template", 3)
	l.builds, fresh.builds = 0, 0
	expect("and is remembered", 0)
	tree["overlays/default/template/kustomization.yml"] = "resources: []\n"
	if overlays = load(t, l, tree.tree()); overlays[0].Err() == nil {
		t.Error("a file that appears beside the kustomization is not seen")
	}
	builds := l.builds
	if load(t, l, tree.tree()); l.builds != builds {
		t.Error("a broken template is built at every tick")
	}
}

// TestHeld breaks one overlay at a time: its error, word for word, and its
// neighbour is unharmed.
func TestHeld(t *testing.T) {
	const at = "overlays/default/"
	for name, c := range map[string]struct {
		edit func(f files)
		want string
	}{
		"no template": {
			func(f files) { delete(f, at+"template/kustomization.yaml") },
			`overlays/default/template: does not exist; write overlays/default/template/kustomization.yaml, which lists the agent Job, as in ../../../base`,
		},
		"a base above the repository": {
			func(f files) { f[at+"template/kustomization.yaml"] = "resources: [../../../../base]\n" },
			`overlays/default/template/kustomization.yaml:1: resources: "../../../../base" is above the top of the repository; copy it into the repository: muster and the syncer read nothing else`,
		},
		"a file of another directory": {
			func(f files) { f[at+"template/kustomization.yaml"] = "resources: [../../../base/job.yaml]\n" },
			`overlays/default/template/kustomization.yaml:1: resources: "../../../base/job.yaml" is a file of another directory, which kustomize does not read; list that directory, with a kustomization.yaml in it`,
		},
		"the overlay does not build": {
			func(f files) { delete(f, at+"configmap.yaml") },
			`overlays/default/kustomization.yaml:3: resources: "configmap.yaml" does not exist: there is no overlays/default/configmap.yaml in the repository; correct the path, or add what it names`,
		},
		"a patch without its Job": {
			func(f files) {
				f[at+"kustomization.yaml"] += "patches: [{patch: '{apiVersion: batch/v1, kind: Job, metadata: {name: agent, namespace: buildkite}}'}]\n"
			},
			`overlays/default/kustomization.yaml:4: does not build: no resource matches strategic merge patch "Job.v1.batch/agent.buildkite": no matches for Id Job.v1.batch/agent.buildkite; failed to find unique target for patch Job.v1.batch/agent.buildkite; fix what kustomize reports; to reproduce it: kustomize build overlays/default`,
		},
		"a dispatch by another hand": {
			func(f files) { f[at+"dispatches/mine.yml"] = "a: 1\n" },
			`overlays/default/dispatches/mine.yml: was not written by muster, whose files end in .yaml; move it out of dispatches/, or delete it`,
		},
		"a Job of a dispatch's name": {
			func(f files) {
				f.ordered(t, order("default-7f3k9c2b", 12))
				f[at+"configmap.yaml"] += "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: default-7f3k9c2b, namespace: buildkite}\n"
			},
			`overlays/default: has a Job default-7f3k9c2b in addition to the dispatch of that name; rename it`,
		},
		"a policy of two megabytes": {
			func(f files) { f[at+"scaling.yaml"] += strings.Repeat("#", 2<<20) },
			`overlays/default/scaling.yaml: is 2097237 bytes and was not read; a policy has at most 32768`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := sound(t).copy("overlays/default", "overlays/sound").copy("base", "base")
			c.edit(tree)
			overlays := load(t, NewLoader("overlays"), tree.tree())
			if got := fmt.Sprint(overlays[0].Err()); got != c.want {
				t.Errorf("got\n  %s\nwant\n  %s", got, c.want)
			}
			if overlays[0].Suspended.Finding != fmt.Sprint(overlays[0].Err()) {
				t.Errorf("Suspended.Finding is %q", overlays[0].Suspended.Finding)
			}
			if err := overlays[1].Err(); err != nil {
				t.Errorf("the neighbour is held: %v", err)
			}
			if changes := overlays[0].Repair(); changes != nil {
				t.Errorf("a held overlay is repaired: %v", changes)
			}
		})
	}
}

func TestClashingOverlays(t *testing.T) {
	for name, c := range map[string]struct {
		at   []string
		want []string
	}{
		"inside": {
			[]string{"overlays/linux", "overlays/linux/large"},
			[]string{
				"default: <nil>",
				"linux: overlays/linux: has the overlay overlays/linux/large inside it; move that next to it",
				"linux/large: overlays/linux/large: lies inside the overlay overlays/linux; move it next to it",
			},
		},
		"same slug": {
			[]string{"overlays/a/b", "overlays/a-b-c14cdd"},
			[]string{
				"a-b-c14cdd: overlays/a-b-c14cdd: shares the short name a-b-c14cdd with overlays/a/b; rename one of them",
				"a/b: overlays/a/b: shares the short name a-b-c14cdd with overlays/a-b-c14cdd; rename one of them",
				"default: <nil>",
			},
		},
		"at the top": {
			[]string{"overlays"},
			[]string{".: overlays/scaling.yaml: lies in the directory of all overlays; move the overlay to a directory of its own below it", "default: <nil>"},
		},
		"dispatches and template as names": {
			[]string{"overlays/dispatches", "overlays/template"},
			[]string{"default: <nil>", "dispatches: <nil>", "template: <nil>"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := sound(t)
			for _, at := range c.at {
				for _, file := range []string{"scaling.yaml", "configmap.yaml", "kustomization.yaml", "dispatches/kustomization.yaml"} {
					tree[path.Join(at, file)] = tree["overlays/default/"+file]
				}
				up := strings.Repeat("../", strings.Count(at, "/")+2)
				tree[path.Join(at, "template/kustomization.yaml")] = "resources: [" + up + "base]\n"
			}
			var got []string
			for _, o := range load(t, NewLoader("overlays"), tree.tree()) {
				got = append(got, fmt.Sprintf("%s: %v", o.Name, o.Err()))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestUnreadable: a temporary read error is not a finding on the overlay, and is not cached.
func TestUnreadable(t *testing.T) {
	const gone = "the server hung up"
	for broken, want := range map[string]string{
		"base/job.yaml":                             "overlays/default: cannot be read: reading base/job.yaml: " + gone,
		"overlays/default/scaling.yaml":             "overlays/default/scaling.yaml: cannot be read: " + gone,
		"overlays/default/configmap.yaml":           "overlays/default: cannot be read: reading overlays/default/configmap.yaml: " + gone,
		"overlays/default/dispatches":               "overlays/default/dispatches: cannot be read: " + gone,
		stampedFile:                                 stampedFile + ": cannot be read: " + gone,
		stateOf:                                     stateOf + ": cannot be read: " + gone,
		"overlays/default/dispatches/kustomization": "overlays/default/dispatches/kustomization.yaml: cannot be read: " + gone,
		"overlays/default":                          "overlays/default: cannot be read: " + gone,
	} {
		t.Run(broken, func(t *testing.T) {
			tree := soundWithDispatch(t)
			l := NewLoader("overlays")
			s := &spy{FS: tree.tree(), read: map[string]bool{}, broken: broken}
			overlays := load(t, l, s)
			if got := fmt.Sprint(overlays[0].Err()); got != want && !strings.HasPrefix(got, want+" ") {
				t.Errorf("got\n  %s\nwant\n  %s", got, want)
			}
			if changes := overlays[0].Repair(); changes != nil && !strings.HasPrefix(want, "overlays/default: ") && broken != "overlays/default/scaling.yaml" {
				t.Errorf("repaired by %v", changes)
			}
			o := only(t, l, tree.tree())
			if changes := o.Repair(); changes != nil || !slices.Equal(o.ids(), []string{"default-7f3k9c2b"}) {
				t.Errorf("afterwards: %v, %v", o.ids(), changes)
			}
		})
	}
}

func TestLoadNoDirectory(t *testing.T) {
	_, err := NewLoader("overlays").Load(fstest.MapFS{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if overlays := load(t, NewLoader("overlays"), fstest.MapFS{"overlays": {Mode: fs.ModeDir}}); len(overlays) != 0 {
		t.Errorf("got %v", overlays)
	}
}

// TestOperationsDoNotModifyTheOverlay: an operation returns a new overlay, and its receiver can be
// used again, as after a conflict.
func TestOperationsDoNotModifyTheOverlay(t *testing.T) {
	o := only(t, NewLoader("overlays"), sound(t).tree())
	o, _, err := o.Add([]plan.Dispatch{order("default-bbbbbbbb", 1), order("default-cccccccc", 1), order("default-dddddddd", 1)})
	if err != nil {
		t.Fatal(err)
	}
	before := o.ids()
	for range 2 {
		a, _, err := o.Add([]plan.Dispatch{order("default-aaaaaaaa", 1)})
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := a.Remove([]string{"default-cccccccc"})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			o    Overlay
			want []string
		}{
			{o, before},
			{a, []string{"default-aaaaaaaa", "default-bbbbbbbb", "default-cccccccc", "default-dddddddd"}},
			{b, []string{"default-aaaaaaaa", "default-bbbbbbbb", "default-dddddddd"}},
		} {
			if diff := cmp.Diff(x.want, x.o.ids()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	}
}
