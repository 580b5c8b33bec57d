package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muster/generator/manual"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/github"
)

// variablesGitHubToken are where GitHub's own tools and its workflows have a token.
var variablesGitHubToken = []string{"GH_TOKEN", "GITHUB_TOKEN"}

// pulls are the pull requests of the repository on GitHub, with a token of the App or
// of the environment; nil where it is not on GitHub, or there is no token.
func (s *gitSettings) pulls() (*github.Pulls, error) {
	owner, name, err := ownerAndName(s.repo)
	if err != nil {
		return nil, nil // it is no address of a repository of somebody's
	}
	app, err := s.githubApp()
	if err != nil {
		return nil, usage(err)
	}
	c := github.PullsConfig{Owner: owner, Name: name, API: s.githubAPI, Client: &http.Client{Timeout: time.Minute}, Now: s.program.clock.Now, Sleep: s.program.clock.Sleep}
	if app != nil {
		c.Token = app.Token
	} else if token := cmp.Or(s.program.variable(variablesGitHubToken[0]), s.program.variable(variablesGitHubToken[1])); token != "" {
		c.Token = func(context.Context) (string, error) { return token, nil }
	}
	if c.Token == nil {
		return nil, nil
	}
	p, err := github.NewPulls(c)
	return p, usage(err)
}

// propose pushes a commit to a branch of its own, and opens a pull request where that
// can be done.
func (m *manualFlags) propose(ctx context.Context, at *fleetNow, e manual.Edit) error {
	p := m.settings.program
	git := &m.settings.git
	sum := sha256.Sum256([]byte(e.Message(m.reason) + at.tip.Commit + at.now.String()))
	name := fmt.Sprintf("muster/%s-%x", strings.Trim(plan.Slug(e.Subject), "-"), sum[:4])
	commit, said, err := at.reader.Propose(ctx, at.tip, []branch.Draft{{Message: e.Message(m.reason), At: at.now, Changes: e.Changes}}, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "pushed %.7s to %s\n", commit, name)
	if said != "" {
		fmt.Fprintln(p.stdout, said)
	}
	pulls, err := git.pulls()
	switch {
	case err != nil:
		return err
	case pulls == nil:
		fmt.Fprintf(p.stdout, "open a pull request of %s into %s there (on GitHub muster does, with GITHUB_TOKEN or the App)\n", name, git.branch)
		return nil
	}
	title, text := e.Proposal(m.reason)
	pull, err := pulls.Open(ctx, name, git.branch, title, text)
	if err != nil {
		return fmt.Errorf("%w (the commit is in the branch %s)", err, name)
	}
	fmt.Fprintln(p.stdout, pull.URL)
	return nil
}

// explained adds to a refusal what can be done about it.
func explained(err error) error {
	var refused *branch.Refused
	if errors.As(err, &refused) {
		return fmt.Errorf("%w (where the branch takes no pushes of yours: --pr makes a branch and a pull request of it)", err)
	}
	return err
}
