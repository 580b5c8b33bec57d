// Command kubectlparse is kubectl without a cluster: it exits with an error if kubectl
// would reject the command line. "kubectl create" is a dry run, and the manifests of
// "kubectl apply" are built or must exist; other commands do nothing. After the argument
// --flags-only it looks at the command's name and its flags alone.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	if err := parse(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "kubectl %s: %v\n", strings.Join(os.Args[1:], " "), err)
		os.Exit(1)
	}
}

func parse(args []string) error {
	flagsOnly := len(args) > 0 && args[0] == "--flags-only"
	if flagsOnly {
		args = args[1:]
	}
	command, rest, err := kubectl().Find(args)
	if err != nil {
		return err
	}
	if !command.Runnable() || !command.HasParent() {
		return fmt.Errorf("kubectl has no such command")
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	if flagsOnly {
		return nil
	}
	if err := command.ValidateArgs(command.Flags().Args()); err != nil {
		return err
	}
	if command.HasSubCommands() && command.Flags().NArg() > 0 {
		return fmt.Errorf("%s has no command %s", command.CommandPath(), command.Flags().Arg(0))
	}
	switch path := command.CommandPath(); {
	case strings.HasPrefix(path, "kubectl create "):
		return execute(append(args, "--dry-run=client", "--output=name")...)
	case path == "kubectl kustomize":
		return execute(args...)
	case path == "kubectl apply":
		return manifests(command)
	}
	return nil
}

// manifests builds or looks for what is applied.
func manifests(apply *cobra.Command) error {
	if dir := apply.Flags().Lookup("kustomize").Value.String(); dir != "" {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		os.Stdout = null
		return execute("kustomize", dir)
	}
	files, err := apply.Flags().GetStringSlice("filename")
	if err != nil {
		return err
	}
	for _, file := range files {
		if file == "-" || strings.Contains(file, "://") {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	return nil
}

func execute(args ...string) error {
	root := kubectl()
	root.SetArgs(args)
	return root.Execute()
}

func kubectl() *cobra.Command {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	return cmd.NewKubectlCommand(cmd.KubectlOptions{IOStreams: streams})
}
