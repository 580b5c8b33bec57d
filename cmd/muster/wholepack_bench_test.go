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
)

// BenchmarkWithoutPartialClone runs the program as it is shipped against a server
// that sends whole commits only, of 100 MB that no compression makes smaller: in
// 20,000 files, and in one; then without a place for temporary files.
func BenchmarkWithoutPartialClone(b *testing.B) {
	binary := shipped(b)
	const all = 100_000_000
	for _, test := range []struct {
		size, temp string
		files      int
		bound      float64
	}{{"files", b.TempDir(), 20_000, 96}, {"file", b.TempDir(), 1, 96}, {"no /tmp", "/none", 1, 0}} {
		b.Run(test.size, func(b *testing.B) {
			a := &arena{b: b, size: test.size, binary: binary}
			root := b.TempDir()
			repo, err := gitserver.Init(filepath.Join(root, "fleet.git"))
			a.check(err)
			a.repo = repo
			a.check(a.noise(test.files, all/test.files))
			a.check(a.repo.Configure("uploadpack.allowFilter", "false"))
			a.serve(root)
			a.simulate(time.Now())
			observed := func() {
				a.buildkite.AdvanceTo(time.Now())
				a.build(1, time.Hour)
			}
			a.observed.Store(&observed)
			b.Setenv("TMPDIR", test.temp)
			begun := time.Now()
			cmd, log := a.muster(a.binary, "muster", "--interval=1s")
			a.await(log, "msg=dispatched")
			first := time.Since(begun)
			for range 5 {
				a.await(log, "msg=dispatched")
			}
			peak, now := a.memory(cmd)
			a.row("no partial clone, a pack of 100 MB: peak memory", " MB", peak, test.bound)
			a.row("  at its 6th push", " MB", now, 0)
			a.row("  process start to first push", " s", first.Seconds(), 0)
			for b.Loop() {
				// Whatever was measured has been, however often this runs.
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// noise commits files of noise, each of so many bytes.
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
	fmt.Fprintf(w, "commit refs/heads/main\ncommitter Else <else@example.com> %d +0000\ndata 5\nnoise\n", start.Add(-time.Hour).Unix())
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
