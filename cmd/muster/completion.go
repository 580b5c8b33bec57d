package main

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"muster/generator/policy"
)

// cloneNames are the completions from the files of a local clone.
type cloneNames struct{ overlays, queues, dispatches []string }

// namesInClone reads the work tree of a local repository, by default the one that contains the
// current directory. It returns the zero value if there is no work tree. It contacts no server
// and builds nothing.
func (p program) namesInClone(repo, overlays string) cloneNames {
	var o cloneNames
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
	visited := 0
	_ = fs.WalkDir(root.FS(), overlays, func(name string, d fs.DirEntry, err error) error {
		if visited++; err != nil || visited > most || d.IsDir() && strings.Count(name, "/") > deepest {
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

// withPrefix returns the words with a prefix.
func withPrefix(words []string, begun string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, begun) })
}

// unlimited is a number of arguments.
const unlimited = 1 << 30

// completion returns a function that completes at most most arguments with chosen names of the
// clone.
func (s *gitSettings) completion(most int, choose func(cloneNames) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words := slices.DeleteFunc(withPrefix(choose(s.program.namesInClone(s.repo, s.overlays)), begun), func(word string) bool { return slices.Contains(args, word) })
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// oneOf completes a flag with fixed values.
func oneOf(c *cobra.Command, flag string, values ...string) {
	completeFlag(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
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
