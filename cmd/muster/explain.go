package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/explanation"

	"github.com/spf13/cobra"
)

// explainFlags are the flags of muster explain.
type explainFlags struct {
	settings *settings
	at       string
	output   string
}

func (p program) explainCommand() *cobra.Command {
	e := &explainFlags{settings: &settings{program: p, git: invocation.Repository{Program: p.Program}}}
	git := &e.settings.git
	c := &cobra.Command{
		Use:   "explain [COMMIT|DISPATCH|OVERLAY|JOB]",
		Short: "Show why there are this many agents, from git alone",
		Long: `explain prints why muster did something, or did nothing.

For a commit, a dispatch or an agent's name: the arithmetic of the order, recomputed
from the commit's parent and its trailers; what limited it; jobs that do not count, and
why; the policy in force and its author; and the outcome. A commit may be an address of
the git host. The default is muster's last commit.

For an overlay, at --at or now: why nothing was done, from the commits around that
time. If git does not contain the reason, explain reports this: muster records
nothing when it does nothing. --at without a name is about every overlay.

For a Buildkite job, by any of its addresses or its ID, with --at the time since which
it could run: the order that was made for it, and the parts of its wait.

It reads only git: it needs no Buildkite token, and no flags in a clone of the
repository. Times are in UTC. --at takes a time, as in 2026-11-21T02:15Z or 09:40
(the last time that it was 09:40), or a duration ago, as in 90m.`,
		Example: `  muster explain
  muster explain 3f2c1ab
  muster explain default --at 09:40
  muster explain default-x3vyrzrm -o json`,
		Args:              invocation.AtMostOne("commit, dispatch, overlay or job"),
		ValidArgsFunction: git.Completion(1, func(o invocation.CloneNames) []string { return append(o.Overlays, o.Dispatches...) }),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.run(cmd.Context(), strings.Join(args, ""))
		},
	}
	git.AddReading(c)
	e.settings.git.AddLog(c)
	f := c.Flags()
	f.StringVar(&e.at, "at", "", "moment to explain: a time or an age, such as 09:40 or 90m")
	f.StringVarP(&e.output, "output", "o", "text", "text, json or yaml")
	invocation.OneOf(c, "output", "text", "json", "yaml")
	return c
}

// run answers one question.
func (e *explainFlags) run(ctx context.Context, name string) error {
	p, git := e.settings.program, &e.settings.git
	show, ok := output.ExplainPrinters()[e.output]
	if !ok {
		return output.Usage(fmt.Errorf("--output %q: use text, json or yaml", e.output))
	}
	at, err := invocation.Moment("at", e.at, p.Clock.Now())
	if err != nil {
		return err
	}
	repository, err := e.settings.git.Open(ctx, invocation.Nearest)
	if err != nil {
		return err
	}
	p.Progress.Doing("reading the history")
	defer p.Progress.Done()
	config := explanation.Config{
		Repository: invocation.ReadingAhead{Repository: repository}, Overlays: git.Overlays, Now: p.Clock.Now(),
		Loader: e.settings.git.Loader(),
		Doing:  func(n int) { p.Progress.Doing("reading the history: " + commits(n)) },
	}
	all, err := config.Explain(ctx, explanation.Question{Name: name, At: at})
	if err != nil {
		return explainMistake(err)
	}
	p.Progress.Done()
	return show(p.Output(), all)
}

// explainMistake distinguishes invalid arguments from other errors.
func explainMistake(err error) error {
	var unknown *explanation.Unknown
	var before *explanation.Before
	switch {
	case errors.As(err, &unknown):
		has := "it has the overlays"
		if len(unknown.Known) == 1 {
			has = "it has the overlay"
		}
		return output.Usage(fmt.Errorf("%w%s", err, output.Instead(unknown.Name, unknown.Known, has)))
	case errors.As(err, &before), errors.Is(err, explanation.ErrOwnTime):
		return output.Usage(err)
	}
	return err
}
