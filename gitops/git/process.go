package git

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

// openProcess runs a service of the git binary on a repository of this machine.
func (c *connection) openProcess(ctx context.Context, service, version string) (*stream, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, git, append(slices.Clone(c.offers(ctx, git, service)), strings.TrimPrefix(service, "git-"), c.address.endpoint.Path)...)
	s := &stream{ctx: ctx, said: &tail{}, abort: cancel}
	cmd.Env = append(minimal(cmd.Environ()), versionVariable+"="+version)
	return s.run(cmd)
}

// run starts the program that is the stream's other end. The stream ends it.
func (s *stream) run(cmd *exec.Cmd) (*stream, error) {
	cmd.Stderr = s.said
	var err error
	if s.in, err = cmd.StdinPipe(); err == nil {
		s.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.abort()
		return nil, err
	}
	s.wait = sync.OnceValue(func() error { defer s.abort(); return cmd.Wait() })
	return s, nil
}

// offers are settings for a repository of this machine, whose server is this process's
// own: single objects can be read of it, unless it says itself that they must not.
func (c *connection) offers(ctx context.Context, git, service string) []string {
	if service != transport.UploadPackServiceName {
		return nil
	}
	if c.local == nil {
		c.local = []string{}
		ask := exec.CommandContext(ctx, git, inside(c.address.endpoint.Path, "config", "--get-regexp", `^uploadpack\.allow`)...)
		ask.Env = minimal(ask.Environ())
		said, _ := ask.Output() // nothing, where it says nothing
		for _, key := range []string{"uploadpack.allowfilter", "uploadpack.allowanysha1inwant"} {
			if !strings.Contains(strings.ToLower(string(said)), key+" ") {
				c.local = append(c.local, "-c", key+"=true")
			}
		}
	}
	return c.local
}

// inside are arguments by which git works in a repository of this machine. That one is
// named, so safe.bareRepository=explicit is obeyed, though git cannot tell
// (git-config(1): with it, only --git-dir and GIT_DIR count as explicit).
func inside(dir string, args ...string) []string {
	return append([]string{"-c", "safe.bareRepository=all", "-C", dir}, args...)
}

// minimal is what git needs of an environment. The rest, in which tokens and
// passwords may be, is not given to it: the hooks of the repository, which are
// other people's programs, would inherit it.
func minimal(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		switch strings.ToUpper(name) {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "TZ", "LANG", "LANGUAGE", "SYSTEMROOT",
			"XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL", "GIT_EXEC_PATH":
			kept = append(kept, variable)
		default:
			if strings.HasPrefix(name, "LC_") {
				kept = append(kept, variable)
			}
		}
	}
	return kept
}
