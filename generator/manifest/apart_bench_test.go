package manifest

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// apartFleet is a fleet repository of n overlays of which no two templates are
// alike: each says its own image and memory.
func apartFleet(tb testing.TB, n int) files {
	f := many(tb, n)
	job, err := os.ReadFile("../../base/job.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	f["base/job.yaml"] = string(job)
	delete(f, "overlays/default/scaling.yaml")
	for i := range n {
		f[fmt.Sprintf("overlays/o%05d/template/kustomization.yaml", i)] = fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../../base]
patches:
- target: {kind: Job, name: agent}
  patch: |-
    - op: replace
      path: /spec/template/spec/containers/0/image
      value: registry.example.com/team-%d/agent:3.%d
    - op: add
      path: /spec/template/metadata/annotations/example.com~1team
      value: "team-%d"
`, i, i, i)
	}
	return f
}

// BenchmarkDifferentOverlays reads overlays of which no two templates are alike
// for the first time, as the program does it: kustomize in processes of its own.
func BenchmarkDifferentOverlays(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("overlays=%d", n), func(b *testing.B) {
			tree := indexed(apartFleet(b, n))
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

func heapNow() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
