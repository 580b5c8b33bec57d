package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"muster/gitops/git/remote"
)

// credentials are what the flags give, and where they give nothing what git itself
// would use on a person's machine: the netrc file, the credential helpers, and the ssh
// program with all that it is set up to use. Where there is no such program, that is
// the ssh-agent, or the first of the usual keys, and the known hosts.
func (s *gitSettings) credentials(password remote.PasswordFunc, addresses ...string) remote.Credentials {
	c := remote.Credentials{Password: password, SSHKeyFile: s.sshKey, SSHKnownHostsFile: s.sshKnownHosts, CAFile: s.caFile}
	if password == nil {
		c.Helper = s.program.credentialHelper()
	}
	home := s.program.variable("HOME")
	if password == nil && home != "" {
		c.NetrcFile = filepath.Join(home, ".netrc")
	}
	if c.SSHKeyFile == "" && c.SSHKnownHostsFile == "" && slices.ContainsFunc(addresses, overSSH) {
		c.SSHProgram = s.program.sshProgram()
	}
	if c.SSHKeyFile == "" {
		if c.SSHAgent = s.program.variable("SSH_AUTH_SOCK"); c.SSHAgent == "" && home != "" {
			c.SSHKeyFile = firstFile(filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(home, ".ssh", "id_ecdsa"), filepath.Join(home, ".ssh", "id_rsa"))
		}
	}
	if c.SSHKnownHostsFile == "" && home != "" {
		c.SSHKnownHostsFile = firstFile(filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts")
	}
	return c
}

// firstFile returns the first file that there is.
func firstFile(names ...string) string {
	i := slices.IndexFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.Mode().IsRegular()
	})
	if i < 0 {
		return ""
	}
	return names[i]
}

// childEnviron is the environment for programs of the person's own, which need not
// know what muster's secrets are.
func (p program) childEnviron() []string {
	return slices.DeleteFunc(slices.Clone(p.environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == variableToken || name == variablePassword || name == variableAgentToken
	})
}

// answer is what a program prints, in one line; empty where it is not there or fails.
func (p program) answer(name, dir string, args ...string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	c := exec.Command(path, args...)
	c.Dir, c.Env = dir, p.childEnviron()
	line, err := printed(c)
	if err != nil {
		return ""
	}
	return line
}

// credentialHelper runs git's credential helpers if the git program is installed: those of
// the user's and the system's configuration, because a repository's own could be any
// program.
// Off a terminal nobody is asked for a password: neither by git (git(1),
// GIT_TERMINAL_PROMPT; an empty GIT_ASKPASS is none) nor by Git Credential Manager.
func (p program) credentialHelper() remote.HelperFunc {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil
	}
	environ, prompts := p.ownEnviron(), p.prompts()
	if !prompts {
		environ = append(environ, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GCM_INTERACTIVE=never")
	}
	return func(ctx context.Context, action string) *exec.Cmd {
		p.progress.Done() // a person may be asked on the same line
		cmd := exec.CommandContext(ctx, path, "credential", action)
		cmd.Env = environ
		if prompts {
			cmd.Stderr = os.Stderr
		}
		return cmd
	}
}

// prompts reports whether a person may be asked for a password.
func (p program) prompts() bool { return p.terminal && p.screen.progress }

// insteadOf are the addresses that git would read and push to, of which the second may be
// empty: where the git program is there, the person's settings url.BASE.insteadOf and
// pushInsteadOf put others in the place of what an address begins with (git-config(1)).
func (p program) insteadOf(address string) (read, push string) {
	const fetches, pushes = ".insteadof", ".pushinsteadof"
	read = address
	longest := map[string]int{}
	for entry := range strings.SplitSeq(p.ownSetting("-z", "--get-regexp", `^url\..*insteadof$`), "\x00") {
		key, begins, _ := strings.Cut(entry, "\n")
		base, ok := strings.CutPrefix(key, "url.")
		rest, found := strings.CutPrefix(address, begins)
		if !ok || !found {
			continue
		}
		if base, ok := strings.CutSuffix(base, pushes); ok && len(begins) > longest[pushes] {
			push, longest[pushes] = base+rest, len(begins)
		} else if base, ok := strings.CutSuffix(base, fetches); ok && len(begins) > longest[fetches] {
			read, longest[fetches] = base+rest, len(begins)
		}
	}
	return read, push
}
