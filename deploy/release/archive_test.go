package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFiles: what is published holds what it should, twice the same, and the
// checksums and the statement name every file.
func TestFiles(t *testing.T) {
	common := []file{{path: "LICENSE", mode: 0o644, content: []byte("the licence")}, {path: "share/man/man1/muster.1", mode: 0o644}}
	r := aRelease
	var commit string
	r.source, commit = someRepository(t)
	r.commit = commit[:12]
	dir, again := t.TempDir(), t.TempDir()
	programs := somePrograms(t, "linux/arm64,darwin/arm64")
	must(t, r.writeFiles(t.Context(), dir, programs, common, someImage(t), "muster"))
	must(t, r.writeFiles(t.Context(), again, programs, common, someImage(t), "muster"))
	sameFiles(t, dir, again)
	var want strings.Builder
	var subjects []any
	for _, name := range []string{"linux_arm64.tar.gz", "darwin_arm64.tar.gz", "image.tar", "provenance.json", "notes.md"} {
		name = "muster_v1.2.3+4_" + name
		content, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		fmt.Fprintf(&want, "%s  %s\n", sum, name)
		if !strings.HasSuffix(name, ".json") && !strings.HasSuffix(name, ".md") {
			subjects = append(subjects, object{"name": name, "digest": object{"sha256": sum}})
		}
	}
	if sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS")); err != nil || string(sums) != want.String() {
		t.Errorf("SHA256SUMS is\n%s\nwant\n%s\n%v", sums, &want, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "muster_v1.2.3+4_provenance.json"))
	must(t, err)
	checkStatement(t, text, subjects, object{"name": "source", "uri": "git+" + r.url, "digest": object{"gitCommit": commit}})
	for _, p := range programs {
		checkArchive(t, dir, p)
	}
}

// checkArchive checks the archive of a platform.
func checkArchive(t *testing.T, dir string, p program) {
	t.Helper()
	name := "muster_v1.2.3+4_" + p.os + "_" + p.arch
	packed, err := os.ReadFile(filepath.Join(dir, name+".tar.gz"))
	must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	headers, contents := unpack(t, z)
	inside := slices.Sorted(maps.Keys(headers))
	for i := range inside {
		inside[i] = strings.TrimPrefix(inside[i], name+"/")
	}
	want := []string{
		"", "LICENSE", "bin/", "bin/muster", "bin/muster-sim", "share/", "share/man/", "share/man/man1/", "share/man/man1/muster.1",
		"share/sbom/", "share/sbom/muster-sim.cdx.json", "share/sbom/muster.cdx.json",
	}
	if !slices.Equal(inside, want) {
		t.Errorf("%s holds %q, want %q", name, inside, want)
	}
	for _, program := range names {
		inside := name + "/bin/" + program
		if !bytes.Equal(contents[inside], p.files[program]) || headers[inside].Mode != 0o755 {
			t.Errorf("%s: another program, of mode %o", inside, headers[inside].Mode)
		}
		var beside []string
		if program == "muster" {
			beside = []string{"uPlot"}
		}
		checkSBOM(t, contents[name+"/share/sbom/"+program+".cdx.json"], p.files[program], beside...)
	}
}

// checkStatement checks what an in-toto Statement v1 and SLSA's Provenance v1 require.
func checkStatement(t *testing.T, text []byte, subjects []any, source object) {
	t.Helper()
	var s struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []any
		Predicate     struct {
			BuildDefinition struct {
				BuildType            string
				ExternalParameters   object
				ResolvedDependencies []object
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	must(t, json.Unmarshal(text, &s))
	d := s.Predicate.BuildDefinition
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" ||
		d.BuildType == "" || s.Predicate.RunDetails.Builder.ID == "" || d.ExternalParameters["version"] != aRelease.version {
		t.Errorf("the statement is %s", text)
	}
	if fmt.Sprint(s.Subject) != fmt.Sprint(subjects) {
		t.Errorf("its subjects are %v, want %v", s.Subject, subjects)
	}
	if len(d.ResolvedDependencies) != 2 || fmt.Sprint(d.ResolvedDependencies[0]) != fmt.Sprint(source) ||
		!strings.HasPrefix(fmt.Sprint(d.ResolvedDependencies[1]["uri"]), "pkg:golang/std@1.") {
		t.Errorf("it was made from %v, want %v and Go", d.ResolvedDependencies, source)
	}
}

// sameFiles asserts that two directories hold the same.
func sameFiles(t *testing.T, one, other string) {
	t.Helper()
	a, err := filesIn(one, "")
	b, err2 := filesIn(other, "")
	must(t, errors.Join(err, err2))
	for i := range max(len(a), len(b)) {
		if i >= min(len(a), len(b)) || a[i].path != b[i].path || !bytes.Equal(a[i].content, b[i].content) {
			t.Errorf("file %d of %d and %d differs: %s", i, len(a), len(b), slices.Concat(a, b)[i].path)
		}
	}
}

const changelog = `# Changelog

## [Unreleased]

### Added

- Another thing.

## [1.2.3] - 2026-11-21

- A thing ([how
  to](pages/a.md#b), [standard](https://example.com/c)).

## [1.2.2] - 2026-11-20

- The first thing.
`

// someRepository returns a repository that holds a changelog, and its commit.
func someRepository(t *testing.T) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changelog), 0o600))
	script, err := os.ReadFile(filepath.Join(aRelease.source, filepath.FromSlash(scriptPath)))
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, filepath.FromSlash(path.Dir(scriptPath))), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(scriptPath)), script, 0o600))
	for _, args := range []string{"init", "add .", "-c user.name=a -c user.email=a@example.com commit -m a", "rev-parse HEAD"} {
		out, err := exec.Command("git", append([]string{"-C", dir}, strings.Fields(args)...)...).Output()
		must(t, err)
		commit = strings.TrimSpace(string(out))
	}
	return dir, commit
}

// TestNotes: a version's notes are its section, those of a development version the newest one, without links that
// would be broken.
func TestNotes(t *testing.T) {
	r := release{}
	r.source, _ = someRepository(t)
	for version, want := range map[string]string{
		"v1.2.2":             "- The first thing.\n",
		"v1.2.3":             "- A thing (how\n  to (pages/a.md), [standard](https://example.com/c)).\n",
		"v1.2.4-dev":         "### Added\n\n- Another thing.\n",
		"v1.2.3-4-g01234567": "### Added\n\n- Another thing.\n",
		"v1.2.4":             "",
	} {
		r.version = version
		got, err := r.notes()
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", version, got, err, want)
		}
	}
}

// TestDirtyCommit: a statement names no commit if the source had other changes, and an unknown one is an error.
func TestDirtyCommit(t *testing.T) {
	r := aRelease
	r.source, r.url = t.TempDir(), ""
	program := somePrograms(t, "linux/arm64")[0]
	r.commit += "-dirty"
	text, err := r.statement(t.Context(), program, nil)
	must(t, err)
	checkStatement(t, text, nil, object{"name": "source"})
	r.commit = aRelease.commit
	if _, err := r.statement(t.Context(), program, nil); err == nil || !strings.Contains(err.Error(), r.commit) {
		t.Errorf("an unknown commit: %v", err)
	}
}

// TestCommon: every archive holds the licences and texts of the source as they are, and completions and man pages,
// which the programs have written.
func TestCommon(t *testing.T) {
	all, err := aRelease.common(t.Context(), nil)
	must(t, err)
	packed := map[string]string{}
	for _, f := range all {
		if f.mode != 0o644 {
			t.Errorf("%s has the mode %o", f.path, f.mode)
		}
		packed[f.path] = string(f.content)
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", thirdParty, "docs/how-to/deploy.md"} {
		if want, err := os.ReadFile(filepath.Join(aRelease.source, name)); err != nil || packed[name] != string(want) {
			t.Errorf("%s is not that of the source, %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"bash-completion/completions/muster": "__start_muster", "bash-completion/completions/muster-sim": "__start_muster-sim",
		"zsh/site-functions/_muster": "#compdef muster", "zsh/site-functions/_muster-sim": "#compdef muster-sim",
		"fish/vendor_completions.d/muster.fish": "complete -c muster", "fish/vendor_completions.d/muster-sim.fish": "complete -c muster-sim",
		"powershell/muster.ps1": "-CommandName 'muster'", "powershell/muster-sim.ps1": "-CommandName 'muster-sim'",
		"man/man1/muster.1": `.TH "MUSTER" "1" "Nov 2026" "muster v1.2.3+4"`, "man/man1/muster-run.1": "listen", "man/man1/muster-sim-demo.1": "length",
	} {
		if !strings.Contains(packed["share/"+name], want) {
			t.Errorf("share/%s has no %q:\n%.300s", name, want, packed["share/"+name])
		}
	}
	for _, shown := range strings.Split(packed["README.md"], "](")[1:] {
		if name, _, _ := strings.Cut(shown, ")"); !strings.Contains(name, "://") {
			if name, _, _ = strings.Cut(name, "#"); packed[name] == "" {
				t.Errorf("README.md links to %s, which is not in the archive", name)
			}
		}
	}
}
