package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// thirdPartyPage is made by TestThirdParty.
const thirdPartyPage = "docs/third-party.md"

const thirdPartyHead = `# Third-party software

What muster's program is linked from besides its own code: the modules, their versions and their licences, and the texts that the licences
ask to go with the program. It is for Linux; other systems link a part of it, or a small module more. ` + "`go test ./cmd/muster -run ThirdParty -update`" + ` makes
this page from the module cache, and the test fails when it is behind. The source of each Go module is at ` + "`https://proxy.golang.org/`" + `, in the version named here.
` + "`make sbom`" + ` writes the same list for machines.

`

// linkedModule is a module of which the program has packages.
type linkedModule struct {
	Path, Version, Dir string
}

// linkedModules returns the modules that the program is linked from, except its own, with the
// directories of their packages.
func linkedModules(t *testing.T) map[linkedModule][]string {
	t.Helper()
	packages := listPackages(t)
	modules := map[linkedModule][]string{}
	for _, path := range append(reached(packages, module+"cmd/muster"), reached(packages, module+"cmd/muster-sim")...) {
		if p := packages[path]; !p.Standard && !strings.HasPrefix(path, module) {
			modules[*p.Module] = append(modules[*p.Module], p.Dir)
		}
	}
	return modules
}

// isLicence is what a module calls the files that must go with it.
var isLicence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|[a-z]+-licen[cs]e)[-._a-z0-9]*$`)

// licenceFiles returns the licences of a module's packages: those beside them and
// in the directories above, up to the module's own.
func licenceFiles(t *testing.T, m linkedModule, packages []string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, dir := range packages {
		for ; strings.HasPrefix(dir, m.Dir); dir = filepath.Dir(dir) {
			entries, err := os.ReadDir(dir)
			check(t, err)
			for _, e := range entries {
				if !e.Type().IsRegular() || !isLicence.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
					continue
				}
				file := filepath.Join(dir, e.Name())
				text, err := os.ReadFile(file)
				check(t, err)
				name, err := filepath.Rel(m.Dir, file)
				check(t, err)
				texts[filepath.ToSlash(name)] = normal(string(text))
			}
		}
	}
	return texts
}

// normal is a text without white space at the ends of lines, so that equal
// licences are equal.
func normal(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// licenceNames returns the SPDX identifiers of the licences in a text, by the
// sentences that each has and no other.
func licenceNames(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	has := func(sentence string) bool { return strings.Contains(text, sentence) }
	var names []string
	for name, is := range map[string]bool{
		"Apache-2.0": has("Apache License, Version 2.0") || has("Apache License Version 2.0"),
		"MIT":        has("Permission is hereby granted, free of charge"),
		"BSD-3-Clause": has("Redistribution and use in source and binary forms") &&
			(has("Neither the name of") || has("The name of the author may not be used") || has("names of its contributors may") || has("names of the contributors may")),
		"BSD-2-Clause": has("Redistribution and use in source and binary forms") && !has("Neither the name") && !has("may not be used") && !has("names of"),
		"MPL-2.0":      has("Mozilla Public License Version 2.0"),
		"CC-BY-4.0":    has("Creative Commons Attribution 4.0"),
		"ISC":          has("Permission to use, copy, modify, and/or distribute this software for any purpose"),
	} {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// thirdParty makes the page.
func thirdParty(t *testing.T) string {
	t.Helper()
	modules := linkedModules(t)
	var page strings.Builder
	page.WriteString(thirdPartyHead + "| module | version | licence |\n|---|---|---|\n")
	users := map[string][]string{} // of a text
	for _, m := range slices.SortedFunc(maps.Keys(modules), func(a, b linkedModule) int { return strings.Compare(a.Path, b.Path) }) {
		texts := licenceFiles(t, m, modules[m])
		names := map[string]bool{}
		for file, text := range texts {
			for _, name := range licenceNames(text) {
				names[name] = true
			}
			users[text] = append(users[text], m.Path+" "+m.Version+", "+file)
			if m.Path == "golang.org/x/sys" && file == "LICENSE" { // of the Go project, as the other
				users[text] = append(users[text], "Go's standard library and runtime")
			}
		}
		if len(names) == 0 {
			t.Errorf("%s %s has no licence that is known: look at %v in %s", m.Path, m.Version, slices.Sorted(maps.Keys(texts)), m.Dir)
		}
		fmt.Fprintf(&page, "| %s | %s | %s |\n", m.Path, m.Version, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	name, version, text := embeddedScript(t)
	users[text] = append(users[text], name+" "+version+", LICENSE")
	fmt.Fprintf(&page, "| %s (npm, embedded as cmd/page/assets/uPlot.js) | %s | %s |\n", name, version, strings.Join(licenceNames(text), ", "))
	page.WriteString("\nGo's standard library and runtime are under BSD-3-Clause.\n\n## Texts\n")
	for i, text := range slices.SortedFunc(maps.Keys(users), func(a, b string) int { return strings.Compare(slices.Min(users[a]), slices.Min(users[b])) }) {
		slices.Sort(users[text])
		fmt.Fprintf(&page, "\n### %d\n\nOf:\n\n- %s\n\n~~~text\n%s\n~~~\n", i+1, strings.Join(users[text], "\n- "), text)
	}
	return page.String()
}

// embeddedScript returns the name, the version and the licence of the script that the status page embeds.
func embeddedScript(t *testing.T) (name, version, licence string) {
	t.Helper()
	text, err := os.ReadFile("../page/assets/uPlot.js")
	check(t, err)
	head, _, _ := strings.Cut(string(text), "*/")
	first, licence, _ := strings.Cut(head, "\n")
	fields := strings.Fields(strings.TrimPrefix(first, "/*! "))
	return fields[0], strings.TrimSuffix(fields[1], ","), normal(licence)
}

// TestThirdParty asserts that the page names exactly the modules that the program is linked
// from, with their versions and licences. With -update it writes the page.
func TestThirdParty(t *testing.T) {
	want := thirdParty(t)
	if *updateScripts {
		check(t, os.WriteFile(filepath.Join(top, filepath.FromSlash(thirdPartyPage)), []byte(want), 0o644))
	}
	if diff := cmp.Diff(readText(t, thirdPartyPage), want); diff != "" {
		const run = "go test ./cmd/muster -run ThirdParty -update"
		t.Errorf("%s is behind: run %s (-page +want)\n%s", thirdPartyPage, run, diff)
	}
}
