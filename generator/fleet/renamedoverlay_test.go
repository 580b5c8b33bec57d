package fleet

import (
	"slices"
	"strings"
	"testing"
)

func move(f files, from, to string) files {
	f.copy(from, to)
	for name := range f {
		if strings.HasPrefix(name, from+"/") {
			delete(f, name)
		}
	}
	return f
}

// TestRenamed moves and copies a directory that has a dispatch of its own.
func TestRenamed(t *testing.T) {
	const was = "default-7f3k9c2b.yaml: metadata.labels[muster.dev/overlay]: is \"default\": the dispatch is another overlay's; it is a copy of the same Job: delete it"
	const permanent = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: muster-default\n  namespace: buildkite\n  labels:\n    app.kubernetes.io/managed-by: muster\ndata:\n  overlay: default\n"
	ordered := func() files { return soundWithDispatch(t) }
	type overlay struct {
		former     []string
		dispatches int
		err        string
	}
	for name, c := range map[string]struct {
		tree files
		want map[string]overlay
	}{
		"not renamed": {ordered(), map[string]overlay{"default": {nil, 1, ""}}},
		"renamed":     {move(ordered(), "overlays/default", "overlays/linux"), map[string]overlay{"linux": {[]string{"default"}, 1, ""}}},
		"renamed into a directory": {move(ordered(), "overlays/default", "overlays/eu/linux"),
			map[string]overlay{"eu/linux": {[]string{"default"}, 1, `overlays/eu/linux/template/kustomization.yaml:3: resources: "../../../base" does not exist: there is no overlays/base in the repository; correct the path, or add what it names`}}},
		"without the Job's label": {
			ordered().edit(t, "overlays/default/dispatches/default-7f3k9c2b.yaml", "\n    muster.dev/overlay: default", "\n    muster.dev/overlay: \"\""),
			map[string]overlay{"default": {nil, 0, "overlays/default/dispatches/" + strings.Replace(was, `"default"`, `""`, 1)}},
		},
		"copied": {ordered().copy("overlays/default", "overlays/linux"),
			map[string]overlay{"default": {nil, 1, ""}, "linux": {nil, 0, "overlays/linux/dispatches/" + was}}},
		"copied, and the policy of the first is gone wrong": {
			ordered().copy("overlays/default", "overlays/linux").edit(t, "overlays/default/scaling.yaml", "max: 50", "max: x"),
			map[string]overlay{"default": {nil, 1, `overlays/default/scaling.yaml:5: spec.max: "x" is not a whole number; write one from 0 to 100000`},
				"linux": {nil, 0, "overlays/linux/dispatches/" + was}},
		},
		"copied, and the first renamed": {move(ordered().copy("overlays/default", "overlays/linux"), "overlays/default", "overlays/arm"), map[string]overlay{
			"arm":   {[]string{"default"}, 1, "overlays/arm/dispatches: has dispatches of the former overlay default, as overlays/linux has; one of them is a copy: delete its dispatches"},
			"linux": {nil, 0, "overlays/linux/dispatches: has dispatches of the former overlay default, as overlays/arm has; one of them is a copy: delete its dispatches"},
		}},
		"renamed without a dispatch": {
			func() files {
				f := move(sound(t), "overlays/default", "overlays/linux")
				f["overlays/linux/configmap.yaml"] = permanent
				return f
			}(),
			map[string]overlay{"linux": {[]string{"default"}, 0, ""}},
		},
		"copied without a dispatch": {
			func() files {
				f := sound(t)
				f["overlays/default/configmap.yaml"] = permanent
				return f.copy("overlays/default", "overlays/linux")
			}(),
			map[string]overlay{"default": {nil, 0, ""}, "linux": {nil, 0, ""}},
		},
	} {
		l := NewLoader("overlays")
		for range 2 { // the second time, files are remembered
			overlays := load(t, l, c.tree.tree())
			if len(overlays) != len(c.want) {
				t.Fatalf("%s: %d overlays, want %d", name, len(overlays), len(c.want))
			}
			for _, o := range overlays {
				want, got := c.want[o.Name], ""
				if o.Err() != nil {
					got = o.Err().Error()
				}
				if !slices.Equal(o.Former, want.former) || len(o.Dispatches) != want.dispatches || got != want.err {
					t.Errorf("%s: %s was %q, has %d dispatches and the error\n  %s\nwant %q, %d and\n  %s", name, o.Name, o.Former, len(o.Dispatches), got, want.former, want.dispatches, want.err)
				}
			}
		}
	}
}

// TestRenamedElsewhere: a directory that was copied out of another fleet repository
// brings Jobs of that one.
func TestRenamedElsewhere(t *testing.T) {
	tree := sound(t)
	o := only(t, NewLoader("overlays").InFleet("theirs"), tree.tree())
	text, err := o.stamp(order("default-7f3k9c2b", 12))
	if err != nil {
		t.Fatal(err)
	}
	tree["overlays/default/dispatches/default-7f3k9c2b.yaml"] = string(text)
	move(tree, "overlays/default", "overlays/linux")
	for loaded, taken := range map[string]bool{"ours": false, "theirs": true, "": true} {
		o := load(t, NewLoader("overlays").InFleet(loaded), tree.tree())[0]
		if (o.Err() == nil) != taken {
			t.Errorf("in fleet %q: %v", loaded, o.Err())
		}
	}
}
