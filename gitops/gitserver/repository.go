// Package gitserver makes git repositories and serves them like a git host, for tests and the demo: over
// smart HTTP with `git http-backend`, and over SSH with git's upload-pack and receive-pack. It needs only
// the git binary, and listens only on the loopback interface.
package gitserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/gitops/branch"
)

// Repository is a bare repository on disk, whose branch is main.
type Repository struct {
	// Dir is the repository's directory.
	Dir string
}

// Init makes an empty bare repository in dir, which is created if missing. Its HEAD is main, it accepts
// pushes over HTTP, and it offers partial clone like the large hosts (uploadpack.allowFilter,
// allowAnySHA1InWant).
func Init(dir string, more ...string) (Repository, error) {
	r := Repository{Dir: dir}
	args := append([]string{"init", "--quiet", "--bare", "--initial-branch=main"}, more...)
	if _, err := run("", nil, append(args, dir)...); err != nil {
		return r, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "config"), os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		_, err = file.WriteString(settings)
		err = errors.Join(err, file.Close())
	}
	return r, err
}

// settings are those of a repository that [Init] makes.
const settings = `
[http]
	receivepack = true
[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
[gc]
	auto = 0
[receive]
	autogc = false
`

// Configure sets one value of the repository's git configuration.
func (r Repository) Configure(key, value string) error {
	_, err := r.Git("config", key, value)
	return err
}

// Git runs git in the repository, without the configuration of the machine and the user, and returns its
// output.
func (r Repository) Git(args ...string) (string, error) {
	return run(r.Dir, nil, args...)
}

// GitInput is [Repository.Git] with a standard input.
func (r Repository) GitInput(input []byte, args ...string) (string, error) {
	return run(r.Dir, input, args...)
}

// Head returns the commit of branch main, or an error if the branch does not exist.
func (r Repository) Head() (string, error) {
	out, err := r.Git("rev-parse", "--verify", "--quiet", "refs/heads/main")
	return strings.TrimSpace(out), err
}

// Commit adds a commit to branch main, like another writer, and returns its identifier. The first commit
// creates the branch.
func (r Repository) Commit(message string, at time.Time, changes ...branch.Change) (string, error) {
	var stream bytes.Buffer
	fmt.Fprintf(&stream, "commit refs/heads/main\nmark :1\ncommitter Grace <grace@example.com> %d +0000\n", at.Unix())
	fmt.Fprintf(&stream, "data %d\n%s\n", len(message), message)
	if head, err := r.Head(); err == nil {
		fmt.Fprintf(&stream, "from %s\n", head)
	}
	for _, c := range changes {
		if c.Content == nil {
			fmt.Fprintf(&stream, "D %s\n", c.Path)
			continue
		}
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", c.Path, len(c.Content), c.Content)
	}
	stream.WriteString("get-mark :1\n")
	out, err := r.GitInput(stream.Bytes(), "fast-import", "--quiet")
	return strings.TrimSpace(out), err
}

// ReadFile returns a file of branch main.
func (r Repository) ReadFile(path string) ([]byte, error) {
	out, err := r.Git("cat-file", "blob", "refs/heads/main:"+path)
	return []byte(out), err
}

// run runs git and returns its standard output; an error contains its standard error.
func run(dir string, input []byte, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = environment(cmd)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("running git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// environment returns the environment of a command without git's variables, which a hook of an outer
// repository would pass on, and without the configuration of the machine and the user.
func environment(cmd *exec.Cmd) []string {
	env := slices.DeleteFunc(cmd.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	return append(env, isolation()...)
}

func isolation() []string {
	return []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
}
