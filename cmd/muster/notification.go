package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
	"muster/gitops/branch"
	"muster/gitops/notify"

	"github.com/spf13/cobra"
)

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
	overlays []plan.Overlay
	notes    []buildkite.JobNote
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
	live := map[string]bool{}
	for _, o := range overlays {
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
	s := jobMessage{overlays: overlays}
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
	sent, err := p.stacks.Notify(ctx, s.overlays, s.notes)
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
	log, err := s.git.Logger()
	if err != nil {
		return nil, err
	}
	stacks, err := s.stacksFor("--say-on-jobs", log)
	if err != nil {
		return nil, err
	}
	if err := stacks.TryNotify(ctx, s.overlays(ctx, tree)); err != nil {
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

// addNotify adds the flag of the receivers of push notifications.
func (s *settings) addNotify(c *cobra.Command) {
	c.Flags().StringArrayVar(&s.notify, "notify", nil, "notify a syncer of each push, as in kind=flux,url=URL,secret-file=FILE: docs/how-to/notifications.md; repeatable, or separated by spaces")
}

// makeNotifier creates the notifier of the receivers, whose files may be created later if filesLater. The
// repository must be known.
func (s *settings) makeNotifier(log *slog.Logger, filesLater bool) error {
	var receivers []notify.Receiver
	for _, value := range s.notify {
		for text := range strings.FieldsSeq(value) {
			r, err := notify.Parse(text)
			if err != nil {
				return output.Usage(fmt.Errorf("--notify: %w", err))
			}
			receivers = append(receivers, r)
		}
	}
	var err error
	s.notifier, err = notify.New(notify.Config{
		Repository: s.git.Shown, Branch: s.git.Branch, Receivers: receivers, FilesLater: filesLater, Log: log, Now: s.program.Clock.Now,
	})
	if err != nil {
		return output.Usage(fmt.Errorf("--notify: %w", err))
	}
	return nil
}

// startNotifier starts to notify the receivers, until the context ends. stop waits for
// notifications in progress.
func (s *settings) startNotifier(ctx context.Context) (stop func()) {
	s.notifier.Start(ctx)
	return s.notifier.Close
}

// checkReceivers returns the errors of test notifications.
func (s *settings) checkReceivers(ctx context.Context) []error {
	if len(s.notify) > 0 {
		s.program.Progress.Doing("contacting the receivers")
	}
	return s.notifier.Check(ctx)
}

// landed notifies the receivers of a push that has landed.
func (s *settings) landed(before, after string, changes []branch.Change) {
	s.notifier.Landed(notify.NewPush(before, after, changes))
}

// receivers returns the receivers' statistics.
func (s *settings) receivers() []status.Receiver {
	return invocation.Map(s.notifier.Stats(), func(r notify.Stats) status.Receiver {
		return status.Receiver{Name: r.Name, Sent: r.Sent, Failed: r.Failed, Merged: r.Merged, Seconds: r.Last.Seconds()}
	})
}
