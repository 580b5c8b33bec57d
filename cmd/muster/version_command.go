package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// versionDocument is what version -o json prints.
type versionDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	// Commit ends in "-dirty" where the source was not what is committed; empty
	// where it is not known.
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p program) versionCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, and what it was built with",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionDocument{
				APIVersion: "muster.dev/v1alpha1", Kind: "Version",
				Version: p.build.name(), Commit: p.build.commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}
			switch output {
			case "text":
				fmt.Fprintf(cmd.OutOrStdout(), "muster %s\ncommit %s\n%s\n%s\n", v.Version, cmp.Or(v.Commit, "unknown"), v.Go, v.Platform)
				return nil
			case "json":
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(v)
			}
			return usage(fmt.Errorf("--output %q: use text or json", output))
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}
