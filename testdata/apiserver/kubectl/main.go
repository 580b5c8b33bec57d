// Command kubectl is kubectl itself, for machines that have none: the tests
// hold what muster writes against "kubectl kustomize".
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	if err := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{Arguments: os.Args, IOStreams: streams}).Execute(); err != nil {
		os.Exit(1)
	}
}
