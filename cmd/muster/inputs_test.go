package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/gitops/unraced"
)

// TestNoHiddenInputs holds what is below cmd to three rules. It reads neither
// the machine's clock nor its environment: both are passed in. It has no func
// init. And a variable of a package is what it was declared as: no statement
// assigns it or a part of it, empties or overwrites it with a builtin function,
// or takes its address, and its type is none of those that exist to be changed
// (sync, sync/atomic). A mutex is allowed: it
// holds no value. So sentinel errors, regular expressions, embedded files and
// lookup tables pass, and caches, counters and registries do not.
func TestNoHiddenInputs(t *testing.T) {
	unraced.Only(t)
	looked := 0
	for path, p := range listPackages(t) {
		if below, ours := strings.CutPrefix(path, module); !ours || strings.HasPrefix(below, "cmd/") {
			continue
		}
		var files []*ast.File
		set := token.NewFileSet()
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			check(t, err)
			files = append(files, file)
		}
		looked += len(files)
		for _, finding := range hiddenInputs(set, files) {
			t.Error(finding)
		}
	}
	if looked < 50 {
		t.Errorf("looked at %d files: where are the others?", looked)
	}
}

// TestHiddenInputsAreFound: the rules of TestNoHiddenInputs bite.
func TestHiddenInputsAreFound(t *testing.T) {
	const source = `package p

import (
	"errors"
	clock "time"
	"os"
	"sync"
)

var (
	errFine = errors.New("fine")
	table   = map[string]int{"fine": 1}
	lock    sync.Mutex
	once    sync.Once // 14
	count   int
	list    = []int{1, 2} // read alone, it would be fine
)

func init() {} // 19

func f() {
	lock.Lock()
	_ = clock.Now // 23
	_ = os.Getenv("X") // 24
	table["x"] = 2 // 25
	count++ // 26
	_ = &count // 27
	for count = range 3 { // 28
	}
	delete(table, "x") // 30
	clear(table) // 31
	copy(list[1:], list) // 32
	table := map[string]int{}
	table["fine"] = 3
	delete(table, "fine")
}
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, parser.SkipObjectResolution)
	check(t, err)
	var got []string
	for _, finding := range hiddenInputs(set, []*ast.File{file}) {
		got = append(got, strings.Split(finding, ":")[1])
	}
	slices.Sort(got)
	if want := []string{"14", "19", "23", "24", "25", "26", "27", "28", "30", "31", "32"}; !slices.Equal(got, want) {
		t.Errorf("found something on the lines %v, want %v", got, want)
	}
}

// hiddenInputs returns where a package breaks a rule of [TestNoHiddenInputs].
func hiddenInputs(set *token.FileSet, files []*ast.File) []string {
	// Imports are not looked up: what belongs to this package is known without.
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImporter{}, Error: func(error) {}}
	pkg, _ := config.Check("p", set, files, &info) // errors are of the imports left out
	var findings []string
	found := func(n ast.Node, format string, args ...any) {
		findings = append(findings, fmt.Sprintf("%s: ", set.Position(n.Pos()))+fmt.Sprintf(format, args...))
	}
	changed := func(what string, targets ...ast.Expr) {
		for _, e := range targets {
			if e != nil {
				name := root(e)
				if v, ok := info.Uses[name].(*types.Var); ok && v.Parent() == pkg.Scope() {
					found(name, "the package's variable %s is %s", name.Name, what)
				}
			}
		}
	}
	forbidden := map[string][]string{"time": {"Now", "Since", "Until"}, "os": {"Getenv", "LookupEnv", "Environ", "ExpandEnv"}}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					found(d, "func init")
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR && changeable(info, v) {
						found(v, "the package's variable %s exists to be changed", v.Names[0].Name)
					}
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if path := packageOf(info, n.X); slices.Contains(forbidden[path], n.Sel.Name) {
					found(n, "%s.%s", path, n.Sel.Name)
				}
			case *ast.AssignStmt:
				changed("assigned", n.Lhs...)
			case *ast.IncDecStmt:
				changed("assigned", n.X)
			case *ast.CallExpr:
				name, _ := n.Fun.(*ast.Ident)
				_, builtin := info.Uses[name].(*types.Builtin)
				if builtin && slices.Contains([]string{"clear", "copy", "delete"}, name.Name) {
					changed("changed by "+name.Name, n.Args[0])
				}
			case *ast.RangeStmt:
				changed("assigned", n.Key, n.Value)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					changed("given away by its address", n.X)
				}
			}
			return true
		})
	}
	return findings
}

// changeable reports whether a variable is declared with something of sync or
// sync/atomic other than a mutex.
func changeable(info types.Info, v *ast.ValueSpec) bool {
	is := false
	ast.Inspect(v, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			path := packageOf(info, s.X)
			is = is || path == "sync/atomic" || path == "sync" && s.Sel.Name != "Mutex"
		}
		return true
	})
	return is
}

// packageOf returns the path of the package that an expression names, or "".
func packageOf(info types.Info, e ast.Expr) string {
	if name, ok := e.(*ast.Ident); ok {
		if p, ok := info.Uses[name].(*types.PkgName); ok {
			return p.Imported().Path()
		}
	}
	return ""
}

// root returns the first name in an expression, as x in x.y[0]; nil if it has none.
func root(e ast.Expr) (name *ast.Ident) {
	ast.Inspect(e, func(n ast.Node) bool {
		if i, ok := n.(*ast.Ident); ok && name == nil {
			name = i
		}
		return name == nil
	})
	return name
}

type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not looked up") }
