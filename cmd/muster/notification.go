package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/status"
	"muster/gitops/branch"
	"muster/gitops/notice"

	"github.com/spf13/cobra"
)

// notifySettings are the flags that say who is told of pushes.
type notifySettings struct {
	receivers []string
	notifier  *notice.Notifier // nil: nobody is told
}

func (n *notifySettings) addTo(c *cobra.Command) {
	c.Flags().StringArrayVar(&n.receivers, "notify", nil, "notify a syncer of each push, as in kind=flux,url=URL,secret-file=FILE: docs/how-to/notifications.md; repeatable, or separated by spaces")
}

// makeNotifier makes what tells the receivers, once the repository is known.
func (s *settings) makeNotifier(log *slog.Logger) error {
	var receivers []notice.Receiver
	for _, value := range s.notify.receivers {
		for text := range strings.FieldsSeq(value) {
			r, err := notice.Parse(text)
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
	s.notify.notifier, err = notice.New(notice.Config{
		Repository: s.git.shown, Branch: s.git.branch, Receivers: receivers, Log: log, Now: s.program.clock.Now,
	})
	if err != nil {
		return output.Usage(fmt.Errorf("--notify: %w", err))
	}
	return nil
}

// startNotifier lets the receivers be told until the context ends. What it returns waits
// for what is under way.
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

// receivers are the numbers of those that are told; nil where there is nobody.
func (s *settings) receivers() func() []status.Receiver {
	notifier := s.notify.notifier
	if notifier == nil {
		return nil
	}
	return func() []status.Receiver {
		var all []status.Receiver
		for _, r := range notifier.Stats() {
			all = append(all, status.Receiver{Name: r.Name, Told: r.Told, Failed: r.Failed, Merged: r.Merged, Seconds: r.Last.Seconds()})
		}
		return all
	}
}

// landed has the receivers told of a push of a person's.
func (s *settings) landed(before, after branch.Tip, changes []branch.Change) {
	if s.notify.notifier != nil {
		l := notice.Landing{Landed: s.notify.notifier.Landed}
		l.Pushed(before.Commit, after.Commit, changes, nil)
	}
}

// told is the repository of a tick whose pushes the receivers are told of.
func (s *settings) told(fleet watchedFleet) generator.Repository {
	if s.notify.notifier == nil {
		return fleet
	}
	return &toldFleet{fleet, notice.Landing{Landed: s.notify.notifier.Landed}}
}

type toldFleet struct {
	watchedFleet
	landing notice.Landing
}

// Tip is the fleet's.
func (f *toldFleet) Tip(ctx context.Context) (branch.Tip, error) {
	tip, err := f.watchedFleet.Tip(ctx)
	if err == nil {
		f.landing.Seen(tip.Commit)
	}
	return tip, err
}

// Commit is the fleet's.
func (f *toldFleet) Commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	next, err := f.watchedFleet.Commit(ctx, tip, acts)
	var changes []branch.Change
	for _, a := range acts {
		changes = append(changes, a.Changes...)
	}
	f.landing.Pushed(tip.Commit, next.Commit, changes, err)
	return next, err
}

// jobPages says on jobs' pages which dispatch was ordered for jobs like them. It is told
// of ticks, which do not wait for it, and nothing depends on it: what cannot be said is
// dropped, and counted.
type jobPages struct {
	stacks *buildkite.Stacks
	log    *slog.Logger
	now    func() time.Time
	count  func(result string, n int)

	told   map[string]string // by job, the dispatch that its page has
	waits  chan saying
	closed chan struct{}
	silent time.Time // until then nothing is said: the last could not be
}

// saying is what is to be said of one tick.
type saying struct {
	queues []string
	notes  []buildkite.JobNote
}

// The results of what was to be said on a job's page.
const (
	noteSaid   = "said"
	noteFailed = "failed"
)

// mostSayings wait at a time, and silence is how long nothing is said after a failure.
const (
	mostSayings = 10
	silence     = time.Minute
)

// newJobPages returns one that says nothing before it is started.
func newJobPages(stacks *buildkite.Stacks, log *slog.Logger, now func() time.Time, count func(string, int)) *jobPages {
	return &jobPages{stacks: stacks, log: log, now: now, count: count, told: map[string]string{}, waits: make(chan saying, mostSayings), closed: make(chan struct{})}
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
		if id := p.told[j.ID]; live[id] { // its agents may come yet
			told[j.ID] = id
		}
	}
	p.told = told
	s := saying{queues: queues}
	for _, a := range append(r.Result.Landed[:len(r.Result.Landed):len(r.Result.Landed)], r.Result.Acts...) {
		if a.Kind != ledger.Dispatch {
			continue
		}
		for _, d := range a.Decision.Dispatch {
			if d.Purpose != plan.ForDemand {
				continue
			}
			for _, j := range plan.JobsFor(overlays, snapshot, a.Decision.Overlay, d.Agents, func(id string) bool { return p.told[id] != "" }) {
				p.told[j.ID] = d.ID
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
	go func() {
		defer close(p.closed)
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-p.waits:
				p.say(ctx, s)
			}
		}
	}()
	return func() {
		end()
		<-p.closed
	}
}

func (p *jobPages) say(ctx context.Context, s saying) {
	if p.now().Before(p.silent) {
		p.count(noteFailed, len(s.notes))
		return
	}
	said, err := p.stacks.Say(ctx, s.queues, s.notes)
	p.count(noteSaid, said)
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
	var queues []string
	for _, o := range s.overlays(tree) {
		queues = append(queues, o.Policy.Queue)
	}
	if err := stacks.MaySay(ctx, queues); err != nil {
		return []error{err}, nil
	}
	log.Info("the agent tokens may write on jobs' pages; that a page shows the line only a job can show")
	return nil, nil
}

// alsoPages is a watcher beside which jobs' pages are told, where that is asked for.
func (s *settings) alsoPages(w generator.Watcher) generator.Watcher {
	switch {
	case s.pages == nil:
		return w
	case w == nil:
		return s.pages
	}
	s.pages.count(noteSaid, 0) // begins the series
	s.pages.count(noteFailed, 0)
	return watchers{w, s.pages}
}
