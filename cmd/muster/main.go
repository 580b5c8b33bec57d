// Command muster scales Buildkite agents by committing to git.
package main

import (
	"context"

	"muster/cmd/invocation"

	"github.com/spf13/cobra"
)

func main() { invocation.Main(allCommands) }

// program is one invocation of muster.
type program struct{ invocation.Program }

var allCommands = invocation.Commands{
	Name:       "muster",
	Root:       func(p invocation.Program) *cobra.Command { return program{p}.command() },
	Unfinished: unfinished,
}

// run runs the command line and returns the exit code.
func (p program) run(ctx context.Context) int { return p.Run(ctx, allCommands) }

// unfinished maps the name of a command to a description of its incomplete work if a signal ends it.
var unfinished = map[string]string{
	"cancel":        "nothing was pushed",
	"check":         "the files are not checked",
	"close-breaker": "nothing was pushed",
	"explain":       "nothing was explained",
	"history":       "the history was not read to its end",
	"init":          "files may be missing",
	"pause":         "nothing was pushed",
	"plan":          "nothing was decided",
	"report":        "no report was written",
	"resume":        "nothing was pushed",
	"revert":        "nothing was pushed",
	"run":           "the tick was not completed; muster history shows what it pushed",
	"set":           "nothing was pushed",
	"status":        "the fleet was not read",
	"verify":        "not all commits were verified",
}

func (p program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "Scale Buildkite agents by committing to git",
		Long: `muster polls Buildkite, decides how many short-lived agents are missing, and orders
them: it commits Kubernetes Jobs to a directory that Argo CD or Flux syncs. It never
calls the Kubernetes API. An overlay serves one Buildkite queue on one Kubernetes
cluster. An order (a dispatch in commits) is one Job of one or more agents; to retire
it is to remove it from git once its agents have registered or its time limit has
passed. A tick is one poll with its decisions.

Every flag can be given as an environment variable: --git-username is
MUSTER_GIT_USERNAME. A flag wins over its variable. Secrets come from
BUILDKITE_API_TOKEN and MUSTER_GIT_PASSWORD, or from files.

A command under Change makes one commit in your own name. After a push conflict
it computes the change again. Without --repo it pushes to the origin of the
current clone, with git's credentials. It shows the commit first, and asks for
confirmation in a terminal.`,
		Version: p.Build.String(),
	}
	return invocation.NewRoot(root,
		invocation.CommandGroup{Heading: "Start", Commands: []*cobra.Command{p.initCommand(), p.checkCommand(), p.schemaCommand()}},
		invocation.CommandGroup{Heading: "Operate", Commands: []*cobra.Command{p.runCommand(), p.planCommand(), p.statusCommand()}},
		invocation.CommandGroup{Heading: "Explain", Commands: []*cobra.Command{p.historyCommand(), p.explainCommand(), p.reportCommand(), p.verifyCommand()}},
		invocation.CommandGroup{Heading: "Change", Commands: []*cobra.Command{
			p.pauseCommand(), p.resumeCommand(), p.setCommand(), p.cancelCommand(), p.closeBreakerCommand(), p.revertCommand(),
		}},
		invocation.CommandGroup{Heading: "Other", Commands: []*cobra.Command{p.VersionCommand(), p.ManCommand()}})
}
