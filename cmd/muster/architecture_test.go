package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// deps lists everything that packages import, directly or not.
func deps(t *testing.T, packages ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps"}, packages...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// TestImportsRunOneWay holds the rule of docs/design.md: cmd → generator,
// gitops; generator → plan, manifest; manifest, buildkite, gitops → plan;
// plan → the standard library.
func TestImportsRunOneWay(t *testing.T) {
	for from, allowed := range map[string][]string{
		"muster/generator/plan":      {},
		"muster/generator/manifest":  {"muster/generator/plan"},
		"muster/generator/buildkite": {"muster/generator/plan"},
		"muster/gitops":              {"muster/generator/plan"},
		"muster/gitops/github":       {"muster/generator/plan", "muster/gitops"},
		"muster/generator":           {"muster/generator/plan", "muster/generator/manifest"},
	} {
		for _, to := range deps(t, from) {
			if strings.HasPrefix(to, "muster/") && to != from && !contains(allowed, to) {
				t.Errorf("%s imports %s", from, to)
			}
			if first, _, _ := strings.Cut(to, "/"); from == "muster/generator/plan" && strings.Contains(first, ".") {
				t.Errorf("%s imports %s, which is not of the standard library", from, to)
			}
		}
	}
}

// TestNoKubernetesClient: the binary cannot talk to the Kubernetes API.
// kustomize brings k8s.io/kube-openapi, which describes the API and cannot
// reach it.
func TestNoKubernetesClient(t *testing.T) {
	for _, to := range deps(t, "./cmd/muster") {
		if strings.HasPrefix(to, "k8s.io/") && !strings.HasPrefix(to, "k8s.io/kube-openapi/") {
			t.Errorf("the binary contains %s", to)
		}
		if to == "testing" {
			t.Error("the binary contains the package testing")
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestNoHiddenInputs: below cmd, nothing reads the machine's clock or
// environment, nothing runs by being imported, and no variable of a package is
// ever assigned. (Deadlines for the network are the exception: they are no
// input to any decision.)
func TestNoHiddenInputs(t *testing.T) {
	hidden := map[string]bool{"time.Now": true, "time.Since": true, "os.Getenv": true, "os.LookupEnv": true, "os.Environ": true}
	for _, top := range []string{"generator", "gitops", "base", "overlays"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			globals := map[string]bool{}
			for _, decl := range file.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					if d.Name.Name == "init" && d.Recv == nil {
						t.Errorf("%s: func init", set.Position(d.Pos()))
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
							for _, name := range v.Names {
								globals[name.Name] = true
							}
						}
					}
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.SelectorExpr:
					if p, ok := x.X.(*ast.Ident); ok && p.Obj == nil && hidden[p.Name+"."+x.Sel.Name] {
						t.Errorf("%s: %s.%s", set.Position(x.Pos()), p.Name, x.Sel.Name)
					}
				case *ast.AssignStmt:
					for _, left := range x.Lhs {
						if name, ok := left.(*ast.Ident); ok && x.Tok == token.ASSIGN && globals[name.Name] && name.Obj != nil && name.Obj.Pos() < file.End() && isGlobal(file, name) {
							t.Errorf("%s: the package's variable %s is assigned", set.Position(x.Pos()), name.Name)
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// isGlobal reports whether a name stands for a variable of the package.
func isGlobal(file *ast.File, name *ast.Ident) bool {
	return file.Scope != nil && file.Scope.Lookup(name.Name) == name.Obj
}
