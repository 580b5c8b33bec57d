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

// offered are the words that a shell can complete: what the files of a clone on
// this machine name. Nothing is asked of a server, and nothing is built.
type offered struct{ overlays, queues, dispatches []string }

// offer looks at the work tree of a repository on this machine, or at the one that
// the current directory is in; empty where there is none.
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
