package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

func (p program) runCommand() *cobra.Command {
	var s *settings
	var once, dryRun bool
	var interval, jitter time.Duration
	c := &cobra.Command{
		Use:   "run",
		Short: "Scale, tick after tick",
		Long: `run looks at Buildkite and at the fleet repository at each interval, and
commits what is to be done. It ends on SIGINT and SIGTERM, and looks at once on
SIGHUP.`,
		Example: `  export BUILDKITE_API_TOKEN=...
  muster run --repo git@example.com:acme/fleet.git --ssh-key-file key \
    --ssh-known-hosts-file known_hosts --buildkite-org acme`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < time.Second {
				return usage(errors.New("--interval is below one second"))
			}
			if jitter < 0 {
				return usage(errors.New("--startup-jitter is below zero"))
			}
			s.watchToken = true
			patience := buildPatience
			if once {
				patience = 0 // there is no later tick
				s.progress = p.progress
			}
			g, err := s.generator(dryRun, patience)
			if err != nil {
				return err
			}
			if !once {
				log, err := s.logger()
				if err != nil {
					return err
				}
				log.Info("starting", "version", p.build.name(), "commit", p.build.commit, "repository", s.git.shown, "branch", s.git.branch, "overlays", s.git.overlays,
					"organisation", s.org, "interval", interval, "dry-run", dryRun)
				defer log.Info("stopped")
				if p.wakeable != nil {
					p.wakeable()
				}
				return g.Run(cmd.Context(), interval, jitter)
			}
			result, err := g.Once(cmd.Context())
			if err != nil {
				return err
			}
			return invalidOverlays(result.Suspended)
		},
	}
	s = newSettings(p, c)
	c.Flags().BoolVar(&once, "once", false, "do one tick and end")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "do everything but the push")
	c.Flags().DurationVar(&interval, "interval", 15*time.Second, "time from tick to tick")
	c.Flags().DurationVar(&jitter, "startup-jitter", 5*time.Second, "the first tick comes after a random part of this time; not with --once")
	return c
}
