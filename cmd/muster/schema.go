package main

import (
	"github.com/spf13/cobra"

	"muster/generator/policy"
)

func (p program) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scaling.yaml",
		Long: `schema prints the JSON Schema of a policy, by which editors complete and check
it while it is written. init writes the same into schema/scaling.json, and the
policies that it writes name that file. Write it anew when muster has changed.`,
		Example: `  muster schema > schema/scaling.json`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policy.Schema())
			return err
		},
	}
}
