package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"muster/cmd/muster/output"
	"muster/generator/finding"
	"muster/generator/policy"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// offered are the words that a shell can complete: the names in the files of a local clone.
// Completion contacts no server and builds nothing.
type offered struct{ overlays, queues, dispatches []string }

// offer reads the work tree of a local repository, or the one that contains the current
// directory. It returns the zero value if there is no work tree.
func (p program) offer(repo, overlays string) offered {
	var o offered
	top, err := p.cloneAt(repo)
	if err != nil {
		return o
	}
	root, err := os.OpenRoot(top) // no link leads out of it
	if err != nil {
		return o
	}
	defer func() { _ = root.Close() }()
	overlays = path.Clean(overlays)
	const deepest, most = 8, 5000
	looked := 0
	_ = fs.WalkDir(root.FS(), overlays, func(name string, d fs.DirEntry, err error) error {
		if looked++; err != nil || looked > most || d.IsDir() && strings.Count(name, "/") > deepest {
			return fs.SkipDir
		}
		dir, file := path.Split(name)
		dir = strings.TrimSuffix(dir, "/")
		switch {
		case file == "scaling.yaml" && dir != overlays:
			o.overlays = append(o.overlays, strings.TrimPrefix(dir, overlays+"/"))
			if text, err := fs.ReadFile(root.FS(), name); err == nil {
				if p, err := policy.Parse(name, text); err == nil {
					o.queues = append(o.queues, p.Queue)
				}
			}
		case path.Base(dir) == "dispatches" && strings.HasSuffix(file, ".yaml") && file != "kustomization.yaml" && file != "state.yaml":
			o.dispatches = append(o.dispatches, strings.TrimSuffix(file, ".yaml"))
		}
		return nil
	})
	slices.Sort(o.queues)
	o.queues = slices.Compact(o.queues)
	return o
}

// begins returns the words that begin so.
func begins(words []string, begun string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, begun) })
}

// anyNumber is as many arguments as one likes.
const anyNumber = 1 << 30

// completion completes with some of what a clone offers, less what is there.
func (s *gitSettings) completion(most int, choose func(offered) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words := slices.DeleteFunc(begins(choose(s.program.offer(s.repo, s.overlays)), begun), func(word string) bool { return slices.Contains(args, word) })
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// oneOf completes a flag that has few values.
func oneOf(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the command has no such flag: a defect
	}
}

// unknownCommand refuses arguments of a command that has others below it.
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

// noArguments is cobra.NoArgs in words that fit a command without others below it.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument: remove %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// flagError says what to write instead of a flag that there is not, and of a value
// that a flag does not take.
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

// helpCommand is cobra's, but for a topic that there is not: that is a mistake.
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

// completionCommand adds cobra's command and makes a shell that it does not know a
// mistake. It prints to the root's output as it is by now.
func completionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = unknownCommand
			c.SuggestionsMinimumDistance = 2
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
