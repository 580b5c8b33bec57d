package fleet

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
)

// many is a fleet repository of n overlays that are alike but for their policy.
func many(tb testing.TB, n int) files {
	f := sound(tb)
	for i := range n {
		name := fmt.Sprintf("overlays/o%05d", i)
		f.copyDir("overlays/default", name)
		f[name+"/scaling.yaml"] = fmt.Sprintf("apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: q%d\n  max: 50\n", i)
	}
	return f
}

// copyDir is copy for few files among many.
func (f files) copyDir(from, to string) {
	for _, name := range []string{"scaling.yaml", "configmap.yaml", "kustomization.yaml", "template/kustomization.yaml", "dispatches/kustomization.yaml"} {
		if content, ok := f[from+"/"+name]; ok {
			f[to+"/"+name] = content
		}
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

// BenchmarkManyOverlays reads a thousand overlays for the first time.
func BenchmarkManyOverlays(b *testing.B) {
	tree := onDisk(b, many(b, 1000))
	b.ReportAllocs()
	for b.Loop() {
		l := NewLoader("overlays")
		for _, o := range load(b, l, tree) {
			if o.Err() != nil {
				b.Fatal(o.Err())
			}
		}
		b.ReportMetric(float64(l.builds), "builds")
	}
}
