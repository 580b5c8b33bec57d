package invocation

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Version is the version of this source. It ends in "-dev" except in commits that can be released.
const Version = "v0.3.0"

// linkedVersion and linkedCommit are set by the linker: see the Makefile.
var linkedVersion, linkedCommit string

// build identifies the program; the zero value has the version of the source and no commit.
type build struct {
	version string
	// Commit ends in "-dirty" if the source had uncommitted changes.
	Commit string
}

// ThisBuild describes the running program: the linker's values first, then those stamped by the
// go command (go help buildvcs), then the source's.
func ThisBuild() build {
	b := build{linkedVersion, linkedCommit}
	if info, ok := debug.ReadBuildInfo(); ok {
		b = b.or(info)
	}
	return b
}

// or completes unknown fields from the go command's stamps. It ignores a pseudo-version v0.0.0.
func (b build) or(info *debug.BuildInfo) build {
	if v := info.Main.Version; strings.HasPrefix(v, "v") && !strings.HasPrefix(v, "v0.0.0-") {
		b.version = cmp.Or(b.version, v)
	}
	var stamped build
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			stamped.Commit = s.Value[:min(12, len(s.Value))] + stamped.Commit
		case s.Key == "vcs.modified" && s.Value == "true":
			stamped.Commit += "-dirty"
		}
	}
	if stamped.Commit != "-dirty" {
		b.Commit = cmp.Or(b.Commit, stamped.Commit)
	}
	return b
}

// Name returns the version.
func (b build) Name() string { return cmp.Or(b.version, Version) }

// String returns the version, with the commit if known: "v0.3.0 (0bfc905f2b1c)".
func (b build) String() string {
	if b.Commit == "" {
		return b.Name()
	}
	return b.Name() + " (" + b.Commit + ")"
}

// VersionCommand returns the command that prints the version.
func (p Program) VersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit, and what it was built with",
		Example: fmt.Sprintf("  %s version\n  %[1]s --version", p.Name()),
		Args:    NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			commit := cmp.Or(p.Build.Commit, "unknown")
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\ncommit %s\n%s\n%s/%s\n",
				p.Name(), p.Build.Name(), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
