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
	"strconv"
	"strings"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/cmd/starter"
	"muster/deploy"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"

	"github.com/spf13/cobra"
)

func (p program) initCommand() *cobra.Command {
	var o newOverlay
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a fleet repository",
		Long: `init writes base/ (the agent Job), schema/ (for editors) and overlays/NAME/ (the
policy of one queue) into a directory. Run it again for further overlays: a queue can
have several, for example in several clusters. If syncer/ is there, it adds the
overlay's manifest. It does not change existing files, and warns if one disagrees
with a flag.

On a terminal it asks for the queue, and whether builds may share a pod; if not, each
agent takes one job.`,
		Example: `  muster init fleet
  muster init fleet --syncer flux --repo https://git.example.com/fleet.git
  muster init fleet --queue linux-large --max 40 --image ghcr.io/acme/agent:1
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
			o.Name = cmp.Or(o.Name, plan.Slug(o.Queue))
			o.Policy = map[string]string{"idleTimeout": soleIdleTimeout}
			if _, err := os.Lstat(filepath.Join(args[0], "overlays", filepath.FromSlash(o.Name))); p.Terminal && errors.Is(err, fs.ErrNotExist) {
				share, err := p.promptSharing(cmd.Context(), out)
				if err != nil {
					return err
				}
				if share {
					o.Policy = map[string]string{"reuse": sharedPods}
				}
			}
			if o.maxGiven = cmd.Flags().Changed("max"); !o.maxGiven {
				o.Policy["maxPerHour"] = defaultMaxPerHour
			}
			o.Policy["max"] = strconv.Itoa(o.max)
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
	invocation.NumberVar(c.Flags(), &o.max, "max", "", defaultMax, 0, policy.MaxAgents, "maximum number of agents: as many as the nodes hold")
	c.Flags().StringVar(&o.image, "image", "", "image of the agents; of all overlays if base/ is new, otherwise of this one")
	c.Flags().StringVar(&o.repo, "repo", "", "URL of the fleet repository, for syncer/ and deploy/")
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

// validate rejects empty and invalid values of flags. It ignores a path in MUSTER_REPO.
func (o *newOverlay) validate(cmd *cobra.Command) error {
	for _, name := range []string{"queue", "overlay", "cluster", "syncer", "image", "repo"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return output.Usage(fmt.Errorf("--%s is empty: is a variable of the shell not set?", name))
		}
	}
	if o.syncer != "" && !slices.Contains(knownSyncers, o.syncer) {
		return output.Usage(fmt.Errorf("--syncer %q: use %s", o.syncer, strings.Join(knownSyncers, " or ")))
	}
	if o.image != "" && !imageName.MatchString(o.image) {
		return output.Usage(fmt.Errorf("--image %q: is not the name of an image, as in registry.example.com/agent:1.2", o.image))
	}
	if o.repo == "" {
		return nil
	}
	switch a, err := branch.ParseAddress(o.repo); {
	case err != nil:
		return output.Usage(fmt.Errorf("--repo: %w", err))
	case a.Host == "" && !cmd.Flags().Changed("repo"):
		o.repo = ""
	case a.Host == "":
		return output.Usage(fmt.Errorf("--repo %s: a cluster cannot read this path: give the URL of a git server", o.repo))
	case a.Password != "" || a.Query != "":
		return output.Usage(errors.New("--repo has a password in it, which git would contain: leave it out"))
	}
	return nil
}

// imageName matches the names of images (github.com/distribution/reference, regexp.go), which need no quotes in YAML.
var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

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
	"deploy/base/kustomization.yaml and, without --repo, the repository in\n" +
	"deploy/overlays/argocd or deploy/overlays/flux, create the Secrets\n" +
	"muster-buildkite, muster-git and muster-notify by hand (docs/how-to/deploy.md), push,\n" +
	"and kubectl apply -k one of these two directories, once. Everyone who can write deploy/\n" +
	"controls muster: restrict who may approve changes to it.\n"

// promptQueue prompts for the queue's key; it returns "" without an answer.
func (p program) promptQueue(ctx context.Context, out io.Writer) (string, error) {
	fmt.Fprintf(out, "Key of the self-hosted Buildkite queue that the overlay serves [%s]: ", starter.DefaultQueue)
	line, whole, err := p.ReadLine(ctx)
	if !whole {
		fmt.Fprintln(out)
	}
	return line, err
}

// sharedPods is the value of reuse if builds may share a pod.
const sharedPods = "idle:auto,uptime:30m"

// soleIdleTimeout is the idle time-out if they may not: an agent whose job was cancelled waits for another job no longer.
const soleIdleTimeout = "1m"

// defaultMax is max if the size of the cluster is unknown: a small one makes jobs of busy hours wait. defaultMaxPerHour
// bounds what an error in a pipeline can start: with less, jobs that take half a minute wait although fewer than max
// agents run.
const (
	defaultMax        = 100
	defaultMaxPerHour = "5000"
)

// promptSharing prompts whether builds may share a pod.
func (p program) promptSharing(ctx context.Context, out io.Writer) (bool, error) {
	fmt.Fprint(out, "May builds share a pod? Waits are shorter, but builds see each other's files [y/N]: ")
	line, whole, err := p.ReadLine(ctx)
	if !whole {
		fmt.Fprintln(out)
	}
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(line)), err
}

// newOverlay contains the arguments of init. If the name is empty, it is the queue's.
type newOverlay struct {
	starter.Overlay
	syncer     string // one of knownSyncers; empty: none
	max        int    // maximum number of agents
	maxGiven   bool
	image      string // of the agents; empty: that of the base
	repo       string // URL of the repository; empty: a placeholder
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
	if o.image != "" {
		o.writeImage(dir, parts)
	}
	if err := otherSyncer(dir, o); err != nil {
		return err
	}
	m, ok := readSyncer(os.DirFS(dir), ".")
	if o.withDeploy {
		own, err := deployment(o.version, cmp.Or(o.syncer, m.syncer))
		if err != nil {
			return err
		}
		o.writeAddress(own.Files)
		parts = append(parts, own)
	}
	added := o.syncer == "" && ok && m.byInit() && !m.applied[o.Name]
	if o.Name != o.Queue && o.Name == plan.Slug(o.Queue) {
		fmt.Fprintf(out, "the overlay of the queue %s is called %s: --overlay gives it another name\n", o.Queue, o.Name)
	}
	fresh, edit := false, false // the overlay is written; its policy is to be edited
	for _, part := range parts {
		written, err := writeNew(filepath.Join(dir, filepath.FromSlash(part.Path)), part.Files)
		if err != nil {
			return err
		}
		if written {
			fmt.Fprintf(out, "wrote %s\n", part.Path)
			fresh = fresh || strings.HasPrefix(part.Path, "overlays/")
		} else {
			ignored := o.ignored(filepath.Join(dir, filepath.FromSlash(part.Path), "scaling.yaml"))
			fmt.Fprintf(out, "%s exists: unchanged%s\n", part.Path, ignored)
			edit = edit || ignored != ""
		}
	}
	files := map[string][]byte{formatterFile: []byte(formatterIgnore), ".gitattributes": []byte(starter.Attributes)}
	if added {
		o.syncer, o.repo = m.syncer, cmp.Or(o.repo, m.repo)
	}
	if o.syncer != "" {
		own, err := syncerFiles(o.syncer, o.Name)
		if err != nil {
			return err
		}
		if added {
			maps.DeleteFunc(own, func(name string, _ []byte) bool { return name != syncerFile(o.Name) })
		}
		o.writeAddress(own)
		maps.Copy(files, own)
	}
	if err := writeMissing(out, dir, files); err != nil {
		return err
	}
	next := "validate the files with"
	if edit {
		next = fmt.Sprintf("edit overlays/%s/scaling.yaml, validate it with", o.Name)
	}
	if fresh && !o.maxGiven {
		fmt.Fprintf(out, "\nmax is %d. If the nodes hold fewer agents, set it in overlays/%s/scaling.yaml.\n", o.max, o.Name)
	}
	fmt.Fprintf(out, "\nNext: %s\n  muster check %s\ncommit and push.\n", next, dir)
	if fresh && o.Policy["max"] == "0" {
		fmt.Fprintln(out, "muster orders no agents for this overlay until you raise max, which is 0.")
	}
	if added {
		fmt.Fprintf(out, "\nThe manifests in syncer/ are for %s. Compare branch, project and\ndestination of the new one with those of the others. After the push:\n  kubectl apply -f %s\n", o.syncer,
			invocation.ShellWord(filepath.Join(dir, syncerDirectory)))
	} else if o.syncer != "" {
		hint := syncerHints[o.syncer]
		if o.repo != "" {
			hint = syncerHintsWithURL[o.syncer]
		}
		fmt.Fprint(out, strings.ReplaceAll(hint, "NAME", plan.Slug(o.Name)))
		if !o.withDeploy {
			fmt.Fprint(out, pollHints[o.syncer])
		}
		o.printOtherSyncers(out, dir)
	}
	if o.withDeploy {
		fmt.Fprint(out, deployHint)
	}
	return nil
}

// writeImage sets the image of the agents: in base/, or, if that exists, in the overlay's template.
func (o newOverlay) writeImage(dir string, parts []starter.Directory) {
	_, err := os.Lstat(filepath.Join(dir, "base"))
	for _, part := range parts {
		switch {
		case part.Path == "base":
			part.Files["job.yaml"] = agentImage.ReplaceAll(part.Files["job.yaml"], []byte("${1}"+o.image))
		case err == nil && part.Path == path.Join("overlays", o.Name):
			const name = "template/kustomization.yaml"
			part.Files[name] = append(part.Files[name], "patches:\n  - target: {kind: Job}\n    patch: |-\n      - op: replace\n"+
				"        path: /spec/template/spec/containers/0/image\n        value: "+o.image+"\n"...)
		}
	}
}

// agentImage matches the image in base/job.yaml.
var agentImage = regexp.MustCompile(`(?m)^( +image: ).*$`)

// writeAddress replaces the placeholder of the repository's URL in files.
func (o newOverlay) writeAddress(files map[string][]byte) {
	if o.repo == "" {
		return
	}
	address := o.repo
	if a, err := branch.ParseAddress(o.repo); err == nil && a.Scheme == "ssh" && !strings.Contains(o.repo, "://") { // Flux takes URLs alone
		address = "ssh://" + cmp.Or(a.User, "git") + "@" + a.HostPort() + "/" + strings.TrimPrefix(a.Path, "/")
	}
	for name, content := range files {
		content = bytes.ReplaceAll(content, []byte("https://git.example.com/ci/fleet.git"), []byte(address))
		files[name] = bytes.ReplaceAll(content, []byte("git@git.example.com:ci/fleet.git"), []byte(address))
	}
}

// printOtherSyncers prints which files in syncer/ belong to another syncer, whose overlays are others.
func (o newOverlay) printOtherSyncers(out io.Writer, dir string) {
	for _, other := range knownSyncers {
		shared := path.Join(syncerDirectory, map[string]string{"argocd": "project.yaml", "flux": "fleet.yaml"}[other])
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(shared))); err == nil && other != o.syncer {
			fmt.Fprintf(out, "\n%s is for %s: do not apply it to a cluster that has only %s.\n", shared, other, o.syncer)
		}
	}
}

// ignored returns what an existing policy, if the file is one, has instead of the flags; it may be empty.
func (o newOverlay) ignored(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	p, err := policy.Parse(file, text)
	if err != nil {
		return ""
	}
	var other []string
	if p.Queue != o.Queue && o.Queue != starter.DefaultQueue {
		other = append(other, fmt.Sprintf("the queue %s instead of %s", p.Queue, o.Queue))
	}
	if p.Cluster != o.Cluster && o.Cluster != "" {
		other = append(other, fmt.Sprintf("the cluster %q instead of %q", p.Cluster, o.Cluster))
	}
	if p.Max != o.max && o.maxGiven {
		other = append(other, fmt.Sprintf("max %d instead of %d", p.Max, o.max))
	}
	if o.image != "" {
		other = append(other, "its own image instead of "+o.image)
	}
	if len(other) == 0 {
		return ""
	}
	return ", with " + strings.Join(other, ", and ") + ": edit it, or give another --overlay"
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
		"kubectl apply -f syncer.\n",
	"flux": "\nTo let Flux apply it: create the agents' namespace, edit url in syncer/fleet.yaml, make\n" +
		"the Receiver's Secret as that file describes, push, and run kubectl apply -f syncer.\n",
}

// syncerHintsWithURL are those steps if the files have the URL of the repository.
var syncerHintsWithURL = map[string]string{
	"argocd": "\nTo let Argo CD apply it: create the agents' namespace, push, and run\n" +
		"kubectl apply -f syncer.\n",
	"flux": "\nTo let Flux apply it: create the agents' namespace, create the Receiver's Secret as\n" +
		"syncer/fleet.yaml describes, push, and run kubectl apply -f syncer.\n",
}

// pollHints say what notifies a syncer if muster's own deployment is not written, which does so.
var pollHints = map[string]string{
	"argocd": "muster run --notify kind=argocd,... notifies Argo CD of each push. Otherwise Argo CD\npolls git every few minutes.\n",
	"flux":   "muster run --notify kind=flux,... notifies Flux of each push. Otherwise Flux polls\ngit every minute.\n",
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

// deployment returns muster's own deployment, with the image of a version. It notifies the syncer, if that is known.
func deployment(version, syncer string) (starter.Directory, error) {
	files, err := starter.Embedded(deploy.Files, ".")
	for name, content := range files {
		switch path.Base(name) {
		case "kustomization.yaml":
			files[name] = bytes.Replace(content, []byte("newTag: "+invocation.Version+"\n"), []byte("newTag: "+strings.ReplaceAll(version, "+", "-")+"\n"), 1)
		case "muster.env":
			notify := "MUSTER_NOTIFY=kind=" + syncer + ","
			files[name] = bytes.Replace(content, []byte("# "+notify), []byte(notify), 1)
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
