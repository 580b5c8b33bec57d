package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"muster/cmd/muster/terminal"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// screen says what reads muster's output. The zero value is no terminal.
type screen struct {
	// terminal: standard output is one, and progress: standard error is one.
	terminal, progress bool
	// steps is the terminal behind standard error, for lines that are written anew;
	// nil where nobody watches. No words of others go there: it shows what it is sent.
	steps io.Writer
}

// output is where a command prints what may have colours: those that NO_COLOR
// (no-color.org) and the terminal allow.
func (p program) output() terminal.Output {
	var raw io.Writer = p.stdout
	if clean, ok := p.stdout.(*printable); ok {
		raw = clean.to
	}
	return terminal.Output{
		Text: p.stdout, Raw: raw,
		Colour: p.screen.terminal && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb",
	}
}

// watchedFleet and watchedBuildkite say what a tick waits for.
type watchedFleet struct {
	generator.Fleet
	progress *terminal.Progress
}

// Tip is the fleet's. What comes after it is the building of templates.
func (f watchedFleet) Tip(ctx context.Context) (branch.Tip, error) {
	f.progress.Doing("reading the fleet repository")
	defer f.progress.Doing("building the overlays")
	return f.Fleet.Tip(ctx)
}

// Commit is the fleet's.
func (f watchedFleet) Commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error) {
	f.progress.Doing("pushing")
	return f.Fleet.Commit(ctx, tip, acts)
}

// watchedBuildkite has all methods of the client: the generator asks for some that not
// every Buildkite has.
type watchedBuildkite struct {
	*buildkite.Client
	progress *terminal.Progress
}

// Snapshot is Buildkite's.
func (b watchedBuildkite) Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error) {
	b.progress.Doing("reading Buildkite")
	snapshot, err := b.Client.Snapshot(ctx, query)
	waitingFor(b.progress, err)
	return snapshot, err
}

// waitingFor shows on the terminal that a rate limit is waited for.
func waitingFor(progress *terminal.Progress, err error) {
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
