package git_test

import (
	"testing"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/writertest"
)

// TestWriter runs the contract of every writer.
func TestWriter(t *testing.T) {
	t.Parallel()
	http := hosts()[0]
	writertest.Run(t, writertest.Harness{
		Open: func(t *testing.T, r gitserver.Repository) branch.Writer { return open(t, http.serve(t, r)) },
		Refuse: func(t *testing.T, r gitserver.Repository, words string) {
			hook(t, r, "pre-receive", "echo '"+words+"' >&2\nexit 1\n")
		},
	})
}
