package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/cmd/muster/output"
	"muster/generator/fleet"
	"muster/generator/manual"
	"muster/generator/policy"
)

// whileFlags say how long a change lasts.
type whileFlags struct {
	until string
	last  time.Duration
}

func (w *whileFlags) addTo(c *cobra.Command, what string) {
	c.Flags().StringVar(&w.until, "until", "", what+" until this time, such as 2026-11-21T18:00Z")
	c.Flags().DurationVar(&w.last, "for", 0, what+" for this time, such as 2h")
}

// end is when the change ends; zero: it does not.
func (w *whileFlags) end(now time.Time) (time.Time, error) {
	now = now.UTC().Truncate(time.Second)
	switch {
	case w.until != "" && w.last != 0:
		return time.Time{}, output.Usage(errors.New("--until and --for are both given: keep one"))
	case w.last < 0:
		return time.Time{}, output.Usage(fmt.Errorf("--for %s is in the past", w.last))
	case w.last > 0:
		return now.Add(w.last).Truncate(time.Second), nil
	case w.until == "":
		return time.Time{}, nil
	}
	at, ok := readTime(w.until)
	switch {
	case !ok:
		return time.Time{}, output.Usage(fmt.Errorf("--until: %q is not a time, as in 2026-11-21T18:00Z", w.until))
	case !now.Before(at):
		return time.Time{}, output.Usage(fmt.Errorf("--until %s is in the past: it is %s", w.until, now.Format(time.RFC3339)))
	}
	return at, nil
}

func (p program) pauseCommand() *cobra.Command {
	m := p.manualFlags()
	var while whileFlags
	c := &cobra.Command{
		Use:   "pause OVERLAY",
		Short: "Order no agents for an overlay, until told or until a time",
		Long: `pause writes paused: true into an overlay's scaling.yaml, or, with --until or
--for, an override that ends by itself. Agents that are there go on.`,
		Example: `  muster pause linux --reason "the registry is down"
  muster pause linux --for 2h --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: m.settings.git.completion(1, func(o offered) []string { return o.overlays }),
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := while.end(p.clock.Now())
			if err != nil {
				return err
			}
			return m.onOverlay(cmd.Context(), args[0], func(f *fleetNow, o *fleet.Overlay) (manual.Edit, error) {
				return manual.Pause(f.head.Tree, o, until, f.now)
			})
		},
	}
	m.addTo(c)
	while.addTo(c, "pause")
	return c
}

func (p program) resumeCommand() *cobra.Command {
	m := p.manualFlags()
	c := &cobra.Command{
		Use:   "resume OVERLAY",
		Short: "Order agents for a paused overlay again",
		Long: `resume takes back what pause wrote into an overlay's scaling.yaml. A queue that
is paused in Buildkite is resumed there.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: m.settings.git.completion(1, func(o offered) []string { return o.overlays }),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.onOverlay(cmd.Context(), args[0], func(f *fleetNow, o *fleet.Overlay) (manual.Edit, error) {
				return manual.Resume(f.head.Tree, o, f.now)
			})
		},
	}
	m.addTo(c)
	return c
}

func (p program) setCommand() *cobra.Command {
	m := p.manualFlags()
	var while whileFlags
	c := &cobra.Command{
		Use:   "set OVERLAY NAME=VALUE...",
		Short: "Change settings of an overlay's policy, for good or for a while",
		Long: `set changes settings in an overlay's scaling.yaml and leaves every other line as
it is. With --for or --until it writes an override, which ends by itself: min,
max, buffer and maxPerHour can be set so. reuse is set for good, as
reuse=idle:1m,uptime:30m, and reuse=none ends it.`,
		Example: `  muster set linux max=40 --for 2h --reason "release day"
  muster set linux min=2 buffer=5
  muster set linux reuse=idle:1m,uptime:30m`,
		Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return m.settings.git.completion(1, func(o offered) []string { return o.overlays })(cmd, args, begun)
			}
			var names []string
			for _, name := range policy.Settable() {
				names = append(names, name+"=")
			}
			return begins(names, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := while.end(p.clock.Now())
			if err != nil {
				return err
			}
			values := map[string]string{}
			for _, arg := range args[1:] {
				name, value, ok := strings.Cut(arg, "=")
				if !ok || name == "" || value == "" {
					return output.Usage(fmt.Errorf("%q is not NAME=VALUE, as in max=40", arg))
				}
				if _, twice := values[name]; twice {
					return output.Usage(fmt.Errorf("%s is set twice", name))
				}
				values[name] = value
			}
			return m.onOverlay(cmd.Context(), args[0], func(f *fleetNow, o *fleet.Overlay) (manual.Edit, error) {
				return manual.Set(f.head.Tree, o, values, until, f.now)
			})
		},
	}
	m.addTo(c)
	while.addTo(c, "in force")
	return c
}

// onOverlay makes an edit of one overlay. What is wrong with it is the user's to fix.
func (m *manualFlags) onOverlay(ctx context.Context, arg string, edit func(*fleetNow, *fleet.Overlay) (manual.Edit, error)) error {
	return m.run(ctx, func(_ context.Context, f *fleetNow) (manual.Edit, error) {
		o, err := f.overlay(arg, m.settings.git.overlays)
		if err != nil {
			return manual.Edit{}, err
		}
		e, err := edit(f, o)
		return e, output.Usage(err)
	})
}
