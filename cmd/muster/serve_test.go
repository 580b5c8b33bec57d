package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/cmd/laboratory"
	"muster/gitops/gitserver"
)

// TestServeForMuster asserts that muster orders agents with the command line that muster-sim serve prints,
// and that an interrupt ends serve.
func TestServeForMuster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "serve")
	var out sharedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := invocation.Program{Args: []string{"serve", dir}, Clock: endlessClock{}, Stdout: &out, Stderr: io.Discard}
	code := make(chan int, 1)
	go func() { code <- p.Run(ctx, laboratory.Commands) }()
	until(func() bool { return strings.Contains(out.text(), "Interrupt this command") })
	_, lines, _ := strings.Cut(out.text(), "browser:\n\n")
	lines, _, _ = strings.Cut(lines, " --listen")
	var environ, words []string
	for line := range strings.Lines(lines) {
		if words = strings.Fields(line); words[0] == "export" {
			environ = append(environ, words[1:]...)
		}
	}
	if len(words) != 2 || words[0] != "muster" || words[1] != "run" {
		t.Fatalf("it prints\n%s", out.text())
	}
	if code, _, errs := execute(t, program{invocation.Program{Args: []string{"run", "--once"}, Environ: environ}}); code != invocation.ExitOK {
		t.Errorf("muster run: exit code %d, %s", code, errs)
	}
	log, err := gitserver.Repository{Dir: filepath.Join(dir, "fleet.git")}.Git("log", "--format=%s", "-1", "main")
	check(t, err)
	if !strings.HasPrefix(log, "default: dispatch ") {
		t.Errorf("the newest commit is %q", log)
	}
	cancel()
	if c := <-code; c != invocation.ExitOK {
		t.Errorf("interrupted: exit code %d", c)
	}
}
