package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNothingIsLeftOut: make test plays again, without the race detector, whatever is
// skipped with it: the Makefile names every package with such a test, and of some
// packages the tests.
func TestNothingIsLeftOut(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + ` *:= (.*)$`).FindSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return string(found[1])
	}
	packages, some := strings.Fields(variable("UNRACED")), strings.Fields(variable("UNRACED_SOME"))
	named, worlds := regexp.MustCompile(variable("UNRACED_TESTS")), regexp.MustCompile(variable("UNRACED_WORLDS"))
	count := 0
	for path, p := range listPackages(t) {
		below, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		for _, name := range unracedTests(t, p.Dir) {
			count++
			whole, part := slices.Contains(packages, "./"+below), slices.Contains(some, "./"+below) && named.MatchString(name)
			if !whole && !part && (below != "generator" || !worlds.MatchString(name)) {
				t.Errorf("%s: the Makefile does not play %s without the race detector", path, name)
			}
		}
	}
	if count < 20 {
		t.Errorf("%d tests are skipped with the race detector: where are the others?", count)
	}
}

// unracedTests are the tests of a directory that are skipped with the race detector.
func unracedTests(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`^func (Test\w+)\(`)
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			if m := begins.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			if strings.TrimSpace(line) == "unraced.Only(t)" {
				all = append(all, name)
			}
		}
	}
	return all
}
