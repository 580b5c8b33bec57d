package git

import (
	"context"
	"os/exec"
	"strings"
	"sync"
)

// openProcess runs a service of the git binary on a repository of this machine.
func (c *connection) openProcess(ctx context.Context, service, version string) (*stream, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, git, strings.TrimPrefix(service, "git-"), c.address.endpoint.Path)
	s := &stream{ctx: ctx, said: &tail{}, abort: cancel}
	cmd.Stderr = s.said
	cmd.Env = append(cmd.Environ(), versionVariable+"="+version)
	if s.in, err = cmd.StdinPipe(); err == nil {
		s.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.wait = sync.OnceValue(func() error { defer cancel(); return cmd.Wait() })
	return s, nil
}
