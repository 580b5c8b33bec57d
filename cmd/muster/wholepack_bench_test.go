package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"
)

// BenchmarkWithoutPartialClone runs the program as it is shipped against a server
// that sends whole commits only, of noise that no compression makes smaller. Without a
// directory for temporary files, muster accepts at most 32 MiB.
func BenchmarkWithoutPartialClone(b *testing.B) {
	binary := shipped(b)
	for _, test := range []struct {
		name, temp  string
		files, size int
	}{
		{"100 MB in 20,000 files", b.TempDir(), 20_000, 5_000},
		{"100 MB in one file", b.TempDir(), 1, 100_000_000},
		{"24 MB, no TMPDIR", "/none", 1, 24_000_000},
	} {
		b.Run(test.name, func(b *testing.B) {
			a := &arena{b: b, binary: binary}
			root := b.TempDir()
			var err error
			a.repo, err = gitserver.Init(filepath.Join(root, "fleet.git"))
			check(b, err)
			a.noise(test.files, test.size)
			check(a.b, a.repo.Configure("uploadpack.allowFilter", "false"))
			a.serve(root)
			a.simulate(time.Now())
			a.onPoll(func() {
				a.buildkite.AdvanceTo(time.Now())
				a.build(1, time.Hour)
			})
			b.Setenv("TMPDIR", test.temp)
			m := a.muster(a.binary, "muster", "--interval=1s")
			for range 6 {
				m.await("msg=dispatched")
			}
			peak, _ := m.memory()
			bench.Row(b, "no partial clone, "+test.name+": peak memory", peak)
			bench.Once(b)
		})
	}
}

// noise commits files of random bytes, each of a given size.
func (a *arena) noise(files, size int) {
	random := rand.NewChaCha8([32]byte{})
	var changes []branch.Change
	for i := range files {
		content := make([]byte, size)
		_, _ = random.Read(content)
		changes = append(changes, branch.Change{Path: fmt.Sprintf("apps/%03d/%06d", i/100, i), Content: content})
	}
	_, err := a.repo.Commit("noise\n", start.Add(-time.Hour), changes...)
	check(a.b, err)
}
