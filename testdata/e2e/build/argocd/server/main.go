// Command server is Argo CD's controllers and servers in one program: its first
// argument says which part it is, and the rest are that part's own flags.
package main

import (
	"fmt"
	"os"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	server "github.com/argoproj/argo-cd/v3/cmd/argocd-server/commands"
	"github.com/spf13/cobra"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"application-controller":    controller.NewCommand,
		"applicationset-controller": applicationset.NewCommand,
		"repo-server":               reposerver.NewCommand,
		"server":                    server.NewCommand,
	}
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "which part? application-controller, applicationset-controller, repo-server or server")
		os.Exit(2)
	}
	command := parts[os.Args[1]]()
	os.Args = os.Args[1:]
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}
