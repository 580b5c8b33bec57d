package fleet

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/generator/plan"
	"muster/gitops/branch"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var update = flag.Bool("update", false, "write what is got into testdata/golden")

// TestGolden runs the cases of testdata/golden. A case's comment says in words
// what it shows and then, after a line "do:", what is done:
//
//	add OVERLAY ID AGENTS PURPOSE    repair OVERLAY    remove OVERLAY ID
//
// each line a commit on its own, chained as in a tick. Its files are those that
// differ from testdata/sound.txtar (a file of only "-" is not there at all),
// and under want/ all that is in the overlays' dispatches/ at the end, what was
// in each commit (want/commits) and which overlays were held (want/held).
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tree := sound(t)
			want, got := files{}, files{}
			var input []txtar.File
			for _, x := range archive.Files {
				if name, ok := strings.CutPrefix(x.Name, "want/"); ok {
					want[name] = string(x.Data)
					continue
				}
				input = append(input, x)
				tree[x.Name] = string(x.Data)
				if tree[x.Name] == "-\n" {
					delete(tree, x.Name)
				}
			}
			sound := golden(t, string(archive.Comment), tree, got)
			if *update {
				archive.Files = input
				for _, name := range got.names() {
					archive.Files = append(archive.Files, txtar.File{Name: "want/" + name, Data: []byte(got[name])})
				}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got; -update takes it over)\n%s", diff)
			}
			builds(t, tree, sound)
		})
	}
}

// golden does what the comment says, and returns the overlays that are sound
// at the end, as a fresh loader sees them.
func golden(t *testing.T, comment string, tree, got files) []Overlay {
	t.Helper()
	overlays := map[string]Overlay{}
	for _, o := range load(t, NewLoader("overlays"), tree.tree()) {
		overlays[o.Name] = o
		if o.Err() != nil {
			got["held"] += o.Name + ": " + o.Err().Error() + "\n"
		}
	}
	_, script, _ := strings.Cut(comment, "do:\n")
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		o := overlays[words[1]]
		next, changes, err := do(t, &o, words)
		got["commits"] += strings.TrimSpace(line) + "\n"
		if err != nil {
			got["commits"] += "  error: " + err.Error() + "\n"
		}
		for _, c := range changes {
			sign := "write"
			if c.Content == nil {
				sign = "remove"
			}
			got["commits"] += "  " + sign + " " + c.Path + "\n"
		}
		overlays[words[1]] = next
		tree.apply(changes)
		if words[0] == "repair" { // which muster pushes before it decides
			for _, o := range load(t, NewLoader("overlays"), tree.tree()) {
				overlays[o.Name] = o
			}
		}
	}
	for _, name := range tree.names() {
		if strings.Contains(name, "/dispatches/") {
			got[name] = tree[name]
		}
	}
	var sound []Overlay
	for _, o := range load(t, NewLoader("overlays"), tree.tree()) {
		if o.Err() == nil {
			sound = append(sound, o)
			if diff := cmp.Diff(overlays[o.Name].Dispatches, o.Dispatches, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: the overlay that followed is not the one that is read (-followed +read)\n%s", o.Path, diff)
			}
			if changes := o.Repair(); changes != nil {
				t.Errorf("%s needs a repair after muster's own commits: %v", o.Path, changes)
			}
		}
	}
	return sound
}

func do(t *testing.T, o *Overlay, words []string) (Overlay, []branch.Change, error) {
	t.Helper()
	switch {
	case words[0] == "repair":
		return *o, o.Repair(), nil
	case words[0] == "remove":
		return o.Remove(words[2:])
	case words[0] == "add" && len(words) == 5:
		n, err := strconv.Atoi(words[3])
		if err != nil {
			t.Fatal(err)
		}
		d := order(words[2], n)
		d.Purpose = plan.Purpose(words[4])
		return o.Add([]plan.Dispatch{d})
	}
	t.Fatalf("what is %q?", words)
	return Overlay{}, nil, nil
}

// builds builds every overlay from a directory on disk, with the library and
// with kubectl where there is one, and finds exactly its dispatches there.
func builds(t *testing.T, tree files, overlays []Overlay) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, tree.tree()); err != nil {
		t.Fatal(err)
	}
	kubectl, _ := exec.LookPath("kubectl")
	for _, o := range overlays {
		at := filepath.Join(dir, o.Path)
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), at)
		if err != nil {
			t.Errorf("%s does not build: %v", o.Path, err)
			continue
		}
		var jobs []string
		for _, r := range resources.Resources() {
			if r.GetKind() == "Job" {
				jobs = append(jobs, r.GetName())
			}
		}
		if diff := cmp.Diff(o.ids(), jobs); diff != "" {
			t.Errorf("%s builds to other Jobs (-want +got)\n%s", o.Path, diff)
		}
		if kubectl == "" {
			continue
		}
		var stderr bytes.Buffer
		cmd := exec.Command(kubectl, "kustomize", at)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("kubectl kustomize %s: %v: %s", o.Path, err, stderr.String())
		}
		for _, id := range o.ids() {
			if !slices.Contains(strings.Split(string(out), "\n"), fmt.Sprintf("  name: %s", id)) {
				t.Errorf("kubectl kustomize %s: no Job %s in\n%s", o.Path, id, out)
			}
		}
	}
}
