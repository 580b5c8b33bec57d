package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"muster/generator/buildkite"
	"muster/generator/plan"
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
			findings := s.loader().Check(cmd.Context(), tree)
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
	if err := client.Verify(ctx); err != nil {
		return tip.Tree, append(failures, err), nil
	}
	queues, err := s.checkQueues(ctx, client, tip.Tree)
	if err != nil {
		failures = append(failures, err)
	}
	return tip.Tree, append(failures, queues...), nil
}

// checkQueues reads Buildkite as a tick does, and returns what would suspend the
// overlays: a cluster that does not exist, a queue that is in several.
func (s *settings) checkQueues(ctx context.Context, client *buildkite.Client, tree fs.FS) ([]error, error) {
	loaded, err := s.loader().LoadContext(ctx, tree)
	if err != nil {
		return nil, nil // the files' own findings say so
	}
	var overlays []plan.Overlay
	for _, o := range loaded {
		if o.Policy.Queue != "" {
			overlays = append(overlays, o.Overlay)
		}
	}
	snapshot, err := client.Snapshot(ctx, s.program.clock.Now(), time.Time{})
	if err != nil {
		return nil, err
	}
	var findings []error
	for _, o := range plan.Observe(overlays, snapshot, &plan.Registrations{}) {
		for _, supply := range o.Overlays {
			if supply.Suspended.Active() {
				findings = append(findings, fmt.Errorf("%s: suspended: %s", supply.Overlay, supply.Suspended))
			}
		}
		if plan.Unknown(o.Queue, snapshot) {
			findings = append(findings, fmt.Errorf("queue %q: no cluster has it, and no agent and no job is in it; is its key right?", o.Queue))
		}
	}
	return findings, nil
}
