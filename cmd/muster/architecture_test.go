package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the path that every package of this module starts with.
const module = "muster/"

// listed is what `go list` says of a package, test files left out.
type listed struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
	Standard         bool
}

// listPackages returns the module's packages and everything that they import,
// by import path.
func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,Standard", "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// reached returns, sorted, all that a package imports, directly or not.
func reached(packages map[string]listed, from string) []string {
	seen := map[string]bool{}
	next := []string{from}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		for _, to := range packages[path].Imports {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	var all []string
	for path := range seen {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

// imports says for each package of the module which others of the module it may
// import: the rule of docs/design.md. "*" is any but commands. Test files may
// import what they like, and so the packages that exist for tests and for the
// demo are here too: they hold no decision, and nothing that decides imports them.
func imports() map[string][]string {
	return map[string][]string{
		"cmd/muster":          {"*", "cmd/muster/chart", "cmd/muster/page", "cmd/muster/terminal"},
		"cmd/muster/chart":    {},
		"cmd/muster/page":     {"cmd/muster/chart", "generator", "generator/plan", "generator/status", "gitops/branch", "gitops/ledger"},
		"cmd/muster/terminal": {},

		"generator":            {"generator/plan", "generator/manifest", "generator/kustomize", "gitops/branch", "gitops/ledger"},
		"generator/plan":       {},
		"generator/manifest":   {"generator/plan", "generator/kubernetes", "generator/kustomize", "gitops/branch"},
		"generator/kubernetes": {},
		"generator/kustomize":  {},
		"generator/buildkite":  {"generator/plan"},
		"generator/status":     {"generator", "generator/plan", "gitops/ledger"},
		"generator/history":    {"generator/plan", "generator/manifest", "gitops/branch", "gitops/ledger"},
		"generator/metrics":    {"generator", "generator/status", "generator/plan", "gitops/ledger"},
		"gitops":               {"gitops/branch", "gitops/git", "gitops/ledger", "gitops/traffic"},
		"gitops/branch":        {},
		"gitops/canary":        {},
		"gitops/traffic":       {},
		"gitops/git":           {"gitops/branch", "gitops/traffic"},
		"gitops/github":        {"gitops/branch", "gitops/git"},
		"gitops/ledger":        {"generator/plan", "gitops/branch"},
		"base":                 {},
		"deploy":               {},
		"overlays":             {},

		"generator/buildkite/fakebuildkite": {"generator/plan"},
		"generator/simulation":              {"generator/plan", "generator/manifest", "generator/buildkite/fakebuildkite"},
		"gitops/github/githubtest":          {"gitops/gitserver"},
		"gitops/gitserver":                  {"gitops/branch"},
		"gitops/writertest":                 {"gitops", "gitops/branch", "gitops/git", "gitops/gitserver"},
	}
}

// TestImportsRunOneWay holds every package to the table, and plan to the
// standard library.
func TestImportsRunOneWay(t *testing.T) {
	packages := listPackages(t)
	rule := imports()
	for path, p := range packages {
		from, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		allowed, known := rule[from]
		if !known {
			t.Errorf("%s is new: say in the table what it may import", path)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module)
			free := slices.Contains(allowed, to) || slices.Contains(allowed, "*") && !strings.HasPrefix(to, "cmd/")
			if ours && !free {
				t.Errorf("%s imports %s: it may import %q", path, imported, allowed)
			}
		}
	}
	for from := range rule {
		if _, ok := packages[module+from]; !ok {
			t.Errorf("the table names %s, which is no package any more", from)
		}
	}
	for _, to := range reached(packages, module+"generator/plan") {
		if !packages[to].Standard {
			t.Errorf("generator/plan reaches %s: it may import the standard library alone", to)
		}
	}
}

// TestNoKubernetesClient: the binary cannot talk to the Kubernetes API. Of what
// the Kubernetes projects publish it holds three modules: kustomize, which
// renders; sigs.k8s.io/yaml; and k8s.io/kube-openapi, which kustomize needs to
// merge lists in patches. The last describes the API's types and holds no
// client: it opens no connection. Nor does the binary hold the package
// testing, whose flags would become muster's.
func TestNoKubernetesClient(t *testing.T) {
	binary := reached(listPackages(t), module+"cmd/muster")
	if !slices.Contains(binary, "sigs.k8s.io/kustomize/api/krusty") {
		t.Fatal("the binary does not hold kustomize: this test looks at the wrong thing")
	}
	allowed := []string{"sigs.k8s.io/kustomize/", "sigs.k8s.io/yaml", "k8s.io/kube-openapi/"}
	for _, path := range binary {
		host, _, _ := strings.Cut(path, "/")
		theirs := host == "k8s.io" || host == "sigs.k8s.io"
		if theirs && !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
			t.Errorf("the binary contains %s", path)
		}
		if path == "testing" {
			t.Error("the binary contains the package testing")
		}
	}
}

// TestNoHiddenInputs holds what is below cmd to three rules. It reads neither
// the machine's clock nor its environment: both are passed in. It has no func
// init. And a variable of a package is what it was declared as: no statement
// assigns it or a part of it, empties or overwrites it with a builtin function,
// or takes its address, and its type is none of those that exist to be changed
// (sync, sync/atomic). A mutex is allowed: it
// holds no value. So sentinel errors, regular expressions, embedded files and
// lookup tables pass, and caches, counters and registries do not.
func TestNoHiddenInputs(t *testing.T) {
	looked := 0
	for path, p := range listPackages(t) {
		if below, ours := strings.CutPrefix(path, module); !ours || strings.HasPrefix(below, "cmd/") {
			continue
		}
		var files []*ast.File
		set := token.NewFileSet()
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
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
	if err != nil {
		t.Fatal(err)
	}
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
			if name := root(e); name != nil {
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
				if name, ok := n.Fun.(*ast.Ident); ok && changes(info, name) && len(n.Args) > 0 {
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

// changes reports whether a name is that of a builtin function that changes its
// first argument.
func changes(info types.Info, name *ast.Ident) bool {
	_, builtin := info.Uses[name].(*types.Builtin)
	return builtin && slices.Contains([]string{"clear", "copy", "delete"}, name.Name)
}

// changeable reports whether a variable is declared with something of sync or
// sync/atomic other than a mutex.
func changeable(info types.Info, v *ast.ValueSpec) bool {
	is := false
	for _, e := range append([]ast.Expr{v.Type}, v.Values...) {
		if e == nil {
			continue
		}
		ast.Inspect(e, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				path := packageOf(info, s.X)
				is = is || path == "sync/atomic" || path == "sync" && s.Sel.Name != "Mutex"
			}
			return true
		})
	}
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

// root returns the variable that an expression is or is a part of, or nil.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not looked up") }

// TestUnusedMethodsAreLeftOut looks for two methods of a large library in the
// program: one that is called and one that is not. Whatever calls methods by a
// name that is only known at run time, as text/template does, keeps every method
// of every library in: twenty megabytes, of which much is resident.
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "muster")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building muster: %v\n%s", err, out)
	}
	symbols, err := exec.Command("go", "tool", "nm", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]bool{"(*GitService).CreateCommit": true, "(*GitService).DeleteRef": false} {
		if got := bytes.Contains(symbols, []byte("/github."+method+"\n")); got != want {
			t.Errorf("%s is in the program: %t, want %t", method, got, want)
		}
	}
}
