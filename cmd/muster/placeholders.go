package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"muster/generator/finding"
)

// placeholders match what init writes for people to replace, and what people write to replace it later.
var placeholders = []struct {
	pattern *regexp.Regexp
	remedy  string
}{
	{regexp.MustCompile(`git\.example\.com[:/]ci/fleet\.git`), "write the address of this repository"},
	{regexp.MustCompile(`registry\.example\.com/muster`), "write the name of muster's image in your registry"},
	{regexp.MustCompile(`^MUSTER_BUILDKITE_ORG=acme$`), "write the slug of your organisation"},
	{regexp.MustCompile(`(?i)\b(replace|change)[-_]?me\b`), "replace it"},
}

// findPlaceholders returns a finding for each placeholder in the configuration of the syncer, of muster's
// Deployment, and of the agents. dir is the directory of the fleet.
func findPlaceholders(tree fs.FS, dir, overlays string) (findings []finding.Finding) {
	const mostFiles, longest = 2000, 64 << 10
	visited := 0
	for _, below := range []string{path.Join(dir, "base"), overlays, path.Join(dir, syncerDirectory), path.Join(dir, "deploy")} {
		_ = fs.WalkDir(tree, below, func(name string, d fs.DirEntry, err error) error {
			visited++
			switch {
			case err != nil, visited > mostFiles, d.IsDir() && d.Name() == "dispatches":
				return fs.SkipDir
			case !d.Type().IsRegular(), !slices.Contains([]string{".yaml", ".yml", ".env"}, path.Ext(name)):
				return nil
			}
			if info, err := d.Info(); err != nil || info.Size() > longest {
				return nil
			}
			text, _ := fs.ReadFile(tree, name) // the loader reports errors
			lines := bufio.NewScanner(bytes.NewReader(text))
			for line := 1; lines.Scan(); line++ {
				value, _, _ := strings.Cut(lines.Text(), " #")
				if strings.HasPrefix(strings.TrimSpace(value), "#") {
					continue
				}
				for _, p := range placeholders {
					if found := p.pattern.FindString(value); found != "" {
						findings = append(findings, finding.Finding{File: name, Line: line, Problem: fmt.Sprintf("has the placeholder %q", found), Remedy: p.remedy})
					}
				}
			}
			return nil
		})
	}
	return findings
}
