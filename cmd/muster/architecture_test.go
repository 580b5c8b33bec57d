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

// imports lists, for each package of the module, the others that it may
// import: the rule of docs/architecture.md. "*" is any but commands. Test files may
// import what they like, and so the packages that exist for tests and for the
// demo are here too: they hold no decision, and nothing that decides imports them.
func imports() map[string][]string {
	return map[string][]string{
		"cmd/muster":        {"*", "cmd/muster/chart", "cmd/muster/output", "cmd/muster/page"},
		"cmd/muster/chart":  {},
		"cmd/muster/output": {"cmd/muster/chart", "generator", "generator/advice", "generator/condition", "generator/explanation", "generator/finding", "generator/fleet", "generator/history", "generator/ledger", "generator/plan", "generator/simulation"},
		"cmd/muster/page":   {"cmd/muster/chart", "cmd/muster/output", "generator", "generator/condition", "generator/history", "generator/ledger", "generator/plan", "generator/report", "generator/status", "gitops/branch"},

		"base":                         {},
		"deploy":                       {},
		"generator":                    {"generator/condition", "generator/fleet", "generator/kustomize", "generator/ledger", "generator/plan", "generator/policy", "gitops/branch"},
		"generator/advice":             {"generator/history", "generator/plan", "generator/policy", "generator/simulation"},
		"generator/buildkite":          {"generator/buildkite/steptime", "generator/plan"},
		"generator/buildkite/steptime": {},
		"generator/condition":          {"generator/plan"},
		"generator/explanation":        {"generator/condition", "generator/fleet", "generator/history", "generator/ledger", "generator/plan", "generator/policy", "generator/verification", "gitops/branch"},
		"generator/finding":            {},
		"generator/fleet":              {"generator/finding", "generator/kubernetes", "generator/kustomize", "generator/plan", "generator/policy", "gitops/branch"},
		"generator/history":            {"generator/ledger", "generator/plan", "generator/policy", "gitops/branch"},
		"generator/kubernetes":         {"generator/finding"},
		"generator/kustomize":          {},
		"generator/ledger":             {"generator/plan", "gitops/branch"},
		"generator/manual":             {"generator/finding", "generator/fleet", "generator/history", "generator/ledger", "generator/plan", "generator/policy", "gitops/branch"},
		"generator/metrics":            {"generator", "generator/condition", "generator/ledger", "generator/plan", "generator/status"},
		"generator/plan":               {},
		"generator/policy":             {"generator/finding", "generator/plan"},
		"generator/preview":            {"generator/finding", "generator/fleet", "generator/history", "generator/ledger", "generator/plan", "generator/simulation"},
		"generator/report":             {"generator/history", "generator/ledger", "gitops/branch"},
		"generator/status":             {"generator", "generator/condition", "generator/ledger", "generator/plan"},
		"generator/verification":       {"generator", "generator/fleet", "generator/history", "generator/ledger", "generator/plan", "gitops/branch"},
		"generator/webhook":            {"generator"},
		"gitops":                       {"gitops/branch", "gitops/git", "gitops/git/remote"},
		"gitops/branch":                {},
		"gitops/git":                   {"gitops/branch", "gitops/git/remote"},
		"gitops/git/remote":            {"gitops/branch"},
		"gitops/github":                {"gitops/branch", "gitops/git/remote"},
		"gitops/notify":                {"gitops/branch"},
		"overlays":                     {},

		"generator/buildkite/fakebuildkite": {"generator/buildkite/steptime", "generator/plan"},
		"generator/markdowntest":            {},
		"generator/simulation":              {"generator/buildkite/fakebuildkite", "generator/buildkite/steptime", "generator/plan"},
		"gitops/canarytest":                 {},
		"gitops/github/githubtest":          {"gitops/gitserver"},
		"gitops/gitserver":                  {"gitops/branch"},
		"gitops/unraced":                    {},
		"gitops/writertest":                 {"gitops/branch", "gitops/gitserver"},
	}
}

// TestImportsRunOneWay asserts that every package imports only what the table allows, and that
// plan imports only the standard library.
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

// TestUnusedMethodsAreLeftOut looks for two methods of a large library in the
// program: one that is called and one that is not. Whatever calls methods by a
// name that is only known at run time, as text/template does, keeps every method
// of every library in: twenty megabytes, of which much is resident.
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	t.Parallel()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
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
