package laboratory

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestEveryCommitBuilds plays an hour and checks out every commit: kustomize's
// library builds an overlay of each, and kubectl's of some.
func TestEveryCommitBuilds(t *testing.T) {
	unraced.Only(t)
	dir := filepath.Join(t.TempDir(), "demo")
	var out, lines bytes.Buffer
	if err := playDemo(t.Context(), &out, &lines, demoSettings{dir: dir, length: time.Hour, invocation: "muster"}); err != nil {
		t.Fatalf("%v\n%s", err, lines.String())
	}
	repository := gitserver.Repository{Dir: filepath.Join(dir, "fleet.git")}
	list, err := repository.Git("rev-list", "--reverse", "main")
	check(t, err)
	commits := strings.Fields(list)
	if len(commits) < 10 {
		t.Fatalf("an hour made %d commits", len(commits))
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Log("kubectl is not on the path: only kustomize's library builds the commits")
	}
	work := t.TempDir()
	for i, commit := range commits {
		_, err := repository.Git("--work-tree="+work, "checkout", "--quiet", "--force", commit, "--", ".")
		check(t, err)
		overlay := filepath.Join(work, "overlays", demoQueues[i%len(demoQueues)])
		if _, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay); err != nil {
			t.Errorf("commit %d, %s: %v", i, commit, err)
		}
		if kubectl != "" && i%9 == 0 {
			if text, err := exec.Command(kubectl, "kustomize", overlay).CombinedOutput(); err != nil {
				t.Errorf("commit %d, %s: kubectl kustomize: %v\n%s", i, commit, err, text)
			}
		}
	}
	if out, err := repository.Git("fsck", "--strict"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDemoIsDeterministic asserts that the same morning makes the same commits, and that the
// demo does not replace a directory with other content.
func TestDemoIsDeterministic(t *testing.T) {
	unraced.Only(t)
	dir := filepath.Join(t.TempDir(), "demo")
	var heads []string
	for range 2 {
		check(t, playDemo(t.Context(), io.Discard, io.Discard, demoSettings{dir: dir, length: 20 * time.Minute}))
		head, err := gitserver.Repository{Dir: filepath.Join(dir, "fleet.git")}.Head()
		check(t, err)
		heads = append(heads, head)
	}
	if heads[0] != heads[1] {
		t.Errorf("two mornings from one seed end in %s and %s", heads[0], heads[1])
	}
	check(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600))
	err := playDemo(t.Context(), io.Discard, io.Discard, demoSettings{dir: dir, length: time.Minute})
	if invocation.ExitCode(err) != invocation.ExitUsage {
		t.Errorf("a directory that holds something else: %v", err)
	}
}

// interruptsAt ends a context when a text is written.
type interruptsAt struct {
	text string
	end  context.CancelFunc
}

func (w interruptsAt) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte(w.text)) {
		w.end()
	}
	return len(text), nil
}

// TestDemoInterrupted asserts that an interrupted demo reports the time of the morning, and
// prints no page.
func TestDemoInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "demo")
	err := playDemo(ctx, &out, interruptsAt{"08:30 [", interrupt}, demoSettings{dir: dir, length: 40 * time.Minute})
	if invocation.ExitCode(err) != invocation.ExitOutside || !strings.Contains(err.Error(), "interrupted at 08:30") || out.Len() > 0 {
		t.Errorf("interrupted at 08:30, it ends in %v, and it printed %q", err, out.String())
	}
}
