package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

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
			repo, err := gitserver.Init(filepath.Join(root, "fleet.git"))
			a.check(err)
			a.repo = repo
			a.check(a.noise(test.files, test.size))
			a.check(a.repo.Configure("uploadpack.allowFilter", "false"))
			a.serve(root)
			a.simulate(time.Now())
			observed := func() {
				a.buildkite.AdvanceTo(time.Now())
				a.build(1, time.Hour)
			}
			a.observed.Store(&observed)
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
func (a *arena) noise(files, size int) error {
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir = a.repo.Dir
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w := bufio.NewWriterSize(in, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	fmt.Fprintf(w, "commit refs/heads/main\ncommitter Else <grace@example.com> %d +0000\ndata 5\nnoise\n", start.Add(-time.Hour).Unix())
	for i := range files {
		fmt.Fprintf(w, "M 100644 inline apps/%03d/%06d\ndata %d\n", i/100, i, size)
		_, _ = io.CopyN(w, random, int64(size)) // an error of w is kept for Flush
		_, _ = w.WriteString("\n")
	}
	err = w.Flush()
	_ = in.Close()
	if wait := cmd.Wait(); wait != nil {
		return wait
	}
	return err
}
