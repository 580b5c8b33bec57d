package gitops_test

import (
	"os"
	"path/filepath"
	"testing"

	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/writertest"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	writertest.Run(t, writertest.Harness{
		Open: func(t *testing.T, r gitserver.Repository) branch.Writer {
			repository, err := gitops.New(gitops.Config{URL: r.Dir})
			if err != nil {
				t.Fatal(err)
			}
			return repository
		},
		Refuse: func(t *testing.T, r gitserver.Repository, words string) {
			file := filepath.Join(r.Dir, "hooks", "pre-receive")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("#!/bin/sh\necho '"+words+"' >&2\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	})
}
