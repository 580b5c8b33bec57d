// Package process runs programs beside a test, each with a log file of its own,
// kills them and starts them again.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command is how a program is started.
type Command struct {
	// Name names the process and its log.
	Name string
	// Path is the program, Args what it is told.
	Path string
	Args []string
	// Env is its whole environment, Dir where it runs.
	Env []string
	Dir string
}

// Process is a program that is kept running until it is stopped.
type Process struct {
	command Command
	// Log is the path of its log, to which each start appends.
	Log string

	mu      sync.Mutex
	running *exec.Cmd
	over    chan struct{}
	wanted  bool
}

// Start starts a program whose log is in a folder.
func Start(logs string, c Command) (*Process, error) {
	p := &Process{command: c, Log: filepath.Join(logs, c.Name+".log")}
	return p, p.Start()
}

// Start starts it again after [Process.Kill] or [Process.Stop].
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return fmt.Errorf("%s runs already", p.command.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.command.Path, p.command.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.command.Env, p.command.Dir, log, log
	// In a group of its own, and gone when the test's process is.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.command.Name, err)
	}
	over := make(chan struct{})
	p.running, p.over, p.wanted = cmd, over, true
	go func() {
		_ = cmd.Wait()
		p.mu.Lock()
		if p.running == cmd {
			p.running = nil
		}
		p.mu.Unlock()
		close(over)
	}()
	return nil
}

// Died reports a process that has ended unexpectedly.
func (p *Process) Died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted && p.running == nil {
		return fmt.Errorf("%s has ended by itself: %s", p.command.Name, Tail(p.Log, 12))
	}
	return nil
}

// Pid is the process's number; 0 when it does not run.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return 0
	}
	return p.running.Process.Pid
}

// Kill ends it and all that it started with SIGKILL, and waits for that.
func (p *Process) Kill() { p.end(syscall.SIGKILL, 0) }

// Stop ends it with SIGTERM, and with SIGKILL when it has not ended in time.
func (p *Process) Stop(patience time.Duration) { p.end(syscall.SIGTERM, patience) }

func (p *Process) end(signal syscall.Signal, patience time.Duration) {
	p.mu.Lock()
	cmd, over := p.running, p.over
	p.wanted = false
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal)
	if signal != syscall.SIGKILL {
		select {
		case <-over:
			return
		case <-time.After(patience):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
	<-over
}

// Memory is what the process has resident, in bytes; 0 where it does not run.
func (p *Process) Memory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return 0
}

// Tail returns the last lines of a log.
func Tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return errors.Join(errors.New("no log"), err).Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return path + ":\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}
