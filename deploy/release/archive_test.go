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
	must(t, aRelease.writeArchives(dir, programs, common))
	must(t, aRelease.writeArchives(again, programs[:1], common))
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	must(t, err)
	var want strings.Builder
	for i, p := range programs {
		name := "muster_v1.2.3+4_" + p.os + "_" + p.arch
		packed, err := os.ReadFile(filepath.Join(dir, name+".tar.gz"))
		must(t, err)
		if i == 0 {
			if other, err := os.ReadFile(filepath.Join(again, name+".tar.gz")); err != nil || !bytes.Equal(packed, other) {
				t.Errorf("%s differs the second time, %v", name, err)
			}
		}
		fmt.Fprintf(&want, "%x  %s.tar.gz\n", sha256.Sum256(packed), name)
		z, err := gzip.NewReader(bytes.NewReader(packed))
		must(t, err)
		headers, contents := unpack(t, z)
		inside := slices.Sorted(maps.Keys(headers))
		for i := range inside {
			inside[i] = strings.TrimPrefix(inside[i], name+"/")
		}
		if want := []string{"", "LICENSE", "completions/", "completions/muster.bash", "muster", "muster-sim", "muster-sim.cdx.json", "muster.cdx.json"}; !slices.Equal(inside, want) {
			t.Errorf("%s holds %q, want %q", name, inside, want)
		}
		for _, program := range names {
			inside := name + "/" + program
			if !bytes.Equal(contents[inside], p.files[program]) || headers[inside].Mode != 0o755 {
				t.Errorf("%s: another program, of mode %o", inside, headers[inside].Mode)
			}
			checkSBOM(t, contents[inside+".cdx.json"], p.files[program])
		}
	}
	if string(sums) != want.String() {
		t.Errorf("SHA256SUMS is\n%s\nwant\n%s", sums, &want)
	}
}

// TestCommon: every archive holds the licences and texts of the source as they are,
// and a completion for each shell, which the program itself has said.
func TestCommon(t *testing.T) {
	all, err := aRelease.common(t.Context())
	must(t, err)
	sources := map[string]string{"LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md", "third-party.md": "docs/third-party.md"}
	scripts := map[string]string{
		"completions/muster.bash": "__start_muster", "completions/_muster": "#compdef muster",
		"completions/muster.fish": "complete -c muster", "completions/muster.ps1": "Register-ArgumentCompleter -CommandName 'muster'",
		"completions/muster-sim.bash": "__start_muster-sim", "completions/_muster-sim": "#compdef muster-sim",
		"completions/muster-sim.fish": "complete -c muster-sim", "completions/muster-sim.ps1": "Register-ArgumentCompleter -CommandName 'muster-sim'",
	}
	for _, f := range all {
		if f.mode != 0o644 {
			t.Errorf("%s has the mode %o", f.path, f.mode)
		}
		if source := sources[f.path]; source != "" {
			if want, err := os.ReadFile(filepath.Join(aRelease.source, source)); err != nil || !bytes.Equal(f.content, want) {
				t.Errorf("%s is not that of the source, %v", f.path, err)
			}
			delete(sources, f.path)
			continue
		}
		if want := scripts[f.path]; want == "" || !bytes.Contains(f.content, []byte(want)) {
			t.Errorf("%s is not expected, or has no %q", f.path, want)
		}
		delete(scripts, f.path)
	}
	if len(sources)+len(scripts) > 0 {
		t.Errorf("missing: %v %v", sources, scripts)
	}
}
