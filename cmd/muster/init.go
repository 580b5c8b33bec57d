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
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"muster/generator/finding"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/overlays"
)

func (p program) initCommand() *cobra.Command {
	var o newOverlay
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a fleet repository",
		Long: `init writes base/ (the agent Job), schema/ (for editors) and overlays/default/
(the policy of one queue) into a directory. With --queue it writes an overlay for that queue
instead. Without, it asks for the queue on a terminal, and takes default
elsewhere. The overlay is called after the queue, or as --overlay says: so a
queue can have several, as for several clusters. With --with-deploy it also
writes deploy/, by which Argo CD or Flux run muster itself, and with --syncer
syncer/, by which that one applies the overlay. What is there is left as it is.`,
		Example: `  muster init fleet
  muster init fleet --syncer flux --with-deploy
  muster init fleet --queue linux-large
  muster init fleet --queue linux-large --overlay linux-large-eu --cluster ci`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usage(errors.New("the directory's name is empty: is a variable of the shell not set?"))
			}
			if err := o.validate(cmd); err != nil {
				return err
			}
			out, chosen := cmd.OutOrStdout(), o.queue
			if chosen == "" && p.terminal {
				chosen = askQueue(p.stdin, out)
			}
			o.queue = cmp.Or(chosen, defaultQueue)
			if o.withDeploy {
				o.version = p.build.name()
			}
			if err := initialise(out, args[0], o); err != nil {
				return err
			}
			if chosen == "" {
				fmt.Fprint(out, noQueueHint)
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.name, "overlay", "", "name of the overlay and of its directory below overlays/ (default the queue's key)")
	c.Flags().StringVar(&o.cluster, "cluster", "", "name or id of the Buildkite cluster, if several have the queue's key")
	c.Flags().StringVar(&o.queue, "queue", "", "key of the overlay's Buildkite queue; if absent, init prompts on a terminal, otherwise uses default")
	c.Flags().BoolVar(&o.withDeploy, "with-deploy", false, "also write deploy/: muster's own Deployment, for Argo CD or Flux to sync")
	c.Flags().StringVar(&o.syncer, "syncer", "", "also write syncer/: the overlay's manifests for argocd or flux")
	queues := func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		dir := ""
		if len(args) > 0 {
			dir = args[0]
		}
		return begins(p.offer(dir, "overlays").queues, begun), cobra.ShellCompDirectiveNoFileComp
	}
	if err := c.RegisterFlagCompletionFunc("queue", queues); err != nil {
		panic(err)
	}
	if err := c.RegisterFlagCompletionFunc("syncer", cobra.FixedCompletions(knownSyncers, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
	return c
}

// validate refuses flags that are given and empty, and a syncer that is not known.
func (o newOverlay) validate(cmd *cobra.Command) error {
	for _, name := range []string{"queue", "overlay", "cluster", "syncer"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usage(fmt.Errorf("--%s is empty: is a variable of the shell not set?", name))
		}
	}
	if o.syncer != "" && !slices.Contains(knownSyncers, o.syncer) {
		return usage(fmt.Errorf("--syncer %q: use %s", o.syncer, strings.Join(knownSyncers, " or ")))
	}
	return nil
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

// deployHint is printed after deploy/ was written.
const deployHint = "\nTo run muster itself: edit deploy/base/muster.env, the image in\n" +
	"deploy/base/kustomization.yaml and the repository in deploy/overlays/argocd or\n" +
	"deploy/overlays/flux, create the Secrets muster-buildkite and muster-git by hand,\n" +
	"push, and kubectl apply -k one of these two directories, once. Whoever can write\n" +
	"deploy/ controls muster: restrict who may approve changes to it.\n"

// askQueue asks for the queue's key; an empty answer, or none, is empty.
func askQueue(in io.Reader, out io.Writer) string {
	fmt.Fprintf(out, "Key of the self-hosted Buildkite queue that the overlay serves [%s]: ", defaultQueue)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(out)
	}
	return strings.TrimSpace(line)
}

// newOverlay is what init is asked for. An empty name is the queue's.
type newOverlay struct {
	name, queue, cluster string
	syncer               string // one of knownSyncers; empty: none
	withDeploy           bool
	version              string // of the image to deploy
}

// overlayName is what a name may look like: nothing that a shell, YAML or a branch
// would take for something else.
var overlayName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){0,3}$`)

// initialise writes what is missing of a fleet repository with the overlay.
func initialise(out io.Writer, dir string, o newOverlay) error {
	o.name = cmp.Or(o.name, plan.Slug(o.queue))
	if !overlayName.MatchString(o.name) {
		return usage(fmt.Errorf("--overlay %q: use letters, digits and -_. in the names of up to four directories, parted by /", o.name))
	}
	for above := path.Dir(o.name); above != "."; above = path.Dir(above) {
		if _, err := os.Stat(filepath.Join(dir, "overlays", filepath.FromSlash(above), "scaling.yaml")); err == nil {
			return usage(fmt.Errorf("--overlay %s: overlays/%s is an overlay, and none can lie inside another", o.name, above))
		}
	}
	parts, err := starterFleet(o)
	if err != nil {
		return err
	}
	for _, part := range parts {
		written, err := writeNew(filepath.Join(dir, filepath.FromSlash(part.path)), part.files)
		if err != nil {
			return err
		}
		if written {
			fmt.Fprintf(out, "wrote %s\n", part.path)
		} else {
			fmt.Fprintf(out, "%s is there already: left as it is\n", part.path)
		}
	}
	if o.syncer != "" {
		if err := writeSyncer(out, dir, o.syncer, o.name); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\nNext: edit overlays/%s/scaling.yaml, validate it with\n  muster check %s\ncommit and push.\n", o.name, dir)
	if o.syncer != "" {
		fmt.Fprint(out, strings.ReplaceAll(syncerHints[o.syncer], "NAME", plan.Slug(o.name)))
	}
	if o.withDeploy {
		fmt.Fprint(out, deployHint)
	}
	return nil
}

// overlayFiles returns the files of a new overlay. A queue or a cluster that
// Buildkite would not take is an error.
func overlayFiles(o newOverlay) (map[string][]byte, error) {
	files, err := embedded(overlays.Files, "default")
	if err != nil {
		return nil, err
	}
	put := func(file, before, after string) {
		files[file] = bytes.Replace(files[file], []byte(before), []byte(after), 1)
	}
	if slug := plan.Slug(o.name); o.name != "default" {
		put("configmap.yaml", "name: muster-default", "name: muster-"+slug)
		put("configmap.yaml", "overlay: default", "overlay: "+scalar(slug))
		put("scaling.yaml", "../../schema", strings.Repeat("../", 2+strings.Count(o.name, "/"))+"schema")
		put("template/kustomization.yaml", "../../../base", strings.Repeat("../", 3+strings.Count(o.name, "/"))+"base")
		put("template/kustomization.yaml", "overlays/default/template", "overlays/"+o.name+"/template")
	}
	if o.queue != defaultQueue {
		put("scaling.yaml", "queue: default", "queue: "+scalar(o.queue))
	}
	if o.cluster != "" {
		put("scaling.yaml", `# cluster: ""  `, "cluster: "+scalar(o.cluster))
	}
	policy, err := policy.Parse("scaling.yaml", files["scaling.yaml"])
	var finding finding.Finding
	if errors.As(err, &finding) {
		return nil, usage(fmt.Errorf("--%s: %s; %s", strings.TrimPrefix(finding.Field, "spec."), finding.Problem, finding.Remedy))
	}
	if err != nil {
		return nil, usage(err)
	}
	if policy.Queue != o.queue {
		return nil, usage(fmt.Errorf("--queue %q is not a queue's key", o.queue))
	}
	if policy.Cluster != o.cluster {
		return nil, usage(fmt.Errorf("--cluster %q is not the name or id of a cluster", o.cluster))
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
