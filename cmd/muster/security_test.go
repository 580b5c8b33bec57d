package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/gitops/unraced"
)

// isTest matches the name of a test, or of a script or case that a test runs.
var isTest = regexp.MustCompile(`^((Test|Fuzz)\w+|\S+\.txtar)$`)

// testNames returns the names of all tests, scripts and cases of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	eachFile(t, ".", func(path string, read func() string) {
		switch {
		case strings.HasSuffix(path, ".txtar"):
			there[filepath.Base(path)] = true
		case strings.HasSuffix(path, "_test.go"):
			for _, m := range function.FindAllStringSubmatch(read(), -1) {
				there[m[1]] = true
			}
		}
	}, ".git", "bin", "node_modules")
	return there
}

// TestSecurityPage asserts that each test that docs/explanation/security.md names exists, and
// that each attack in its table names at least one.
func TestSecurityPage(t *testing.T) {
	unraced.Only(t)
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
