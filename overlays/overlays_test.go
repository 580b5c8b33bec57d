package overlays

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"muster/base"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// write lays a fleet repository out as "muster init" does.
func write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "base"), base.Files); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "overlays"), Files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// built is what each directory of a new overlay builds to.
func built() map[string][]string {
	return map[string][]string{
		"overlays/default/template":   {"Job buildkite/muster-agent"},
		"overlays/default/dispatches": nil,
		"overlays/default":            {"ConfigMap buildkite/muster-default"},
	}
}

func TestNewFleetBuilds(t *testing.T) {
	dir := write(t)
	for path, want := range built() {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
			Run(filesys.MakeFsOnDisk(), filepath.Join(dir, path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var got []string
		for _, r := range resources.Resources() {
			got = append(got, r.GetKind()+" "+r.GetNamespace()+"/"+r.GetName())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s builds to (-want +got):\n%s", path, diff)
		}
	}
}

// kubectl carries a kustomize of its own, often another version than muster's.
func TestNewFleetBuildsWithKubectl(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("this machine has no kubectl")
	}
	dir := write(t)
	for path := range built() {
		cmd := exec.Command(kubectl, "kustomize", path)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl kustomize %s: %v\n%s", path, err, out)
		}
	}
}

func TestFilesAreComplete(t *testing.T) {
	var names []string
	err := fs.WalkDir(Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"default/configmap.yaml",
		"default/dispatches/kustomization.yaml",
		"default/kustomization.yaml",
		"default/scaling.yaml",
		"default/template/kustomization.yaml",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("embedded files (-want +got):\n%s", diff)
	}
}
