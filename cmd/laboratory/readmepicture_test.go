package laboratory

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/gitops/unraced"

	"github.com/google/go-cmp/cmp"
)

// TestReadmePicture asserts that the pictures of README.md, for light and dark pages, are the overlay
// default of what muster-sim demo draws, and that the page names the time of the commit that they label. -update
// writes the pictures and the time.
func TestReadmePicture(t *testing.T) {
	unraced.Only(t)
	d := NewDemo(filepath.Join(t.TempDir(), "demo"), demoMorning)
	git, err := d.Open(t.Context())
	check(t, err)
	defer git.Close()
	client, err := buildkite.New(buildkite.Config{Org: "acme", Token: demoToken, HTTP: d.Buildkite.Transport(), Timeout: time.Hour})
	check(t, err)
	check(t, d.Loop(t.Context(), invocation.Version, generator.Config{Buildkite: client}))
	drawn := string(d.timeline("default").SVG())
	for scheme, query := range map[string]string{"light": "not all", "dark": "all"} {
		picture := strings.ReplaceAll(drawn, "(prefers-color-scheme: dark)", query)
		name := "docs/demo-" + scheme + ".svg"
		if *update {
			check(t, os.WriteFile(filepath.Join(top, name), []byte(picture), 0o666))
		}
		if diff := cmp.Diff(picture, readText(t, name)); diff != "" {
			t.Errorf("%s is not what the demo draws: run make pictures (-want +got):\n%s", name, diff)
		}
	}
	largest, err := d.Repository.Git("log", "-1", "--format=the commit at %cd", "--date=format:%H:%M", "--all-match", "--grep=Operation: dispatch", "--grep=Dispatch: "+d.largest.Decision.Dispatch[0].ID, "main")
	check(t, err)
	page, caption := readText(t, "README.md"), strings.TrimSpace(largest)
	want := regexp.MustCompile(`the commit at \d\d:\d\d`).ReplaceAllLiteralString(page, caption)
	if *update {
		check(t, os.WriteFile(filepath.Join(top, "README.md"), []byte(want), 0o666))
		page = want
	}
	if want != page || !strings.Contains(page, caption) {
		t.Errorf("README.md does not say %q: run make pictures", caption)
	}
}
