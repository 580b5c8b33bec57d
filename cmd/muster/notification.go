package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
	"muster/gitops/branch"
	"muster/gitops/notify"

	"github.com/spf13/cobra"
)

// notifySettings are the flags that select the receivers of push notifications.
type notifySettings struct {
	receivers []string
	notifier  *notify.Notifier // nil: no notifications
}

func (n *notifySettings) addTo(c *cobra.Command) {
	c.Flags().StringArrayVar(&n.receivers, "notify", nil, "notify a syncer of each push, as in kind=flux,url=URL,secret-file=FILE: docs/how-to/notifications.md; repeatable, or separated by spaces")
}

// makeNotifier makes what tells the receivers, once the repository is known.
func (s *settings) makeNotifier(log *slog.Logger) error {
	var receivers []notify.Receiver
	for _, value := range s.notify.receivers {
		for text := range strings.FieldsSeq(value) {
			r, err := notify.Parse(text)
			if err != nil {
				return output.Usage(fmt.Errorf("--notify: %w", err))
			}
			receivers = append(receivers, r)
		}
	}
	if len(receivers) == 0 {
		return nil
	}
	var err error
	s.notify.notifier, err = notify.New(notify.Config{
		Repository: s.git.shown, Branch: s.git.branch, Receivers: receivers, Log: log, Now: s.program.clock.Now,
	})
	if err != nil {
		return output.Usage(fmt.Errorf("--notify: %w", err))
	}
	return nil
}

// startNotifier starts to notify the receivers, until the context ends. stop waits for
// notifications in progress.
func (s *settings) startNotifier(ctx context.Context) (stop func()) {
	if s.notify.notifier == nil {
		return func() {}
	}
	s.notify.notifier.Start(ctx)
	return s.notify.notifier.Close
}

// checkReceivers returns what the receivers say against a push.
func (s *settings) checkReceivers(ctx context.Context) []error {
	if s.notify.notifier == nil {
		return nil
	}
	s.program.progress.Doing("asking the receivers")
	return s.notify.notifier.Check(ctx)
}

// receivers returns a function for the receivers' statistics; nil if there are no receivers.
func (s *settings) receivers() func() []status.Receiver {
	notifier := s.notify.notifier
	if notifier == nil {
		return nil
	}
	return func() []status.Receiver {
		return mapSlice(notifier.Stats(), func(r notify.Stats) status.Receiver {
			return status.Receiver{Name: r.Name, Sent: r.Sent, Failed: r.Failed, Merged: r.Merged, Seconds: r.Last.Seconds()}
		})
	}
}

// landed has the receivers told of a push of a person's.
func (s *settings) landed(before, after branch.Head, changes []branch.Change) {
	l := s.landing()
	l.Pushed(before.Commit, after.Commit, changes, nil)
}

// landing returns what notifies the receivers of the pushes that have landed.
func (s *settings) landing() notify.Landing {
	if s.notify.notifier == nil {
		return notify.Landing{}
	}
	return notify.Landing{Landed: s.notify.notifier.Landed}
}

// jobPages shows on jobs' pages which dispatch was ordered for jobs like them. Ticks notify it
// without waiting for it, and nothing depends on it: notifications that cannot be sent are
// dropped and counted.
type jobPages struct {
	stacks *buildkite.Stacks
	log    *slog.Logger
	now    func() time.Time
	count  func(result string, n int)

	notified map[string]string // by job, the dispatch that its page has
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

// newJobPages returns one that says nothing before it is started.
func newJobPages(stacks *buildkite.Stacks, log *slog.Logger, now func() time.Time, count func(string, int)) *jobPages {
	return &jobPages{stacks: stacks, log: log, now: now, count: count, notified: map[string]string{}, waits: make(chan jobMessage, maxMessages)}
}

// Began implements [generator.Watcher].
func (p *jobPages) Began(time.Time) {}

// Ended implements [generator.Watcher].
func (p *jobPages) Ended(r generator.Report) {
	if r.DryRun || r.Result.Looked.Snapshot.At.IsZero() {
		return
	}
	overlays, snapshot := r.Result.Looked.Overlays, r.Result.Looked.Snapshot
	live, queues := map[string]bool{}, []string{}
	for _, o := range overlays {
		queues = append(queues, o.Policy.Queue)
		for _, d := range o.Dispatches {
			live[d.ID] = true
		}
	}
	told := map[string]string{}
	for _, j := range snapshot.Jobs {
		if id := p.notified[j.ID]; live[id] { // its agents may come yet
			told[j.ID] = id
		}
	}
	p.notified = told
	s := jobMessage{queues: queues}
	for _, a := range append(r.Result.Landed[:len(r.Result.Landed):len(r.Result.Landed)], r.Result.Operations...) {
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

// start lets it speak until the context ends. What it returns ends it, too.
func (p *jobPages) start(ctx context.Context) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-p.waits:
				p.say(ctx, s)
			}
		}
	})
	return func() {
		end()
		group.Wait()
	}
}

func (p *jobPages) say(ctx context.Context, s jobMessage) {
	if p.now().Before(p.silent) {
		p.count(noteFailed, len(s.notes))
		return
	}
	said, err := p.stacks.Say(ctx, s.queues, s.notes)
	p.count(noteSent, said)
	p.count(noteFailed, len(s.notes)-said)
	if err != nil && ctx.Err() == nil {
		p.silent = p.now().Add(silence)
		p.log.Warn("jobs' pages are not told of dispatches", "err", err)
	}
}

// checkPages returns what keeps muster from writing on jobs' pages. What only a line there
// can show, the log says. The error is one of the flags.
func (s *settings) checkPages(ctx context.Context, tree fs.FS) ([]error, error) {
	log, err := s.logger()
	if err != nil {
		return nil, err
	}
	stacks, err := s.stacksFor("--say-on-jobs", log)
	if err != nil {
		return nil, err
	}
	queues := mapSlice(s.overlays(tree), func(o plan.Overlay) string { return o.Policy.Queue })
	if err := stacks.MaySay(ctx, queues); err != nil {
		return []error{err}, nil
	}
	log.Info("the agent tokens may write on jobs' pages; that a page shows the line only a job can show")
	return nil, nil
}

// alsoPages adds the notifier of jobs' pages to a watcher, if enabled.
func (s *settings) alsoPages(w generator.Watcher) generator.Watcher {
	switch {
	case s.pages == nil:
		return w
	case w == nil:
		return s.pages
	}
	s.pages.count(noteSent, 0) // begins the series
	s.pages.count(noteFailed, 0)
	return watchers{w, s.pages}
}
