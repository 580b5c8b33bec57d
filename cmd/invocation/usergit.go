package invocation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/cmd/output"
	"muster/gitops/branch"
	"muster/gitops/git/remote"
)

// CloneAt returns the local repository that contains a directory, as the git program finds
// it: the top of a work tree, or a bare repository. The directory defaults to the current
// one. An address is returned unchanged.
//
// A bare repository is used only if it is named: a committed directory can be a bare
// repository, and its configuration is not the user's (git-config(1),
// safe.bareRepository).
func (p Program) CloneAt(named string) (string, error) {
	dir := named
	if named == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return named, nil
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", named, err)
	}
	if named != "" && p.GitOutput(dir, "rev-parse", "--is-inside-git-dir") == "true" {
		return dir, nil
	}
	top, err := p.DiscoverOutput(dir, "rev-parse", "--show-toplevel")
	switch {
	case err != nil && strings.Contains(err.Error(), "not a git repository"):
		return "", fmt.Errorf("%s is in no git repository", dir)
	case err != nil:
		return "", fmt.Errorf("opening %s: %w", dir, err)
	}
	return top, nil
}

// Upstream is the remote that a branch of a clone follows: that of git's configuration, otherwise origin or
// the only one. The zero value is none.
type Upstream struct {
	// name is the remote's name; fetch and push are its addresses, which are mostly the same.
	name, fetch, Push string
}

// UpstreamOf returns the clone that contains the current directory, and the remote that a branch follows.
func (p Program) UpstreamOf(branch string) (top string, up Upstream, err error) {
	if top, err = p.CloneAt(""); err != nil {
		return "", up, output.Usage(fmt.Errorf("which repository? give --repo, set MUSTER_REPO, or run it in a clone: %w", err))
	}
	remotes := strings.Fields(p.GitOutput(top, "remote"))
	up.name = p.GitOutput(top, "config", "branch."+branch+".remote")
	switch {
	case slices.Contains(remotes, up.name):
	case slices.Contains(remotes, "origin"):
		up.name = "origin"
	case len(remotes) == 1:
		up.name = remotes[0]
	default:
		return top, Upstream{}, nil
	}
	up.fetch = belowTop(top, p.GitOutput(top, "remote", "get-url", up.name))
	up.Push = belowTop(top, p.GitOutput(top, "remote", "get-url", "--push", up.name))
	return top, up, nil
}

// belowTop returns the address of a remote with a relative path resolved from the top of the clone, as git
// resolves it. An invalid address is reported where it is used.
func belowTop(top, address string) string {
	a, err := branch.ParseAddress(address)
	if err == nil && a.Scheme == "file" && !strings.Contains(address, "://") && !filepath.IsAbs(address) {
		return filepath.Join(top, address)
	}
	return address
}

// DiscoverOutput returns the output of the git program in a directory, for the repository that
// git finds from there.
func (p Program) DiscoverOutput(dir string, args ...string) (string, error) {
	args = append([]string{"-c", "safe.bareRepository=explicit"}, args...)
	return runProgram(p.context(), "git", dir, remote.WithoutRepository(p.ChildEnviron()), args...)
}

// context returns the context of the invocation.
func (p Program) context() context.Context {
	if p.Ctx == nil {
		return context.Background()
	}
	return p.Ctx
}

// runProgram runs a program in a directory, and returns what [printed] does.
func runProgram(ctx context.Context, name, dir string, environ []string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed, or not in PATH: install it (%w)", name, err)
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Dir, c.Env = dir, environ
	return Printed(c)
}

// Printed returns a program's output without surrounding space, or an error with its standard
// error.
func Printed(c *exec.Cmd) (string, error) {
	c.WaitDelay = time.Second // a program that it started may keep its output open
	out, err := c.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		err = errors.New(strings.TrimPrefix(strings.TrimSpace(string(failed.Stderr)), "fatal: "))
	}
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(out)), nil
}

// GitOutput returns the output of the git program for a clone, in one line; "" if git is not
// installed or fails.
func (p Program) GitOutput(dir string, args ...string) string {
	c, err := remote.Command(p.context(), strings.TrimPrefix(dir, "file://"), p.ChildEnviron(), args...)
	if err != nil {
		return ""
	}
	line, _ := Printed(c)
	return line
}

// sinceFetch returns how long ago a clone was fetched into, as in " 3h ago"; empty if it never was.
func (p Program) sinceFetch(dir string) string {
	file := p.GitOutput(dir, "rev-parse", "--git-path", "FETCH_HEAD")
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return " " + output.ShortAge(p.Clock.Now().Sub(info.ModTime())) + " ago"
}

// Commit returns the ID of the commit with a name in a clone; empty if the name is unknown.
func (p Program) Commit(dir, name string) string {
	return p.GitOutput(dir, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
}

// ownEnviron returns an environment in which git has the user's and the system's settings,
// including those for the current directory (git-config(1), includeIf), but none of a
// repository's own, which could name programs to run.
func (p Program) ownEnviron() []string {
	environ := append(remote.WithoutRepository(p.ChildEnviron()), "GIT_DIR="+os.DevNull)
	list, err := p.DiscoverOutput("", "config", "--list", "-z", "--show-scope")
	if err != nil {
		return environ
	}
	count := 0
	fields := strings.Split(list, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, set := strings.Cut(fields[i+1], "\n")
		switch scope := fields[i]; {
		case scope != "system" && scope != "global" && scope != "command", strings.HasPrefix(key, "include.") || strings.HasPrefix(key, "includeif."):
			continue // the list has the settings of included files
		case !set:
			value = "true"
		}
		environ = append(environ, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count, value))
		count++
	}
	return append(environ, fmt.Sprintf("GIT_CONFIG_COUNT=%d", count), "GIT_CONFIG_PARAMETERS=", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
}

// ownSetting returns the output of git config for the settings of [program.ownEnviron]; "" if
// git is not installed or has no such setting.
func (p Program) ownSetting(args ...string) string {
	value, _ := runProgram(p.context(), "git", "", p.ownEnviron(), append([]string{"config"}, args...)...)
	return value
}

// SignaturePrograms returns settings that make git verify signatures with the programs of
// the user's configuration, or with git's defaults (git-config(1), gpg.program and
// gpg.<format>.program).
func (p Program) SignaturePrograms() []string {
	programs := map[string]string{"gpg.program": "gpg", "gpg.x509.program": "gpgsm", "gpg.ssh.program": "ssh-keygen"}
	for entry := range strings.SplitSeq(p.ownSetting("-z", "--get-regexp", `^gpg\.(.*\.)?program$`), "\x00") {
		if key, value, ok := strings.Cut(entry, "\n"); ok {
			if key == "gpg.openpgp.program" {
				key = "gpg.program" // the same setting
			}
			programs[key] = value
		}
	}
	var args []string
	for key, value := range programs {
		args = append(args, "-c", key+"="+value)
	}
	return args
}

// firstFile returns the first file that exists; "" if none does.
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

// ChildEnviron returns the environment of the user's programs, without muster's secrets.
func (p Program) ChildEnviron() []string {
	return slices.DeleteFunc(slices.Clone(p.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == VariableToken || name == variablePassword || name == VariableAgentToken
	})
}

// CredentialHelper runs git's credential helpers if the git program is installed. It uses those
// in the user's and the system's configuration, because a repository's own could be any program.
//
// Without a terminal neither git (git(1), GIT_TERMINAL_PROMPT; an empty GIT_ASKPASS is unset)
// nor Git Credential Manager prompts for a password.
func (p Program) CredentialHelper() remote.HelperFunc {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil
	}
	environ, prompts := p.ownEnviron(), p.prompts()
	if !prompts {
		environ = append(environ, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GCM_INTERACTIVE=never")
	}
	return func(ctx context.Context, action string) *exec.Cmd {
		p.Progress.Done() // the helper may prompt on the same line
		cmd := exec.CommandContext(ctx, path, "credential", action)
		cmd.Env = environ
		if prompts {
			cmd.Stderr = os.Stderr
		}
		return cmd
	}
}

// prompts reports whether programs may prompt for a password.
func (p Program) prompts() bool { return p.Terminal && p.Screen.Progress }

// insteadOf returns the addresses that git would read from and push to; push may be empty. If
// the git program is installed, it applies the user's settings url.BASE.insteadOf and
// pushInsteadOf, which replace a prefix of the address (git-config(1)).
func (p Program) insteadOf(address string) (read, push string) {
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

// sshProgram returns the ssh that git would run, or nil if there is no such program (git(1),
// GIT_SSH_COMMAND; git-config(1), core.sshCommand). It ignores a repository's own
// core.sshCommand. Without a terminal it does not prompt.
func (p Program) sshProgram() remote.SSHFunc {
	command := cmp.Or(p.Variable("GIT_SSH_COMMAND"), p.ownSetting("--get", "core.sshCommand"))
	path, err := exec.LookPath(cmp.Or(p.Variable("GIT_SSH"), "ssh"))
	if command == "" && err != nil {
		return nil
	}
	environ, prompts := p.ChildEnviron(), p.prompts()
	return func(ctx context.Context, args ...string) *exec.Cmd {
		p.Progress.Done() // ssh may prompt on the same line
		if !prompts {
			args = append([]string{"-o", "BatchMode=yes"}, args...)
		}
		cmd := exec.CommandContext(ctx, path, args...)
		if command != "" { // git runs it in a shell
			cmd = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", command + ` "$@"`, "ssh"}, args...)...)
		}
		cmd.Env = environ
		return cmd
	}
}

// sshTarget returns the destination that ssh would connect to for an address, as in
// git@example.com, and its host; empty if the address does not use ssh.
func sshTarget(address string) (target, host string) {
	a, err := branch.ParseAddress(address)
	switch {
	case err != nil || a.Scheme != "ssh":
		return "", ""
	case a.User == "":
		return a.Host, a.Host
	}
	return a.User + "@" + a.Host, a.Host
}

// unusedSSHConfig returns a warning if the user's configuration of ssh changes how a host is
// reached, and is not used because a flag gives the key or the known hosts; "" otherwise.
func (s *Repository) unusedSSHConfig(address string) string {
	target, host := sshTarget(address)
	if target == "" || s.SSHKey == "" && s.sshKnownHosts == "" {
		return ""
	}
	config, _ := runProgram(s.Program.context(), "ssh", "", s.Program.ChildEnviron(), "-G", target)
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case (key == "proxyjump" || key == "proxycommand") && value != "none",
			key == "hostname" && !strings.EqualFold(value, host):
			return fmt.Sprintf("ssh is set up to reach %s by %s %s, which is not done with --ssh-key-file or --ssh-known-hosts-file: leave both out, or forward a port with ssh -L and give ssh://git@127.0.0.1:PORT/PATH", host, key, value)
		}
	}
	return ""
}
