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
	cmd.Env = append(minimal(cmd.Environ()), versionVariable+"="+version)
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
