package invocation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/cmd/output"
	"muster/generator/finding"
	"muster/generator/ledger"
	"muster/generator/policy"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Prefix is the prefix of muster's environment variables, except Buildkite's token.
const Prefix = "MUSTER_"

// Variables with secrets. They have no flags, because every process of the machine can read a
// command line.
const (
	VariableToken    = "BUILDKITE_API_TOKEN"
	variablePassword = Prefix + "GIT_PASSWORD"
)

// VariableAgentToken is not used, but mistaken for VariableToken.
const VariableAgentToken = "BUILDKITE_AGENT_TOKEN"

// Environment sets the flags from their variables; the command line overrides them. A variable
// without a flag is an error, because it is misspelled. Empty variables are ignored.
func (p Program) Environment(root *cobra.Command) error {
	values := map[string]string{}
	for _, entry := range p.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, Prefix) && name != variablePassword && value != "" && !foreign(name) {
			values[name] = value
		}
	}
	known := map[string]bool{} // without the prefix
	var failed error
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := Prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			known[strings.TrimPrefix(name, Prefix)] = true
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
				failed = valueError("environment variable "+name, value, f.Value, err)
			}
		})
	}
	for _, variable := range slices.Sorted(maps.Keys(values)) {
		name := strings.TrimPrefix(variable, Prefix)
		if known[name] || p.Name() != "muster" { // a variable of muster's
			continue
		}
		remedy := "unset it or spell it like one"
		if now := replacement(strings.ToLower(strings.ReplaceAll(name, "_", "-"))); now != "" {
			remedy = "it is a part of " + now + " now"
		} else if near := finding.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			remedy = "did you mean " + Prefix + near + "?"
		}
		return output.Usage(fmt.Errorf("environment variable %s belongs to no flag; %s", variable, remedy))
	}
	return output.Usage(failed)
}

// refusePipes returns an error if a file of secrets or certificates is a pipe. muster reads these files each
// time that it needs them; a pipe, such as the process substitution of a shell, returns its content once, and
// then never answers.
func refusePipes(flags *pflag.FlagSet) (failed error) {
	flags.VisitAll(func(f *pflag.Flag) {
		for _, file := range filesOf(f) {
			if info, err := os.Stat(file); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
				failed = fmt.Errorf("--%s: %s is a pipe, which can be read once; muster reads the file each time that it needs it", f.Name, file)
			}
		}
	})
	return failed
}

// filesOf returns the files that a flag names.
func filesOf(f *pflag.Flag) []string {
	if form, ok := f.Value.(*parsedFlag); ok {
		return form.files()
	}
	if !strings.HasSuffix(f.Name, "-file") {
		return nil
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Fields(strings.Join(list.GetSlice(), " "))
	}
	return []string{f.Value.String()}
}

// Expected describes the values of a type of flag.
func Expected(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration, as in 15s, 90m or 2d"
	case "range":
		return "a duration, or a shorter and a longer one, as in 25s-70s"
	}
	return "a " + kind
}

// foreign reports whether a variable with muster's prefix belongs to another program: the agent
// Job (base/job.yaml), whose build steps inherit its variables, Kubernetes, which sets variables
// for a Service "muster", or the completions of fish and PowerShell, which set MUSTER_ACTIVE_HELP.
func foreign(name string) bool {
	switch name {
	case "MUSTER_NOT_AFTER", "MUSTER_IDLE_TIMEOUT", "MUSTER_PURPOSE", "MUSTER_AGENT_TAGS", "MUSTER_ACTIVE_HELP":
		return true
	}
	return strings.HasPrefix(name, Prefix+"SERVICE_") || name == Prefix+"PORT" || strings.HasPrefix(name, Prefix+"PORT_")
}

// Variable returns the value of an environment variable.
func (p Program) Variable(name string) string {
	for _, entry := range slices.Backward(p.Environ) {
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
	near := cmd.SuggestionsFor(args[0])
	distance := func(name string) int { return finding.Distance(args[0], name) }
	if len(near) > 0 {
		least := distance(slices.MinFunc(near, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) }))
		near = slices.DeleteFunc(near, func(name string) bool { return distance(name) > least })
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return output.Usage(errors.New(text))
}

// NoArguments is cobra.NoArgs with another message.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument: remove %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// Arguments accepts at least least and at most most arguments, which the command's Use names.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		_, names, _ := strings.Cut(cmd.Use, " ")
		return fmt.Errorf("%s takes %s, got %s: %[1]s --help prints examples", cmd.CommandPath(), names, ledger.Count(len(args), "argument"))
	}
}

// AtMostOne is cobra.MaximumNArgs(1) with another message; what describes the argument.
func AtMostOne(what string) cobra.PositionalArgs {
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
	var valueless *pflag.ValueRequiredError
	switch {
	case errors.As(err, &invalid):
		return output.Usage(valueError("--"+invalid.GetFlag().Name, invalid.GetValue(), invalid.GetFlag().Value, err))
	case errors.As(err, &valueless):
		_, usage := pflag.UnquoteUsage(valueless.GetFlag())
		return output.Usage(fmt.Errorf("--%s needs a value: %s", valueless.GetFlag().Name, usage))
	case errors.As(err, &missing) && missing.GetSpecifiedShortnames() != "":
		err = fmt.Errorf("unknown flag: -%s; %s --help lists the flags", missing.GetSpecifiedShortnames(), cmd.CommandPath())
	case errors.As(err, &missing) && missing.GetSpecifiedName() == "overlay" && strings.Contains(cmd.Use, "OVERLAY"):
		err = fmt.Errorf("unknown flag: --overlay; overlays are arguments: %s", cmd.UseLine())
	case errors.As(err, &missing) && !cmd.HasParent() && slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Flags().Lookup(missing.GetSpecifiedName()) != nil }):
		err = fmt.Errorf("--%s is a flag of commands: %s COMMAND --%[1]s", missing.GetSpecifiedName(), cmd.CommandPath())
	case errors.As(err, &missing):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		now := replacement(missing.GetSpecifiedName())
		flag, _, _ := strings.Cut(strings.TrimPrefix(now, "--"), " ")
		if cmd.Flags().Lookup(flag) != nil {
			err = fmt.Errorf("%w; write %s", err, now)
		} else if near := finding.Nearest(missing.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return output.Usage(err)
}

// replacement returns the flag, with its value, that replaces a flag of earlier versions; empty for other names.
func replacement(flag string) string {
	switch flag {
	case "sign-ssh-key-file":
		return "--sign kind=ssh,key-file=FILE"
	case "sign-gpg-key-file", "sign-gpg-passphrase-file":
		return "--sign kind=gpg,key-file=FILE,passphrase-file=FILE"
	case "github-app-id", "github-app-installation", "github-app-key-file":
		return "--github-app id=ID,installation=ID,key-file=FILE"
	case "github-commits":
		return "--github-app id=ID,installation=ID,key-file=FILE,sign=true"
	case "author-name", "author-email":
		return `--commit-author "Name <address>"`
	case "pprof", "commit-url":
		return "--listen ADDRESS," + flag + "=VALUE"
	case "stack-key":
		return "--source stacks,key=KEY"
	case "requests", "nodes", "no-show":
		return "--faults " + flag + "=NUMBER"
	case "sync", "sync-jitter":
		return "--syncer with the time between two polls, as in --syncer 20s-30s"
	case "hours", "days":
		return "--length with a duration, as in 12h or 7d"
	case "json", "chart":
		return "--out FILE, whose name ends in .json or .svg"
	}
	return ""
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

// ManCommand returns the command that writes man pages.
func (p Program) ManCommand() *cobra.Command {
	name := p.Name()
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write man pages",
		Long: `man writes a man page for each command into a directory, which it creates if it
does not exist. Their date is SOURCE_DATE_EPOCH, if that is set.`,
		Example: fmt.Sprintf("  %s man man1\n  %[1]s man ~/.local/share/man/man1 && man %[1]s", name),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("which directory? %s man DIR, as in %[1]s man ~/.local/share/man/man1", name)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			date := p.Clock.Now().UTC()
			if epoch := p.Variable("SOURCE_DATE_EPOCH"); epoch != "" {
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
			header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &date, Source: name + " " + p.Build.Name(), Manual: name}
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}

// CloneNames are the completions from the files of a local clone.
type CloneNames struct{ Overlays, Queues, Dispatches []string }

// NamesInClone reads the work tree of a local repository, by default the one that contains the
// current directory. It returns the zero value if there is no work tree. It contacts no server
// and builds nothing.
func (p Program) NamesInClone(repo, overlays string) CloneNames {
	var o CloneNames
	top, err := p.CloneAt(repo)
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
	visited := 0
	_ = fs.WalkDir(root.FS(), overlays, func(name string, d fs.DirEntry, err error) error {
		if visited++; err != nil || visited > most || d.IsDir() && strings.Count(name, "/") > deepest {
			return fs.SkipDir
		}
		dir, file := path.Split(name)
		dir = strings.TrimSuffix(dir, "/")
		switch {
		case file == "scaling.yaml" && dir != overlays:
			o.Overlays = append(o.Overlays, strings.TrimPrefix(dir, overlays+"/"))
			if text, err := fs.ReadFile(root.FS(), name); err == nil {
				if p, err := policy.Parse(name, text); err == nil {
					o.Queues = append(o.Queues, p.Queue)
				}
			}
		case path.Base(dir) == "dispatches" && strings.HasSuffix(file, ".yaml") && file != "kustomization.yaml" && file != "state.yaml":
			o.Dispatches = append(o.Dispatches, strings.TrimSuffix(file, ".yaml"))
		}
		return nil
	})
	slices.Sort(o.Queues)
	o.Queues = slices.Compact(o.Queues)
	return o
}

// WithPrefix returns the words with a prefix.
func WithPrefix(words []string, begun string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, begun) })
}

// Unlimited is a number of arguments.
const Unlimited = 1 << 30

// Completion returns a function that completes at most most arguments with chosen names of the
// clone.
func (s *Repository) Completion(most int, choose func(CloneNames) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words := slices.DeleteFunc(WithPrefix(choose(s.Program.NamesInClone(s.Repo, s.Overlays)), begun), func(word string) bool { return slices.Contains(args, word) })
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// OneOf completes a flag with fixed values.
func OneOf(c *cobra.Command, flag string, values ...string) {
	CompleteFlag(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteFlag completes the values of a flag. It panics if the command has no such flag.
func CompleteFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the command has no such flag: a defect
	}
}

// completionCommand adds cobra's command, with an error for an unknown shell. It prints to the
// root's current output.
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
