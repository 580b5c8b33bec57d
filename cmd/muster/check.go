package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"muster/generator/manifest"
)

func (p program) checkCommand() *cobra.Command {
	var s *settings
	var offline bool
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Validate the fleet repository",
		Long: `check reads policies, templates and dispatches, builds every overlay, and
prints what is wrong and what to write instead. With --repo it validates the
branch, the credentials for git and Buildkite, the key to sign with, and the
queues in Buildkite; with DIR it validates the files in a directory.`,
		Example: `  muster check fleet
  muster check --repo https://git.example.com/fleet.git --buildkite-org acme`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, failures, err := s.treeToCheck(cmd.Context(), args, offline)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			findings := manifest.Check(tree, s.git.overlays)
			for _, f := range findings {
				fmt.Fprintln(out, f.Error())
			}
			for _, f := range failures {
				fmt.Fprintln(out, f.Error())
			}
			switch {
			case len(findings) > 0:
				return usage(findingsError(len(findings) + len(failures)))
			case len(failures) > 0:
				return findingsError(len(failures))
			}
			fmt.Fprintln(out, "OK")
			return nil
		},
	}
	s = newSettings(p, c)
	c.Flags().BoolVar(&offline, "offline", false, "do not use the credentials for git and Buildkite")
	return c
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
	client, err := s.client(log)
	if err != nil {
		return nil, nil, err
	}
	var failures []error
	if pushing, ok := repository.(interface{ Writable(context.Context) error }); ok {
		if err := pushing.Writable(ctx); err != nil {
			failures = append(failures, err)
		}
	}
	return tip.Tree, append(failures, s.checkBuildkite(ctx, client, log, tip.Tree)...), nil
}
