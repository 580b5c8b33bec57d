package kustomize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Process builds in a separate process. It starts the process for a build, and ends it when it is
// idle for a while, when a build takes too long, and with the context.
type Process struct {
	// Command makes the command that calls [Serve] with standard input and
	// output and with Memory.
	Command func() *exec.Cmd
	// Time bounds a build.
	Time time.Duration
	// Memory is how much the process may need, in bytes; for messages.
	Memory int64
	// Idle is how long a process is kept for the next build.
	Idle time.Duration

	mu   sync.Mutex
	free []*worker
}

// maxFree is how many processes are kept for the next builds: as many as callers
// build at a time. To start one takes longer than most builds.
const maxFree = 2

// worker is one running process.
type worker struct {
	cmd  *exec.Cmd
	line *line
	in   io.Closer
	idle *time.Timer
}

// Build implements [Builder]. Builds may run at the same time, each in a process
// of its own.
func (p *Process) Build(ctx context.Context, files filesys.FileSystem, dir string) ([]Object, error) {
	bounded, cancel := context.WithTimeout(ctx, p.Time)
	defer cancel()
	w, err := p.take()
	if err != nil {
		return nil, fmt.Errorf("starting a process to build in: %w", err)
	}
	stop := context.AfterFunc(bounded, func() { _ = w.cmd.Process.Kill() })
	objects, err := w.build(files, dir)
	if _, failed := errors.AsType[*Failure](err); err == nil || failed {
		if stop() {
			p.put(w)
		} else {
			_ = w.end()
		}
		return objects, err
	}
	stop()
	ended := w.end()
	exit, exited := errors.AsType[*exec.ExitError](ended)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case bounded.Err() != nil:
		return nil, &Failure{fmt.Sprintf("it takes kustomize more than %s: %s", p.Time, Smaller)}
	case exited && exit.ExitCode() == exitMemory:
		return nil, &Failure{fmt.Sprintf("kustomize needs more than %d MiB of memory for it: %s", p.Memory>>20, Smaller)}
	case exited && exit.ExitCode() == exitCrash:
		return nil, &Failure{"kustomize ends its process on it"}
	}
	return nil, fmt.Errorf("the process that runs kustomize ended: %w", errors.Join(err, ended))
}

// take returns an idle process, or starts one.
func (p *Process) take() (*worker, error) {
	if w := p.takeFree(); w != nil {
		return w, nil
	}
	w := &worker{cmd: p.Command()}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.in, w.line = in, newLine(out, in)
	return w, nil
}

// takeFree returns an idle process; nil if no process is idle.
func (p *Process) takeFree() *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.free); n > 0; n-- {
		w := p.free[n-1]
		p.free = p.free[:n-1]
		if w.idle.Stop() { // else it is being ended
			return w
		}
	}
	return nil
}

// put keeps a process for the next build, for a while.
func (p *Process) put(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == maxFree {
		_ = w.end()
		return
	}
	p.free = append(p.free, w)
	w.idle = time.AfterFunc(p.Idle, func() {
		p.mu.Lock()
		p.free = slices.DeleteFunc(p.free, func(x *worker) bool { return x == w })
		p.mu.Unlock()
		_ = w.end()
	})
}

// end ends the process and waits for it.
func (w *worker) end() error {
	_ = w.in.Close()
	_ = w.cmd.Process.Kill()
	return w.cmd.Wait()
}

func (w *worker) build(files filesys.FileSystem, dir string) ([]Object, error) {
	if err := w.line.send(message{Build: dir}); err != nil {
		return nil, err
	}
	for {
		m, err := w.line.receive()
		switch {
		case err != nil:
			return nil, err
		case m.Done && m.Err != "":
			return nil, &Failure{m.Err}
		case m.Done:
			return m.Objects, nil
		}
		if err := w.line.send(answer(files, m)); err != nil {
			return nil, err
		}
	}
}

// answer returns the response to a request for a file.
func answer(files filesys.FileSystem, m message) message {
	var a message
	var err error
	switch m.Ask {
	case "IsDir":
		a.Yes = files.IsDir(m.Path)
	case "Exists":
		a.Yes = files.Exists(m.Path)
	case "CleanedAbs":
		var dir filesys.ConfirmedDir
		dir, a.Name, err = files.CleanedAbs(m.Path)
		a.Dir = string(dir)
	default:
		a.Data, err = files.ReadFile(m.Path)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}
