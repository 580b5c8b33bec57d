package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"muster/generator/finding"
	"muster/generator/kustomize"
	"muster/generator/plan"
	"muster/gitops/unraced"
)

// TestEqualOverlaysShareBuilds: a shared build equals the overlay's own.
func TestEqualOverlaysShareBuilds(t *testing.T) {
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

// TestAddingIsBuilding: an overlay that only lists its dispatches is not built with them; a build would
// have the same result.
func TestAddingIsBuilding(t *testing.T) {
	unraced.Only(t)
	compared, b := 0, hostileBuilder(t)
	for seed := range uint64(60) {
		f := sound(t)
		g := grammar{Rand: rand.New(rand.NewPCG(seed, 2)), f: f, dir: "overlays/default"}
		f["overlays/default/template/kustomization.yaml"] = "resources: [../../../base]\n" + g.one("", "", "", "namePrefix: a-\n", "namespace: x\n", g.kustomization())
		f["overlays/default/configmap.yaml"] = g.one(f["overlays/default/configmap.yaml"], f["overlays/default/configmap.yaml"], "", g.content())
		f["overlays/default/kustomization.yaml"] = g.one("resources: [configmap.yaml, dispatches]\n", "resources: [dispatches]\n", "resources: [configmap.yaml, dispatches, inner]\n", "resources: [dispatches, ./dispatches]\n", "resources: [dispatches, inner]\n", "resources: [configmap.yaml, inner]\n",
			"resources: [dispatches]\nconfigMapGenerator: [{name: x, files: [dispatches/kustomization.yaml]}]\n", "resources: [configmap.yaml, dispatches]\n"+g.kustomization())
		f["overlays/default/inner/kustomization.yaml"] = g.one("resources: [../dispatches]\n", "resources: []\n")
		l := NewLoader("overlays").BuildWith(b, 0)
		o := load(t, l, f.tree())[0]
		empty := l.used["empty overlays/default"]
		if empty == nil || !empty.adds || o.template == nil || empty.finding != nil {
			continue
		}
		stamped, err := o.stamp(plan.Dispatch{ID: "default-proof", Purpose: plan.ForDemand, Agents: 1, IdleTimeout: time.Second, At: time.Unix(0, 0), NotAfter: time.Unix(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		hidden := path.Join(o.Path, dispatchDir)
		full := &view{tree: f.tree(), hide: hidden, over: map[string][]byte{path.Join(hidden, listFile): list([]string{"proof"}), path.Join(hidden, "proof.yaml"): stamped}}
		full.begin()
		objects, err := b.Build(t.Context(), full, o.Path)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		want := map[string]any{"default-proof": decoded(t, stamped)}
		for _, x := range empty.objects {
			want[x.String()] = decoded(t, x.YAML)
		}
		got := map[string]any{}
		for _, x := range objects {
			name := x.String()
			if x.Kind == "Job" && x.Name == "default-proof" {
				name = x.Name
			}
			got[name] = decoded(t, x.YAML)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: (-added +built)\n%s", seed, diff)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("%d overlays were compared", compared)
	}
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// slowly is a builder that takes its time with some directories.
type slowly struct {
	mu      sync.Mutex
	slow    string // part of their names
	started []string
	ended   []string
	release chan struct{}
	// overdue is when patience with a build ends, by its context: when it is a slow
	// one and has begun.
	overdue map[context.Context]chan struct{}
}

// loader is one that builds with b.
func (b *slowly) loader() *Loader {
	b.release, b.overdue = make(chan struct{}), map[context.Context]chan struct{}{}
	l := NewLoader("overlays").BuildWith(b, time.Hour)
	l.after = func(ctx context.Context, _ time.Duration) <-chan struct{} {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.overdue[ctx] = make(chan struct{})
		return b.overdue[ctx]
	}
	return l
}

func (b *slowly) Build(ctx context.Context, files filesys.FileSystem, dir string) ([]kustomize.Object, error) {
	if b.slow == "" || !strings.Contains(dir, b.slow) || b.released() {
		return kustomize.Here{}.Build(ctx, files, dir)
	}
	b.mu.Lock()
	b.started = append(b.started, dir)
	close(b.overdue[ctx])
	b.mu.Unlock()
	select {
	case <-b.release:
		return kustomize.Here{}.Build(ctx, files, dir)
	case <-ctx.Done():
		b.mu.Lock()
		b.ended = append(b.ended, dir)
		b.mu.Unlock()
		return nil, ctx.Err()
	}
}

// released reports whether the slow builds may go on: one that begins afterwards
// is not slow, and does not end anybody's patience.
func (b *slowly) released() bool {
	select {
	case <-b.release:
		return true
	default:
		return false
	}
}

// errors by overlay.
func suspensions(t *testing.T, l *Loader, ctx context.Context, f files) string {
	t.Helper()
	overlays, err := l.LoadContext(ctx, f.tree())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, o := range overlays {
		if o.Err() != nil {
			all = append(all, fmt.Sprintf("%s: %s", o.Name, o.Err().(finding.Finding).Problem))
		}
	}
	return strings.Join(all, "; ")
}

// oneSlow returns a fleet repository with an overlay whose template takes long to build.
func oneSlow(t *testing.T) (files, *slowly, *Loader) {
	f := sound(t).copy("overlays/default", "overlays/slow")
	f["overlays/slow/template/kustomization.yaml"] += "# like no other\n"
	b := &slowly{slow: "slow/template"}
	return f, b, b.loader()
}

// TestSlowBuildIsNotWaitedFor: the others are loaded, and the slow one when it is
// done.
func TestSlowBuildIsNotWaitedFor(t *testing.T) {
	f, b, l := oneSlow(t)
	const waits = "slow: takes long to build and is not built yet; the other overlays do not wait for it"
	for range 3 {
		if got := suspensions(t, l, t.Context(), f); got != waits {
			t.Fatalf("%q, want %q", got, waits)
		}
	}
	if len(b.started) != 1 {
		t.Errorf("it was started %d times", len(b.started))
	}
	r := l.slow["template overlays/slow/template"]
	close(b.release)
	<-r.done
	if got := suspensions(t, l, t.Context(), f); got != "" {
		t.Errorf("once it is built: %s", got)
	}
	if len(l.slow) != 0 {
		t.Errorf("%d builds are still remembered", len(l.slow))
	}
}

// TestSlowBuildOfFormerFiles: what was built is not used for other files.
func TestSlowBuildOfFormerFiles(t *testing.T) {
	f, b, l := oneSlow(t)
	suspensions(t, l, t.Context(), f)
	r := l.slow["template overlays/slow/template"]
	f["overlays/slow/template/kustomization.yaml"] = "resources: [missing.yaml]\n"
	close(b.release)
	<-r.done
	if got := suspensions(t, l, t.Context(), f); !strings.Contains(got, "missing.yaml") {
		t.Errorf("%q says nothing of missing.yaml", got)
	}
}

// TestManySlowBuilds: at most one continues, and all end with the context.
func TestManySlowBuilds(t *testing.T) {
	f := sound(t)
	for i := range 5 {
		name := fmt.Sprintf("overlays/slow%d", i)
		f.copy("overlays/default", name)[name+"/template/kustomization.yaml"] += "# " + name + "\n"
	}
	b := &slowly{slow: "slow"}
	l := b.loader()
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		if got := suspensions(t, l, ctx, f); strings.Count(got, "not built yet") != 5 || strings.Contains(got, "default") {
			t.Fatal(got)
		}
	}
	if len(l.slow) != maxSlow || len(b.started) != 5 {
		t.Errorf("%d go on and %d were started, want %d and 5", len(l.slow), len(b.started), maxSlow)
	}
	all := l.slow
	cancel()
	for _, r := range all {
		<-r.done
	}
	if _, err := l.LoadContext(ctx, f.tree()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRemovedOverlayIsNotBuilt: a build that nothing needs any more ends.
func TestRemovedOverlayIsNotBuilt(t *testing.T) {
	f, _, l := oneSlow(t)
	suspensions(t, l, t.Context(), f)
	r := l.slow["template overlays/slow/template"]
	delete(f, "overlays/slow/scaling.yaml")
	if got := suspensions(t, l, t.Context(), f); got != "" {
		t.Error(got)
	}
	<-r.done
}

// TestLargeBuildIsShort: an overlay of thousands of objects or of large files is
// suspended in a few words.
func TestLargeBuildIsShort(t *testing.T) {
	unraced.Only(t)
	const longest = 1000
	var objects strings.Builder
	for i := range 500 {
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-%d}\n---\n", i)
	}
	for name, change := range map[string]func(files){
		"objects": func(f files) {
			f["overlays/bad/template/kustomization.yaml"] = "resources: [x.yaml]\n"
			f["overlays/bad/template/x.yaml"] = objects.String()
		},
		"kustomize's words": func(f files) {
			f["overlays/bad/kustomization.yaml"] += "replacements: [{source: {kind: Nothing}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a]}]}]\n"
			f["overlays/bad/configmap.yaml"] = objects.String()
		},
		"files": func(f files) {
			f["overlays/bad/kustomization.yaml"] += "configMapGenerator: [{name: x, files: [a]}]\n"
			f["overlays/bad/a"] = strings.Repeat("x", maxRead)
		},
	} {
		f := sound(t).copy("overlays/default", "overlays/bad")
		change(f)
		for _, o := range load(t, NewLoader("overlays"), f.tree()) {
			err := o.Err()
			if (o.Name == "bad") != (err != nil) {
				t.Errorf("%s: %s: %v", name, o.Name, err)
			} else if err != nil && len(err.Error()) > longest {
				t.Errorf("%s: the error has %d bytes: %s", name, len(err.Error()), err)
			}
		}
	}
}
