package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/plan"
)

// makeStacks makes what tells the jobs, where that is not REST.
func (s *settings) makeStacks(log *slog.Logger) (err error) {
	switch s.agent.source {
	case "", "rest":
		return nil
	case "stacks":
		s.agent.stacks, err = s.stacksFor("--source stacks", log)
		return err
	}
	return usage(fmt.Errorf("--source %q: use rest or stacks", s.agent.source))
}

// stacksFor returns a client of the Stacks API for a flag that needs one. All are one stack
// for each token.
func (s *settings) stacksFor(flag string, log *slog.Logger) (*buildkite.Stacks, error) {
	tokens := s.agent.tokens()
	if len(tokens) == 0 {
		return nil, usage(errors.New(flag + ": which agent token? give --agent-token-file"))
	}
	for _, read := range tokens {
		if _, err := read(); err != nil {
			return nil, usage(err)
		}
	}
	k, err := buildkite.NewStacks(buildkite.StacksConfig{
		Clock:       s.program.clock,
		Key:         cmp.Or(s.agent.key, "muster-"+generator.FleetTag(s.git.repo, s.git.overlays)),
		AgentConfig: buildkite.AgentConfig{Org: s.org, URL: s.agent.url, Tokens: tokens, Log: log, Timeout: buildkite.DefaultTimeout},
	})
	return k, usage(err)
}

// alone reports whether agent tokens are all that there is: no API token is given, and jobs
// come from the Stacks API.
func (s *settings) alone() bool {
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

// withoutToken is what is not seen where there is no API token.
const withoutToken = "no API token is given: agents are counted and not seen, and which of them came follows from the jobs that were taken. " +
	"The queues must be muster's alone, agents must leave after their job, and lost agents, min, buffer and reuse cost waits: see docs/explanation/buildkite.md#running-without-an-api-token"

// warnOfSource says what the source of jobs does not tell.
func (s *settings) warnOfSource(log *slog.Logger) {
	if s.agent.stacks != nil {
		log.Warn("jobs come from the Stacks API: those that wait for other steps are not seen, so that look-ahead orders nothing, nor those of queues that no overlay serves", "source", s.agent.source)
	}
	if s.alone() {
		log.Warn(withoutToken, "source", s.agent.source)
	}
}

// checkAlone returns what agent tokens alone show against the overlays.
func (s *settings) checkAlone(ctx context.Context, client *buildkite.Client, log *slog.Logger, tree fs.FS) []error {
	overlays := s.overlays(tree)
	snapshot, err := s.snapshot(ctx, client, overlays, log)
	if err != nil {
		return []error{err}
	}
	var findings []error
	if snapshot.Unread != "" {
		findings = append(findings, errors.New(snapshot.Unread))
	}
	warnUnserved(log, overlays, snapshot)
	shared := plan.Sharing(overlays)
	for _, o := range overlays {
		if other := shared[o.Name]; other != "" {
			findings = append(findings, fmt.Errorf("%s: %s", o.Name, generator.SharesQueue(o.Policy.Queue, other)))
		}
	}
	findings = append(findings, checkQueues(overlays, snapshot)...)
	log.Info("the agent tokens tell the jobs of the queues, their states and how many agents there are")
	for _, q := range snapshot.Counted.Queues {
		if q.Agents > 0 {
			log.Info("agents are connected; whose they are cannot be known without an API token: others than muster's must not be in its queues", "queue", q.Queue, "agents", q.Agents, "idle", q.Idle)
		}
	}
	log.Warn("not proven without an API token: that the queues are for self-hosted agents, that no others' agents are in them, that agents come with their tags; " + withoutToken)
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
