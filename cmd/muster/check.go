package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/spf13/cobra"

	"muster/gitops/branch"
)

// checkFlags are what the flags of muster check ask for.
type checkFlags struct {
	settings           *settings
	hooks              webhookFlags
	offline, sayOnJobs bool
	output             string
}

func (p program) checkCommand() *cobra.Command {
	k := &checkFlags{}
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Validate the fleet repository",
		Long: `check reads policies, templates and dispatches, builds every overlay, and
prints what is wrong and what to write instead. With --repo it validates the
branch, the credentials for git and Buildkite, the key to sign with, the secrets
of webhooks, the queues in Buildkite, its metrics, the receivers of --notify, and
with --say-on-jobs whether lines can be written on jobs' pages.
Whether the branch's rules let this user push is asked by a push that changes
nothing, where the git host tells; what they require of a commit, the first push
shows. With DIR it validates the files in a directory, and needs no credentials. The
exit code is 2 for invalid files, and 3 when something outside of them is wrong.`,
		Example: `  muster check fleet
  muster check . -o github
  muster check --repo https://git.example.com/fleet.git --buildkite-org acme`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return k.run(cmd, args) },
	}
	k.settings = newSettings(p, c)
	k.settings.notify.addTo(c)
	k.hooks.addTo(c)
	k.settings.agent.addTo(c)
	c.Flags().BoolVar(&k.sayOnJobs, "say-on-jobs", false, "test whether run --say-on-jobs can write on job pages, without writing there; needs --agent-token-file")
	c.Flags().BoolVar(&k.offline, "offline", false, "do not use the credentials for git and Buildkite, and contact no receiver")
	c.Flags().StringVarP(&k.output, "output", "o", "text", "text, json, sarif (code scanning) or github (annotations of GitHub Actions)")
	oneOf(c, "output", "text", "json", "sarif", "github")
	return c
}

func (k *checkFlags) run(cmd *cobra.Command, args []string) error {
	s, p := k.settings, k.settings.program
	show, ok := checkPrinters()[k.output]
	if !ok {
		return usage(fmt.Errorf("--output %q: use text, json, sarif or github", k.output))
	}
	if len(args) == 1 && cmd.Flags().Changed("repo") {
		return usage(errors.New("both --repo and a directory are given: check validates one of them"))
	}
	p.progress.Doing("reading the fleet repository")
	tree, failures, err := s.treeToCheck(cmd.Context(), args, k.offline)
	if err != nil {
		return err
	}
	if len(args) == 0 && !k.offline {
		failures = append(failures, k.hooks.unreadable()...)
		if k.sayOnJobs {
			found, err := s.checkPages(cmd.Context(), tree)
			if err != nil {
				return err
			}
			failures = append(failures, found...)
		}
	}
	p.progress.Doing("building the overlays")
	loader := s.loader()
	for _, namespace := range deployedInto(tree, path.Dir(s.git.overlays)) {
		loader.Reserve(namespace)
	}
	findings, err := loader.Check(cmd.Context(), tree)
	p.progress.Done()
	if err != nil {
		return fmt.Errorf("the files are not checked: %w", err)
	}
	result := checked{tree: tree, dir: ".", findings: findings, failures: failures, build: p.build}
	if len(args) == 1 {
		result.dir = below(args[0])
	}
	if err := show(cmd.OutOrStdout(), result); err != nil {
		return err
	}
	return result.err()
}

// err decides the exit code: invalid files are the user's to fix.
func (c checked) err() error {
	switch n := len(c.findings) + len(c.failures); {
	case n == 0:
		return nil
	case len(c.findings) > 0:
		return usage(findingsError(n))
	default:
		return findingsError(n)
	}
}

func findingsError(n int) error {
	if n == 1 {
		return errors.New("1 finding")
	}
	return fmt.Errorf("%d findings", n)
}

// treeToCheck returns the files to look at, and what else keeps muster from
// working: credentials, and what Buildkite says of the queues.
func (s *settings) treeToCheck(ctx context.Context, args []string, offline bool) (fs.FS, []error, error) {
	if len(args) == 1 {
		root, err := os.OpenRoot(args[0]) // no link leads out of it
		if err != nil {
			return nil, nil, usage(err)
		}
		return root.FS(), nil, nil
	}
	if s.git.repo == "" {
		return nil, nil, usage(errors.New("nothing to check: give a directory or --repo"))
	}
	log, err := s.logger()
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.git.style(); err != nil {
		return nil, nil, err
	}
	repository, err := s.git.writer(log)
	if err != nil {
		return nil, nil, err
	}
	tip, err := repository.Tip(ctx)
	if err != nil {
		return nil, nil, err
	}
	if offline {
		return tip.Tree, nil, nil
	}
	if err := s.makeNotifier(log); err != nil {
		return nil, nil, err
	}
	client, err := s.client(log)
	if err != nil {
		return nil, nil, err
	}
	s.program.progress.Doing("asking git and Buildkite")
	var failures []error
	switch err := repository.Writable(ctx); {
	case errors.Is(err, branch.ErrUnproven):
		log.Info("this user may push; whether the rules of this branch let a commit pass is not known before the first push", "branch", s.git.branch, "reason", err)
	case err != nil:
		failures = append(failures, err)
	}
	failures = append(failures, s.checkBuildkite(ctx, client, log, tip.Tree)...)
	return tip.Tree, append(failures, s.checkReceivers(ctx)...), nil
}
