package fleet

import (
	"maps"
	"strings"
	"testing"

	"muster/generator/plan"
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

// moved returns the files with a directory moved, and with adds other files.
func (f files) moved(from, to string) files { return move(maps.Clone(f), from, to) }

func (f files) with(others files) files {
	for name, text := range others {
		if _, there := f[name]; !there {
			f[name] = text
		}
	}
	return f
}

// identified gives an overlay of the files an identity, as state.yaml has it, and a dispatch of it.
func (f files) identified(t *testing.T, dir string, id plan.Identity) files {
	t.Helper()
	o := load(t, NewLoader("overlays"), f.tree())[0]
	o.Path = dir
	for _, c := range o.WriteState(plan.State{Identity: id}) {
		f[c.Path] = string(c.Content)
	}
	return f
}

// TestIdentify moves and copies a directory that has a dispatch of its own.
func TestIdentify(t *testing.T) {
	const (
		another     = "overlays/linux/dispatches/state.yaml: contains default-7f3k9c2b, an order of the overlay \"default\"; delete its line and its manifest"
		unexplained = "overlays/linux/dispatches/default-7f3k9c2b.yaml: is the manifest of no order: neither state.yaml nor the log of the branch explains it; delete it, or move it out of dispatches/"
	)
	first := plan.Identity{ID: "1d", Overlay: "overlays/default", Branch: "main"}
	linux := plan.Identity{ID: "3d", Overlay: "overlays/linux", Branch: "main"}
	second := plan.Identity{ID: "2d", Overlay: "overlays/default", Branch: "main"}
	ordered := func() files {
		return sound(t).identified(t, "overlays/default", first).ordered(t, order("default-7f3k9c2b", 12))
	}
	const dispatch = "overlays/default/dispatches/default-7f3k9c2b.yaml"
	without := func(f files, name string) files { delete(f, name); return f }
	copied := func(dir string) plan.Identity { return plan.Identity{Overlay: dir, Branch: "main", CopiedFrom: "1d"} }
	type overlay struct {
		id         plan.Identity
		dispatches int
		err        string
	}
	for name, c := range map[string]struct {
		tree files
		want map[string]overlay
	}{
		"as it was": {ordered(), map[string]overlay{"default": {first, 1, ""}}},
		"renamed":   {move(ordered(), "overlays/default", "overlays/linux"), map[string]overlay{"linux": {first, 1, ""}}},
		"renamed, and another made under its name": {
			move(ordered(), "overlays/default", "overlays/linux").with(sound(t)), map[string]overlay{"linux": {copied("overlays/linux"), 1, ""}, "default": {first, 0, ""}}},
		"renamed, and another with an identity of its own is under its name": {
			move(ordered(), "overlays/default", "overlays/linux").with(sound(t).identified(t, "overlays/default", second)), map[string]overlay{"linux": {first, 1, ""}, "default": {second, 0, ""}}},
		"copied, and the first without state.yaml": {without(ordered().copy("overlays/default", "overlays/arm").copy("overlays/default", "overlays/linux"), stateOf),
			map[string]overlay{"default": {first, 0, strings.ReplaceAll(unexplained, "linux", "default")}, "arm": {copied("overlays/arm"), 1, ""}, "linux": {copied("overlays/linux"), 1, ""}}},
		"copied, and state.yaml of the first is damaged": {ordered().copy("overlays/default", "overlays/linux").edit(t, stateOf, "identity:", "<<<<<<< HEAD\nidentity:"),
			map[string]overlay{"default": {first, 1, ""}, "linux": {copied("overlays/linux"), 1, ""}}},
		"copied, and the identity of the first is invalid": {ordered().copy("overlays/default", "overlays/linux").edit(t, stateOf, "id: 1d", "id: 1D"),
			map[string]overlay{"default": {first, 1, ""}, "linux": {copied("overlays/linux"), 1, ""}}},
		"copied, and the identity of the first removed": {ordered().copy("overlays/default", "overlays/linux").edit(t, stateOf, "identity:\n  branch: main\n  id: 1d\n  overlay: overlays/default\n", ""),
			map[string]overlay{"default": {plan.Identity{}, 1, ""}, "linux": {copied("overlays/linux"), 1, ""}}},
		"copied": {ordered().copy("overlays/default", "overlays/linux"),
			map[string]overlay{"default": {first, 1, ""}, "linux": {copied("overlays/linux"), 1, ""}}},
		"copied under an earlier name": {ordered().copy("overlays/default", "overlays/arm"),
			map[string]overlay{"default": {first, 1, ""}, "arm": {copied("overlays/arm"), 1, ""}}},
		"copied, and the policy of the first is invalid": {
			ordered().copy("overlays/default", "overlays/linux").edit(t, "overlays/default/scaling.yaml", "max: 50", "max: x"),
			map[string]overlay{"default": {first, 1, `overlays/default/scaling.yaml:5: spec.max: "x" is not a whole number; write one from 0 to 100000`}, "linux": {copied("overlays/linux"), 1, ""}}},
		"copied, and the first renamed": {move(ordered().copy("overlays/default", "overlays/linux"), "overlays/default", "overlays/arm"),
			map[string]overlay{"arm": {first, 1, ""}, "linux": {copied("overlays/linux"), 1, ""}}},
		"copied to another directory of overlays": {ordered().with(files{"fleet/default/scaling.yaml": "", "fleet/default/dispatches/state.yaml": ordered()[stateOf]}).edit(t, stateOf, "overlays/default", "fleet/default").edit(t, "fleet/default/dispatches/state.yaml", "overlays/default", "fleet/default"),
			map[string]overlay{"default": {copied("overlays/default"), 1, ""}}},
		"the other directory of overlays is gone": {ordered().edit(t, stateOf, "overlays/default", "fleet/default"),
			map[string]overlay{"default": {plan.Identity{ID: "1d", Overlay: "fleet/default", Branch: "main"}, 1, ""}}},
		"a manifest copied to another overlay": {ordered().with(files{"overlays/linux/dispatches/default-7f3k9c2b.yaml": ordered()[dispatch]}).with(sound(t).moved("overlays/default", "overlays/linux")),
			map[string]overlay{"default": {first, 1, ""}, "linux": {plan.Identity{}, 0, unexplained}}},
		"an order copied to another overlay": {ordered().with(sound(t).identified(t, "overlays/default", linux).ordered(t, order("linux-7f3k9c2b", 1)).moved("overlays/default", "overlays/linux")).
			with(files{"overlays/linux/dispatches/default-7f3k9c2b.yaml": ordered()[dispatch]}).edit(t, "overlays/linux/dispatches/state.yaml", "orders:\n", "orders:\n"+lineOf(t, ordered(), "default-7f3k9c2b")),
			map[string]overlay{"default": {first, 1, ""}, "linux": {linux, 1, another}}},
		"without state.yaml":              {without(ordered(), stateOf), map[string]overlay{"default": {plan.Identity{}, 0, strings.ReplaceAll(unexplained, "linux", "default")}}},
		"without state.yaml, and renamed": {move(without(ordered(), stateOf), "overlays/default", "overlays/linux"), map[string]overlay{"linux": {plan.Identity{}, 0, unexplained}}},
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
				if o.Identity != want.id || len(o.Dispatches) != want.dispatches || got != want.err {
					t.Errorf("%s: %s is %+v, has %d dispatches and the error\n  %s\nwant %+v, %d and\n  %s", name, o.Name, o.Identity, len(o.Dispatches), got, want.id, want.dispatches, want.err)
				}
			}
		}
	}
}

// TestInvalidIdentity: what would not make a tag, or is no path, makes state.yaml invalid.
func TestInvalidIdentity(t *testing.T) {
	for _, text := range []string{
		"identity: {overlay: overlays/default}", `identity: {id: "1d,queue=x", overlay: overlays/default}`, "identity: {id: 1D, overlay: a}",
		"identity: {id: 1d}", "identity: {id: 1d, overlay: ../a}", `identity: {id: 1d, overlay: a, branch: "a\nb"}`, "identity: {id: 1d, overlay: a, copiedFrom: \"-\"}",
	} {
		tree := sound(t)
		tree[stateOf] = "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\n" + text + "\n"
		o := load(t, NewLoader("overlays"), tree.tree())[0]
		if o.InvalidState() == nil || !o.LostState() || o.Identity != (plan.Identity{}) {
			t.Errorf("%s is valid: %+v", text, o.Identity)
		}
	}
}
