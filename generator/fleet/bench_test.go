package fleet

import (
	"io/fs"
	"os"
	"testing"
	"time"

	"muster/generator/kustomize"
	"muster/generator/plan"
	"muster/testdata/bench"
)

// fleet is the fleet repository that muster init writes.
func fleet(tb testing.TB) fs.FS {
	tb.Helper()
	return os.DirFS("../..")
}

func order(id string, n int) plan.Dispatch {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	return plan.Dispatch{ID: id, Purpose: plan.ForDemand, Agents: n, At: at, NotAfter: at.Add(15 * time.Minute), IdleTimeout: 5 * time.Minute}
}

// BenchmarkStamp sets stamping one Job against building its template, in one
// run.
func BenchmarkStamp(b *testing.B) {
	loader := NewLoader("overlays")
	overlays, err := loader.Load(fleet(b))
	if err != nil || overlays[0].Err() != nil {
		b.Fatal(err, overlays[0].Err())
	}
	o := &overlays[0]
	d := order("default-7f3k9c2b", 12)
	var stamping, building time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		for range 10 {
			if _, err := o.stamp(d); err != nil {
				b.Fatal(err)
			}
		}
		stamping += time.Since(start) / 10
		b.StopTimer()
		start = time.Now()
		v := &view{tree: fleet(b)}
		v.begin()
		if _, err := (kustomize.Here{}).Build(b.Context(), v, "overlays/default/template"); err != nil {
			b.Fatal(err)
		}
		building += time.Since(start)
		b.StartTimer()
	}
	bench.Row(b, "stamping one Job / building its template", float64(stamping)/float64(building))
	b.ReportMetric(float64(building.Microseconds())/float64(b.N), "µs/build")
	b.ReportMetric(float64(stamping.Microseconds())/float64(b.N), "µs/stamp")
}
