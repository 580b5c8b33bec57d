package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"

	"muster/gitops/git/remote"
)

// sshProgram is the ssh that git would run, or nil where there is none (git(1),
// GIT_SSH_COMMAND; git-config(1), core.sshCommand), except that a repository's own
// core.sshCommand is ignored. Off a terminal it asks nobody.
func (p program) sshProgram() remote.SSHFunc {
	command := cmp.Or(p.variable("GIT_SSH_COMMAND"), p.ownSetting("--get", "core.sshCommand"))
	path, err := exec.LookPath(cmp.Or(p.variable("GIT_SSH"), "ssh"))
	if command == "" && err != nil {
		return nil
	}
	environ, prompts := p.childEnviron(), p.prompts()
	return func(ctx context.Context, args ...string) *exec.Cmd {
		p.progress.Done() // a person may be asked on the same line
		if !prompts {
			args = append([]string{"-o", "BatchMode=yes"}, args...)
		}
		cmd := exec.CommandContext(ctx, path, args...)
		if command != "" { // git gives it to a shell
			cmd = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", command + ` "$@"`, "ssh"}, args...)...)
		}
		cmd.Env = environ
		return cmd
	}
}

// overSSH reports whether an address is of a host that is reached over ssh.
func overSSH(address string) bool { return sshTarget(address) != "" }

// sshTarget is whom ssh would connect to for an address, as in git@example.com; empty:
// it is none of ssh's.
func sshTarget(address string) string {
	if scheme, _, ok := strings.Cut(address, "://"); ok {
		u, err := url.Parse(address)
		if err != nil || !strings.Contains(strings.ToLower(scheme), "ssh") {
			return ""
		}
		if u.User.Username() == "" {
			return u.Hostname()
		}
		return u.User.Username() + "@" + u.Hostname()
	}
	target, _, ok := strings.Cut(address, ":")
	if !ok || strings.Contains(target, "/") {
		return ""
	}
	return target
}

// unusedSSHConfig says what the person's configuration of ssh does with a host, where
// the ssh program is not used since a flag gives the key or the known hosts; empty: nothing.
func (s *gitSettings) unusedSSHConfig(address string) string {
	target := sshTarget(address)
	if target == "" || strings.HasPrefix(target, "-") || s.sshKey == "" && s.sshKnownHosts == "" {
		return ""
	}
	host := target[strings.LastIndex(target, "@")+1:]
	for line := range strings.Lines(s.program.answer("ssh", "", "-G", target)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case (key == "proxyjump" || key == "proxycommand") && value != "none",
			key == "hostname" && !strings.EqualFold(value, host):
			return fmt.Sprintf("ssh is set up to reach %s by %s %s, which is not done with --ssh-key-file or --ssh-known-hosts-file: leave both out, or forward a port with ssh -L and give ssh://git@127.0.0.1:PORT/PATH", host, key, value)
		}
	}
	return ""
}
