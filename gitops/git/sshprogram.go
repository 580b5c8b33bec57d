package git

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// SSHFunc makes the command that runs OpenSSH's ssh with these arguments, as git does
// (git(1), GIT_SSH_COMMAND). Its environment, and what it may ask a person, are the
// caller's.
type SSHFunc func(ctx context.Context, args ...string) *exec.Cmd

// openSSHProgram runs a service behind the ssh program.
func (c *connection) openSSHProgram(ctx context.Context, service, version string) (*stream, error) {
	target := c.address.host()
	if c.address.username != "" {
		target = c.address.username + "@" + target
	}
	if strings.HasPrefix(target, "-") {
		return nil, fmt.Errorf("the host %q would be an option of ssh's", target)
	}
	var args []string
	if version != "" {
		args = append(args, "-o", "SendEnv="+versionVariable)
	}
	if port := c.address.endpoint.Port; port != 0 && port != sshPort {
		args = append(args, "-p", strconv.Itoa(port))
	}
	running, cancel := context.WithCancel(ctx)
	cmd := c.credentials.SSHProgram(running, append(args, target, service+" "+quoteShell(c.address.endpoint.Path))...)
	cmd.Env = append(cmd.Environ(), versionVariable+"="+version)
	cmd.WaitDelay = leftBehind
	s := &stream{ctx: ctx, said: &tail{}, abort: cancel, program: "ssh"}
	return s.run(cmd)
}

// leftBehind is how long is waited for what ssh leaves running, as a connection that
// others are to share (ssh_config(5), ControlPersist).
const leftBehind = time.Second
