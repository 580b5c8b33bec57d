package invocation

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
	// BuildArgument is the argument of that process.
	BuildArgument = "build-on-standard-input"
	// ProgramMemory is the memory limit of muster run. With two builds at a time, the sum is
	// 128 MiB.
	ProgramMemory = 64 << 20
	// BuildMemory and buildTime are the limits of one build: several times the needs of any
	// template, on a machine that is ten times slower.
	BuildMemory = 32 << 20
	buildTime   = 30 * time.Second
	// buildIdle is the time that its process waits for the next build.
	buildIdle = time.Second
)

// Builder returns the builder of templates; nil, only in tests: this process. The process has an
// empty environment, so that it has no tokens.
func (p Program) Builder() kustomize.Builder {
	if p.Executable == "" {
		return nil
	}
	command := func() *exec.Cmd {
		c := exec.Command(p.Executable, BuildArgument)
		c.Env = []string{}
		return c
	}
	return &kustomize.Process{Command: command, Time: buildTime, Memory: BuildMemory, Idle: buildIdle}
}

// Loader returns a loader that waits for each overlay.
func (s *Repository) Loader() *fleet.Loader {
	l := fleet.NewLoader(s.Overlays)
	if b := s.Program.Builder(); b != nil {
		l.BuildWith(b, 0)
	}
	return l
}

// Load returns the overlays of the repository at a commit.
func (s *Repository) Load(ctx context.Context, tree fs.FS) ([]fleet.Overlay, error) {
	all, err := s.Loader().LoadContext(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("no overlays can be read below %q of the repository: %w", s.Overlays, err)
	}
	return all, nil
}

// OverlayNames returns the names of overlays.
func OverlayNames(all []fleet.Overlay) []string {
	return Map(all, func(o fleet.Overlay) string { return o.Name })
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
