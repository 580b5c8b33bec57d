package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/notify"

	"github.com/spf13/cobra"
)

// screen describes where muster's output goes. The zero value is not a terminal.
type screen struct {
	// terminal: standard output is one, and progress: standard error is one.
	terminal, progress bool
	// steps is the terminal behind standard error, for lines that are redrawn; nil if it is not
	// a terminal. It must not receive untrusted text: nothing is escaped.
	steps io.Writer
}

// output is where a command prints what may have colours: those that NO_COLOR
// (no-color.org) and the terminal allow.
func (p program) output() output.Output {
	var raw io.Writer = p.stdout
	if clean, ok := p.stdout.(*output.Printable); ok {
		raw = clean.To
	}
	return output.Output{
		Text: p.stdout, Raw: raw,
		Colour: p.screen.terminal && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb",
	}
}

// watchedFleet and watchedBuildkite say what a tick waits for. The former also notifies the
// receivers of pushes.
type watchedFleet struct {
	generator.Fleet
	progress *output.Progress
	landing  notify.Landing
}

// Head is the fleet's. What comes after it is the building of templates.
func (f *watchedFleet) Head(ctx context.Context) (branch.Head, error) {
	f.progress.Doing("reading the fleet repository")
	defer f.progress.Doing("building the overlays")
	head, err := f.Fleet.Head(ctx)
	if err == nil {
		f.landing.Seen(head.Commit)
	}
	return head, err
}

// Commit is the fleet's.
func (f *watchedFleet) Commit(ctx context.Context, head branch.Head, ops []ledger.Operation) (branch.Head, error) {
	f.progress.Doing("pushing")
	next, err := f.Fleet.Commit(ctx, head, ops)
	var changes []branch.Change
	for _, a := range ops {
		changes = append(changes, a.Changes...)
	}
	f.landing.Pushed(head.Commit, next.Commit, changes, err)
	return next, err
}

// watchedBuildkite has all methods of the client: the generator asks for some that not
// every Buildkite has.
type watchedBuildkite struct {
	*buildkite.Client
	progress *output.Progress
}

// Snapshot is Buildkite's.
func (b watchedBuildkite) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	b.progress.Doing("reading Buildkite")
	snapshot, err := b.Client.Snapshot(ctx, query)
	waitingFor(b.progress, err)
	return snapshot, err
}

// waitingFor shows on the terminal that a rate limit is waited for.
func waitingFor(progress *output.Progress, err error) {
	var wait plan.RetryError
	if errors.As(err, &wait) {
		progress.Doing(fmt.Sprintf("waiting %s for Buildkite's rate limit", wait.RetryAfter().Round(time.Second)))
	}
}

// doneOnTerminal removes the progress line where it would be on the terminal that is written to.
func (p program) doneOnTerminal() {
	if p.screen.terminal {
		p.progress.Done()
	}
}

// watch are the flags of commands that can look again and again.
type watch struct {
	on       bool
	interval time.Duration
}

func (w *watch) addTo(c *cobra.Command) {
	c.Flags().BoolVarP(&w.on, "watch", "w", false, "refresh continuously: redraw a terminal, elsewhere print changes")
	c.Flags().DurationVar(&w.interval, "watch-interval", 15*time.Second, "with --watch, time between polls")
}

// run calls look once, or with --watch until the context ends. An error of the first call ends
// the command; with --watch, later errors are printed, and the next call may succeed.
func (w watch) run(ctx context.Context, p program, out output.Output, look func(context.Context, output.Output) error) error {
	if !w.on {
		return look(ctx, out)
	}
	if w.interval < time.Second {
		return output.Usage(errors.New("--watch-interval is below one second"))
	}
	var last []byte
	for {
		var shown bytes.Buffer
		err := look(ctx, output.Output{Text: &output.Printable{To: &shown}, Raw: &shown, Colour: out.Colour})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, errChanges) && last == nil:
			return err
		case err != nil && !errors.Is(err, errChanges):
			p.printMessage("%v", err)
		case p.screen.terminal:
			if err := p.redraw(out, w.interval, shown.Bytes()); err != nil {
				return err
			}
		case last == nil || !bytes.Equal(last, shown.Bytes()):
			if _, err := out.Raw.Write(shown.Bytes()); err != nil {
				return err
			}
		}
		if err == nil || errors.Is(err, errChanges) {
			last = shown.Bytes()
		}
		if p.clock.Sleep(ctx, w.interval) != nil {
			return nil
		}
	}
}

// redraw shows a screen with the time of the look on its first line.
func (p program) redraw(out output.Output, interval time.Duration, shown []byte) error {
	if err := out.Clear(); err != nil {
		return err
	}
	head := fmt.Sprintf("%s  every %s, Ctrl-C ends it\n\n", p.clock.Now().UTC().Format(time.RFC3339), interval)
	if _, err := io.WriteString(out.Text, head); err != nil {
		return err
	}
	_, err := out.Raw.Write(shown)
	return err
}
