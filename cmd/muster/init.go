package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/cmd/starter"
	"muster/deploy"
	"muster/generator/plan"
	"muster/generator/policy"

	"github.com/spf13/cobra"
)

func (p program) initCommand() *cobra.Command {
	var o newOverlay
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a fleet repository",
		Long: `init writes base/ (the agent Job), schema/ (for editors) and overlays/default/
(the policy of one queue) into a directory. With --queue it writes an overlay for that queue
instead. Without, it asks for the queue on a terminal, and otherwise takes
default. The overlay has the queue's name, or that of --overlay: a queue can have
several overlays, for example in several clusters. With --with-deploy it also
writes deploy/, with which Argo CD or Flux run muster, and with --syncer syncer/,
with which one of them applies the overlay. It does not change existing files.`,
		Example: `  muster init fleet
  muster init fleet --syncer flux --with-deploy
  muster init fleet --queue linux-large
  muster init fleet --queue linux-large --overlay linux-large-eu --cluster ci`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return output.Usage(errors.New("the directory's name is empty: is a variable of the shell not set?"))
			}
			if err := o.validate(cmd); err != nil {
				return err
			}
			out, chosen := cmd.OutOrStdout(), o.Queue
			if chosen == "" && p.Terminal {
				var err error
				if chosen, err = p.promptQueue(cmd.Context(), out); err != nil {
					return err
				}
			}
			o.Queue = cmp.Or(chosen, starter.DefaultQueue)
			if o.withDeploy {
				o.version = p.Build.Name()
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
	c.Flags().StringVar(&o.Name, "overlay", "", "name of the overlay and of its directory below overlays/ (default the queue's key)")
	c.Flags().StringVar(&o.Cluster, "cluster", "", "name or id of the Buildkite cluster, if several have the queue's key")
	c.Flags().StringVar(&o.Queue, "queue", "", "key of the overlay's Buildkite queue; if absent, init prompts on a terminal, otherwise uses default")
	c.Flags().BoolVar(&o.withDeploy, "with-deploy", false, "also write deploy/: muster's own Deployment, for Argo CD or Flux to sync")
	c.Flags().StringVar(&o.syncer, "syncer", "", "also write syncer/: the overlay's manifests for argocd or flux")
	invocation.CompleteFlag(c, "queue", func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		dir := ""
		if len(args) > 0 {
			dir = args[0]
		}
		return invocation.WithPrefix(p.NamesInClone(dir, "overlays").Queues, begun), cobra.ShellCompDirectiveNoFileComp
	})
	invocation.OneOf(c, "syncer", knownSyncers...)
	return c
}

// validate rejects empty values of flags, and unknown syncers.
func (o newOverlay) validate(cmd *cobra.Command) error {
	for _, name := range []string{"queue", "overlay", "cluster", "syncer"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return output.Usage(fmt.Errorf("--%s is empty: is a variable of the shell not set?", name))
		}
	}
	if o.syncer != "" && !slices.Contains(knownSyncers, o.syncer) {
		return output.Usage(fmt.Errorf("--syncer %q: use %s", o.syncer, strings.Join(knownSyncers, " or ")))
	}
	return nil
}

// oneDirectory accepts exactly one argument.
func oneDirectory(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("which directory? muster init DIR")
	case len(args) > 1:
		return fmt.Errorf("muster init takes one directory: remove %q", args[1])
	}
	return nil
}

// noQueueHint is printed if no queue is given: a new organisation has no queue of this name
// (docs agent/queues/managing.md "Setting up queues").
const noQueueHint = "\nThe overlay serves the queue default. A new Buildkite organisation has no queue\n" +
	"of that name: create a self-hosted one there, or give --queue KEY.\n"

// deployHint is printed after deploy/ is written.
const deployHint = "\nTo run muster itself: edit deploy/base/muster.env, the image in\n" +
	"deploy/base/kustomization.yaml and the repository in deploy/overlays/argocd or\n" +
	"deploy/overlays/flux, create the Secrets muster-buildkite and muster-git by hand,\n" +
	"push, and kubectl apply -k one of these two directories, once. Everyone who can write\n" +
	"deploy/ controls muster: restrict who may approve changes to it.\n"

// promptQueue prompts for the queue's key; it returns "" without an answer.
func (p program) promptQueue(ctx context.Context, out io.Writer) (string, error) {
	fmt.Fprintf(out, "Key of the self-hosted Buildkite queue that the overlay serves [%s]: ", starter.DefaultQueue)
	line, whole, err := p.ReadLine(ctx)
	if !whole {
		fmt.Fprintln(out)
	}
	return line, err
}

// newOverlay contains the arguments of init. If the name is empty, it is the queue's.
type newOverlay struct {
	starter.Overlay
	syncer     string // one of knownSyncers; empty: none
	withDeploy bool
	version    string // of the image to deploy
}

// overlayName matches valid names: those without special meaning in a shell, in YAML or in the
// name of a branch.
var overlayName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){0,3}$`)

// initialise writes the missing directories of a fleet repository with the overlay.
func initialise(out io.Writer, dir string, o newOverlay) error {
	o.Name = cmp.Or(o.Name, plan.Slug(o.Queue))
	if !overlayName.MatchString(o.Name) {
		return output.Usage(fmt.Errorf("--overlay %q: use letters, digits and -_. in the names of up to four directories, separated by /", o.Name))
	}
	for above := path.Dir(o.Name); above != "."; above = path.Dir(above) {
		if _, err := os.Stat(filepath.Join(dir, "overlays", filepath.FromSlash(above), "scaling.yaml")); err == nil {
			return output.Usage(fmt.Errorf("--overlay %s: overlays/%s is an overlay, and overlays cannot be nested", o.Name, above))
		}
	}
	parts, err := starter.Fleet(o.Overlay)
	if err != nil {
		return err
	}
	if o.withDeploy {
		own, err := deployment(o.version)
		if err != nil {
			return err
		}
		parts = append(parts, own)
	}
	if err := otherSyncer(dir, o); err != nil {
		return err
	}
	if o.Name != o.Queue && o.Name == plan.Slug(o.Queue) {
		fmt.Fprintf(out, "the overlay of the queue %s is called %s: --overlay gives it another name\n", o.Queue, o.Name)
	}
	for _, part := range parts {
		written, err := writeNew(filepath.Join(dir, filepath.FromSlash(part.Path)), part.Files)
		if err != nil {
			return err
		}
		if written {
			fmt.Fprintf(out, "wrote %s\n", part.Path)
		} else {
			fmt.Fprintf(out, "%s exists: unchanged%s\n", part.Path, o.ignored(filepath.Join(dir, filepath.FromSlash(part.Path), "scaling.yaml")))
		}
	}
	files := map[string][]byte{formatterFile: []byte(formatterIgnore), ".gitattributes": []byte(starter.Attributes)}
	if o.syncer != "" {
		own, err := syncerFiles(o.syncer, o.Name)
		if err != nil {
			return err
		}
		maps.Copy(files, own)
	}
	if err := writeMissing(out, dir, files); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nNext: edit overlays/%s/scaling.yaml, validate it with\n  muster check %s\ncommit and push.\n", o.Name, dir)
	if o.syncer != "" {
		fmt.Fprint(out, strings.ReplaceAll(syncerHints[o.syncer], "NAME", plan.Slug(o.Name)))
	}
	if o.withDeploy {
		fmt.Fprint(out, deployHint)
	}
	return nil
}

// ignored returns what an existing policy, if the file is one, has instead of the flags; it may be empty.
func (o newOverlay) ignored(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	p, err := policy.Parse(file, text)
	switch {
	case err != nil:
		return ""
	case p.Queue != o.Queue && o.Queue != starter.DefaultQueue:
		return fmt.Sprintf(", with the queue %s instead of %s: edit it, or give another --overlay", p.Queue, o.Queue)
	case p.Cluster != o.Cluster && o.Cluster != "":
		return fmt.Sprintf(", with the cluster %q instead of %q: edit it, or give another --overlay", p.Cluster, o.Cluster)
	}
	return ""
}

// otherSyncer returns an error if the overlay's file in syncer/ exists and is for another syncer than
// that of the flag. Overlays of one repository may have different syncers.
func otherSyncer(dir string, o newOverlay) error {
	if o.syncer == "" {
		return nil
	}
	name := syncerFile(o.Name)
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return nil // writeMissing reports errors
	}
	for _, other := range knownSyncers {
		files, err := syncerFiles(other, o.Name)
		if err != nil {
			return err
		}
		if kind := objectKind.Find(files[name]); other != o.syncer && bytes.Contains(text, kind) {
			return output.Usage(fmt.Errorf("--syncer %s: %s is for %s; remove it, or give --syncer %s", o.syncer, name, other, other))
		}
	}
	return nil
}

// objectKind finds the line of a manifest that tells syncers' objects apart.
var objectKind = regexp.MustCompile(`(?m)^apiVersion: \S+/`)

// writeNew creates a directory with files, atomically. It reports false if the directory
// exists.
func writeNew(dir string, files map[string][]byte) (bool, error) {
	if _, err := os.Lstat(dir); err == nil {
		return false, nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return false, output.Usage(err)
	}
	draft, err := os.MkdirTemp(parent, ".muster-init-")
	if err != nil {
		return false, output.Usage(err)
	}
	defer os.RemoveAll(draft)
	for name, content := range files {
		if err := writeNewFile(filepath.Join(draft, filepath.FromSlash(name)), content); err != nil {
			return false, err
		}
	}
	if err := os.Chmod(draft, 0o755); err != nil {
		return false, err
	}
	return true, os.Rename(draft, dir)
}

// knownSyncers are the values of --syncer: directories of deploy/syncers.
var knownSyncers = []string{"argocd", "flux"}

// syncerDirectory is the directory of the syncer's configuration in a fleet repository.
const syncerDirectory = "syncer"

// syncerHints list the remaining manual steps; NAME is a placeholder for the overlay.
var syncerHints = map[string]string{
	"argocd": "\nTo let Argo CD apply it: create the agents' namespace, edit sourceRepos in\n" +
		"syncer/project.yaml and repoURL in syncer/agents-NAME.yaml, push, and run\n" +
		"kubectl apply -f syncer. muster run --notify kind=argocd,... notifies Argo CD of each\n" +
		"push. Otherwise Argo CD polls git every few minutes.\n",
	"flux": "\nTo let Flux apply it: create the agents' namespace, edit url in syncer/fleet.yaml, make\n" +
		"the Receiver's Secret as that file describes, push, and run kubectl apply -f syncer.\n" +
		"muster run --notify kind=flux,... notifies Flux of each push. Otherwise Flux polls\n" +
		"git every minute.\n",
}

// syncerFiles returns the syncer's configuration files for an overlay, by their path in the
// fleet repository.
func syncerFiles(syncer, overlay string) (map[string][]byte, error) {
	from := path.Join("syncers", syncer)
	content, err := deploy.Syncers.ReadFile(path.Join(from, "overlay.yaml"))
	if err != nil {
		return nil, err
	}
	slug := plan.Slug(overlay)
	content = bytes.ReplaceAll(content, []byte("agents-default"), []byte("agents-"+slug))
	content = bytes.ReplaceAll(content, []byte("overlays/default"), []byte("overlays/"+overlay))
	files := map[string][]byte{syncerFile(overlay): content}
	shared, err := starter.Embedded(deploy.Syncers, from)
	delete(shared, "overlay.yaml")
	for name, content := range shared {
		files[path.Join(syncerDirectory, name)] = content
	}
	return files, err
}

// syncerFile returns the path of the overlay's file for its syncer.
func syncerFile(overlay string) string {
	return path.Join(syncerDirectory, "agents-"+plan.Slug(overlay)+".yaml")
}

// formatterFile keeps Prettier from files that muster writes
// (prettier.io/docs/ignore "Ignoring Files: .prettierignore").
const (
	formatterFile   = ".prettierignore"
	formatterIgnore = "# muster writes these files. Exclude them from other formatters, too.\ndispatches/\n"
)

// writeMissing writes the files that do not exist.
func writeMissing(out io.Writer, dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch err := writeNewFile(filepath.Join(dir, filepath.FromSlash(name)), files[name]); {
		case errors.Is(err, fs.ErrExist):
			fmt.Fprintf(out, "%s exists: unchanged\n", name)
		case err != nil:
			return output.Usage(err)
		default:
			fmt.Fprintf(out, "wrote %s\n", name)
		}
	}
	return nil
}

// writeNewFile creates a file and its directory. It returns [fs.ErrExist] if the file exists.
func writeNewFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// deployment returns muster's own deployment, with the image of a version.
func deployment(version string) (starter.Directory, error) {
	files, err := starter.Embedded(deploy.Files, ".")
	for name, content := range files {
		if path.Base(name) == "kustomization.yaml" {
			files[name] = bytes.Replace(content, []byte("newTag: "+invocation.Version+"\n"), []byte("newTag: "+strings.ReplaceAll(version, "+", "-")+"\n"), 1)
		}
	}
	return starter.Directory{Path: "deploy", Files: files}, err
}

func (p program) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scaling.yaml",
		Long: `schema prints the JSON Schema of a policy, with which editors complete and validate
it. init writes it to schema/scaling.json, and the policies that init writes name
that file. Write it again after an upgrade of muster.`,
		Example: `  muster schema > schema/scaling.json
  muster schema | jq .properties.spec`,
		Args: invocation.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policy.Schema())
			return err
		},
	}
}
