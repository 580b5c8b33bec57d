package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the program as tests want it that need no race detector in it, built once
// for all of them; the error says why it cannot be. Its symbols are kept. What is
// compiled is what a release and every other checkout compile, so the go command has it.
var built = sync.OnceValues(func() (string, error) {
	if err := os.MkdirAll(builtIn, 0o700); err != nil {
		return "", err
	}
	binary := filepath.Join(builtIn, "muster")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-race=false", "-o", binary, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building muster: %w\n%s", err, out)
	}
	return binary, nil
})

// builtIn is this process's own, and is removed with its last test.
var builtIn = filepath.Join(os.TempDir(), fmt.Sprintf("muster-built-%d", os.Getpid()))

// tidy runs all tests, and removes what was built for them.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	code := m.M.Run()
	if err := os.RemoveAll(builtIn); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
