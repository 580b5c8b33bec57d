package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// TestList: the list of a program, here of this test, names exactly the modules that it is linked from,
// with versions and sums, and one program has one list.
func TestList(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var text, again bytes.Buffer
	if err := write(&text, info); err != nil {
		t.Fatal(err)
	}
	if err := write(&again, info); err != nil || text.String() != again.String() {
		t.Errorf("written twice, it differs (%v)", err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(&text, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != "sbom" || c.Type != cyclonedx.ComponentTypeApplication {
		t.Errorf("it is the list of %+v", c)
	}
	want := map[string]string{"std": info.GoVersion}
	for _, d := range info.Deps {
		want[d.Path] = d.Version + " " + d.Sum
	}
	if len(want) < 2 {
		t.Fatal("the program does not say what it is linked from")
	}
	for _, c := range *bom.Components {
		got := c.Version
		if c.Hashes != nil {
			raw, err := hex.DecodeString((*c.Hashes)[0].Value)
			if err != nil {
				t.Fatal(err)
			}
			got += " h1:" + base64.StdEncoding.EncodeToString(raw)
		}
		if got != want[c.Name] || !strings.HasPrefix(c.PackageURL, "pkg:golang/"+c.Name+"@") {
			t.Errorf("%s is %q (%s), want %q", c.Name, got, c.PackageURL, want[c.Name])
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("it does not name %v", want)
	}
	if n := len(*(*bom.Dependencies)[0].Dependencies); n != len(*bom.Components) {
		t.Errorf("the program depends on %d of %d modules", n, len(*bom.Components))
	}
}

// TestDamaged: a program whose sums are not there is an error.
func TestDamaged(t *testing.T) {
	if err := write(&bytes.Buffer{}, &debug.BuildInfo{Deps: []*debug.Module{{Path: "x", Version: "v1"}}}); err == nil {
		t.Error("no error")
	}
	if err := run("main.go", filepath.Join(t.TempDir(), "x")); err == nil {
		t.Error("a file that is no program: no error")
	}
}
