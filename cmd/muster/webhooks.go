package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/webhook"
)

// gather is how long a webhook waits for others that come with it: a build's jobs are
// scheduled one after another.
const gather = 250 * time.Millisecond

// webhookFlags say which webhooks are served.
type webhookFlags struct {
	buildkite, git string        // files with their secrets; empty: not served
	interval       time.Duration // of run alone
}

func (f *webhookFlags) addTo(c *cobra.Command) {
	c.Flags().StringVar(&f.buildkite, "buildkite-webhook-secret-file", "", "file with the token of the Buildkite webhook, read at each request; enables /webhooks/buildkite of --listen")
	c.Flags().StringVar(&f.git, "git-webhook-secret-file", "", "file with the secret of the git host's webhook, read at each request; enables /webhooks/git of --listen")
}

// given reports whether any is to be served.
func (f *webhookFlags) given() bool { return f.buildkite+f.git != "" }

// unreadable lists what is wrong with the secrets' files.
func (f *webhookFlags) unreadable() []error {
	var all []error
	for _, secret := range []func() ([]byte, error){f.buildkiteSecret(), f.gitSecret()} {
		if secret == nil {
			continue
		}
		if _, err := secret(); err != nil {
			all = append(all, err)
		}
	}
	return all
}

func (f *webhookFlags) buildkiteSecret() func() ([]byte, error) {
	return secretOf("the secret of Buildkite's webhook", f.buildkite)
}

func (f *webhookFlags) gitSecret() func() ([]byte, error) {
	return secretOf("the secret of the git host's webhook", f.git)
}

// secretOf returns what reads a secret; nil where there is no file for it.
func secretOf(what, file string) func() ([]byte, error) {
	if file == "" {
		return nil
	}
	return func() ([]byte, error) {
		secret, err := readSecret(what, file)
		return []byte(secret), err
	}
}

// webhooks adds those that are asked for to the endpoints, and returns what begins ticks
// early; nil: nothing does.
func (s *settings) webhooks(f webhookFlags, ends *endpoints, client *buildkite.Client, log *slog.Logger) (*generator.Wake, error) {
	if !f.given() {
		return nil, nil
	}
	if wrong := f.unreadable(); len(wrong) > 0 {
		return nil, usage(wrong[0])
	}
	ends.hooks = webhook.New(webhook.Config{
		BuildkiteSecret: f.buildkiteSecret(), GitSecret: f.gitSecret(), Organisation: s.org,
		Branch: s.git.branch, Now: s.program.clock.Now, Log: log,
		Count: func(source webhook.Source, result webhook.Result) {
			ends.metrics.Webhooks(string(source), string(result), 1)
		},
	})
	for _, source := range webhook.Sources() {
		if source == webhook.Buildkite && f.buildkite == "" || source != webhook.Buildkite && f.git == "" {
			continue
		}
		for _, result := range webhook.Results() {
			ends.metrics.Webhooks(string(source), string(result), 0)
		}
	}
	wake := &generator.Wake{Calls: ends.hooks.Calls(), Gather: gather, Every: f.interval, Spare: client.Spare}
	if s.trigger != nil {
		wake.Metrics = s.trigger
	}
	return wake, nil
}
