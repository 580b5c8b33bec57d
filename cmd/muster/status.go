package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"muster/cmd/muster/terminal"
	"muster/generator/manifest"
	"muster/gitops"
)

func (p program) statusCommand() *cobra.Command {
	s := &settings{program: p, git: gitSettings{program: p}}
	var output string
	var w watch
	c := &cobra.Command{
		Use:   "status [OVERLAY|DISPATCH]",
		Short: "Show what each overlay has, from git alone",
		Long: `status reads the fleet repository and nothing else: it needs no token for
Buildkite, and no flag in a clone of the repository. It prints what each overlay
has in git, the agents in flight, what the last commit knew of jobs and agents,
and when that was. With the name of an overlay it prints its dispatches and last
acts too; with that of a dispatch, as a Job's label muster.dev/dispatch has it,
what is known of that one. What Buildkite says now, muster plan tells. The exit
code is 0 also when overlays are suspended.`,
		Example: `  muster status
  muster status default
  muster status -o wide --watch`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("muster status takes one overlay or dispatch: remove %q", args[1])
			}
			return nil
		},
		ValidArgsFunction: s.git.completion(1, func(o offered) []string { return append(o.overlays, o.dispatches...) }),
		RunE: func(cmd *cobra.Command, args []string) error {
			show, ok := statusPrinters()[output]
			if !ok {
				return usage(fmt.Errorf("--output %q: use table, wide, json, yaml or name", output))
			}
			source, err := s.statusSource()
			if err != nil {
				return err
			}
			return w.run(cmd.Context(), p, p.output(), func(ctx context.Context, out terminal.Output) error {
				p.progress.Doing("reading the fleet repository")
				f, err := s.git.status(ctx, source)
				p.progress.Done()
				if err != nil {
					return err
				}
				if err := f.only(args, s.git.overlays); err != nil {
					return err
				}
				return show(out, f, len(args) > 0)
			})
		},
	}
	s.git.addReading(c)
	s.addLog(c)
	w.addTo(c)
	c.Flags().StringVarP(&output, "output", "o", "table", "table, wide, json, yaml or name")
	oneOf(c, "output", "table", "wide", "json", "yaml", "name")
	return c
}

// statusSource is what status reads, and keeps from look to look.
type statusSource struct {
	repository *gitops.Repository
	loader     *manifest.Loader
}

// statusSource opens the repository; where none is named, the one that the current
// directory is in.
func (s *settings) statusSource() (*statusSource, error) {
	repository, err := s.clone()
	if err != nil {
		return nil, err
	}
	return &statusSource{repository: repository, loader: s.loader()}, nil
}

// only keeps the named overlay, or the named dispatch and its overlay.
func (f *fleetStatus) only(names []string, dir string) error {
	var known []string
	for _, o := range f.Overlays {
		known = append(known, o.Overlay)
		if len(names) == 1 && o.onlyDispatch(names[0]) {
			f.Overlays = []overlayStatus{o}
			return nil
		}
	}
	chosen, err := chooseOverlays(names, known, dir)
	f.Overlays = slices.DeleteFunc(f.Overlays, func(o overlayStatus) bool { return !slices.Contains(chosen, o.Overlay) })
	return err
}

// onlyDispatch keeps one dispatch and its acts, if there is such a one.
func (o *overlayStatus) onlyDispatch(id string) bool {
	other := func(a actStatus) bool { return !slices.Contains(a.Dispatches, id) }
	dispatches := slices.DeleteFunc(slices.Clone(o.Dispatches), func(d dispatchStatus) bool { return d.ID != id })
	acts := slices.DeleteFunc(slices.Clone(o.Acts), other)
	if len(dispatches)+len(acts) == 0 {
		return false
	}
	o.Dispatches, o.Acts = dispatches, acts
	return true
}

// statusPrinters are the values of status's --output. whole: one overlay is asked
// for, with all that is known of it.
func statusPrinters() map[string]func(out terminal.Output, f fleetStatus, whole bool) error {
	return map[string]func(terminal.Output, fleetStatus, bool) error{
		"table": func(out terminal.Output, f fleetStatus, whole bool) error { return printStatus(out, f, false, whole) },
		"wide":  func(out terminal.Output, f fleetStatus, whole bool) error { return printStatus(out, f, true, whole) },
		"json":  func(out terminal.Output, f fleetStatus, _ bool) error { return printStatusJSON(out, f) },
		"yaml":  func(out terminal.Output, f fleetStatus, _ bool) error { return printStatusYAML(out, f) },
		"name": func(out terminal.Output, f fleetStatus, _ bool) error {
			for _, o := range f.Overlays {
				fmt.Fprintln(out.Text, o.Path)
			}
			return nil
		},
	}
}

func printStatusJSON(out terminal.Output, f fleetStatus) error {
	e := json.NewEncoder(out.Text)
	e.SetIndent("", "  ")
	return e.Encode(f)
}

func printStatusYAML(out terminal.Output, f fleetStatus) error {
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(yamlSafe(raw))
	if err != nil {
		return err
	}
	_, err = out.Text.Write(text)
	return err
}
