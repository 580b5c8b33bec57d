package git_test

import (
	"testing"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/writertest"
)

// TestWriter runs what every writer must do over each kind of connection.
func TestWriter(t *testing.T) {
	t.Parallel()
	for _, over := range hosts() {
		t.Run(over.name, func(t *testing.T) {
			writertest.Run(t, writertest.Harness{
				// On every host it is git's own receive-pack that says who was first.
				Few:  over.name != "http",
				Open: func(t *testing.T, r gitserver.Repository) branch.Writer { return open(t, over.serve(t, r)) },
				Refuse: func(t *testing.T, r gitserver.Repository, words string) {
					hook(t, r, "pre-receive", "echo '"+words+"' >&2\nexit 1\n")
				},
			})
		})
	}
}
