package gitserver

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Size is the size of a generated repository.
type Size struct {
	// Files and Commits are their numbers. The first commit adds all files, and every other one
	// changes one file.
	Files, Commits int
	// Dispatches is the number of files in the directory overlays/default/dispatches.
	Dispatches int
	// Message returns the message of commit i, from 0, the oldest; nil means the same for all.
	Message func(i int) string
}

// GeneratedAt returns the time of commit i of a generated repository.
func GeneratedAt(i int) time.Time { return time.Unix(1_600_000_000+60*int64(i), 0).UTC() }

// Generate fills an empty repository with a company's GitOps monorepo of that size. The fleet's
// directories are a small part of it. The same size gives the same commits.
func (r Repository) Generate(size Size) error {
	var stream bytes.Buffer
	size.write(&stream)
	_, err := r.GitInput(stream.Bytes(), "fast-import", "--quiet")
	return err
}

// AddPullRequests adds the refs of n pull requests, all at the same commit, to a repository whose refs
// are not packed yet.
func (r Repository) AddPullRequests(n int) error {
	empty, err := r.Git("hash-object", "-w", "-t", "tree", "/dev/null")
	if err != nil {
		return err
	}
	identity := []string{"-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"}
	commit, err := r.Git(append(identity, "commit-tree", "-m", "A pull request", strings.TrimSpace(empty))...)
	if err != nil {
		return err
	}
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("%s refs/pull/%d/head\n", strings.TrimSpace(commit), i+1)
	}
	slices.Sort(lines) // all have a common prefix: by name
	file, err := os.OpenFile(filepath.Join(r.Dir, "packed-refs"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("adding pull requests: %w", err)
	}
	_, err = file.WriteString("# pack-refs with: peeled fully-peeled sorted \n" + strings.Join(lines, ""))
	return errors.Join(err, file.Close())
}

// write writes the commits as git fast-import reads them.
func (size Size) write(w *bytes.Buffer) {
	random := rand.New(rand.NewPCG(1, 2))
	file := func(path, content string) {
		fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
	}
	commit := func(i int) {
		message := "work\n"
		if size.Message != nil {
			message = size.Message(i)
		}
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter Somebody <somebody@example.com> %d +0000\ndata %d\n%s\n", GeneratedAt(i).Unix(), len(message), message)
	}
	commit(0)
	file("base/kustomization.yaml", "resources: [job.yaml]\n")
	file("base/job.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: agent}\n")
	file("overlays/default/scaling.yaml", "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec: {queue: default, max: 10}\n")
	file("overlays/default/template/kustomization.yaml", "resources: [../../../base]\n")
	file("overlays/default/kustomization.yaml", "resources: [dispatches]\n")
	file("overlays/default/dispatches/kustomization.yaml", "resources: []\n")
	for i := range size.Dispatches {
		file(fmt.Sprintf("overlays/default/dispatches/default-%08x.yaml", random.Uint32()), fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: agent-%d}\n", i))
	}
	others := max(size.Files-size.Dispatches-6, 1)
	path := func(i int) string {
		return fmt.Sprintf("apps/team-%02d/service-%03d/file-%02d.yaml", i/2000, i/20%100, i%20)
	}
	for i := range others {
		file(path(i), fmt.Sprintf("kind: ConfigMap\nmetadata: {name: c%d}\ndata: {value: \"%x\"}\n", i, random.Uint64()))
	}
	for i := 1; i < size.Commits; i++ {
		commit(i)
		file(path(random.IntN(others)), fmt.Sprintf("kind: ConfigMap\ndata: {value: \"%x\"}\n", random.Uint64()))
	}
}
