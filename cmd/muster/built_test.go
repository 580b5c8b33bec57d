package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built returns the program without a race detector and with its symbols. It is built once for
// all tests.
var built = sync.OnceValues(func() (string, error) {
	if err := os.MkdirAll(builtIn, 0o700); err != nil {
		return "", err
	}
	return buildProgram(builtIn, "-buildvcs=false", "-race=false")
})

// shipped returns the program as make build builds it.
func shipped(t testing.TB) string {
	t.Helper()
	binary, err := buildProgram(t.TempDir(), "-ldflags=-s -w")
	check(t, err)
	return binary
}

func buildProgram(dir string, flags ...string) (binary string, err error) {
	binary = filepath.Join(dir, "muster")
	build := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", binary}, flags...), ".")...)
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building muster: %w\n%s", err, out)
	}
	return binary, nil
}

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
