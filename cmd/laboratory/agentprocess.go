package laboratory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"muster/cmd/evidence"
)

// agentProgram starts buildkite-agent as processes of this machine.
type agentProgram struct {
	path     string
	endpoint string // empty: the agent's own
	token    func() (string, error)
	environ  []string
	now      func() time.Time
	dir      string // for their files
}

// supervise becomes the agent, and lets it disconnect when the pipe of descriptor 3 ends, also because live was killed.
// A line in that pipe stops the agent as it is.
const supervise = `{
  while read -r _; do kill -STOP $$; done
  kill -CONT $$; kill -QUIT $$
  for _ in 1 2 3 4 5 6 7 8; do sleep 1; kill -0 $$ || exit; done
  kill -KILL $$
} <&3 2>/dev/null &
exec "$@" 3<&-
`

// onlyOwn is the hook pre-bootstrap of agents that take the jobs of the pipelines with the slugs %s (a|b|c). It refuses
// others, because every build in the cluster can name the queue. The name of a variable may contain a newline.
const onlyOwn = `#!/bin/sh
grep -qE '^BUILDKITE_PIPELINE_SLUG="(%[1]s)"$' "$BUILDKITE_ENV_FILE" &&
! grep '^BUILDKITE_PIPELINE_SLUG=' "$BUILDKITE_ENV_FILE" | grep -qvE '="(%[1]s)"$'
`

// agentProcess implements [evidence.Process].
type agentProcess struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
	hook string // a file that exists when the hook has ended

	mu   sync.Mutex
	at   time.Time
	code int
}

// passed are the variables of the environment that agents get.
var passed = []string{"PATH", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// start starts an agent. Nothing of the user's configuration of agents applies to it.
func (p agentProgram) start(_ context.Context, a evidence.Agent) (evidence.Process, error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.dir, a.Name)
	process := &agentProcess{hook: filepath.Join(dir, "hooked")}
	hook := fmt.Sprintf("#!/bin/sh\nsleep %d\n: >'%s'\n", int(a.Hook.Seconds()), process.hook)
	if a.HookFails {
		hook = "#!/bin/sh\nexit 1\n"
	}
	hooks, config := filepath.Join(dir, "hooks"), filepath.Join(dir, "agent.cfg")
	if err := errors.Join(
		os.MkdirAll(hooks, 0o700), os.WriteFile(config, nil, 0o600),
		os.WriteFile(filepath.Join(hooks, "agent-startup"), []byte(hook), 0o700),
		os.WriteFile(filepath.Join(hooks, "pre-bootstrap"), fmt.Appendf(nil, onlyOwn, strings.Join(a.Slugs, "|")), 0o700),
	); err != nil {
		return nil, err
	}
	args := []string{
		"-c", supervise, "sh", p.path, "start", "--no-color", "--config", config, "--hooks-path", hooks,
		"--build-path", filepath.Join(dir, "builds"), "--plugins-path", filepath.Join(dir, "plugins"),
		"--name", a.Title(), "--tags", strings.Join(a.Tags, ","), "--priority", fmt.Sprint(a.Priority),
		"--disconnect-after-idle-timeout", fmt.Sprint(int(a.IdleTimeout.Seconds())),
	}
	if a.AfterJob {
		args = append(args, "--disconnect-after-job")
	}
	if a.Uptime > 0 {
		args = append(args, "--disconnect-after-uptime", fmt.Sprint(int(a.Uptime.Seconds())))
	}
	if p.endpoint != "" {
		args = append(args, "--endpoint", p.endpoint)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	process.pipe = write
	process.cmd = exec.Command("/bin/sh", args...)
	process.cmd.Dir, process.cmd.ExtraFiles = dir, []*os.File{read}
	process.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for live alone
	process.cmd.Env = []string{"HOME=" + dir, "BUILDKITE_AGENT_TOKEN=" + token, "BUILDKITE_SKIP_CHECKOUT=true"}
	for _, variable := range p.environ {
		for _, name := range passed {
			if strings.HasPrefix(variable, name+"=") {
				process.cmd.Env = append(process.cmd.Env, variable)
			}
		}
	}
	err = process.cmd.Start()
	_ = read.Close()
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	go func() {
		_ = process.cmd.Wait()
		_ = syscall.Kill(-process.cmd.Process.Pid, syscall.SIGKILL) // what waits for the end of the pipe
		process.mu.Lock()
		defer process.mu.Unlock()
		process.at, process.code = p.now(), process.cmd.ProcessState.ExitCode()
	}()
	return process, nil
}

func (p *agentProcess) Exited() (code int, at time.Time, exited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.code, p.at, !p.at.IsZero()
}

func (p *agentProcess) Hooked() (at time.Time, hooked bool) {
	info, err := os.Stat(p.hook)
	if err != nil {
		return at, false
	}
	return info.ModTime(), true
}

func (p *agentProcess) Freeze() { _, _ = p.pipe.Write([]byte("stop\n")) } // it may have exited

func (p *agentProcess) Stop() { _ = p.pipe.Close() }

func (p *agentProcess) Kill() {
	if _, _, exited := p.Exited(); !exited {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}
