package fleet

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"muster/generator/kustomize"
)

// distinctFleet returns a fleet repository of n overlays with different templates: each has its own
// image and memory.
func distinctFleet(t testing.TB, n int) files {
	f := sound(t)
	job, err := os.ReadFile("../../base/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f["base/job.yaml"] = string(job)
	for i := range n {
		name := fmt.Sprintf("overlays/o%05d", i)
		f.copy("overlays/default", name)
		f.edit(t, name+"/scaling.yaml", "queue: default", fmt.Sprintf("queue: q%d", i))
		f[name+"/template/kustomization.yaml"] = fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../../base]
patches:
- target: {kind: Job, name: muster-agent}
  patch: |-
    - op: replace
      path: /spec/template/spec/containers/0/image
      value: registry.example.com/team-%d/agent:3.%d
    - op: add
      path: /spec/template/metadata/annotations/example.com~1team
      value: "team-%d"
`, i, i, i)
	}
	delete(f, "overlays/default/scaling.yaml")
	return f
}

// TestDifferentOverlays: overlays with different templates cost one build each, in two processes that
// are kept, and each has the same result as separately.
func TestDifferentOverlays(t *testing.T) {
	const overlays = 8
	tree := distinctFleet(t, overlays).tree()
	builder := hostileBuilder(t).(*kustomize.Process)
	var started atomic.Int32
	command := builder.Command
	builder.Command = func() *exec.Cmd { started.Add(1); return command() }
	builder.Idle = time.Hour // a slow machine is no reason to start another
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	apart := NewLoader("overlays").BuildWith(builder, 0)
	together, err := apart.LoadContext(ctx, tree)
	if err != nil {
		t.Fatal(err)
	}
	if n := started.Load(); apart.builds != overlays+1 || n > 2 { // what lists their dispatches is alike
		t.Errorf("%d builds in %d processes, want %d in 2", apart.builds, n, overlays+1)
	}
	here := load(t, NewLoader("overlays"), tree)
	templates := map[string]bool{}
	for i, o := range together {
		if o.Err() != nil || o.refused != nil {
			t.Fatalf("%s: %v, %v", o.Name, o.Err(), o.refused)
		}
		templates[o.Template] = true
		team := fmt.Sprintf("registry.example.com/team-%d/agent:3.%d", i, i)
		dispatch, err := o.stamp(order(o.Name+"-00000001", 1))
		want, wantErr := here[i].stamp(order(o.Name+"-00000001", 1))
		if err != nil || wantErr != nil || !bytes.Equal(dispatch, want) || !bytes.Contains(dispatch, []byte("image: "+team+"\n")) {
			t.Errorf("%s: %v, %v, dispatches\n%s", o.Name, err, wantErr, dispatch)
		}
	}
	if len(templates) != overlays {
		t.Errorf("%d templates for %d overlays", len(templates), overlays)
	}
}

// BenchmarkDifferentOverlays reads overlays with different templates for the first time, as the program
// does: with kustomize in separate processes.
func BenchmarkDifferentOverlays(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("overlays=%d", n), func(b *testing.B) {
			tree := onDisk(b, distinctFleet(b, n))
			builder := hostileBuilder(b)
			b.ReportAllocs()
			var peak uint64
			var builds int
			for b.Loop() {
				runtime.GC()
				before := heapNow()
				stop := make(chan struct{})
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for {
						select {
						case <-stop:
							return
						case <-time.After(5 * time.Millisecond):
							peak = max(peak, heapNow()-min(before, heapNow()))
						}
					}
				}()
				l := NewLoader("overlays").BuildWith(builder, 0)
				for _, o := range load(b, l, tree) {
					if o.Err() != nil {
						b.Fatal(o.Err())
					}
				}
				close(stop)
				<-ended
				builds = l.builds
				runtime.KeepAlive(l)
			}
			b.ReportMetric(float64(builds), "builds")
			b.ReportMetric(float64(peak)/1e6, "peak-MB")
		})
	}
}

// onDisk writes files to a directory, whose entries are listed faster than those of fstest.MapFS.
func onDisk(tb testing.TB, f files) fs.FS {
	dir := tb.TempDir()
	if err := os.CopyFS(dir, f.tree()); err != nil {
		tb.Fatal(err)
	}
	return os.DirFS(dir)
}

func heapNow() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
