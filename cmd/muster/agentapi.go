package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/plan"

	"github.com/spf13/cobra"
)

// agentSettings are the flags that select the agent tokens for Buildkite's Agent API.
type agentSettings struct {
	files  []string // one for each Buildkite cluster; none: it is not asked
	url    string
	source string            // of jobs
	key    string            // of the stack; empty: made of the repository
	stacks *buildkite.Stacks // nil: REST tells the jobs
	// counter counts agents where there is no API token; nil: there is one.
	counter *buildkite.Metrics
}

func (a *agentSettings) addTo(c *cobra.Command) {
	c.Flags().StringArrayVar(&a.files, "agent-token-file", nil, "file with an agent token of the queues' Buildkite cluster, read at each request: run polls as soon as its metrics show more jobs; repeatable, or separated by spaces")
	c.Flags().StringVar(&a.url, "agent-endpoint", buildkite.DefaultAgentURL, "Buildkite Agent API URL")
	c.Flags().StringVar(&a.source, "source", "rest", "source of pending jobs: rest, or stacks (the Stacks API, with --agent-token-file). With stacks the API token is optional; without it, agents are counted but not listed")
	c.Flags().StringVar(&a.key, "stack-key", "", "key of the stack in Buildkite; if empty, derived from --repo and --overlays. Two replicas with the same key share a request limit")
	oneOf(c, "source", "rest", "stacks")
}

// tokens returns what reads each of the tokens, once all of them can be read.
func (a *agentSettings) tokens() ([]func() (string, error), error) {
	var all []func() (string, error)
	for _, value := range a.files {
		for file := range strings.FieldsSeq(value) {
			read := func() (string, error) { return readSecret("the agent token", file) }
			if _, err := read(); err != nil {
				return nil, output.Usage(err)
			}
			all = append(all, read)
		}
	}
	return all, nil
}

// metrics returns what asks for the metrics; nil where no agent token is given.
func (s *settings) metrics(log *slog.Logger) (*buildkite.Metrics, error) {
	tokens, err := s.agent.tokens()
	if len(tokens) == 0 {
		return nil, err
	}
	m, err := buildkite.NewMetrics(buildkite.AgentConfig{Org: s.org, URL: s.agent.url, Tokens: tokens, Log: log})
	return m, output.Usage(err)
}

// agentAPI returns the sum of the counters of all Agent API clients; asked is false if there is
// no such client.
func (s *settings) agentAPI() (all buildkite.Stats, asked bool) {
	add := func(x buildkite.Stats) {
		all.Requests, all.Failures, all.Received = all.Requests+x.Requests, all.Failures+x.Failures, all.Received+x.Received
		asked = true
	}
	if s.trigger != nil {
		add(s.trigger.Stats())
	}
	if s.agent.stacks != nil {
		add(s.agent.stacks.Stats())
	}
	if s.pages != nil {
		add(s.pages.stacks.Stats())
	}
	if s.agent.counter != nil && s.agent.counter != s.trigger {
		add(s.agent.counter.Stats())
	}
	return all, asked
}

// checkMetrics returns what keeps the metrics from triggering ticks, where agent tokens are
// given.
func (s *settings) checkMetrics(ctx context.Context, log *slog.Logger, overlays []plan.Overlay, snapshot plan.Snapshot) []error {
	m, err := s.metrics(log)
	if err != nil {
		return []error{err}
	}
	if m == nil {
		return nil
	}
	counts, err := patiently(ctx, s, log, func() (plan.Counts, error) { return m.Counts(ctx, s.program.clock.Now()) })
	if err != nil {
		return []error{fmt.Errorf("asking for Buildkite's metrics: %w", err)}
	}
	if snapshot.Unread != "" {
		return []error{errors.New("the agent tokens cannot be compared with the clusters of the queues: " + snapshot.Unread)}
	}
	var findings []error
	for _, o := range overlays {
		if cluster, told := o.Home(snapshot); told && !counts.Cover(cluster) {
			findings = append(findings, fmt.Errorf("%s: no agent token is of %s, so that its jobs wait for the next tick: %s", o.Name, inCluster(cluster), "give one with --agent-token-file"))
		}
	}
	if len(findings) == 0 {
		log.Info("Buildkite's metrics can be read", "clusters", len(counts.Clusters))
	}
	return findings
}

// inCluster is a cluster in words.
func inCluster(name string) string {
	if name == "" {
		return "the agents outside the clusters"
	}
	return fmt.Sprintf("the cluster %q", name)
}

// makeStacks makes what tells the jobs, where that is not REST.
func (s *settings) makeStacks(log *slog.Logger) (err error) {
	switch s.agent.source {
	case "", "rest":
		return nil
	case "stacks":
		s.agent.stacks, err = s.stacksFor("--source stacks", log)
		return err
	}
	return output.Usage(fmt.Errorf("--source %q: use rest or stacks", s.agent.source))
}

// stacksFor returns a client of the Stacks API for a flag that needs one. All are one stack
// for each token.
func (s *settings) stacksFor(flag string, log *slog.Logger) (*buildkite.Stacks, error) {
	tokens, err := s.agent.tokens()
	switch {
	case err != nil:
		return nil, err
	case len(tokens) == 0:
		return nil, output.Usage(errors.New(flag + ": which agent token? give --agent-token-file"))
	}
	k, err := buildkite.NewStacks(buildkite.StacksConfig{
		Clock:       s.program.clock,
		Key:         cmp.Or(s.agent.key, "muster-"+generator.FleetTag(s.git.repo, s.git.overlays)),
		AgentConfig: buildkite.AgentConfig{Org: s.org, URL: s.agent.url, Tokens: tokens, Log: log, Timeout: buildkite.DefaultTimeout},
	})
	return k, output.Usage(err)
}

// agentTokenOnly reports whether agent tokens are all that there is: no API token is given, and jobs
// come from the Stacks API.
func (s *settings) agentTokenOnly() bool {
	return s.agent.source == "stacks" && s.tokenFile == "" && s.program.variable(variableToken) == ""
}

// makeCounter makes what counts agents, where there is no API token. It shares the
// trigger's responses: Buildkite says how often the metrics may be requested.
func (s *settings) makeCounter(log *slog.Logger) (err error) {
	if s.agent.counter = s.trigger; s.trigger == nil {
		s.agent.counter, err = s.metrics(log)
	}
	return err
}

// checkCounted returns what keeps muster from inferring agents, where the snapshot counts them
// instead of listing them.
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
			log.Info("agents are connected; without an API token muster cannot know whose they are: only muster's may be in its queues", "queue", q.Queue, "agents", q.Agents, "idle", q.Idle)
		}
	}
	return findings
}

// leave removes the stacks that a command has registered which only looks, also when it was
// interrupted.
func (s *settings) leave(ctx context.Context) {
	log, err := s.logger()
	if s.agent.stacks == nil || err != nil {
		return
	}
	if err := s.agent.stacks.Leave(context.WithoutCancel(ctx)); err != nil {
		log.Warn(err.Error())
	}
}
