package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchives: an archive holds what it should, twice the same, and the
// checksums are right.
func TestArchives(t *testing.T) {
	common := []file{{path: "LICENSE", mode: 0o644, content: []byte("the licence")}, {path: "completions/muster.bash", mode: 0o644}}
	dir, again := t.TempDir(), t.TempDir()
	programs := somePrograms(t, "linux/arm64,darwin/arm64")
	for _, dir := range []string{dir, again} {
		if err := aRelease.writeArchives(dir, programs, common); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, p := range programs {
		name := "muster_v1.2.3+4_" + p.os + "_" + p.arch
		packed, err := os.ReadFile(filepath.Join(dir, name+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if other, err := os.ReadFile(filepath.Join(again, name+".tar.gz")); err != nil || !bytes.Equal(packed, other) {
			t.Errorf("%s differs the second time, %v", name, err)
		}
		fmt.Fprintf(&want, "%x  %s.tar.gz\n", sha256.Sum256(packed), name)
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		headers, contents := unpack(t, z)
		inside := slices.Sorted(maps.Keys(headers))
		for i := range inside {
			inside[i] = strings.TrimPrefix(inside[i], name+"/")
		}
		if want := []string{"", "LICENSE", "completions/", "completions/muster.bash", "muster", "muster.cdx.json"}; !slices.Equal(inside, want) {
			t.Errorf("%s holds %q, want %q", name, inside, want)
		}
		if !bytes.Equal(contents[name+"/muster"], p.file) || headers[name+"/muster"].Mode != 0o755 {
			t.Errorf("%s: another program, of mode %o", name, headers[name+"/muster"].Mode)
		}
		checkSBOM(t, contents[name+"/muster.cdx.json"], p.file)
	}
	if string(sums) != want.String() {
		t.Errorf("SHA256SUMS is\n%s\nwant\n%s", sums, &want)
	}
}
