package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"muster/cmd/muster/output"
	"muster/cmd/muster/page"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
	"muster/gitops/git/remote"

	"github.com/spf13/cobra"
)

// runFlags are the flags that only run has.
type runFlags struct {
	once, dryRun     bool
	notifyJobs       bool
	interval, jitter time.Duration
	listen, pprof    string
	webhooks         webhookFlags
}

func (f *runFlags) check() error {
	switch {
	case f.interval < time.Second:
		return output.Usage(errors.New("--interval is below one second"))
	case f.jitter < 0:
		return output.Usage(errors.New("--startup-jitter is below zero"))
	case f.once && f.listen+f.pprof != "":
		return output.Usage(errors.New("--once ends after one tick: leave out --listen and --pprof"))
	case f.once && f.notifyJobs:
		return output.Usage(errors.New("--once ends after one tick: leave out --say-on-jobs"))
	case f.listen == "" && f.webhooks.enabled() && !f.once:
		return output.Usage(errors.New("webhooks are served on the address of --listen: give one"))
	case f.webhooks.interval < time.Second:
		return output.Usage(errors.New("--webhook-interval is below one second"))
	case f.listen != "" && f.listen == f.pprof:
		return output.Usage(errors.New("--pprof and --listen must use different addresses"))
	}
	return nil
}

func (p program) runCommand() *cobra.Command {
	var s *settings
	var f runFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the autoscaler",
		Long: `run polls Buildkite and reads the fleet repository at each interval, and commits the
changes that follow. It ends on SIGINT and SIGTERM, and starts a tick at once on
SIGHUP.

With --listen it serves a status page at /, the same data as JSON at /status.json,
/healthz (ok while ticks continue), /readyz (ok while git and Buildkite answer, pushes
are accepted and no overlay is invalid; otherwise it lists the problems), and
/metrics for Prometheus. With their secrets it also serves /webhooks/buildkite and
/webhooks/git, which trigger a tick at once.`,
		Example: `  export BUILDKITE_API_TOKEN=...
  muster run --repo git@example.com:acme/fleet.git --ssh-key-file key \
    --ssh-known-hosts-file known_hosts --buildkite-org acme`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.boundMemory != nil {
				p.boundMemory()
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
	s.addNotify(c)
	s.agent.addTo(c)
	c.Flags().BoolVar(&f.once, "once", false, "run one tick and exit")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "do everything except push")
	c.Flags().DurationVar(&f.interval, "interval", 15*time.Second, "time between ticks")
	c.Flags().DurationVar(&f.jitter, "startup-jitter", 5*time.Second, "maximum random delay of the first tick; not with --once")
	c.Flags().StringVar(&f.listen, "listen", "", "address of the status page, probes and metrics, such as :8080; empty: none")
	f.webhooks.addTo(c)
	c.Flags().DurationVar(&f.webhooks.interval, "webhook-interval", 3*time.Second, "mean time between ticks that webhooks or Buildkite's metrics trigger (a few may be a second apart), and between requests for the metrics")
	c.Flags().BoolVar(&f.notifyJobs, "say-on-jobs", false, "show on each pending job's page which dispatch was ordered for such jobs; needs --agent-token-file")
	c.Flags().StringVar(&f.pprof, "pprof", "", "address of Go's profiles, such as localhost:6060; empty: none")
	return c
}

// once runs one tick.
func (s *settings) once(ctx context.Context, f runFlags) error {
	s.progress = s.program.progress
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
	log, err := s.logger()
	if err != nil {
		return err
	}
	if s.trigger, err = s.metrics(log); err != nil {
		return err
	}
	var ends *endpoints
	if f.notifyJobs {
		stacks, err := s.stacksFor("--say-on-jobs", log)
		if err != nil {
			return err
		}
		s.jobNotifier = newJobNotifier(stacks, log, p.clock.Now, func(result string, n int) {
			if ends != nil {
				ends.metrics.JobNotes(result, n)
			}
		})
	}
	var gaps []string
	watch := func(client *buildkite.Client, commits page.Commits) (generator.Watcher, *generator.Triggers, error) {
		gaps = client.Gaps()
		var triggers *generator.Triggers
		if s.trigger != nil {
			triggers = &generator.Triggers{Every: f.webhooks.interval, Spare: client.Spare, Metrics: s.trigger}
		}
		if f.listen == "" {
			return s.withJobNotifier(nil), triggers, nil
		}
		if ends, err = newEndpoints(p.clock, s.statusConfig(f, client), commits); err != nil {
			return nil, nil, err
		}
		hooks, err := s.webhooks(f.webhooks, ends, client, log)
		return s.withJobNotifier(ends.watcher()), cmp.Or(hooks, triggers), err
	}
	g, err := s.generator(f.dryRun, buildPatience, watch)
	if err != nil {
		return err
	}
	log.Info("starting", "version", p.build.name(), "commit", p.build.commit, "repository", s.git.shown, "branch", s.git.branch, "overlays", s.git.overlays,
		"organisation", s.org, "interval", f.interval, "dry-run", f.dryRun)
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
	if p.onHangup != nil {
		p.onHangup()
	}
	return g.Run(ctx, f.interval, f.jitter)
}

// statusConfig returns the configuration of the status.
func (s *settings) statusConfig(f runFlags, client *buildkite.Client) status.Config {
	var github func() remote.Stats
	if s.git.github != nil {
		github = s.git.github.Stats
	}
	return status.Config{
		Muster: status.Muster{
			Version: s.program.build.name(), Commit: s.program.build.commit, Repository: s.git.shown, Branch: s.git.branch,
			Overlays: s.git.overlays, Organisation: s.org, DryRun: f.dryRun,
		},
		Started: s.program.clock.Now(), Interval: f.interval, Longest: longestTick + f.jitter,
		Receivers:    s.receivers,
		Services:     services(s.git.traffic, github, client, s.agentAPI),
		TokenExpires: func() time.Time { return client.Stats().TokenExpires },
	}
}

// serve starts the servers that the flags enable. stop ends them.
func (f *runFlags) serve(ctx context.Context, log *slog.Logger, ends *endpoints) (stop func(), err error) {
	var all []*server
	stop = func() {
		if ends != nil {
			ends.page.HangUp()
			defer ends.page.Close()
		}
		for _, s := range all {
			s.stop()
		}
	}
	start := func(what, address string, h http.Handler, write time.Duration) {
		if err == nil {
			var s *server
			if s, err = serve(ctx, log, what, address, h, write); err == nil {
				all = append(all, s)
			}
		}
	}
	if ends != nil {
		what := "the status page, probes and metrics"
		if ends.hooks != nil {
			what = "the status page, probes, metrics and webhooks"
		}
		start(what, f.listen, ends.handler(), 30*time.Second)
	}
	if f.pprof != "" {
		const longestProfile = 5 * time.Minute
		start("profiles", f.pprof, profiles(), longestProfile)
	}
	return stop, err
}

// jobNotifier sends job notifications that name the ordered dispatch. Ticks do not wait for it:
// notifications that cannot be sent are dropped and counted.
type jobNotifier struct {
	stacks *buildkite.Stacks
	log    *slog.Logger
	now    func() time.Time
	count  func(result string, n int)

	notified map[string]string // by job, the dispatch that its notification names
	waits    chan jobMessage
	silent   time.Time // no notifications until then, after a failure
}

// jobMessage contains the job notifications of one tick.
type jobMessage struct {
	queues []string
	notes  []buildkite.JobNote
}

// The results of a job notification.
const (
	noteSent   = "sent"
	noteFailed = "failed"
)

// maxMessages is the maximum number of waiting messages, and silence the pause after a failure.
const (
	maxMessages = 10
	silence     = time.Minute
)

// newJobNotifier returns a notifier that is not started.
func newJobNotifier(stacks *buildkite.Stacks, log *slog.Logger, now func() time.Time, count func(string, int)) *jobNotifier {
	return &jobNotifier{stacks: stacks, log: log, now: now, count: count, notified: map[string]string{}, waits: make(chan jobMessage, maxMessages)}
}

// Began implements [generator.Watcher].
func (p *jobNotifier) Began(time.Time) {}

// Ended implements [generator.Watcher].
func (p *jobNotifier) Ended(r generator.Report) {
	if r.DryRun || r.Result.Input.Snapshot.At.IsZero() {
		return
	}
	overlays, snapshot := r.Result.Input.Overlays, r.Result.Input.Snapshot
	live, queues := map[string]bool{}, []string{}
	for _, o := range overlays {
		queues = append(queues, o.Policy.Queue)
		for _, d := range o.Dispatches {
			live[d.ID] = true
		}
	}
	notified := map[string]string{}
	for _, j := range snapshot.Jobs {
		if id := p.notified[j.ID]; live[id] { // its agents may still register
			notified[j.ID] = id
		}
	}
	p.notified = notified
	s := jobMessage{queues: queues}
	for _, a := range slices.Concat(r.Result.Landed, r.Result.Operations) {
		if a.Kind != ledger.Dispatch {
			continue
		}
		for _, d := range a.Decision.Dispatch {
			if d.Purpose != plan.ForDemand {
				continue
			}
			for _, j := range plan.JobsFor(overlays, snapshot, a.Decision.Overlay, d.Agents, func(id string) bool { return p.notified[id] != "" }) {
				p.notified[j.ID] = d.ID
				s.notes = append(s.notes, buildkite.JobNote{Job: j.ID, Text: fmt.Sprintf(
					"muster ordered agents for jobs like this one at %s UTC: dispatch %s of overlay %s", d.At.UTC().Format("15:04:05"), d.ID, a.Decision.Overlay)})
			}
		}
	}
	if len(s.notes) == 0 {
		return
	}
	select {
	case p.waits <- s:
	default:
		p.count(noteFailed, len(s.notes))
	}
}

// start sends notifications until the context ends, or stop is called.
func (p *jobNotifier) start(ctx context.Context) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-p.waits:
				p.send(ctx, s)
			}
		}
	})
	return func() {
		end()
		group.Wait()
	}
}

func (p *jobNotifier) send(ctx context.Context, s jobMessage) {
	if p.now().Before(p.silent) {
		p.count(noteFailed, len(s.notes))
		return
	}
	sent, err := p.stacks.Notify(ctx, s.queues, s.notes)
	p.count(noteSent, sent)
	p.count(noteFailed, len(s.notes)-sent)
	if err != nil && ctx.Err() == nil {
		p.silent = p.now().Add(silence)
		p.log.Warn("job notifications cannot be sent", "err", err)
	}
}

// checkJobNotifications returns the problems that prevent job notifications. err reports invalid
// flags.
func (s *settings) checkJobNotifications(ctx context.Context, tree fs.FS) ([]error, error) {
	log, err := s.logger()
	if err != nil {
		return nil, err
	}
	stacks, err := s.stacksFor("--say-on-jobs", log)
	if err != nil {
		return nil, err
	}
	queues := mapSlice(s.overlays(ctx, tree), func(o plan.Overlay) string { return o.Policy.Queue })
	if err := stacks.TryNotify(ctx, queues); err != nil {
		return []error{err}, nil
	}
	log.Info("the agent tokens can send job notifications; whether pages show them is not checked")
	return nil, nil
}

// withJobNotifier adds the job notifier to a watcher, if enabled.
func (s *settings) withJobNotifier(w generator.Watcher) generator.Watcher {
	switch {
	case s.jobNotifier == nil:
		return w
	case w == nil:
		return s.jobNotifier
	}
	s.jobNotifier.count(noteSent, 0) // begins the series
	s.jobNotifier.count(noteFailed, 0)
	return watchers{w, s.jobNotifier}
}
