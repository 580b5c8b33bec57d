// Package gitops is the fleet repository as muster uses it: package git with muster's defaults and
// with remedies in errors.
package gitops

import (
	"cmp"
	"fmt"
	"path"

	"muster/gitops/branch"
	"muster/gitops/git"
)

// Repository is the fleet repository over git: one branch of one remote, made by [New]. It is
// a [branch.Writer]. It may be used from several goroutines, which then take turns.
type Repository = git.Branch

// Config selects the repository and the author. URL is required. ReadAhead is the directory of the
// overlays.
type Config = git.Config

// DefaultTimeout bounds an exchange with the server.
const DefaultTimeout = git.DefaultTimeout

// baseDir is the directory of a fleet repository with the files that its overlays build on. It is
// next to the directory of the overlays.
const baseDir = "base"

// New checks the configuration and returns the repository. It does not connect to anything. By
// default the branch is main, the overlays are in overlays, and muster <muster@localhost> is the
// author. Errors contain a remedy.
func New(c Config) (*Repository, error) {
	c.Branch = cmp.Or(c.Branch, "main")
	c.AuthorName = cmp.Or(c.AuthorName, "muster")
	c.AuthorEmail = cmp.Or(c.AuthorEmail, "muster@localhost")
	c.ReadAhead = path.Clean(cmp.Or(c.ReadAhead, "overlays"))
	if err := branch.CheckPath(c.ReadAhead); err != nil {
		return nil, fmt.Errorf("the overlays directory: %w", err)
	}
	c.ReadFirst = []string{path.Join(path.Dir(c.ReadAhead), baseDir)}
	c.Remedy = WithRemedy
	r, err := git.New(c)
	return r, WithRemedy(err)
}
