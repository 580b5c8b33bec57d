package remote

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Command returns a command that runs the git program on the repository in a local
// directory, and not in a parent directory. git runs no program that the repository's
// configuration names: no hook, no file system monitor, and nothing that fetches the
// objects that a partial clone lacks (git(1), GIT_NO_LAZY_FETCH, which Git 2.44
// introduced, and GIT_ALLOW_PROTOCOL for older versions). git still refuses a
// repository that belongs to another user (git-config(1), safe.directory).
// safe.bareRepository is overridden because dir names the repository explicitly, which git
// recognizes only with --git-dir or GIT_DIR (git-config(1)).
//
// git ignores replacements (git-replace) and grafts, because they show other objects than
// the named ones. If environ is nil, git gets the needed variables of this process.
func Command(ctx context.Context, dir string, environ []string, args ...string) (*exec.Cmd, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, git, append([]string{"-c", "safe.bareRepository=all", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c", "advice.graftFileDeprecated=false", "-C", dir}, args...)...)
	if environ == nil {
		environ = minimal(cmd.Environ())
	}
	cmd.Env = append(WithoutRepository(environ), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE="+os.DevNull)
	cmd.Env = append(cmd.Env, noFetch...)
	return cmd, nil
}

// noFetch stops git from fetching from other repositories.
var noFetch = []string{"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none"}

// WithoutRepository removes the variables that name a repository instead of the directory
// (git(1), "The Git Repository").
func WithoutRepository(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{
			"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE",
		}, name)
	})
}

// minimal returns the variables of an environment that git needs. Others may contain tokens and
// passwords, and hooks of the repository, which are other people's programs, would inherit them.
func minimal(environ []string) []string {
	needed := []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "TZ", "LANG", "LANGUAGE", "SYSTEMROOT",
		"XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL", "GIT_EXEC_PATH",
	}
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.Contains(needed, strings.ToUpper(name)) && !strings.HasPrefix(name, "LC_")
	})
}
