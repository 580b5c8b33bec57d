package fleet

import (
	"bytes"
	"testing"

	"muster/generator/plan"
)

// TestAlikeOverlaysShareBuilds: what is shared is what each would build itself.
func TestAlikeOverlaysShareBuilds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f files)
		builds int
	}{
		"alike":            {func(files) {}, 2},
		"another file":     {func(f files) { f["overlays/b/configmap.yaml"] += "data: {a: b}\n" }, 3},
		"another template": {func(f files) { f["overlays/b/template/kustomization.yaml"] += "nameSuffix: -b\n" }, 3},
		"annotations":      {func(f files) { both(f, "", "commonAnnotations: {a: b}\n") }, 3},
		"annotations and another template": {func(f files) {
			both(f, "", "commonAnnotations: {a: b}\n")
			f["overlays/b/template/kustomization.yaml"] += "nameSuffix: -b\n"
		}, 5}, // the proof carries a hash of the template
		"a reference by name":    {func(f files) { both(f, "template/", "resources: [../../default/template/../../../base]\n") }, 3},
		"paths in what is built": {func(f files) { both(f, "", "buildMetadata: [originAnnotations]\n") }, 5},
		"a patch by an overlay's own": {func(f files) {
			both(f, "", "patches: [{target: {name: b-.*}, patch: '- {op: add, path: /metadata/labels/x, value: b}'}]\n")
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound(t).copy("overlays/default", "overlays/b")
			c.change(f)
			shared := NewLoader("overlays")
			together := load(t, shared, f.tree())
			if shared.builds != c.builds {
				t.Errorf("%d builds, want %d", shared.builds, c.builds)
			}
			for _, o := range together {
				own := sound(t)
				for file, content := range f {
					own[file] = content
				}
				other := map[string]string{"b": "default", "default": "b"}[o.Name]
				delete(own, "overlays/"+other+"/scaling.yaml")
				alone := only(t, NewLoader("overlays"), own.tree())
				if o.Err() != nil || len(o.objects) != len(alone.objects) || !bytes.Equal(o.built, alone.built) {
					t.Errorf("%s: %v, built\n%s\nwant\n%s", o.Name, o.Err(), o.built, alone.built)
					continue
				}
				for i := range o.objects {
					if !bytes.Equal(o.objects[i].YAML, alone.objects[i].YAML) {
						t.Errorf("%s: %s differs", o.Name, o.objects[i])
					}
				}
				_, changes, err := o.Add([]plan.Dispatch{order(o.Name+"-00000001", 1)})
				_, want, wantErr := alone.Add([]plan.Dispatch{order(o.Name+"-00000001", 1)})
				if err != nil || wantErr != nil || !bytes.Equal(changes[0].Content, want[0].Content) {
					t.Errorf("%s: dispatches differ: %v, %v", o.Name, err, wantErr)
				}
			}
		})
	}
}

// both writes into a kustomization of both overlays.
func both(f files, dir, text string) {
	for _, o := range []string{"default", "b"} {
		name := "overlays/" + o + "/" + dir + "kustomization.yaml"
		if dir != "" {
			f[name] = text
		} else {
			f[name] += text
		}
	}
}

// TestSharedBuildFails: a reference that is fine from one directory and not from
// another is not taken as fine.
func TestSharedBuildFails(t *testing.T) {
	f := sound(t).copy("overlays/default", "overlays/b")
	for _, o := range []string{"default", "b"} {
		f["overlays/"+o+"/kustomization.yaml"] = "resources: [configmap.yaml, dispatches, ../../overlays/b/more]\n"
	}
	f["overlays/b/more/kustomization.yaml"] = "resources: [../../b/more/a.yaml]\n"
	f["overlays/b/more/a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for _, o := range load(t, NewLoader("overlays"), f.tree()) {
		if o.Err() != nil {
			t.Errorf("%s: %v", o.Name, o.Err())
		}
	}
}
