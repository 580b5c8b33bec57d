package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/cmd/muster/output"
	"muster/generator/finding"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// prefix is the prefix of muster's environment variables, except Buildkite's token.
const prefix = "MUSTER_"

// Variables with secrets. They have no flags, because every process of the machine can read a
// command line.
const (
	variableToken    = "BUILDKITE_API_TOKEN"
	variablePassword = prefix + "GIT_PASSWORD"
)

// variableNamespace contains the namespace of muster's pod: deploy/ sets it from the downward
// API.
const variableNamespace = "POD_NAMESPACE"

// variableAgentToken is not used, but mistaken for variableToken.
const variableAgentToken = "BUILDKITE_AGENT_TOKEN"

// environment sets the flags from their variables; the command line overrides them. A variable
// without a flag is an error, because it is misspelled. Empty variables are ignored.
func (p program) environment(root *cobra.Command) error {
	values := map[string]string{}
	for _, entry := range p.environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix) && name != variablePassword && value != "" && !foreign(name) {
			values[name] = value
		}
	}
	known := map[string]bool{} // without the prefix
	var failed error
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			known[strings.TrimPrefix(name, prefix)] = true
			value, ok := values[name]
			if !ok {
				return
			}
			set := func() error { return f.Value.Set(value) }
			if slice, ok := f.Value.(pflag.SliceValue); ok { // Set would make the command line add to the list
				list := []string{value}
				if f.Value.Type() == "stringSlice" {
					list = strings.Split(value, ",")
				}
				set = func() error { return slice.Replace(list) }
			}
			if err := set(); err != nil && failed == nil {
				failed = fmt.Errorf("environment variable %s: %q is not %s", name, value, expected(f.Value.Type()))
			}
		})
	}
	for _, variable := range slices.Sorted(maps.Keys(values)) {
		name := strings.TrimPrefix(variable, prefix)
		if known[name] {
			continue
		}
		remedy := "unset it or spell it like one"
		if near := finding.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			remedy = "did you mean " + prefix + near + "?"
		}
		return output.Usage(fmt.Errorf("environment variable %s belongs to no flag; %s", variable, remedy))
	}
	return output.Usage(failed)
}

// expected describes the values of a type of flag.
func expected(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration, as in 15s or 5m"
	case "int", "int64", "uint64":
		return "a whole number"
	}
	return "a " + kind
}

// foreign reports whether a variable with muster's prefix belongs to another program: the agent
// Job (base/job.yaml), whose build steps inherit its variables, or Kubernetes, which sets
// variables for a Service "muster".
func foreign(name string) bool {
	switch name {
	case "MUSTER_NOT_AFTER", "MUSTER_IDLE_TIMEOUT", "MUSTER_PURPOSE", "MUSTER_AGENT_TAGS":
		return true
	}
	return strings.HasPrefix(name, prefix+"SERVICE_") || name == prefix+"PORT" || strings.HasPrefix(name, prefix+"PORT_")
}

// variable returns the value of an environment variable.
func (p program) variable(name string) string {
	for _, entry := range slices.Backward(p.environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// unknownCommand rejects arguments of a command with subcommands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return output.Usage(errors.New(text))
}

// noArguments is cobra.NoArgs with another message.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument: remove %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// atMostOne is cobra.MaximumNArgs(1) with another message; what describes the argument.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes one %s: remove %q", cmd.CommandPath(), what, args[1])
		}
		return nil
	}
}

// flagError adds a suggestion to unknown flags and describes valid values.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid):
		return output.Usage(fmt.Errorf("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), expected(invalid.GetFlag().Value.Type())))
	case errors.As(err, &missing) && missing.GetSpecifiedShortnames() == "":
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := finding.Nearest(missing.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return output.Usage(err)
}

// helpCommand is cobra's, but returns an error for an unknown topic.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil {
				return output.Usage(err)
			}
			if len(rest) > 0 && cmd.HasSubCommands() {
				return unknownCommand(cmd, rest)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func (p program) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write man pages",
		Long: `man writes a man page for each command into a directory, which it creates if it
does not exist. Their date is SOURCE_DATE_EPOCH, if that is set.`,
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
					return output.Usage(fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", epoch))
				}
				date = time.Unix(seconds, 0).UTC()
			}
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return output.Usage(err)
			}
			cmd.Root().DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "MUSTER", Section: "1", Date: &date, Source: "muster " + p.build.name(), Manual: "muster"}
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}
