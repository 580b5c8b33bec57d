package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"muster/gitops/gitserver"
)

// TestEveryCommitBuilds plays an hour and checks out every commit: kustomize's
// library builds each, and kubectl's every tenth.
func TestEveryCommitBuilds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	var out, progress bytes.Buffer
	if err := playDemo(t.Context(), &out, &progress, dir, time.Hour); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if progress.Len() == 0 {
		t.Error("no progress was shown")
	}
	repository := gitserver.Repository{Dir: filepath.Join(dir, "fleet.git")}
	list, err := repository.Git("rev-list", "--reverse", "main")
	if err != nil {
		t.Fatal(err)
	}
	commits := strings.Fields(list)
	if len(commits) < 10 {
		t.Fatalf("an hour made %d commits", len(commits))
	}
	if log, _ := repository.Git("log", "--oneline"); !strings.Contains(out.String(), log) {
		t.Error("the demo does not end in the log of its repository")
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Log("kubectl is not on the path: only kustomize's library builds the commits")
	}
	work := t.TempDir()
	for i, commit := range commits {
		if _, err := repository.Git("--work-tree="+work, "checkout", "--quiet", "--force", commit, "--", "."); err != nil {
			t.Fatal(err)
		}
		overlay := filepath.Join(work, "overlays", "default")
		if _, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay); err != nil {
			t.Errorf("commit %d, %s: %v", i, commit, err)
		}
		if kubectl != "" && i%10 == 0 {
			if text, err := exec.Command(kubectl, "kustomize", overlay).CombinedOutput(); err != nil {
				t.Errorf("commit %d, %s: kubectl kustomize: %v\n%s", i, commit, err, text)
			}
		}
	}
	if out, err := repository.Git("fsck", "--strict"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDemoTwice: the same morning gives the same commits, and a directory that
// holds something else is left alone.
func TestDemoTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	var heads []string
	for range 2 {
		if err := playDemo(t.Context(), &bytes.Buffer{}, &bytes.Buffer{}, dir, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		head, err := gitserver.Repository{Dir: filepath.Join(dir, "fleet.git")}.Head()
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
	}
	if heads[0] != heads[1] {
		t.Errorf("two mornings from one seed end in %s and %s", heads[0], heads[1])
	}
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := playDemo(t.Context(), &bytes.Buffer{}, &bytes.Buffer{}, dir, time.Minute)
	if exitCode(err) != exitUsage {
		t.Errorf("a directory that holds something else: %v", err)
	}
}
