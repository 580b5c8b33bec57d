// Package laboratory has the commands of muster-sim, which simulate: a demonstration, and the workloads of fleets
// under other policies.
package laboratory

import (
	"muster/cmd/invocation"

	"github.com/spf13/cobra"
)

// program is one invocation of muster-sim.
type program struct{ invocation.Program }

// Commands are the commands of muster-sim.
var Commands = invocation.Commands{
	Name: "muster-sim",
	Root: func(p invocation.Program) *cobra.Command { return program{p}.command() },
	Unfinished: map[string]string{
		"demo":     "the morning is incomplete",
		"live":     "the comparison is incomplete",
		"serve":    "the simulation did not start",
		"preview":  "the preview is incomplete",
		"simulate": "the simulation was not completed",
	},
}

func (p program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "muster-sim",
		Short: "Simulate fleets of muster",
		Long: `muster-sim plays muster against simulated builds. It demonstrates muster without an
account, compares policies and other autoscalers on given builds or on those that the
commits of a fleet record, shows what a change to a fleet repository would do, and
compares what the simulation relies on with your accounts.

Flags can be given as environment variables: --overlays is MUSTER_OVERLAYS. A flag
wins over its variable.`,
		Version: p.Build.String(),
	}
	return invocation.NewRoot(root,
		invocation.CommandGroup{Heading: "Try", Commands: []*cobra.Command{p.demoCommand(), p.serveCommand()}},
		invocation.CommandGroup{Heading: "Compare", Commands: []*cobra.Command{p.simulateCommand(), p.previewCommand()}},
		invocation.CommandGroup{Heading: "Prove", Commands: []*cobra.Command{p.liveCommand()}},
		invocation.CommandGroup{Heading: "Other", Commands: []*cobra.Command{p.VersionCommand(), p.ManCommand()}})
}
