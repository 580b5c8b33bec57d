package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"muster/generator/fleet"
	"muster/generator/kustomize"
)

// Limits of kustomize builds, which run in a separate process because templates are untrusted.
const (
	// buildArgument is the argument of that process.
	buildArgument = "build-on-standard-input"
	// programMemory is the memory limit of muster run. With two builds at a time, the sum is
	// 128 MiB.
	programMemory = 64 << 20
	// buildMemory and buildTime are the limits of one build: several times the needs of any
	// template, on a machine that is ten times slower.
	buildMemory = 32 << 20
	buildTime   = 30 * time.Second
	// buildPatience is the time that other overlays wait for a build, and buildIdle the time
	// that its process waits for the next one.
	buildPatience = 2 * time.Second
	buildIdle     = time.Second
)

// builder returns the builder of templates; nil, only in tests: this process. The process has an
// empty environment, so that it has no tokens.
func (p program) builder() kustomize.Builder {
	if p.executable == "" {
		return nil
	}
	command := func() *exec.Cmd {
		c := exec.Command(p.executable, buildArgument)
		c.Env = []string{}
		return c
	}
	return &kustomize.Process{Command: command, Time: buildTime, Memory: buildMemory, Idle: buildIdle}
}

// loader returns a loader that waits for each overlay.
func (s *gitSettings) loader() *fleet.Loader {
	l := fleet.NewLoader(s.overlays)
	if b := s.program.builder(); b != nil {
		l.BuildWith(b, 0)
	}
	return l
}

// load returns the overlays of the repository at a commit.
func (s *gitSettings) load(ctx context.Context, tree fs.FS) ([]fleet.Overlay, error) {
	all, err := s.loader().LoadContext(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("no overlays can be read below %q of the repository: %w", s.overlays, err)
	}
	return all, nil
}

func overlayNames(all []fleet.Overlay) []string {
	return mapSlice(all, func(o fleet.Overlay) string { return o.Name })
}

// thisExecutable returns the running program's file. On Linux the path works even after the file is
// replaced.
func thisExecutable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}
