package gitserver_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// must ends a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServerTakesAPushOverHTTP(t *testing.T) {
	loaded := gitserver.NewServer(t, gitserver.Options{Username: "muster", Password: "s3cret"})
	at := time.Unix(1_700_000_000, 0)
	_, err := loaded.Commit("begin", at, branch.Change{Path: "a/b.txt", Content: []byte("one\n")})
	must(t, err)
	address := strings.Replace(loaded.URL(), "http://", "http://muster:s3cret@", 1)
	clone := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", clone, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("clone", "--quiet", address, ".")
	git("commit", "--quiet", "--allow-empty", "-m", "two")
	git("push", "--quiet")
	if out, err := loaded.Git("log", "--format=%s", "main"); err != nil || out != "two\nbegin\n" {
		t.Errorf("log = %q, %v", out, err)
	}
	if got, err := loaded.ReadFile("a/b.txt"); err != nil || !bytes.Equal(got, []byte("one\n")) {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if len(loaded.Requests()) == 0 || len(loaded.Requests()) != 0 {
		t.Error("Requests must return what happened since the last call")
	}
}

// TestCachedReads: with Remember, a read is answered without git for as long
// as no ref has changed, however it is changed.
func TestCachedReads(t *testing.T) {
	loaded := gitserver.NewServer(t, gitserver.Options{Remember: true})
	at := time.Unix(1_700_000_000, 0)
	commit := func(text string) string {
		t.Helper()
		head, err := loaded.Commit("change", at, branch.Change{Path: "file", Content: []byte(text)})
		must(t, err)
		return head
	}
	listed := func() string {
		t.Helper()
		out, err := exec.Command("git", "ls-remote", loaded.URL(), "refs/heads/main").Output()
		must(t, err)
		head, _, _ := strings.Cut(string(out), "\t")
		return head
	}
	for _, text := range []string{"one\n", "two\n"} {
		if want, got := commit(text), listed(); got != want {
			t.Errorf("the branch is at %s, and %s is listed", want, got)
		}
	}
	want := listed()
	_, err := loaded.Git("pack-refs", "--all")
	must(t, err)
	if got := listed(); got != want {
		t.Errorf("with packed refs %s is listed, want %s", got, want)
	}
	objects := filepath.Join(loaded.Dir, "objects")
	must(t, os.Rename(objects, objects+".away"))
	if got := listed(); got != want { // git itself would not find a repository
		t.Errorf("%s is remembered, want %s", got, want)
	}
	must(t, os.Rename(objects+".away", objects))
	_, err = loaded.Git("update-ref", "-d", "refs/heads/main")
	must(t, err)
	if got := listed(); got != "" {
		t.Errorf("the branch is gone, and %s is listed", got)
	}
}

// TestServeWithoutBackend: where git is installed without git-http-backend, the error names it.
func TestServeWithoutBackend(t *testing.T) {
	execPath, bin := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho "+execPath+"\n"), 0o700))
	t.Setenv("PATH", bin)
	_, err := gitserver.Serve(t.TempDir(), gitserver.Options{})
	if want := filepath.Join(execPath, "git-http-backend"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Serve = %v, want an error with %s", err, want)
	}
}
