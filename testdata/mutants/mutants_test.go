package main

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const top = "../.."

// TestEdits makes the edits of each mutant in copies of the files, and parses them.
func TestEdits(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.without, func(t *testing.T) {
			tree := t.TempDir()
			for _, e := range m.edits {
				text, err := os.ReadFile(filepath.Join(top, e.file))
				check(t, err)
				copied := filepath.Join(tree, e.file)
				if _, err := os.Stat(copied); err != nil {
					check(t, os.MkdirAll(filepath.Dir(copied), 0o755))
					check(t, os.WriteFile(copied, text, 0o644))
				}
				check(t, e.apply(tree))
				if strings.HasSuffix(copied, ".go") {
					_, err := parser.ParseFile(token.NewFileSet(), copied, nil, parser.SkipObjectResolution)
					check(t, err)
				}
			}
			if len(m.edits) == 0 || len(m.rows) == 0 {
				t.Error("it has no edit or no row")
			}
			for name := range m.rows {
				if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == name }) {
					t.Errorf("there is no suite %q", name)
				}
			}
		})
	}
}

// TestRows finds a mutant for each incident that make incidents has recorded.
func TestRows(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "testdata/incidents/results.json"))
	check(t, err)
	var recorded []struct{ Incident string }
	check(t, json.Unmarshal(text, &recorded))
	if len(recorded) == 0 {
		t.Fatal("no incidents")
	}
	for _, x := range recorded {
		row := "TestIncidents/" + strings.ReplaceAll(x.Incident, " ", "-")
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return slices.Contains(m.rows["incidents"], row) }) {
			t.Errorf("no mutant for %s", row)
		}
	}
}

// TestTables: the tables are of the mutants as they are, each once.
func TestTables(t *testing.T) {
	for _, s := range suites {
		recorded, err := tableOf("README.md", s.name)
		check(t, err)
		for i, line := range recorded.lines {
			if slices.Contains(recorded.lines[:i], line) {
				t.Errorf("%s: twice: %s", s.name, line)
			}
			if !slices.ContainsFunc(mutants, func(m mutant) bool { return strings.HasPrefix(line, m.line(s.name)+" ") }) {
				t.Errorf("%s: no mutant has this line: %s", s.name, line)
			}
		}
	}
}

// TestRecord adds, replaces and removes lines, in the order of the mutants.
func TestRecord(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	const before, after = "text\n<!-- begin: incidents -->\n", "<!-- end: incidents -->\nmore\n"
	check(t, os.WriteFile(page, []byte(before+after), 0o644))
	first, second := mutants[0], mutants[1]
	for _, c := range []struct {
		m      mutant
		commit string
		want   []string
	}{
		{second, "a", []string{second.line("incidents") + " a |\n"}},
		{first, "b", []string{first.line("incidents") + " b |\n", second.line("incidents") + " a |\n"}},
		{first, "c", []string{first.line("incidents") + " c |\n", second.line("incidents") + " a |\n"}},
		{second, "", []string{first.line("incidents") + " c |\n"}},
	} {
		check(t, record(page, "incidents", c.m, c.commit))
		got, err := os.ReadFile(page)
		check(t, err)
		if want := before + heading + strings.Join(c.want, "") + after; string(got) != want {
			t.Errorf("the page is\n%s\nwant\n%s", got, want)
		}
	}
	if record(page, "hosts", first, "d") == nil {
		t.Error("a page without a table: no error")
	}
}

// TestRowsOfHosts finds a mutant for each part of the story and of the contract of make hosts, at any host, or
// its name in README.md.
func TestRowsOfHosts(t *testing.T) {
	for file, row := range map[string]*regexp.Regexp{
		"testdata/hosts/story_test.go":    regexp.MustCompile(`\{"([a-z ]+)", y\.`),
		"testdata/hosts/program_test.go":  regexp.MustCompile(`\{"([a-z]+)", func\(p place\)`),
		"gitops/writertest/writertest.go": regexp.MustCompile(`\n\t\t"([a-z]+)": +[a-z]+,`),
	} {
		for _, name := range submatches(t, file, row) {
			hasMutant(t, "hosts", "TestHosts/*/*/"+strings.ReplaceAll(name, " ", "_"))
		}
	}
}

// TestRowsOfE2E does the same for the promises that docs/reference/syncers.md lists.
func TestRowsOfE2E(t *testing.T) {
	for _, name := range submatches(t, "docs/reference/syncers.md", regexp.MustCompile("\n- .* \\(`(Test[^`]+)`\\)")) {
		switch first, rest, _ := strings.Cut(name, "/"); first {
		case "TestClusters", "TestCrowd": // of make e2e-long
		case "TestChaos":
			hasMutant(t, "e2e-long", name)
		case "TestDeployed":
			hasMutant(t, "e2e", first+"/*/"+rest)
		default:
			hasMutant(t, "e2e", name)
		}
	}
}

// submatches returns the first submatch of each match in a file.
func submatches(t *testing.T, file string, r *regexp.Regexp) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, file))
	check(t, err)
	var all []string
	for _, match := range r.FindAllStringSubmatch(string(text), -1) {
		all = append(all, match[1])
	}
	if len(all) == 0 {
		t.Fatalf("no rows in %s", file)
	}
	return all
}

// hasMutant fails unless a row that matches a pattern, or a subtest of it, has a mutant, or README.md names it.
func hasMutant(t *testing.T, suite, pattern string) {
	t.Helper()
	page, err := os.ReadFile("README.md")
	check(t, err)
	if bytes.Contains(page, []byte("- `"+pattern+"`")) {
		return
	}
	for _, m := range mutants {
		for _, row := range m.rows[suite] {
			whole, _ := path.Match(pattern, row)
			below, _ := path.Match(pattern+"/*", row)
			if whole || below {
				return
			}
		}
	}
	t.Errorf("no mutant for %s of %s", pattern, suite)
}

// TestRunOf combines names of each level.
func TestRunOf(t *testing.T) {
	got := suite{selects: 2}.runOf([]string{"TestAll/Clock/fast", "TestAll/Clock/slow", "TestAll/Life", "TestRealNode/Works"})
	if want := "^(TestAll|TestRealNode)$/^(Clock|Life|Works)$"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFailedIn reads outputs of go test.
func TestFailedIn(t *testing.T) {
	const out = `--- FAIL: TestAll (1.00s)
    --- PASS: TestAll/Life (0.50s)
    --- FAIL: TestAll/Clock (0.50s)
        --- FAIL: TestAll/Clock/slow (0.50s)
panic: test timed out after 1s
	running tests:
		TestAll (1s)
		TestAll/Reuse (1s)
`
	for row, want := range map[string]bool{"TestAll/Life": false, "TestAll/Clock": true, "TestAll/Clock/slow": true, "TestAll/Clo": false, "TestAll/Reuse": true, "TestAll/Re": false} {
		if failedIn([]byte(out), row) != want {
			t.Errorf("%s: got %v, want %v", row, !want, want)
		}
	}
}

// TestOthersIn: other tests that fail are a sign that a row failed for another reason.
func TestOthersIn(t *testing.T) {
	const out = `--- FAIL: TestAll (1.00s)
    --- FAIL: TestAll/Deleted (0.50s)
        --- FAIL: TestAll/Deleted/flux (0.50s)
        --- FAIL: TestAll/Deleted/argocd (0.50s)
    --- FAIL: TestAll/Life (0.50s)
        --- FAIL: TestAll/Life/flux (0.50s)
    --- PASS: TestAll/Reuse (0.50s)
`
	got := othersIn([]byte(out), []string{"TestAll/Deleted/argocd", "TestAll/Life"})
	if want := []string{"TestAll/Deleted/flux"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
