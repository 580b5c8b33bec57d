package belief_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/generator/belief"
)

var update = flag.Bool("update", false, "write docs/reference/beliefs.md")

// top is the top of the repository.
const top = "../.."

// TestBeliefs asserts that each belief is complete, that IDs are unique and sorted, that the symbols in Code are
// declared, and that the test in Fake exists.
func TestBeliefs(t *testing.T) {
	all := belief.All()
	id := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)+$`)
	sentence := func(text string) bool {
		return strings.HasSuffix(text, ".") && !strings.Contains(text, ". ") && !strings.ContainsAny(text, "|\n")
	}
	for i, b := range all {
		if !id.MatchString(b.ID) || i > 0 && b.ID <= all[i-1].ID {
			t.Errorf("%s: not in kebab-case, or not after the previous ID", b.ID)
		}
		if !slices.Contains(belief.Kinds(), b.About) {
			t.Errorf("%s: unknown kind %q", b.ID, b.About)
		}
		if !sentence(b.Belief) || !sentence(b.IfFalse) {
			t.Errorf("%s: want one sentence each: %q, %q", b.ID, b.Belief, b.IfFalse)
		}
		if link(b.Source) == "" {
			t.Errorf("%s: the source is neither an https URL nor observed or assumed: %q", b.ID, b.Source)
		}
		if len(b.Code) == 0 {
			t.Errorf("%s: no code relies on it", b.ID)
		}
		for _, symbol := range b.Code {
			if !declared(t, symbol, false) {
				t.Errorf("%s: %s is not declared", b.ID, symbol)
			}
		}
		switch {
		case (b.Fake == "") == (b.NoFake == ""):
			t.Errorf("%s: want either a test of the fake or a reason in NoFake", b.ID)
		case b.Fake != "" && !declared(t, b.Fake, true):
			t.Errorf("%s: %s does not exist", b.ID, b.Fake)
		}
	}
}

// link returns a source in Markdown; empty if it is invalid.
func link(source string) string {
	kind, text, _ := strings.Cut(source, ": ")
	if text != "" && (kind == "observed" || kind == "assumed") {
		return source
	}
	u, err := url.Parse(source)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" {
		return ""
	}
	return fmt.Sprintf("[%s](%s)", u.Host, source)
}

// packages contains the names that a package declares, by its directory and by whether those of its tests are meant.
var packages = map[string]map[string]bool{}

// declared reports whether a symbol, such as generator/plan.Satisfies, is declared in the tests of its package or
// outside them.
func declared(t *testing.T, symbol string, tests bool) bool {
	t.Helper()
	dir, name, _ := strings.Cut(symbol, ".")
	key := fmt.Sprint(dir, tests)
	if packages[key] == nil {
		packages[key] = map[string]bool{}
		files, err := filepath.Glob(filepath.Join(top, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no Go files, %v", symbol, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") == tests {
				declarations(t, file, packages[key])
			}
		}
	}
	return packages[key][name]
}

// declarations adds NAME of each top-level declaration of a file, and TYPE.NAME of methods and fields.
func declarations(t *testing.T, path string, names map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names[d.Name.Name] = true
				continue
			}
			receiver := d.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if of, ok := receiver.(*ast.Ident); ok {
				names[of.Name+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
					if of, ok := s.Type.(*ast.StructType); ok {
						for _, field := range of.Fields.List {
							for _, name := range field.Names {
								names[s.Name.Name+"."+name.Name] = true
							}
						}
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
}

const intro = `# Beliefs about other services

muster's tests run against simulated services, so it relies on these beliefs about Buildkite, git hosts and syncers.
[list.go](../../generator/belief/list.go) names, for each of them, the code that relies on it and the test of the
simulated service. [muster-sim live](../how-to/compare-with-your-accounts.md) compares them with your accounts.
`

// TestPage compares docs/reference/beliefs.md with the list.
func TestPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(intro)
	for _, kind := range belief.Kinds() {
		fmt.Fprintf(&page, "\n## %s\n\n| ID | belief | if false | source |\n|---|---|---|---|\n", kind)
		for _, b := range belief.All() {
			if b.About == kind {
				fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", b.ID, b.Belief, b.IfFalse, link(b.Source))
			}
		}
	}
	file := filepath.Join(top, "docs", "reference", "beliefs.md")
	if *update {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != page.String() {
		t.Errorf("%s is outdated: go test ./generator/belief -args -update (%v)", file, err)
	}
}
