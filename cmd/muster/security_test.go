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

// TestSecurityPage: each test that docs/security.md names is there, and each attack
// has its row, with a test or the words that there is none.
func TestSecurityPage(t *testing.T) {
	page := readText(t, "docs/security.md")
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
	isTest := regexp.MustCompile(`^((Test|Fuzz)\w+|\S+\.txtar)$`)
	for _, name := range code(page) {
		if isTest.MatchString(name) && !there[name] {
			t.Errorf("docs/security.md names %s, which is not there", name)
		}
	}
	_, table, ok := strings.Cut(page, "\n## What broke 0.2.0, and what happens now\n")
	if !ok {
		t.Fatal("the page has no table of attacks")
	}
	var ids []string
	for _, row := range rows(t, table) {
		ids = append(ids, row[0])
		if len(row) != 4 || !slices.ContainsFunc(code(row[3]), isTest.MatchString) && row[3] != "none: not fixed" {
			t.Errorf("the row %q names no test", row)
		}
	}
	for _, id := range strings.Fields("H1 H2 H3 H4 M1 M2 M3 M4 M5 M6 M7 K1 K2 K3 K4 K5 low soak") {
		if !slices.Contains(ids, id) {
			t.Errorf("%s is missing", id)
		}
	}
}
