package laboratory

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/gitops/branch"
)

var update = flag.Bool("update", false, "write what was measured into the documents")

// top is the directory of the repository.
var top = filepath.Join("..", "..")

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
	check(t, err)
	return string(text)
}

// execute runs a command line.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := invocation.Program{Args: args, Stdout: &out, Stderr: &errs, Clock: stoppedClock{}}
	code = p.Run(t.Context(), Commands)
	return code, out.String(), errs.String()
}

// stoppedClock always has the time at which the demonstration starts.
type stoppedClock struct{}

func (stoppedClock) Now() time.Time                                   { return demoStart() }
func (stoppedClock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func change(name, content string) branch.Change {
	return branch.Change{Path: name, Content: []byte(content)}
}
