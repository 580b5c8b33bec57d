package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/condition"
	"muster/generator/finding"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// checkFlags contains the flags of muster check.
type checkFlags struct {
	settings            *settings
	hooks               webhookFlags
	offline, notifyJobs bool
	output              string
}

func (p program) checkCommand() *cobra.Command {
	k := &checkFlags{}
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Validate the fleet repository",
		Long: `check reads policies, templates and dispatches, builds every overlay, and prints
each error with its remedy: in the clone that contains the current directory, or in
the directory DIR. That needs no credentials. In a clone, it also finds files that git
does not contain as they are there.

With --repo it validates the branch on the server, and also the credentials for git
and Buildkite, the signing key, the secrets of webhooks, the queues in Buildkite and
its metrics, the receivers of --notify, and with --say-on-jobs the permission to send
job notifications. A push that changes nothing tests whether the branch's rules let
this user push, if the git host reports it; what they require of a commit shows only
at the first push.

Placeholders are warnings, and so are overlays that no manifest in syncer/ applies
while others are applied, and a max or maxPerHour that limited at least three orders
and 5 % of those of the last seven days. Exit code 2: invalid files; 3: problems
outside of them.`,
		Example: `  muster check
  muster check . -o github
  muster check --repo https://git.example.com/fleet.git --buildkite-org acme`,
		Args: invocation.AtMostOne("directory"),
		RunE: func(cmd *cobra.Command, args []string) error { return k.run(cmd, args) },
	}
	k.settings = newSettings(p, c)
	k.settings.git.AddTo(c)
	k.settings.addNotify(c)
	k.hooks.addTo(c)
	k.settings.agent.addTo(c)
	c.Flags().BoolVar(&k.notifyJobs, "say-on-jobs", false, "test whether run --say-on-jobs can notify jobs, without notifying any; needs --agent-token-file")
	c.Flags().BoolVar(&k.offline, "offline", false, "do not use the credentials for git and Buildkite, and contact no receiver")
	c.Flags().StringVarP(&k.output, "output", "o", "text", "text, json or github (annotations of GitHub Actions)")
	invocation.OneOf(c, "output", "text", "json", "github")
	return c
}

func (k *checkFlags) run(cmd *cobra.Command, args []string) error {
	s, p := k.settings, k.settings.program
	show := map[string]func(io.Writer, checkResult) error{"text": printCheckText, "json": printCheckJSON, "github": printCheckGitHub}[k.output]
	if show == nil {
		return output.Usage(fmt.Errorf("--output %q: use text, json or github", k.output))
	}
	if len(args) == 1 && cmd.Flags().Changed("repo") {
		return output.Usage(errors.New("both --repo and a directory are given: check validates one of them"))
	}
	run, _, err := cmd.Root().Find([]string{"run"})
	if err != nil {
		return err
	}
	interval, err := run.Flags().GetDuration("interval") // the environment has set it
	if err != nil {
		return err
	}
	dir := ""
	switch {
	case len(args) == 1:
		dir = args[0]
	case s.git.Repo == "":
		if dir, err = p.CloneAt(""); err != nil {
			return output.Usage(fmt.Errorf("which files? give a directory or --repo, or run it in a clone: %w", err))
		}
	}
	p.Progress.Doing("reading the fleet repository")
	tree, log, failures, err := s.treeToCheck(cmd.Context(), dir, k.offline, interval)
	if err != nil {
		return err
	}
	if dir == "" && !k.offline {
		_, _, invalid := k.hooks.readers()
		failures = append(failures, invalid...)
		if k.notifyJobs {
			found, err := s.checkJobNotifications(cmd.Context(), tree)
			if err != nil {
				return err
			}
			failures = append(failures, found...)
		}
	}
	p.Progress.Doing("building the overlays")
	loader := s.git.Loader()
	for _, namespace := range deployNamespaces(tree, path.Dir(s.git.Overlays)) {
		loader.Reserve(namespace)
	}
	reading := &readFiles{FS: tree, names: map[string]bool{}}
	findings, err := loader.Check(cmd.Context(), reading)
	p.Progress.Done()
	if err != nil {
		return err
	}
	inLog := s.git.Overlays
	if dir == "" {
		if err := k.logDelays(cmd.Context(), loader, tree, interval); err != nil {
			return err
		}
		if top, err := p.CloneAt(""); err == nil {
			if _, err := os.Stat(filepath.Join(top, s.git.Overlays)); err == nil {
				p.PrintMessage("this is the branch %s of the repository; muster check . validates the files of this clone", s.git.Branch)
			}
		}
	} else if clone := p.clonedIn(dir); clone != nil {
		findings = append(findings, clone.differences(tree, reading.names)...)
		if len(findings) == 0 {
			p.printUnpublished(clone, tree, reading.names)
		}
		log, inLog = clone.log(p), path.Join(clone.below, inLog)
	}
	result := checkResult{tree: tree, dir: ".", findings: findings, failures: failures, warnings: findPlaceholders(tree, path.Dir(s.git.Overlays), s.git.Overlays)}
	if dir != "" {
		result.dir = relativeDir(dir)
	}
	result.warnings = append(result.warnings, findUnapplied(tree, s.git.Overlays, cmp.Or(dir, "."))...)
	if log != nil {
		p.Progress.Doing("reading the history")
		result.warnings = append(result.warnings, findLimits(cmd.Context(), tree, s.git.Overlays, log, inLog, p.Clock.Now())...)
		p.Progress.Done()
	}
	if err := show(cmd.OutOrStdout(), result); err != nil {
		return err
	}
	return result.err()
}

// err returns the error that selects the exit code.
func (c checkResult) err() error {
	if len(c.findings)+len(c.failures) == 0 {
		return nil
	}
	err := errors.New(ledger.Count(len(c.findings)+len(c.failures), "finding"))
	if len(c.findings) > 0 {
		return output.Usage(err)
	}
	return err
}

// treeToCheck returns the files to check: those of a directory or, if dir is empty, of the repository, and then also
// its history unless offline. The third result has problems of credentials, and of queues in Buildkite.
func (s *settings) treeToCheck(ctx context.Context, dir string, offline bool, interval time.Duration) (fs.FS, branch.History, []error, error) {
	if dir != "" {
		root, err := os.OpenRoot(dir) // no link leads out of it
		if err != nil {
			return nil, nil, nil, output.Usage(fmt.Errorf("%w: give the directory of the fleet repository", err))
		}
		return root.FS(), nil, nil, nil
	}
	log, err := s.git.Logger()
	if err != nil {
		return nil, nil, nil, err
	}
	if _, err := s.git.Style(); err != nil {
		return nil, nil, nil, err
	}
	repository, err := s.git.Writer(log)
	if err != nil {
		return nil, nil, nil, err
	}
	head, err := repository.Head(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if offline {
		return head.Tree, nil, nil, nil
	}
	if err := s.makeNotifier(log, true); err != nil {
		return nil, nil, nil, err
	}
	client, err := s.client(log)
	if err != nil {
		return nil, nil, nil, err
	}
	s.program.Progress.Doing("reading git and Buildkite")
	var failures []error
	switch err := repository.Writable(ctx); {
	case errors.Is(err, branch.ErrUnproven):
		log.Info("this user may push; whether the branch's rules accept a commit shows only at the first push", "branch", s.git.Branch, "reason", err)
	case err != nil:
		failures = append(failures, err)
	}
	failures = append(failures, s.checkBuildkite(ctx, client, log, head.Tree, interval)...)
	return head.Tree, repository, append(failures, s.checkReceivers(ctx)...), nil
}

// checkBuildkite returns problems of the token and the overlays in Buildkite. It logs lesser
// problems, such as a token that expires in a week.
func (s *settings) checkBuildkite(ctx context.Context, client *buildkite.Client, log *slog.Logger, tree fs.FS, interval time.Duration) []error {
	defer s.leave(ctx)
	token, err := patiently(ctx, s, log, func() (buildkite.Token, error) { return client.Verify(ctx) })
	if err != nil {
		return []error{err}
	}
	var findings []error
	switch level, text := token.Expiry(s.program.Clock.Now()); level {
	case slog.LevelError:
		findings = append(findings, errors.New(text))
	case slog.LevelWarn:
		log.Warn(text)
	}
	overlays := s.overlays(ctx, tree)
	snapshot, err := patiently(ctx, s, log, func() (plan.Snapshot, error) { // as a tick does
		return client.Snapshot(ctx, plan.Query{At: s.program.Clock.Now(), Overlays: overlays})
	})
	if err != nil {
		return append(findings, err)
	}
	if snapshot.Unread != "" && snapshot.Counted == nil {
		log.Warn(snapshot.Unread)
	}
	for _, gap := range snapshot.Gaps {
		log.Warn(gap)
	}
	s.checkAgentTokens(ctx, client, log)
	warnUnserved(log, overlays, snapshot)
	warnOtherMusters(log, overlays, snapshot)
	warnUnseen(log, interval, overlays)
	findings = append(findings, checkCounted(log, overlays, snapshot)...)
	findings = append(findings, checkQueues(overlays, snapshot)...)
	findings = append(findings, s.checkMetrics(ctx, log, overlays, snapshot)...)
	return findings
}

// checkAgentTokens logs the agent tokens that expire soon. They are not findings, because
// Buildkite does not report which tokens the agents use.
func (s *settings) checkAgentTokens(ctx context.Context, client *buildkite.Client, log *slog.Logger) {
	tokens, err := patiently(ctx, s, log, func() ([]buildkite.AgentToken, error) { return client.AgentTokens(ctx) })
	if err != nil {
		log.Info("the expiry of agent tokens was not checked", "reason", err)
	}
	for _, t := range tokens {
		if level, text := t.Expiry(s.program.Clock.Now()); level >= slog.LevelWarn {
			log.Log(ctx, level, text)
		}
	}
}

// patiently returns the result of ask, and retries after Buildkite's rate limits; see
// [generator.Patiently].
func patiently[T any](ctx context.Context, s *settings, log *slog.Logger, ask func() (T, error)) (answer T, err error) {
	err = generator.Patiently(ctx, s.program.Clock, log, func() error {
		s.program.Progress.Doing("reading git and Buildkite")
		answer, err = ask()
		showRateLimit(s.program.Progress, err)
		return err
	})
	return answer, err
}

// overlays returns the overlays with a valid policy; the loader reports the others.
func (s *settings) overlays(ctx context.Context, tree fs.FS) []plan.Overlay {
	loaded, err := s.git.Loader().LoadContext(ctx, tree)
	if err != nil {
		return nil
	}
	var overlays []plan.Overlay
	fleet.ShareIdentifiers(loaded)
	for _, o := range loaded {
		if o.Policy.Queue != "" {
			overlays = append(overlays, o.Overlay)
		}
	}
	return overlays
}

// checkQueues returns the problems of queues: in no cluster, in several clusters, for hosted
// agents, or not found.
func checkQueues(overlays []plan.Overlay, snapshot plan.Snapshot) []error {
	var findings []error
	observed := plan.Observe(overlays, snapshot, &plan.Registrations{})
	unread := map[string]bool{} // the cluster of these is unknown, too
	for _, o := range overlays {
		unread[o.Name] = o.Policy.Partial()
	}
	unknown := plan.Unknown(invocation.Map(observed, func(o plan.Observation) string { return o.Queue }), snapshot)
	for _, o := range observed {
		for _, supply := range o.Overlays {
			if supply.Suspended.Active() && !unread[supply.Overlay] {
				findings = append(findings, fmt.Errorf("%s: suspended: %s", supply.Overlay, supply.Suspended))
			}
		}
		if unknown[o.Queue] {
			findings = append(findings, fmt.Errorf("queue %q: no cluster has it, nor has an agent or job outside the clusters; is its key correct? "+
				"(A new organisation has no queue called default: its default queue is linux-small, for hosted agents)", o.Queue))
		}
	}
	return findings
}

// warnUnseen logs the overlays whose agents can register, get no job and exit between two polls.
func warnUnseen(log *slog.Logger, interval time.Duration, overlays []plan.Overlay) {
	for _, o := range overlays {
		if idle := o.Policy.DemandIdleTimeout(); idle < interval && !o.Policy.Partial() {
			log.Warn("the idle time-out is shorter than the interval: while agents are in flight, muster polls more often if Buildkite's rate limit allows; "+
				"agents that exit unused between two polls count as in flight until their lease expires; increase the time-out",
				"overlay", o.Name, "idle", idle, "interval", interval)
		}
	}
}

// warnUnserved logs the pending jobs that no overlay serves. They are not findings, because
// steps may have any rules.
func warnUnserved(log *slog.Logger, overlays []plan.Overlay, snapshot plan.Snapshot) {
	for _, o := range plan.Observe(overlays, snapshot, &plan.Registrations{}) {
		for _, u := range o.Unmatched {
			log.Warn("jobs that no overlay serves: "+u.Why(), "queue", o.Queue, "rules", u.Rules, "jobs", u.Jobs, "example", u.Example)
		}
	}
	for _, u := range plan.FindUnserved(overlays, snapshot) {
		log.Warn("jobs are pending in a queue that no overlay serves"+u.Where(), "queue", u.Queue, "jobs", u.Jobs, "example", u.Example)
	}
}

// warnOtherMusters logs the overlays whose queue agents of another muster serve.
func warnOtherMusters(log *slog.Logger, overlays []plan.Overlay, snapshot plan.Snapshot) {
	for _, o := range plan.Observe(overlays, snapshot, &plan.Registrations{}) {
		for _, s := range o.Overlays {
			if s.OtherFleets > 0 {
				c := condition.ServedByOther(s.OtherFleets)
				log.Warn(c.Summary(), "overlay", s.Overlay, "message", c.Message, "remedy", c.Remedy)
			}
		}
	}
}

// deployNamespaces returns the namespaces into which a fleet repository deploys muster, as the
// kustomizations that init --with-deploy writes name them. dir is the directory of the
// fleet. A missing or invalid file contributes no namespace.
func deployNamespaces(tree fs.FS, dir string) []string {
	var namespaces []string
	for _, part := range []string{"base", "overlays/argocd", "overlays/flux", "overlays/two-replicas"} {
		text, err := fs.ReadFile(tree, path.Join(dir, "deploy", part, "kustomization.yaml"))
		if err != nil {
			continue
		}
		var k struct {
			Namespace string `json:"namespace"`
		}
		if yaml.Unmarshal(text, &k) == nil && k.Namespace != "" {
			namespaces = append(namespaces, k.Namespace)
		}
	}
	return namespaces
}

// checkResult is the result of check.
type checkResult struct {
	// tree contains the files, and dir is its path below the current directory; "." if it is
	// elsewhere, as with --repo.
	tree fs.FS
	dir  string
	// findings are problems in the files, and failures all others: of credentials, the network,
	// or queues in Buildkite.
	findings []finding.Finding
	failures []error
	// warnings are placeholders, overlays without a manifest for their syncer, and limits that made jobs wait. They do
	// not change the exit code.
	warnings []finding.Finding
}

// printCheckText prints a line for each finding.
func printCheckText(out io.Writer, c checkResult) error {
	for _, f := range c.findings {
		fmt.Fprintln(out, f.Error())
	}
	for _, f := range c.failures {
		fmt.Fprintln(out, output.Text(f))
	}
	for _, w := range c.warnings {
		fmt.Fprintln(out, "warning: "+w.Error())
	}
	if len(c.findings)+len(c.failures) == 0 {
		fmt.Fprintln(out, "OK")
	}
	return nil
}

// checkDocument is the document of -o json.
type checkDocument struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Findings   []finding.Finding `json:"findings"`
	// Failures are problems outside of the files.
	Failures []string `json:"failures"`
	// Warnings are placeholders in the files, overlays without a manifest for their syncer, and limits that made jobs wait.
	Warnings []finding.Finding `json:"warnings"`
}

func printCheckJSON(out io.Writer, c checkResult) error {
	document := checkDocument{
		APIVersion: "muster.dev/v1alpha1", Kind: "Check", Findings: append([]finding.Finding{}, c.findings...), Failures: []string{},
		Warnings: append([]finding.Finding{}, c.warnings...),
	}
	for _, f := range c.failures {
		document.Failures = append(document.Failures, output.Text(f))
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// printCheckGitHub prints a workflow command for each finding, from which GitHub
// Actions makes an annotation of the file
// (docs.github.com/actions/reference/workflow-commands-for-github-actions).
func printCheckGitHub(out io.Writer, c checkResult) error {
	annotate := func(level string, findings []finding.Finding) {
		for _, f := range findings {
			where := "file=" + githubProperty(c.annotationPath(f.File))
			if f.Line > 0 {
				where += ",line=" + strconv.Itoa(f.Line)
			}
			fmt.Fprintf(out, "::%s %s,title=%s::%s\n", level, where, githubProperty("muster check"), githubData(f.Text()))
		}
	}
	annotate("error", c.findings)
	annotate("warning", c.warnings)
	for _, f := range c.failures {
		fmt.Fprintf(out, "::error title=%s::%s\n", githubProperty("muster check"), githubData(output.Text(f)))
	}
	if len(c.findings)+len(c.failures) == 0 {
		fmt.Fprintln(out, "OK") // people read this output as well
	}
	return nil
}

// githubData escapes the message of a workflow command as @actions/core does, and replaces
// control characters.
func githubData(text string) string {
	text = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
}

// githubProperty escapes a property of a workflow command.
func githubProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubData(text))
}

// annotationPath returns the path of a finding in an annotation: of a file, relative to the
// directory of check.
func (c checkResult) annotationPath(file string) string {
	if info, err := fs.Stat(c.tree, file); err == nil && info.IsDir() {
		for _, name := range []string{"kustomization.yaml", "scaling.yaml"} {
			if _, err := fs.Stat(c.tree, path.Join(file, name)); err == nil {
				file = path.Join(file, name)
				break
			}
		}
	}
	return path.Join(c.dir, file)
}

// relativeDir returns a local directory as a slash-separated path, "." for any other.
func relativeDir(dir string) string {
	if !filepath.IsLocal(dir) {
		return "."
	}
	return filepath.ToSlash(filepath.Clean(dir))
}

// checkMetrics returns the problems that prevent ticks triggered by metrics. Without agent
// tokens it returns nil.
func (s *settings) checkMetrics(ctx context.Context, log *slog.Logger, overlays []plan.Overlay, snapshot plan.Snapshot) []error {
	m, err := s.metrics(log)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: jobs wait for the next tick; create the file, or leave out --agent-token-file", err)
	}
	if err != nil {
		return []error{err}
	}
	if m == nil {
		return nil
	}
	counts, err := patiently(ctx, s, log, func() (plan.Counts, error) { return m.Counts(ctx, s.program.Clock.Now()) })
	if err != nil {
		return []error{fmt.Errorf("reading Buildkite's metrics: %w", err)}
	}
	if snapshot.Unread != "" {
		return []error{errors.New("the agent tokens cannot be compared with the clusters of the queues: " + snapshot.Unread)}
	}
	var findings []error
	for _, o := range overlays {
		if cluster, known := o.Home(snapshot); known && !counts.Cover(cluster) {
			where := fmt.Sprintf("the cluster %q", cluster)
			if cluster == "" {
				where = "the agents outside the clusters"
			}
			findings = append(findings, fmt.Errorf("%s: no agent token belongs to %s, so its jobs wait for the next tick: give one with --agent-token-file", o.Name, where))
		}
	}
	if len(findings) == 0 {
		log.Info("Buildkite's metrics can be read", "clusters", len(counts.Clusters))
	}
	return findings
}

// checkCounted returns the problems that prevent the inference of agents, if the snapshot
// counts them instead of listing them.
func checkCounted(log *slog.Logger, overlays []plan.Overlay, snapshot plan.Snapshot) (findings []error) {
	if snapshot.Counted == nil {
		return nil
	}
	if snapshot.Unread != "" {
		findings = append(findings, errors.New(snapshot.Unread))
	}
	shared := plan.Sharing(overlays)
	for _, o := range overlays {
		if other := shared[o.Name]; other != "" {
			findings = append(findings, fmt.Errorf("%s: %s", o.Name, generator.SharesQueue(o.Policy.Queue, other)))
		}
	}
	for _, q := range snapshot.Counted.Queues {
		if q.Agents > 0 {
			log.Info("agents are connected; without an API token muster cannot identify them: its queues must have no other agents", "queue", q.Queue, "agents", q.Agents, "idle", q.Idle)
		}
	}
	return findings
}
