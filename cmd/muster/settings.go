package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/cmd/page"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/keyvalue"
	"muster/gitops/notify"

	"github.com/spf13/cobra"
)

// buildPatience is the time that other overlays wait for the build of a template.
const buildPatience = 2 * time.Second

// variableNamespace contains the namespace of muster's pod: deploy/ sets it from the downward
// API.
const variableNamespace = "POD_NAMESPACE"

// settings are the flags of the repository, of Buildkite and of the log.
type settings struct {
	git         invocation.Repository
	notify      []string // receivers of push notifications
	notifier    *notify.Notifier
	agent       agentSettings
	trigger     *buildkite.Metrics // of ticks; nil: they trigger none
	jobNotifier *jobNotifier       // nil: no job notifications

	program      program
	buildkite    invocation.Buildkite
	countLimited bool
	pause        func(context.Context, time.Duration) error // of run between two ticks; nil: the clock's
	watchToken   bool                                       // not a flag: set by long-running commands
	filesLater   bool                                       // not a flag: run starts without the files of receivers and of the metrics
	progress     *output.Progress                           // nil: no progress, as in long-running commands
}

// newSettings returns settings with the flags of Buildkite and of the log. The caller adds those of the repository.
func newSettings(p program, c *cobra.Command) *settings {
	s := &settings{program: p, git: invocation.Repository{Program: p.Program}, buildkite: invocation.Buildkite{Program: p.Program}}
	s.buildkite.AddTo(c)
	c.Flags().BoolVar(&s.countLimited, "count-limited", false, "count scheduled jobs without runnable_at, which are presumed limited by concurrency")
	s.git.AddLog(c)
	return s
}

// client returns the client for Buildkite.
func (s *settings) client(log *slog.Logger) (*buildkite.Client, error) {
	if err := s.buildkite.RequireOrg(); err != nil {
		return nil, err
	}
	cfg := buildkite.Config{Org: s.buildkite.Org, URL: s.buildkite.URL, Log: log, CountLimited: s.countLimited, WatchToken: s.watchToken, Clock: s.program.Clock}
	agentTokenOnly := s.agent.source == "stacks" && s.buildkite.TokenFile == "" && s.program.Variable(invocation.VariableToken) == ""
	var err error
	if !agentTokenOnly {
		if cfg.Token, err = s.buildkite.Token(); err != nil {
			return nil, err
		}
	}
	if s.agent.source == "stacks" {
		if s.agent.stacks, err = s.stacksFor("--source stacks", log); err != nil {
			return nil, err
		}
	}
	if agentTokenOnly {
		// The counter shares the trigger's responses, because Buildkite limits requests for the
		// metrics.
		if s.agent.counter = s.trigger; s.trigger == nil {
			if s.agent.counter, err = s.metrics(log); err != nil {
				return nil, err
			}
		}
	}
	cfg.Stacks, cfg.Metrics = s.agent.stacks, s.agent.counter
	client, err := buildkite.New(cfg)
	return client, output.Usage(err)
}

// generator wires the tick. patience is how long overlays wait for a template that takes long to
// build. watch returns the watcher of the ticks and their triggers; nil: neither.
func (s *settings) generator(dryRun bool, patience time.Duration, watch func(*buildkite.Client, page.Commits) (generator.Watcher, *generator.Triggers, error)) (*generator.Generator, error) {
	log, err := s.git.Logger()
	if err != nil {
		return nil, err
	}
	writer, err := s.git.Writer(log)
	if err != nil {
		return nil, err
	}
	client, err := s.client(log)
	if err != nil {
		return nil, err
	}
	style, err := s.git.Style()
	if err != nil {
		return nil, err
	}
	if err := s.makeNotifier(log, s.filesLater); err != nil {
		return nil, err
	}
	repository := generator.Fleet{Writer: writer, Version: s.program.Build.String(), Style: style}
	var watcher generator.Watcher
	var wake *generator.Triggers
	if watch != nil {
		if watcher, wake, err = watch(client, repository); err != nil {
			return nil, err
		}
	}
	return generator.New(generator.Config{
		Repository: &watchedFleet{Fleet: repository, progress: s.progress},
		Buildkite:  watchedBuildkite{client, s.progress},
		Clock:      s.program.Clock,
		Overlays:   s.git.Overlays,
		Branch:     s.git.BranchName(),
		Namespace:  s.program.Variable(variableNamespace),
		Build:      s.program.Builder(),
		Patience:   patience,
		DryRun:     dryRun,
		Log:        log,
		Watch:      watcher,
		Landed:     s.landed,
		Triggers:   wake,
		Pause:      s.pause,
	}), nil
}

// invalidOverlays combines the overlays with invalid files into one error, a line each; nil if
// all are valid.
func invalidOverlays(suspended []generator.Suspended) error {
	var lines []string
	for _, s := range suspended {
		if s.Why.Code == plan.Invalid || s.Why.Code == plan.PushRefused {
			lines = append(lines, strings.Split(s.Why.Finding, "\n")...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return output.Usage(errors.New(strings.Join(lines, invocation.LineStart)))
}

// agentSettings are the flags that select the agent tokens for Buildkite's Agent API.
type agentSettings struct {
	files   []string // one for each Buildkite cluster; empty: the Agent API is not used
	url     string
	source  string            // of jobs
	key     string            // of the stack; empty: derived from the identifiers of the overlays
	stacks  *buildkite.Stacks // nil: REST is the source of jobs
	awaited bool              // a token of the trigger does not exist yet
	// counter counts agents if there is no API token; otherwise it is nil.
	counter *buildkite.Metrics
	// stats are the counters of all clients.
	stats []func() buildkite.Stats
}

func (a *agentSettings) addTo(c *cobra.Command) {
	c.Flags().StringArrayVar(&a.files, "agent-token-file", nil, "file with an agent token of the queues' Buildkite cluster, read at each request: run polls as soon as its metrics show more jobs; repeatable, or separated by spaces")
	c.Flags().StringVar(&a.url, "agent-endpoint", buildkite.DefaultAgentURL, "Buildkite Agent API URL")
	form := keyvalue.Form{Name: "a source", Example: "stacks,key=KEY", Fields: map[string]*string{"": &a.source, "key": &a.key}}
	invocation.FormVar(c.Flags(), form, "source", "source of pending jobs: rest (the default), or stacks (the Stacks API, with --agent-token-file). With stacks the API token is optional; without it, agents are counted but not listed. In stacks,key=KEY, KEY is that of the stack in Buildkite (default derived from the identifiers of the overlays in git); two replicas with the same key share a request limit", func() error {
		switch {
		case a.key != "" && a.source != "stacks":
			return errors.New("only stacks takes a key, as in stacks,key=KEY")
		case a.source != "rest" && a.source != "stacks":
			return fmt.Errorf("%q: use rest or stacks", a.source)
		}
		return nil
	})
	invocation.OneOf(c, "source", "rest", "stacks")
}

// metrics returns the client of the metrics; nil without agent tokens.
func (s *settings) metrics(log *slog.Logger) (*buildkite.Metrics, error) {
	tokens, err := invocation.AgentTokens(s.agent.files)
	s.agent.awaited = s.filesLater && s.agent.source != "stacks" && errors.Is(err, fs.ErrNotExist)
	if s.agent.awaited {
		log.Warn(noAgentTokenText, "reason", err)
		err = nil
	}
	if len(tokens) == 0 || err != nil {
		return nil, err
	}
	m, err := buildkite.NewMetrics(buildkite.AgentConfig{Org: s.buildkite.Org, URL: s.agent.url, Tokens: tokens, Log: log, Clock: s.program.Clock})
	if err != nil {
		return nil, output.Usage(err)
	}
	s.agent.stats = append(s.agent.stats, m.Stats)
	return m, nil
}

// noAgentTokenText is the log message if the file of the agent token does not exist.
const noAgentTokenText = "the file of the agent token does not exist: jobs wait for the next tick"

// awaitedMetrics are metrics whose agent token may not exist yet. Until it does, their counts are
// empty and trigger nothing.
type awaitedMetrics struct {
	*buildkite.Metrics
	log  *slog.Logger
	read bool // the token has existed
}

// Counts implements [generator.Metrics].
func (m *awaitedMetrics) Counts(ctx context.Context, at time.Time) (plan.Counts, error) {
	counts, err := m.Metrics.Counts(ctx, at)
	switch {
	case m.read:
	case errors.Is(err, fs.ErrNotExist):
		return plan.Counts{}, nil
	default:
		m.read = true
		m.log.Info("resolved: " + noAgentTokenText)
	}
	return counts, err
}

// triggers returns the triggers of ticks: the metrics, if there is an agent token.
func (s *settings) triggers(client *buildkite.Client, every time.Duration, log *slog.Logger) *generator.Triggers {
	t := &generator.Triggers{Every: every, Spare: client.Spare}
	switch {
	case s.agent.awaited:
		t.Metrics = &awaitedMetrics{Metrics: s.trigger, log: log}
	case s.trigger != nil:
		t.Metrics = s.trigger
	}
	return t
}

// agentAPI returns the sum of the counters of all Agent API clients; used is false if there is
// no such client.
func (s *settings) agentAPI() (all buildkite.Stats, used bool) {
	for _, stats := range s.agent.stats {
		x := stats()
		all.Requests, all.Failures, all.Received = all.Requests+x.Requests, all.Failures+x.Failures, all.Received+x.Received
	}
	return all, len(s.agent.stats) > 0
}

// stacksFor returns a client of the Stacks API for a flag that needs one. All clients are the
// same stack.
func (s *settings) stacksFor(flag string, log *slog.Logger) (*buildkite.Stacks, error) {
	tokens, err := invocation.AgentTokens(s.agent.files)
	switch {
	case err != nil:
		return nil, err
	case len(tokens) == 0:
		return nil, output.Usage(errors.New(flag + ": which agent token? give --agent-token-file"))
	}
	k, err := buildkite.NewStacks(buildkite.StacksConfig{
		Clock:       s.program.Clock,
		Key:         s.agent.key,
		AgentConfig: buildkite.AgentConfig{Org: s.buildkite.Org, URL: s.agent.url, Tokens: tokens, Log: log, Timeout: buildkite.DefaultTimeout, Clock: s.program.Clock},
	})
	if err != nil {
		return nil, output.Usage(err)
	}
	s.agent.stats = append(s.agent.stats, k.Stats)
	return k, nil
}

// leaveTime limits the time that a command takes to deregister its stack.
const leaveTime = 3 * time.Second

// leave deregisters the stack of a command that only reads, even after an interrupt.
func (s *settings) leave(ctx context.Context) {
	log, err := s.git.Logger()
	if s.agent.stacks == nil || err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := s.agent.stacks.Leave(ctx); err != nil {
		log.Warn(err.Error())
	}
}

// watchedFleet and watchedBuildkite show on the progress line what a tick waits for.
type watchedFleet struct {
	generator.Fleet
	progress *output.Progress
}

// Head implements [generator.Repository]. Templates are built after it.
func (f *watchedFleet) Head(ctx context.Context) (branch.Head, error) {
	f.progress.Doing("reading the fleet repository")
	defer f.progress.Doing("building the overlays")
	return f.Fleet.Head(ctx)
}

// Commit implements [generator.Repository].
func (f *watchedFleet) Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	f.progress.Doing("pushing")
	return f.Fleet.Commit(ctx, head, ops)
}

// watchedBuildkite has all methods of the client, because the generator uses optional ones.
type watchedBuildkite struct {
	*buildkite.Client
	progress *output.Progress
}

// Snapshot implements [generator.Buildkite].
func (b watchedBuildkite) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	b.progress.Doing("reading Buildkite")
	snapshot, err := b.Client.Snapshot(ctx, query)
	showRateLimit(b.progress, err)
	return snapshot, err
}

// showRateLimit shows on the progress line that muster waits for a rate limit.
func showRateLimit(progress *output.Progress, err error) {
	var wait plan.RetryError
	if errors.As(err, &wait) {
		progress.Doing(fmt.Sprintf("waiting %s for Buildkite's rate limit", wait.RetryAfter().Round(time.Second)))
	}
}
