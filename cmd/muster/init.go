package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"muster/base"
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/overlays"
)

func (p program) initCommand() *cobra.Command {
	var queue string
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a fleet repository",
		Long: `init writes base/ (the agent Job) and overlays/default/ (the policy of one
queue) into a directory. With --queue it writes an overlay for that queue
instead. Without, it asks for the queue on a terminal, and takes default
elsewhere. What is there already is left as it is.`,
		Example: `  muster init fleet
  muster init fleet --queue linux-large`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usage(errors.New("the directory's name is empty: is a variable of the shell not set?"))
			}
			if queue == "" && cmd.Flags().Changed("queue") {
				return usage(errors.New("--queue is empty: is a variable of the shell not set?"))
			}
			out, chosen := cmd.OutOrStdout(), queue
			if chosen == "" && p.terminal {
				chosen = askQueue(p.stdin, out)
			}
			if err := initialise(out, args[0], cmp.Or(chosen, defaultQueue)); err != nil {
				return err
			}
			if chosen == "" {
				fmt.Fprint(out, noQueueHint)
			}
			return nil
		},
	}
	c.Flags().StringVar(&queue, "queue", "", "key of the Buildkite queue that the overlay serves; without it, a terminal is asked, and else it is default")
	return c
}

// oneDirectory refuses anything but one argument.
func oneDirectory(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("which directory? muster init DIR")
	case len(args) > 1:
		return fmt.Errorf("muster init takes one directory: remove %q", args[1])
	}
	return nil
}

// defaultQueue is the queue of the overlay that is written when nobody says.
const defaultQueue = "default"

// noQueueHint is printed when nobody said which queue: a new organisation has
// none of this name (docs agent/queues/managing.md "Setting up queues").
const noQueueHint = "\nThe overlay serves the queue default. A new Buildkite organisation has no queue\n" +
	"of that name: create a self-hosted one there, or give --queue KEY.\n"

// askQueue asks for the queue's key; an empty answer, or none, is empty.
func askQueue(in io.Reader, out io.Writer) string {
	fmt.Fprintf(out, "Key of the self-hosted Buildkite queue that the overlay serves [%s]: ", defaultQueue)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(out)
	}
	return strings.TrimSpace(line)
}

// initialise writes what is missing of a fleet repository with an overlay for
// the queue.
func initialise(out io.Writer, dir, queue string) error {
	name := plan.Slug(queue)
	overlay, err := overlayFiles(name, queue)
	if err != nil {
		return err
	}
	baseFiles, err := embedded(base.Files, ".")
	if err != nil {
		return err
	}
	for _, part := range []struct {
		path  string
		files map[string][]byte
	}{{"base", baseFiles}, {filepath.Join("overlays", name), overlay}} {
		written, err := writeNew(filepath.Join(dir, part.path), part.files)
		if err != nil {
			return err
		}
		if written {
			fmt.Fprintf(out, "wrote %s\n", filepath.ToSlash(part.path))
		} else {
			fmt.Fprintf(out, "%s is there already: left as it is\n", filepath.ToSlash(part.path))
		}
	}
	fmt.Fprintf(out, "\nNext: edit overlays/%s/scaling.yaml, look it over with\n  muster check %s\ncommit and push.\n", name, dir)
	return nil
}

// overlayFiles returns the files of a new overlay. A queue that Buildkite would
// not take is an error.
func overlayFiles(name, queue string) (map[string][]byte, error) {
	files, err := embedded(overlays.Files, "default")
	if err != nil {
		return nil, err
	}
	if queue == defaultQueue {
		return files, nil
	}
	put := func(file, before, value string) {
		files[file] = bytes.Replace(files[file], []byte(before+"default"), []byte(before+value), 1)
	}
	put("scaling.yaml", "queue: ", scalar(queue))
	put("configmap.yaml", "name: muster-", name)
	put("configmap.yaml", "overlay: ", scalar(name))
	policy, err := manifest.ParsePolicy("scaling.yaml", files["scaling.yaml"])
	var finding manifest.Finding
	if errors.As(err, &finding) {
		return nil, usage(fmt.Errorf("--queue: %s; %s", finding.Problem, finding.Remedy))
	}
	if err != nil {
		return nil, usage(err)
	}
	if policy.Queue != queue {
		return nil, usage(fmt.Errorf("--queue %q is not a queue's key", queue))
	}
	return files, nil
}

// scalar is text as YAML takes it for text: in quotes where it needs them, as
// 2024 and null do.
func scalar(text string) string {
	quoted, err := yaml.Marshal(text)
	if err != nil {
		return text // what reads it next says what is wrong with it
	}
	return strings.TrimSpace(string(quoted))
}

// embedded reads every file below dir.
func embedded(from fs.FS, dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(from, dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = fs.ReadFile(from, path)
		return err
	})
	return files, err
}

// writeNew writes a directory that is not there yet, whole or not at all, and
// reports whether it did.
func writeNew(dir string, files map[string][]byte) (bool, error) {
	if _, err := os.Lstat(dir); err == nil {
		return false, nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return false, usage(err)
	}
	draft, err := os.MkdirTemp(parent, ".muster-init-")
	if err != nil {
		return false, usage(err)
	}
	defer os.RemoveAll(draft)
	for name, content := range files {
		path := filepath.Join(draft, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return false, err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return false, err
		}
	}
	if err := os.Chmod(draft, 0o755); err != nil {
		return false, err
	}
	return true, os.Rename(draft, dir)
}
