package record

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/yaml"
)

const root = "../../.."

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTableIsOfThisBase: what was tried is what is here.
func TestTableIsOfThisBase(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, Page))
	must(t, err)
	tried, err := Of(page, Whole)
	must(t, err)
	now, err := Sum(os.DirFS(root))
	must(t, err)
	if tried != now {
		t.Errorf("%s is of %s, and the files of %s are now %s: run make e2e, which writes the table", Page, tried, strings.Join(Tried, ", "), now)
	}
}

// TestSumSeesChanges: each file counts, its name too.
func TestSumSeesChanges(t *testing.T) {
	files := func() fstest.MapFS {
		return fstest.MapFS{
			"base/job.yaml": {Data: []byte("a")}, "overlays/default/scaling.yaml": {Data: []byte("b")},
			"deploy/syncers/flux/overlay.yaml": {Data: []byte("c")}, "base/embed.go": {Data: []byte("d")},
			"deploy/base/deployment.yaml": {Data: []byte("e")}, "deploy/release/go.mod": {Data: []byte("f")},
			"deploy/base/kustomization.yaml": {Data: []byte("# comment\nimages:\n  - name: muster\n    newTag: v1\n")},
		}
	}
	first, err := Sum(files())
	must(t, err)
	for _, c := range []struct {
		change func(fstest.MapFS)
		same   bool
	}{
		{func(fs fstest.MapFS) { fs["base/job.yaml"] = &fstest.MapFile{Data: []byte("x")} }, false},
		{func(fs fstest.MapFS) { fs["base/more.yaml"] = &fstest.MapFile{} }, false},
		{func(fs fstest.MapFS) {
			delete(fs, "deploy/syncers/flux/overlay.yaml")
			fs["deploy/syncers/x"] = &fstest.MapFile{}
		}, false},
		{func(fs fstest.MapFS) { fs["deploy/base/deployment.yaml"] = &fstest.MapFile{Data: []byte("x")} }, false},
		{func(fs fstest.MapFS) { fs["deploy/components/service/service.yaml"] = &fstest.MapFile{} }, false},
		{func(fs fstest.MapFS) {
			fs["deploy/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("images:\n  - name: x\n    newTag: v1\n")}
		}, false},
		{func(fs fstest.MapFS) { fs["base/job.yaml"] = &fstest.MapFile{Data: []byte("a# comment\n#\n")} }, false},
		{func(fs fstest.MapFS) { fs["base/job.yaml"] = &fstest.MapFile{Data: []byte("  # comment\n#\na")} }, true},
		{func(fs fstest.MapFS) { fs["base/job.yaml"] = &fstest.MapFile{Data: []byte("  #!/bin/sh\na")} }, false},
		{func(fs fstest.MapFS) { fs["base/job.yaml"] = &fstest.MapFile{Data: []byte("  newTag: 3.1\na")} }, false},
		{func(fs fstest.MapFS) {
			fs["deploy/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("images:\n  - name: muster\n    # comment\n    newTag: v2\n")}
		}, true},
		{func(fs fstest.MapFS) { fs["deploy/components/alerts/prometheusrule.yaml"] = &fstest.MapFile{} }, true},
		{func(fs fstest.MapFS) { fs["deploy/release/go.mod"] = &fstest.MapFile{Data: []byte("x")} }, true},
		{func(fs fstest.MapFS) { fs["base/embed.go"] = &fstest.MapFile{Data: []byte("x")} }, true},
	} {
		fs := files()
		c.change(fs)
		if sum, err := Sum(fs); err != nil || (sum == first) != c.same {
			t.Errorf("the sum is %s, %v; before it was %s", sum, err, first)
		}
	}
}

// TestApplicationSet: the ApplicationSet that the docs tell makes Applications as init
// writes them, but for the overlay's name.
func TestApplicationSet(t *testing.T) {
	type application struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	var set struct {
		Spec struct {
			Template application `json:"template"`
		} `json:"spec"`
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/how-to/configure-argo-cd.md"))
	must(t, err)
	text, err := Block(page, "applicationset")
	must(t, err)
	text = bytes.ReplaceAll(text, []byte("{{.path.path}}"), []byte("overlays/default"))
	text = bytes.ReplaceAll(text, []byte("{{.path.basenameNormalized}}"), []byte("default"))
	must(t, yaml.Unmarshal(text, &set))
	written, err := os.ReadFile(filepath.Join(root, "deploy/syncers/argocd/overlay.yaml"))
	must(t, err)
	var want application
	must(t, yaml.Unmarshal(written, &want))
	delete(want.Metadata, "namespace") // that of the ApplicationSet
	if got := set.Spec.Template; !reflect.DeepEqual(got, want) {
		t.Errorf("the ApplicationSet makes %v, and init writes %v", got, want)
	}
}

// TestReplace: the table is between the markers, and says of what it is.
func TestReplace(t *testing.T) {
	run := Run{
		Date: "2026-11-22", Sum: "abc", Syncers: []string{"flux", "argocd"}, Versions: []string{"Kubernetes"},
		Promises: []Promise{{Text: "p", Test: "T", Held: map[string]bool{"flux": true}}},
		Figures:  []Figure{{Text: "f", Values: map[string]string{"flux": "1 s", "argocd": "2 s"}}},
	}
	begin, end := markers(Whole)
	page, err := Replace(slices.Concat([]byte("before\n"), begin, []byte("old\n"), end, []byte("after\n")), Whole, run.Markdown())
	must(t, err)
	for _, want := range []string{"before\n", "\nResult: passed with Flux, not run with Argo CD.\n\n- p (`T`)\n", "| f | 1 s | 2 s |", string(end) + "after\n"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if sum, err := Of(page, Whole); sum != "abc" || err != nil {
		t.Errorf("the page is of %q, %v", sum, err)
	}
	run.Promises = append(run.Promises,
		Promise{Text: "q", Test: "U", Held: map[string]bool{"flux": false, "argocd": true}},
		Promise{Text: "r", Test: "V", Held: map[string]bool{"flux": true}})
	run.Brief = true
	want := "Result: passed with Flux, not run with Argo CD.\n\n`T`,\n`V`\n\nResult: passed with Argo CD, **failed** with Flux.\n\n`U`\n"
	if text := run.Markdown(); !strings.Contains(text, want) {
		t.Errorf("a brief run lacks\n%s:\n%s", want, text)
	}
	if _, err := Replace([]byte("no markers"), Whole, ""); err == nil {
		t.Error("a page without markers was taken")
	}
}
