package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// digest is a published file with its checksum, in hexadecimal.
type digest struct{ name, sha256 string }

// Identifiers without an address: they do not depend on where the source or the release is published.
const (
	buildType = "urn:x-muster:make-release:v1"
	// Who signs the statement replaces builderID.
	builderID = "urn:x-muster:unidentified-builder"
)

// object is a JSON object.
type object = map[string]any

// statement returns an unsigned in-toto Statement v1 about files, with SLSA's predicate Provenance v1.
func (r release) statement(ctx context.Context, p program, files []digest) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(p.files[names[0]]))
	if err != nil {
		return nil, err
	}
	var subjects []object
	for _, f := range files {
		subjects = append(subjects, object{"name": f.name, "digest": object{"sha256": f.sha256}})
	}
	source := object{"name": "source"}
	if r.url != "" {
		source["uri"] = "git+" + r.url
	}
	if r.commit != "" && !strings.HasSuffix(r.commit, "-dirty") { // the commit is not all of the source if files have changed
		whole, err := exec.CommandContext(ctx, "git", "-C", r.source, "rev-parse", "--verify", r.commit+"^{commit}").Output()
		if err != nil {
			return nil, fmt.Errorf("reading the commit %s: %w", r.commit, err)
		}
		source["digest"] = object{"gitCommit": strings.TrimSpace(string(whole))}
	}
	compiler := library(standardLibrary(info)).PackageURL
	text, err := json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":            buildType,
				"externalParameters":   object{"version": r.version, "date": r.date.Unix()},
				"resolvedDependencies": []object{source, {"name": "go", "uri": compiler}},
			},
			"runDetails": object{"builder": object{"id": builderID}},
		},
	}, "", "  ")
	return append(text, '\n'), err
}

// notes returns the release notes: the section of the version in CHANGELOG.md, or the one of unreleased changes if
// the version is a development version.
func (r release) notes() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	name := "Unreleased"
	if regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(r.version) {
		name = strings.TrimPrefix(r.version, "v")
	}
	m := regexp.MustCompile(`(?ms)^## \[` + regexp.QuoteMeta(name) + `\][^\n]*\n+(.*?)\s*(?:^## |\z)`).FindSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("CHANGELOG.md has no section [%s]", name)
	}
	// Links to pages are relative to the repository: where notes are shown, they would be broken.
	links := regexp.MustCompile(`\[([^\]]+)\]\(([^):#]+)(?:#[^)]*)?\)`)
	return append(links.ReplaceAll(m[1], []byte("$1 ($2)")), '\n'), nil
}
