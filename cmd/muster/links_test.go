package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/gitops/unraced"
)

// TestLinks asserts that every file and heading that a page, the changelog or a README of a
// test suite links to or shows as a picture exists.
func TestLinks(t *testing.T) {
	unraced.Only(t)
	suites, err := filepath.Glob(filepath.Join(top, "testdata", "*", "README.md"))
	check(t, err)
	pages := documents(t)
	for _, page := range append(suites, filepath.Join(top, "CHANGELOG.md")) {
		text, err := os.ReadFile(page)
		check(t, err)
		pages[page] = string(text)
	}
	for page, text := range pages {
		for _, m := range regexp.MustCompile(`(?:\]\(|src="|srcset=")([^)"\s]+)[)"]`).FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			if problem := unlinked(target, anchor); problem != "" {
				t.Errorf("%s links to %s: %s", page, m[1], problem)
			}
		}
	}
}

// unlinked returns why a link is broken; "" if it is not.
func unlinked(target, anchor string) string {
	if anchor == "" {
		if _, err := os.Stat(target); err != nil {
			return err.Error()
		}
		return ""
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return "no such heading"
	}
	return ""
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors returns the names of a page's headings in links.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		clean := regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(clean, " ", "-"))
	}
	return all
}

// TestLinksFromCode asserts that every page, heading and anchor that code, help, manifests or
// scripts name exists: docs/PAGE.md, docs/PAGE.md#anchor, and docs/PAGE.md, "Heading".
func TestLinksFromCode(t *testing.T) {
	unraced.Only(t)
	named := regexp.MustCompile("(?:^|[\\s(\"'`])(docs/[a-z0-9/-]+\\.md)(?:#([a-z0-9_-]+))?(?:, \"([^\"\n]+)\")?")
	comment := regexp.MustCompile(`\n[ \t]*(//|#) ?`) // a sentence continues in the next line
	found := 0
	eachFile(t, ".", func(path string, read func() string) {
		if !slices.Contains([]string{".go", ".yaml", ".json", ".env", ".txtar", ""}, filepath.Ext(path)) {
			return
		}
		text := read()
		if !strings.Contains(text, "docs/") {
			return
		}
		for _, m := range named.FindAllStringSubmatch(comment.ReplaceAllString(text, " "), -1) {
			found++
			page := filepath.Join(top, filepath.FromSlash(m[1]))
			if problem := unlinked(page, m[2]); problem != "" {
				t.Errorf("%s names %s: %s", path, strings.TrimSpace(m[0]), problem)
				continue
			}
			if m[3] == "" {
				continue
			}
			headings := heading.FindAllStringSubmatch(readText(t, m[1]), -1)
			if !slices.ContainsFunc(headings, func(h []string) bool { return h[1] == strings.TrimSuffix(m[3], ".") }) {
				t.Errorf("%s names %s: no such heading", path, strings.TrimSpace(m[0]))
			}
		}
	}, ".git", "bin", "docs", "crd", "node_modules")
	if found < 40 {
		t.Errorf("found %d names of pages only", found)
	}
}

// TestIndex asserts that docs/README.md links to every page.
func TestIndex(t *testing.T) {
	index := readText(t, "docs/README.md")
	for page := range documents(t) {
		name, err := filepath.Rel(filepath.Join(top, "docs"), page)
		check(t, err)
		if name = filepath.ToSlash(name); name != "README.md" && !strings.HasPrefix(name, "..") && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}
