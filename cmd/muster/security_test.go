package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// isTest matches the name of a test, or of a script or case that a test runs.
var isTest = regexp.MustCompile(`^((Test|Fuzz)\w+|\S+\.txtar)$`)

// testNames returns the names of all tests, scripts and cases of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case strings.HasSuffix(path, ".txtar"):
			there[d.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllStringSubmatch(string(text), -1) {
				there[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// TestSecurityPage: each test that docs/explanation/security.md names exists, and each
// attack in its table names at least one.
func TestSecurityPage(t *testing.T) {
	page := readText(t, "docs/explanation/security.md")
	there := testNames(t)
	for _, name := range code(page) {
		if isTest.MatchString(name) && !there[name] {
			t.Errorf("docs/explanation/security.md names %s, which is not there", name)
		}
	}
	attacks := rows(t, section(t, "docs/explanation/security.md", "## Attacks, faults and tests"))
	for _, row := range attacks {
		if !slices.ContainsFunc(code(row[len(row)-1]), isTest.MatchString) {
			t.Errorf("the row %q names no test", row)
		}
	}
	if len(attacks) < 34 {
		t.Errorf("the page has %d attacks only", len(attacks))
	}
}
