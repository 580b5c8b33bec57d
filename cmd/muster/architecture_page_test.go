package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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
	named := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|([^|]*)\\|$").FindAllStringSubmatch(between(t, page, "\n## Packages\n"), -1) {
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
		if found++; !declared[name] {
			t.Errorf("%s names %s, which is not declared", architecturePage, name)
		}
	}
	if found < 50 {
		t.Errorf("found %d identifiers only", found)
	}
}

// between returns the text below a heading of the second level, with the headings below it.
func between(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, heading)
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// declarations returns what the program's packages declare: pkg.Name of functions, types,
// variables and constants, and Type.Member of methods and fields.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(imports())) {
		files, err := filepath.Glob(filepath.Join(top, filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				declare(all, parsed.Name.Name, d)
			}
		}
	}
	return all
}

// declare adds what a declaration declares.
func declare(all map[string]bool, pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			all[pkg+"."+d.Name.Name] = true
			return
		}
		ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
			if receiver, ok := n.(*ast.Ident); ok {
				all[receiver.Name+"."+d.Name.Name] = true
			}
			return true
		})
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					all[pkg+"."+name.Name] = true
				}
			case *ast.TypeSpec:
				all[pkg+"."+spec.Name.Name] = true
				for _, name := range members(spec.Type) {
					all[spec.Name.Name+"."+name] = true
				}
			}
		}
	}
}

// members returns the names of a type's fields or of an interface's methods.
func members(of ast.Expr) (names []string) {
	var fields *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return nil
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}
