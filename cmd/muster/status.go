package main

import (
	"context"
	"fmt"
	"path"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/gitops"
	"muster/gitops/branch"

	"github.com/spf13/cobra"
)

func (p program) statusCommand() *cobra.Command {
	s := &settings{program: p, git: invocation.Repository{Program: p.Program}}
	var format, live string
	var w watch
	c := &cobra.Command{
		Use:   "status [OVERLAY]",
		Short: "Show what each overlay has, from git or a running muster",
		Long: `status reads only the fleet repository: it needs no Buildkite token, and no flags in
a clone of the repository. For each overlay it prints what is in git, the agents in
flight, and the jobs and agents of the last commit with its time. With the name of an
overlay it also prints its dispatches and last operations; muster explain DISPATCH
explains a dispatch. muster plan prints what Buildkite reports now. The exit code is 0
also if overlays are suspended.

With --live it reads muster run --listen at an address instead of git, and prints the
conditions and figures of the last tick. In a cluster, kubectl port-forward makes the
address reachable: kubectl port-forward -n muster deploy/muster 8080.`,
		Example: `  muster status
  muster status default
  muster status -o wide --watch
  muster status --live http://127.0.0.1:8080`,
		Args:              invocation.AtMostOne("overlay"),
		ValidArgsFunction: s.git.Completion(1, func(o invocation.CloneNames) []string { return o.Overlays }),
		RunE: func(cmd *cobra.Command, args []string) error {
			show, ok := statusPrinters()[format]
			if !ok {
				return output.Usage(fmt.Errorf("--output %q: use table, wide, json, yaml or name", format))
			}
			if live != "" {
				return p.runLive(cmd.Context(), w, live, format, args)
			}
			from := invocation.Nearest
			if w {
				from = invocation.InUpstream
			}
			repository, err := s.git.Open(cmd.Context(), from)
			if err != nil {
				return err
			}
			loader := s.git.Loader() // it keeps its builds between polls
			return w.run(cmd.Context(), p, p.Output(), func(ctx context.Context, out output.Output) error {
				p.Progress.Doing("reading the fleet repository")
				f, err := readStatus(ctx, &s.git, repository, loader)
				p.Progress.Done()
				if err != nil {
					return err
				}
				if err := f.Only(args, s.git.Overlays); err != nil {
					return err
				}
				return show(out, f, len(args) > 0)
			})
		},
	}
	s.git.AddReading(c)
	s.git.AddLog(c)
	w.addTo(c)
	c.Flags().StringVar(&live, "live", "", "read the muster run --listen at this address, such as http://127.0.0.1:8080, instead of git")
	c.Flags().StringVarP(&format, "output", "o", "table", "table, wide, json, yaml or name")
	invocation.OneOf(c, "output", "table", "wide", "json", "yaml", "name")
	return c
}

// statusPrinters are the values of status's --output. whole selects all details, for a single
// overlay.
func statusPrinters() map[string]func(out output.Output, f output.FleetStatus, whole bool) error {
	return map[string]func(output.Output, output.FleetStatus, bool) error{
		"table": func(out output.Output, f output.FleetStatus, whole bool) error {
			return output.PrintStatus(out, f, false, whole)
		},
		"wide": func(out output.Output, f output.FleetStatus, whole bool) error {
			return output.PrintStatus(out, f, true, whole)
		},
		"json": func(out output.Output, f output.FleetStatus, _ bool) error { return output.WriteJSON(out.Text, f) },
		"yaml": func(out output.Output, f output.FleetStatus, _ bool) error { return output.WriteYAML(out.Text, f) },
		"name": func(out output.Output, f output.FleetStatus, _ bool) error {
			for _, o := range f.Overlays {
				fmt.Fprintln(out.Text, o.Path)
			}
			return nil
		},
	}
}

// readStatus reads the fleet repository as it is now.
func readStatus(
	ctx context.Context, git *invocation.Repository, repository *gitops.Repository, loader *fleet.Loader,
) (output.FleetStatus, error) {
	head, err := repository.Head(ctx)
	if err != nil {
		return output.FleetStatus{}, err
	}
	overlays, err := loader.LoadContext(ctx, head.Tree)
	if err != nil {
		return output.FleetStatus{}, output.Usage(fmt.Errorf("no overlays can be read below %q of the repository (--overlays says where they are): %w", path.Clean(git.Overlays), err))
	}
	if err := output.IsOverlays(overlays); err != nil {
		return output.FleetStatus{}, err
	}
	now := git.Program.Clock.Now().UTC().Truncate(time.Second)
	log := ledger.Read(git.Overlays, repository.Commits(ctx, head.Commit, branch.Limit{Commits: output.MaxStatusCommits}))
	return output.ReadStatus(overlays, head.Commit, now, log)
}
