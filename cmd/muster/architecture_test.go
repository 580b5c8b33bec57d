package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/gitops/unraced"
)

// module is the path that every package of this module starts with.
const module = "muster/"

// listed is a package in the output of go list, without test files.
type listed struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
	Standard         bool
	Module           *linkedModule
}

// listPackages returns the module's packages and everything that they import on Linux, by
// import path.
func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	packages, err := goList()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return packages
}

var goList = sync.OnceValues(func() (map[string]listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,Standard,Module", "./...")
	cmd.Dir = top
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.Output()
	packages := map[string]listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); err == nil && decoder.More(); {
		var p listed
		err = decoder.Decode(&p)
		packages[p.ImportPath] = p
	}
	return packages, err
})

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
	return slices.Sorted(maps.Keys(seen))
}

// TestImportsRunOneWay asserts that every package imports only what the tables of
// docs/architecture.md allow, and that plan imports only the standard library. Test files may
// import what they like, and so the packages that exist for tests and for the demo are in the
// tables too: nothing that decides imports them.
func TestImportsRunOneWay(t *testing.T) {
	packages := listPackages(t)
	rule := allowedImports(t)
	for path, p := range packages {
		from, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		allowed, known := rule[from]
		if !known {
			t.Errorf("%s is new: list in %s what it may import", path, architecturePage)
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
			t.Errorf("%s lists %s, which is no package", architecturePage, from)
		}
	}
	for _, to := range reached(packages, module+"generator/plan") {
		if !packages[to].Standard {
			t.Errorf("generator/plan reaches %s: it may import the standard library alone", to)
		}
	}
}

// TestNoKubernetesClient asserts that the binary contains no client of the Kubernetes API. Of
// what the Kubernetes projects publish, it contains kustomize, which renders;
// sigs.k8s.io/yaml; k8s.io/kube-openapi, which kustomize needs to merge lists in patches; and
// of k8s.io/apimachinery the rules for quantities and names, with the packages that these
// import. None of them opens a connection. Nor does the binary contain the package testing,
// whose flags would become muster's.
func TestNoKubernetesClient(t *testing.T) {
	binary := reached(listPackages(t), module+"cmd/muster")
	if !slices.Contains(binary, "sigs.k8s.io/kustomize/api/krusty") {
		t.Fatal("the binary does not hold kustomize: this test looks at the wrong thing")
	}
	allowed := []string{
		"sigs.k8s.io/kustomize/", "sigs.k8s.io/yaml", "k8s.io/kube-openapi/",
		"k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/api/validate/", "k8s.io/apimachinery/pkg/util/validation",
		"k8s.io/apimachinery/pkg/runtime/serializer/cbor/", "k8s.io/apimachinery/pkg/util/errors", "k8s.io/apimachinery/pkg/util/sets",
		"k8s.io/klog/v2", "k8s.io/utils/net", "k8s.io/utils/internal/third_party/forked/golang/net", "sigs.k8s.io/json",
	}
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

// TestNoSimulator asserts that muster contains no simulator, fake or test server: they are muster-sim's.
func TestNoSimulator(t *testing.T) {
	packages := listPackages(t)
	laboratory := reached(packages, module+"cmd/muster-sim")
	muster := reached(packages, module+"cmd/muster")
	for _, path := range []string{"cmd/laboratory", "generator/buildkite/fakebuildkite", "generator/preview", "generator/simulation", "gitops/gitserver"} {
		if !slices.Contains(laboratory, module+path) {
			t.Errorf("muster-sim does not contain %s: this test looks for the wrong packages", path)
		}
		if slices.Contains(muster, module+path) {
			t.Errorf("muster contains %s", path)
		}
	}
	if slices.Contains(muster, module+"generator/belief") {
		t.Error("muster contains generator/belief, which is for tests and muster-sim")
	}
}

// TestUnusedMethodsAreLeftOut looks for two methods of a large library in the
// program: one that is called and one that is not. Whatever calls methods by a
// name that is only known at run time, as text/template does, keeps every method
// of every library in: twenty megabytes, of which much is resident.
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	unraced.Only(t)
	t.Parallel()
	binary, err := built()
	check(t, err)
	symbols, err := exec.Command("go", "tool", "nm", binary).Output()
	check(t, err)
	for method, want := range map[string]bool{"(*GitService).CreateCommit": true, "(*GitService).DeleteRef": false} {
		if got := bytes.Contains(symbols, []byte("/github."+method+"\n")); got != want {
			t.Errorf("%s is in the program: %t, want %t", method, got, want)
		}
	}
}
