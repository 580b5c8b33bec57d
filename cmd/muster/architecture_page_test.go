package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecturePage = "docs/architecture.md"

// TestArchitecturePage compares the packages of docs/architecture.md and their imports with
// imports(), and finds each test and the declaration of each pkg.Name and Type.Member that
// the page names.
func TestArchitecturePage(t *testing.T) {
	page := readText(t, architecturePage)
	_, packages, _ := strings.Cut(page, "\n## Packages\n")
	packages, _, _ = strings.Cut(packages, "\n## ")
	named := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|([^|]*)\\|$").FindAllStringSubmatch(packages, -1) {
		if words := strings.Fields(row[2]); len(words) < 3 {
			t.Errorf("%s does not explain %s", architecturePage, row[1])
		}
		named[row[1]] = slices.Sorted(slices.Values(code(row[3])))
	}
	for from, want := range imports() {
		got, ok := named[from]
		if want = slices.Sorted(slices.Values(want)); !ok {
			t.Errorf("%s does not list %s", architecturePage, from)
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: %s imports %q, want %q", architecturePage, from, got, want)
		}
		delete(named, from)
	}
	for from := range named {
		t.Errorf("%s names the package %s, which imports() does not have", architecturePage, from)
	}

	declared, tests := declarations(t), testNames(t)
	member := regexp.MustCompile(`^[A-Za-z]\w*\.[A-Za-z]\w*$`)
	file := regexp.MustCompile(`\.(go|yaml|txtar)$`)
	found := 0
	blocks := regexp.MustCompile("(?ms)^```.*?^```$")
	for _, name := range code(blocks.ReplaceAllString(page, "")) {
		if isTest.MatchString(name) && !tests[name] {
			t.Errorf("%s names %s, which is no test", architecturePage, name)
		}
		if !member.MatchString(name) || file.MatchString(name) {
			continue
		}
		if found++; !declared(name) {
			t.Errorf("%s names %s, which is not declared", architecturePage, name)
		}
	}
	if found < 50 {
		t.Errorf("found %d identifiers only", found)
	}
}

// declarations reports whether the program's packages declare a pkg.Name, or a method or field
// Type.Member.
func declarations(t *testing.T) func(name string) bool {
	t.Helper()
	sources, all := map[string]string{}, "" // by package
	for dir := range imports() {
		eachFile(t, dir, func(path string, read func() string) {
			if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
				text := read()
				pkg := regexp.MustCompile(`(?m)^package (\w+)$`).FindStringSubmatch(text)[1]
				sources[pkg] += text
				all += text
			}
		})
	}
	return func(name string) bool {
		of, member, _ := strings.Cut(name, ".")
		if source, ok := sources[of]; ok && regexp.MustCompile(`(?m)^(func |type |var |const |\t)(\w+, )*`+member+`\b`).MatchString(source) {
			return true
		}
		if regexp.MustCompile(`(?m)^func \((\w+ )?\*?` + of + `(\[.*\])?\) ` + member + `\(`).MatchString(all) {
			return true
		}
		fields := regexp.MustCompile(`(?ms)^type ` + of + `(\[[^\n]*\])? (struct|interface) \{.*?^\}`).FindString(all)
		return regexp.MustCompile(`(?m)^\t(\w+, )*` + member + `\b`).MatchString(fields)
	}
}
