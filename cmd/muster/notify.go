package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/status"
	"muster/gitops/branch"
	"muster/gitops/notice"
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
				return usage(fmt.Errorf("--notify: %w", err))
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
		return usage(fmt.Errorf("--notify: %w", err))
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
