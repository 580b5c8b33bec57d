package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"muster/gitops/git/remote"
)

// cloneAt returns the local repository that contains a directory, as the git program finds
// it: the top of a work tree, or a bare repository. The directory defaults to the current
// one. An address is returned unchanged.
//
// A bare repository is used only if it is named: a committed directory can be a bare
// repository, and its configuration is not the user's (git-config(1),
// safe.bareRepository).
func (p program) cloneAt(named string) (string, error) {
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
	if named != "" && p.asked(dir, "rev-parse", "--is-inside-git-dir") == "true" {
		return dir, nil
	}
	top, err := p.discovered(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", dir, err)
	}
	return top, nil
}

// discovered returns the output of the git program in a directory, for the repository that
// git finds from there.
func (p program) discovered(dir string, args ...string) (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", err
	}
	c := exec.Command(path, append([]string{"-c", "safe.bareRepository=explicit"}, args...)...)
	c.Dir, c.Env = dir, remote.WithoutRepository(p.childEnviron())
	return printed(c)
}

// printed returns a program's output without surrounding space. The error contains what
// the program writes to standard error.
func printed(c *exec.Cmd) (string, error) {
	out, err := c.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		err = errors.New(strings.TrimPrefix(strings.TrimSpace(string(failed.Stderr)), "fatal: "))
	}
	return string(bytes.TrimSpace(out)), err
}

// asked returns the output of the git program about a clone, in one line; empty if git is
// not installed or fails.
func (p program) asked(dir string, args ...string) string {
	c, err := remote.Command(context.Background(), strings.TrimPrefix(dir, "file://"), p.childEnviron(), args...)
	if err != nil {
		return ""
	}
	line, _ := printed(c)
	return line
}

// ownEnviron returns an environment in which git has the user's and the system's settings,
// including those for the current directory (git-config(1), includeIf), but none of a
// repository's own, which could name programs to run.
func (p program) ownEnviron() []string {
	environ := append(remote.WithoutRepository(p.childEnviron()), "GIT_DIR="+os.DevNull)
	list, err := p.discovered("", "config", "--list", "-z", "--show-scope")
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

// ownSetting returns the output of git config for the settings of [program.ownEnviron];
// empty if git is not installed or has no such setting.
func (p program) ownSetting(args ...string) string {
	path, err := exec.LookPath("git")
	if err != nil {
		return ""
	}
	c := exec.Command(path, append([]string{"config"}, args...)...)
	c.Env = p.ownEnviron()
	line, _ := printed(c)
	return line
}

// signaturePrograms returns settings that make git verify signatures with the programs of
// the user's configuration, or with git's defaults (git-config(1), gpg.program and
// gpg.<format>.program).
func (p program) signaturePrograms() []string {
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
