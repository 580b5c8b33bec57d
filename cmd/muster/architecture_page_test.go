package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/gitops/unraced"
)

const architecturePage = "docs/architecture.md"

// allowedImports returns the imports that the tables of packages allow. "*" is any package but
// commands.
func allowedImports(t *testing.T) map[string][]string {
	t.Helper()
	_, packages, _ := strings.Cut(readText(t, architecturePage), "\n## Packages\n")
	packages, _, _ = strings.Cut(packages, "\n## ")
	allowed := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|([^|]*)\\|$").FindAllStringSubmatch(packages, -1) {
		if words := strings.Fields(row[2]); len(words) < 3 {
			t.Errorf("%s does not explain %s", architecturePage, row[1])
		}
		allowed[row[1]] = code(row[3])
	}
	return allowed
}

// TestArchitecturePage finds each test and the declaration of each pkg.Name and Type.Member that
// docs/architecture.md names. TestImportsRunOneWay compares its packages and imports with the code.
func TestArchitecturePage(t *testing.T) {
	unraced.Only(t)
	page := readText(t, architecturePage)
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
		if found++; !declared[name] {
			t.Errorf("%s names %s, which is not declared", architecturePage, name)
		}
	}
	if found < 50 {
		t.Errorf("found %d identifiers only", found)
	}
}

// declarations returns what the program's packages declare: each pkg.Name, and each Type.Member
// of methods and fields.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	pkg := regexp.MustCompile(`(?m)^package (\w+)$`)
	global := regexp.MustCompile(`(?m)^(?:func |type |var |const |\t)((?:\w+, )*\w+)`)
	method := regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)(?:\[.*\])?\) (\w+)\(`)
	body := regexp.MustCompile(`(?ms)^type (\w+)(?:\[[^\n]*\])? (?:struct|interface) \{\n(.*?)^\}`)
	field := regexp.MustCompile(`(?m)^\t((?:\w+, )*\w+)`)
	add := func(of, names string) {
		for name := range strings.SplitSeq(names, ", ") {
			declared[of+"."+name] = true
		}
	}
	for _, dir := range []string{"cmd", "generator", "gitops"} {
		eachFile(t, dir, func(path string, read func() string) {
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return
			}
			text := read()
			for _, m := range global.FindAllStringSubmatch(text, -1) {
				add(pkg.FindStringSubmatch(text)[1], m[1])
			}
			for _, m := range method.FindAllStringSubmatch(text, -1) {
				add(m[1], m[2])
			}
			for _, m := range body.FindAllStringSubmatch(text, -1) {
				for _, f := range field.FindAllStringSubmatch(m[2], -1) {
					add(m[1], f[1])
				}
			}
		})
	}
	return declared
}
