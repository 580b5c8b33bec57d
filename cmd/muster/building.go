package main

import (
	"os"
	"os/exec"
	"time"

	"muster/generator/kustomize"
	"muster/generator/manifest"
)

// Templates are other people's files: what they make kustomize do is bounded, in
// a process of its own.
const (
	// buildArgument is what that process is called with.
	buildArgument = "build-on-standard-input"
	// programMemory is what muster run may have before its garbage is collected at all
	// costs. With two builds at a time, it is 128 MiB in all.
	programMemory = 64 << 20
	// buildMemory and buildTime are what one build may take: many times what any
	// template needs, on a machine that is ten times slower.
	buildMemory = 32 << 20
	buildTime   = 30 * time.Second
	// buildPatience is how long other overlays wait for a build, and buildIdle how
	// long its process is kept for the next one.
	buildPatience = 2 * time.Second
	buildIdle     = time.Second
)

// builder returns how templates are built; nil: in this process. The process gets
// nothing of the environment, in which the tokens are.
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

// loader returns what reads the overlays, and waits for each.
func (s *settings) loader() *manifest.Loader {
	l := manifest.NewLoader(s.git.overlays)
	if b := s.program.builder(); b != nil {
		l.BuildWith(b, 0)
	}
	return l
}

// thisExecutable is the running program's file; empty where it is not known.
// Linux knows it also when the file has been replaced.
func thisExecutable() string {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self
	}
	path, _ := os.Executable()
	return path
}
