package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// thirdPartyPage is made by TestThirdParty.
const thirdPartyPage = "docs/third-party.md"

var thirdPartyHead = `# Third-party software

What muster's programs and its image are made of besides its own code: the modules, their versions and their licences, and the texts that
the licences ask to go with them. It is for ` + strings.ReplaceAll(releasedFor, ",", ", ") + `; a program for one of these links a part of it.
` + "`go test ./cmd/muster -run ThirdParty -update`" + ` makes this page from the module cache, and the test fails when it is behind, or when a licence
is unknown or forbidden. The source of each Go module is at ` + "`https://proxy.golang.org/`" + `, in the version named here.
The SBOMs in archives and in the image are the same list for machines.

`

// releasedFor are the platforms of archives, as in deploy/release/main.go.
const releasedFor = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

// linkedModule is a module that a program is linked with.
type linkedModule struct {
	Path, Version, Dir string
}

// linkedModules returns the modules that the programs are linked from on any platform, except their
// own, and what the image contains of a module, with the directories of their packages.
func linkedModules(t *testing.T) map[linkedModule][]string {
	t.Helper()
	if !strings.Contains(readText(t, "deploy/release/main.go"), releasedFor) {
		t.Errorf("archives are not for %s", releasedFor)
	}
	modules := map[linkedModule][]string{}
	for p := range strings.SplitSeq(releasedFor, ",") {
		goos, arch, _ := strings.Cut(p, "/")
		c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}", "./cmd/muster", "./cmd/muster-sim")
		c.Dir, c.Env = top, append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		out, err := c.Output()
		check(t, err)
		for line := range strings.Lines(string(out)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if m := (linkedModule{f[0], f[1], f[2]}); m.Path+"/" != module && !slices.Contains(modules[m], f[3]) {
				modules[m] = append(modules[m], f[3])
			}
		}
	}
	c := exec.Command("go", "mod", "download", "-json", "golang.org/x/crypto/x509roots/fallback") // the image's certificate authorities
	c.Dir = filepath.Join(top, "deploy", "release")
	out, err := c.Output()
	check(t, err)
	var roots linkedModule
	check(t, json.Unmarshal(out, &roots))
	modules[roots] = []string{filepath.Join(roots.Dir, "bundle")}
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

// forbidden matches titles of licences that muster must not be linked with.
var forbidden = regexp.MustCompile(`GNU (AFFERO |LESSER |LIBRARY )?GENERAL PUBLIC LICENSE\s+Version|Server Side Public License|Business Source License|Commons Clause`)

// licenceProblem returns why a module must not be linked, by a file that isLicence, or "".
func licenceProblem(file, text string) string {
	title := forbidden.FindString(text)
	switch name := strings.ToLower(filepath.Base(file)); {
	case title != "":
		return fmt.Sprintf("%q is forbidden", title)
	case len(licenceNames(text)) == 0 && !strings.HasPrefix(name, "notice") && !strings.HasPrefix(name, "patents"):
		return "unknown licence"
	}
	return ""
}

func TestLicenceProblem(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person"
	for _, c := range []struct{ file, text, want string }{
		{"LICENSE", mit, ""},
		{"NOTICE.txt", "This product includes software of Acme.", ""},
		{"PATENTS", "Additional IP rights grant", ""},
		{"LICENSE", "You may use this on Mondays.", "unknown licence"},
		{"internal/LICENSE.md", "", "unknown licence"},
		{"COPYING", "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007", `"GNU GENERAL PUBLIC LICENSE\n   Version" is forbidden`},
		{"LICENSE", mit + "\n\nGNU LESSER GENERAL PUBLIC LICENSE\nVersion 2.1", `"GNU LESSER GENERAL PUBLIC LICENSE\nVersion" is forbidden`},
		{"LICENSE", "Business Source License 1.1", `"Business Source License" is forbidden`},
	} {
		if got := licenceProblem(c.file, c.text); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.file, c.text, got, c.want)
		}
	}
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
			if problem := licenceProblem(file, text); problem != "" {
				t.Errorf("%s %s: %s: %s", m.Path, m.Version, filepath.Join(m.Dir, file), problem)
			}
			for _, name := range licenceNames(text) {
				names[name] = true
			}
			users[text] = append(users[text], m.Path+" "+m.Version+", "+file)
			if m.Path == "golang.org/x/sys" && file == "LICENSE" { // of the Go project, as the other
				users[text] = append(users[text], "Go's standard library and runtime")
			}
		}
		if len(names) == 0 {
			t.Errorf("%s %s has no licence: look at %s", m.Path, m.Version, m.Dir)
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

// TestThirdParty asserts that the page names exactly the modules that the programs and the image
// are made of, with their versions and licences. With -update it writes the page.
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
