package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"muster/generator/finding"
	"muster/generator/kustomize"
)

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

// TestSlowBuildIsNotWaitedFor: the others are loaded, and the slow one when it is
// done.
func TestSlowBuildIsNotWaitedFor(t *testing.T) {
	f := sound(t).copy("overlays/default", "overlays/slow")
	f["overlays/slow/template/kustomization.yaml"] += "# like no other\n"
	b := &slowly{slow: "slow/template"}
	l := b.loader()
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
	f := sound(t).copy("overlays/default", "overlays/slow")
	f["overlays/slow/template/kustomization.yaml"] += "# like no other\n"
	b := &slowly{slow: "slow/template"}
	l := b.loader()
	suspensions(t, l, t.Context(), f)
	r := l.slow["template overlays/slow/template"]
	f["overlays/slow/template/kustomization.yaml"] = "resources: [missing.yaml]\n"
	close(b.release)
	<-r.done
	if got := suspensions(t, l, t.Context(), f); !strings.Contains(got, "missing.yaml") {
		t.Errorf("%q says nothing of missing.yaml", got)
	}
}

// TestManySlowBuilds: no more than one goes on, and all end with the context.
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
	f := sound(t).copy("overlays/default", "overlays/slow")
	f["overlays/slow/template/kustomization.yaml"] += "# like no other\n"
	b := &slowly{slow: "slow/template"}
	l := b.loader()
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
