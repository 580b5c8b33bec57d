package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/manifest"
	"muster/generator/plan"
)

// checkBuildkite returns what Buildkite says against the token and the overlays.
// What is no finding, as a token that expires in a week, is logged.
func (s *settings) checkBuildkite(ctx context.Context, client *buildkite.Client, log *slog.Logger, tree fs.FS) []error {
	defer s.leave(ctx)
	if s.alone() {
		return s.checkAlone(ctx, client, log, tree)
	}
	var token buildkite.Token
	err := s.patiently(ctx, log, func() (err error) {
		token, err = client.Verify(ctx)
		return err
	})
	if err != nil {
		return []error{err}
	}
	var findings []error
	switch level, text := token.Expiry(s.program.clock.Now()); level {
	case slog.LevelError:
		findings = append(findings, errors.New(text))
	case slog.LevelWarn:
		log.Warn(text)
	}
	overlays := s.overlays(tree)
	snapshot, err := s.snapshot(ctx, client, overlays, log)
	if err != nil {
		return append(findings, err)
	}
	if snapshot.Unread != "" {
		log.Warn(snapshot.Unread)
	}
	s.checkAgentTokens(ctx, client, log)
	warnUnserved(log, overlays, snapshot)
	findings = append(findings, checkQueues(overlays, snapshot)...)
	findings = append(findings, s.checkMetrics(ctx, log, overlays, snapshot)...)
	return append(findings, compareLimited(ctx, client, log, token, snapshot)...)
}

// checkAgentTokens logs which agent tokens are about to expire. They are no findings, because
// Buildkite does not show which of them the agents use.
func (s *settings) checkAgentTokens(ctx context.Context, client *buildkite.Client, log *slog.Logger) {
	var tokens []buildkite.AgentToken
	err := s.patiently(ctx, log, func() (err error) {
		tokens, err = client.AgentTokens(ctx)
		return err
	})
	if err != nil {
		log.Info("the expiry of agent tokens was not checked", "reason", err)
	}
	for _, t := range tokens {
		if level, text := t.Expiry(s.program.clock.Now()); level >= slog.LevelWarn {
			log.Log(ctx, level, text)
		}
	}
}

// snapshot reads Buildkite as a tick does.
func (s *settings) snapshot(ctx context.Context, client *buildkite.Client, overlays []plan.Overlay, log *slog.Logger) (snapshot plan.Snapshot, err error) {
	err = s.patiently(ctx, log, func() error {
		snapshot, err = client.Snapshot(ctx, plan.Query{At: s.program.clock.Now(), Overlays: overlays})
		return err
	})
	return snapshot, err
}

// patiently calls ask, and calls it again after Buildkite's rate limits; see
// [generator.Patiently].
func (s *settings) patiently(ctx context.Context, log *slog.Logger, ask func() error) error {
	return generator.Patiently(ctx, s.program.clock, log, func() error {
		s.program.progress.Doing("asking git and Buildkite")
		err := ask()
		waitingFor(s.program.progress, err)
		return err
	})
}

// overlays are those whose policies can be read: the files' own findings say
// which cannot.
func (s *settings) overlays(tree fs.FS) []plan.Overlay {
	loaded, err := manifest.NewLoader(s.git.overlays).Load(tree)
	if err != nil {
		return nil
	}
	var overlays []plan.Overlay
	for _, o := range loaded {
		if o.Policy.Queue != "" {
			overlays = append(overlays, o.Overlay)
		}
	}
	return overlays
}

// checkQueues returns what would suspend the overlays, or leave their agents
// without a queue: a cluster that does not exist, a queue that is in several, one
// for hosted agents, one that is not found.
func checkQueues(overlays []plan.Overlay, snapshot plan.Snapshot) []error {
	var findings []error
	observed := plan.Observe(overlays, snapshot, &plan.Registrations{})
	var queues []string
	for _, o := range observed {
		queues = append(queues, o.Queue)
	}
	unknown := plan.Unknown(queues, snapshot)
	for _, o := range observed {
		for _, supply := range o.Overlays {
			if supply.Suspended.Active() {
				findings = append(findings, fmt.Errorf("%s: suspended: %s", supply.Overlay, supply.Suspended))
			}
		}
		if unknown[o.Queue] {
			findings = append(findings, fmt.Errorf("queue %q: no cluster has it, no agent is in it, and no job outside the clusters; is its key right? "+
				"(A new organisation has no queue called default: its default queue is linux-small, for hosted agents)", o.Queue))
		}
	}
	return findings
}

// warnUnserved logs the pending jobs that no overlay serves. They are no finding: a
// step may ask for anything.
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

// compareLimited returns the jobs of which GraphQL says otherwise than the rule
// by which jobs are presumed limited. Where GraphQL cannot be asked, the log says
// that nothing was compared.
func compareLimited(ctx context.Context, client *buildkite.Client, log *slog.Logger, token buildkite.Token, snapshot plan.Snapshot) []error {
	found, err := client.CompareLimited(ctx, token, snapshot)
	if err != nil {
		log.Info("which jobs are limited by concurrency was not compared with GraphQL", "reason", err)
		return nil
	}
	log.Info("which jobs are limited by concurrency was compared with GraphQL", "jobs", found.Jobs,
		"differences", len(found.Limited)+len(found.Runnable))
	var findings []error
	if n := len(found.Limited); n > 0 {
		findings = append(findings, fmt.Errorf("limited jobs: of %d jobs %d are scheduled without runnable_at, which is taken for limited, "+
			"and GraphQL calls them runnable, as %s: run with --count-limited", found.Jobs, n, found.Limited[0]))
	}
	if n := len(found.Runnable); n > 0 {
		findings = append(findings, fmt.Errorf("limited jobs: of %d jobs %d are scheduled with runnable_at, which is taken for runnable, "+
			"and GraphQL calls them limited, as %s: the agents ordered for them take no job", found.Jobs, n, found.Runnable[0]))
	}
	return findings
}
