package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (p program) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write man pages",
		Long: `man writes a man page for each command into a directory, which is made where
there is none. Their date is SOURCE_DATE_EPOCH's where that is set.`,
		Example: `  muster man ~/.local/share/man/man1 && man muster-plan`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("which directory? muster man DIR, as in muster man ~/.local/share/man/man1")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			date := p.clock.Now().UTC()
			if epoch := p.variable("SOURCE_DATE_EPOCH"); epoch != "" {
				seconds, err := strconv.ParseInt(epoch, 10, 64)
				if err != nil {
					return usage(fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", epoch))
				}
				date = time.Unix(seconds, 0).UTC()
			}
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return usage(err)
			}
			cmd.Root().DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "MUSTER", Section: "1", Date: &date, Source: "muster " + p.build.name(), Manual: "muster"}
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}
