package invocation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the maximum width of a help text.
const helpWidth = 80

// CommandGroup are commands under one heading of the help text.
type CommandGroup struct {
	Heading  string
	Commands []*cobra.Command
}

// flagGroups are the headings of shared flags, in the order of the help text; a name that ends in * is a
// prefix. Other flags are first, without such a heading.
func flagGroups() []struct{ heading, names string } {
	return []struct{ heading, names string }{
		{"Repository", "repo branch overlays"},
		{"Credentials of git", "git-ca-file git-password-file git-username github-api-url github-app ssh-*"},
		{"Buildkite", "buildkite-org buildkite-token-file buildkite-url agent-* source count-limited"},
		{"Commits", "commit-author sign sign-off co-author skip-marker notify"},
		{"Server", "listen webhook-interval buildkite-webhook-secret-file git-webhook-secret-file"},
		{"Log", "log-*"},
	}
}

// headingOf returns the heading of a flag of a command; empty if it has none.
func headingOf(flag string) string {
	for _, g := range flagGroups() {
		for name := range strings.FieldsSeq(g.names) {
			prefix, all := strings.CutSuffix(name, "*")
			if flag == name || all && strings.HasPrefix(flag, prefix) {
				return g.heading
			}
		}
	}
	return ""
}

// addHelp gives a root command and its commands help texts of at most helpWidth columns, with commands and flags
// under headings.
func addHelp(root *cobra.Command) {
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := fmt.Fprint(c.OutOrStderr(), usage(c))
		return err
	})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", reflow(c.Long), usage(c))
	})
}

// usage returns the help text of a command after its description.
func usage(c *cobra.Command) string {
	var b strings.Builder
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	commands := c.Commands()
	for _, g := range c.Groups() {
		list := slices.DeleteFunc(slices.Clone(commands), func(x *cobra.Command) bool { return !x.IsAvailableCommand() || x.GroupID != g.ID })
		if len(list) > 0 {
			fmt.Fprintf(&b, "\n%s:\n", g.Title)
		}
		for _, x := range list {
			fmt.Fprintf(&b, "  %-14s %s\n", x.Name(), x.Short)
		}
	}
	printFlags := func(heading, title string) {
		var all strings.Builder
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if headingOf(f.Name) == heading && !f.Hidden {
				all.WriteString(flagHelp(f))
			}
		})
		if all.Len() > 0 {
			fmt.Fprintf(&b, "\n%s:\n%s", title, &all)
		}
	}
	printFlags("", "Flags")
	for _, g := range flagGroups() {
		printFlags(g.heading, g.heading)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help prints the flags and examples of a command.\n", c.CommandPath())
	}
	return b.String()
}

// flagHelp returns the lines of a flag: its name and type, and from a column on its description.
func flagHelp(f *pflag.Flag) string {
	const column = 28
	short := "    "
	if f.Shorthand != "" {
		short = "-" + f.Shorthand + ", "
	}
	kind, text := pflag.UnquoteUsage(f)
	left := strings.TrimRight("  "+short+"--"+f.Name+" "+kind, " ")
	if f.DefValue != "" && !slices.Contains([]string{"false", "0", "0s", "[]"}, f.DefValue) {
		text += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	indent := "\n" + strings.Repeat(" ", column)
	if len(left) < column-1 {
		left += strings.Repeat(" ", column-len(left))
	} else {
		left += indent
	}
	return left + strings.ReplaceAll(reflowTo(helpWidth-column, text), "\n", indent) + "\n"
}

// reflow wraps the lines of paragraphs for help texts. Lines that begin with a space stay.
func reflow(text string) string { return reflowTo(helpWidth, text) }

// reflowTo is reflow for a width.
func reflowTo(width int, text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var lines []string
		open := false
		for line := range strings.SplitSeq(paragraph, "\n") {
			if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
				lines, open = append(lines, line), false
				continue
			}
			for word := range strings.FieldsSeq(line) {
				if last := len(lines) - 1; open && len(lines[last])+1+len(word) <= width {
					lines[last] += " " + word
					continue
				}
				lines, open = append(lines, word), true
			}
		}
		paragraphs = append(paragraphs, strings.Join(lines, "\n"))
	}
	return strings.Join(paragraphs, "\n\n")
}
