package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/cmd/page"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/status"
	"muster/gitops"
	"muster/gitops/git/remote"
	"muster/gitops/keyvalue"

	"github.com/spf13/cobra"
)

// runFlags are the flags that only run has.
type runFlags struct {
	once, dryRun     bool
	notifyJobs       bool
	interval, jitter time.Duration
	listen, pprof    string
	commitURL        string
	webhooks         webhookFlags
}

func (f *runFlags) check() error {
	switch {
	case f.interval < time.Second:
		return output.Usage(errors.New("--interval is below one second"))
	case f.jitter < 0:
		return output.Usage(errors.New("--startup-jitter is below zero"))
	case f.once && f.listen+f.pprof != "":
		return output.Usage(errors.New("--once ends after one tick: leave out --listen"))
	case f.once && f.notifyJobs:
		return output.Usage(errors.New("--once ends after one tick: leave out --say-on-jobs"))
	case f.listen == "" && f.webhooks.enabled() && !f.once:
		return output.Usage(errors.New("webhooks are served on the address of --listen: give one"))
	case f.webhooks.interval < time.Second:
		return output.Usage(errors.New("--webhook-interval is below one second"))
	}
	return nil
}

// addListen adds the flag of the servers.
func (f *runFlags) addListen(c *cobra.Command) {
	form := keyvalue.Form{Name: "a server", Example: ":8080,pprof=localhost:6060", Fields: map[string]*string{
		"": &f.listen, "pprof": &f.pprof, "commit-url": &f.commitURL,
	}}
	invocation.FormVar(c.Flags(), form, "listen", "address of the status page, probes and metrics, such as :8080. In ADDRESS,pprof=ADDRESS,commit-url=URL, pprof is the address of Go's profiles, such as localhost:6060, and commit-url the page of a commit, with {commit} in place of its ID, for links on the status page; absent: as GitHub, GitLab, Gitea, Forgejo, Bitbucket or Azure DevOps, by the name of the host", func() error {
		switch {
		case addressMistake(f.listen) != "":
			return fmt.Errorf("%q: %s", f.listen, addressMistake(f.listen))
		case addressMistake(f.pprof) != "":
			return fmt.Errorf("pprof %q: %s", f.pprof, addressMistake(f.pprof))
		case f.commitURL != "" && (!strings.HasPrefix(f.commitURL, "https://") && !strings.HasPrefix(f.commitURL, "http://") || !strings.Contains(f.commitURL, "{commit}")):
			return errors.New("commit-url must begin with https:// and contain {commit}")
		case f.listen != "" && f.listen == f.pprof:
			return errors.New("pprof must use another address than the status page")
		}
		return nil
	})
}

// addressMistake returns what is wrong with an address to listen on; empty if nothing is, or if there is
// no address.
func addressMistake(address string) string {
	if address == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "must end in a port from 0 to 65535, as in :8080 or 127.0.0.1:8080"
	}
	return ""
}

func (p program) runCommand() *cobra.Command {
	var s *settings
	var f runFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the autoscaler",
		Long: `run makes a tick at each interval: it polls Buildkite, reads the fleet repository, and
commits the changes that follow. It ends on SIGINT and SIGTERM. SIGHUP starts a tick at once, or
after the current one.

With --listen it serves a status page at /, the same data as JSON at /status.json,
/healthz (ok while ticks continue), /readyz (ok while git and Buildkite answer, pushes
are accepted and no overlay is invalid; otherwise it lists the problems), and
/metrics for Prometheus. With their secrets it also serves /webhooks/buildkite and
/webhooks/git, which trigger a tick at once.`,
		Example: `  export BUILDKITE_API_TOKEN=...
  muster run --repo git@example.com:acme/fleet.git --ssh-key-file key \
    --ssh-known-hosts-file known_hosts --buildkite-org acme
  muster run --once`,
		Args: invocation.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.BoundMemory != nil {
				p.BoundMemory()
			}
			if err := f.check(); err != nil {
				return err
			}
			s.watchToken = true
			if f.once {
				return s.once(cmd.Context(), f)
			}
			return s.run(cmd.Context(), f)
		},
	}
	s = newSettings(p, c)
	s.git.AddTo(c)
	s.addNotify(c)
	s.agent.addTo(c)
	c.Flags().BoolVar(&f.once, "once", false, "run one tick and exit")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "do everything except push")
	invocation.DurationVar(c.Flags(), &f.interval, "interval", 15*time.Second, "time between ticks")
	invocation.DurationVar(c.Flags(), &f.jitter, "startup-jitter", 5*time.Second, "maximum random delay of the first tick; not with --once")
	f.addListen(c)
	f.webhooks.addTo(c)
	invocation.DurationVar(c.Flags(), &f.webhooks.interval, "webhook-interval", 3*time.Second, "mean time between ticks that webhooks or Buildkite's metrics trigger (a few may be a second apart), and between requests for the metrics")
	c.Flags().BoolVar(&f.notifyJobs, "say-on-jobs", false, "show on each pending job's page which dispatch was ordered for such jobs; needs --agent-token-file")
	return c
}

// once runs one tick.
func (s *settings) once(ctx context.Context, f runFlags) error {
	s.progress = s.program.Progress
	g, err := s.generator(f.dryRun, 0, nil) // there is no later tick
	if err != nil {
		return err
	}
	defer s.startNotifier(ctx)()
	result, err := g.Once(ctx)
	if err != nil {
		return err
	}
	return invalidOverlays(result.Suspended)
}

// run ticks until the context ends.
func (s *settings) run(ctx context.Context, f runFlags) error {
	p := s.program
	if p.Hangup != nil {
		s.pause = invocation.SleepUntilSignal(p.Hangup())
	}
	log, err := s.git.Logger()
	if err != nil {
		return err
	}
	s.filesLater = true
	if s.trigger, err = s.metrics(log); err != nil {
		return err
	}
	var ends *endpoints
	if f.notifyJobs {
		stacks, err := s.stacksFor("--say-on-jobs", log)
		if err != nil {
			return err
		}
		s.jobNotifier = newJobNotifier(stacks, log, p.Clock.Now, func(result string, n int) {
			if ends != nil {
				ends.metrics.JobNotes(result, n)
			}
		})
	}
	var gaps []string
	watch := func(client *buildkite.Client, commits page.Commits) (generator.Watcher, *generator.Triggers, error) {
		gaps = client.Gaps()
		triggers := s.triggers(client, f.webhooks.interval, log)
		if f.listen == "" {
			return s.withJobNotifier(nil), triggers, nil
		}
		if ends, err = newEndpoints(p.Clock, s.statusConfig(f, client), commits); err != nil {
			return nil, nil, err
		}
		hooks, err := s.webhooks(f.webhooks, ends, client, log)
		return s.withJobNotifier(ends.watcher()), cmp.Or(hooks, triggers), err
	}
	g, err := s.generator(f.dryRun, buildPatience, watch)
	if err != nil {
		return err
	}
	log.Info("starting", "version", p.Build.Name(), "commit", p.Build.Commit, "repository", s.git.Shown, "branch", s.git.Branch, "overlays", s.git.Overlays,
		"organisation", s.buildkite.Org, "interval", f.interval, "dry-run", f.dryRun)
	for _, gap := range gaps {
		log.Warn(gap)
	}
	defer log.Info("stopped")
	stop, err := f.serve(ctx, log, ends)
	defer stop()
	if err != nil {
		return output.Usage(err)
	}
	defer s.startNotifier(ctx)()
	if s.jobNotifier != nil {
		defer s.jobNotifier.start(ctx)()
	}
	return g.Run(ctx, f.interval, f.jitter)
}

// statusConfig returns the configuration of the status.
func (s *settings) statusConfig(f runFlags, client *buildkite.Client) status.Config {
	var github func() remote.Stats
	if s.git.GitHub != nil {
		github = s.git.GitHub.Stats
	}
	return status.Config{
		Muster: status.Muster{
			Version: s.program.Build.Name(), Commit: s.program.Build.Commit, Repository: s.git.Shown, Branch: s.git.Branch,
			Overlays: s.git.Overlays, Organisation: s.buildkite.Org, DryRun: f.dryRun, CommitURL: f.commitURL, Triggered: f.webhooks.buildkite != "" || s.trigger != nil && !s.agent.awaited,
		},
		Started: s.program.Clock.Now(), Interval: f.interval, Longest: longestTick + f.jitter,
		Receivers:    s.receivers,
		Services:     services(s.git.Traffic, github, client, s.agentAPI),
		TokenExpires: func() time.Time { return client.Stats().TokenExpires },
	}
}

// longestTick is the longest duration of a healthy tick: one poll of Buildkite of the maximum
// age, and four git operations of the maximum duration.
const longestTick = buildkite.LongestPoll + 4*gitops.DefaultTimeout

// watchers notifies each watcher of ticks, in order.
type watchers []generator.Watcher

// Began implements [generator.Watcher].
func (w watchers) Began(at time.Time) {
	for _, each := range w {
		each.Began(at)
	}
}

// Ended implements [generator.Watcher].
func (w watchers) Ended(r generator.Report) {
	for _, each := range w {
		each.Ended(r)
	}
}

// services returns a function for the statistics of each service. github may be nil.
func services(git, github func() remote.Stats, client *buildkite.Client, agentAPI func() (buildkite.Stats, bool)) func() []status.Service {
	return func() []status.Service {
		b := client.Stats()
		rest := status.Service{Name: "buildkite", Requests: b.Requests, Failures: b.Failures, Received: b.Received}
		for scope, l := range map[string]buildkite.Limit{"rest": b.Org, "rest_user": b.User} {
			if l.Limit > 0 {
				rest.Limits = append(rest.Limits, status.Limit{Scope: scope, Limit: int64(l.Limit), Remaining: int64(l.Remaining)})
			}
		}
		all := []status.Service{rest, service("git", git())}
		if a, used := agentAPI(); used {
			all = append(all, status.Service{Name: "buildkite-agent", Requests: a.Requests, Failures: a.Failures, Received: a.Received})
		}
		if github != nil {
			all = append(all, service("github", github()))
		}
		return all
	}
}

func service(name string, s remote.Stats) status.Service {
	service := status.Service{Name: name, Requests: s.Requests, Failures: s.Failures, Sent: s.Sent, Received: s.Received}
	if s.Limit > 0 {
		service.Limits = []status.Limit{{Scope: "rest", Limit: s.Limit, Remaining: s.Remaining}}
	}
	return service
}
