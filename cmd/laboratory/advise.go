package laboratory

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/advice"
	"muster/generator/fleet"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/branch"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

// adviseFlags contains the flags of muster-sim advise.
type adviseFlags struct {
	git             invocation.Repository
	since           string
	more            float64
	reuse, webhooks bool
	syncer          syncerFlag
	startup         durationRange

	repository *gitops.Repository
}

func (p program) adviseCommand() *cobra.Command {
	a := &adviseFlags{git: invocation.Repository{Program: p.Program}}
	git := &a.git
	w := simulation.DefaultScenario()
	c := &cobra.Command{
		Use:   "advise [OVERLAY...]",
		Short: "Propose policies that would have shortened waits",
		Long: `advise simulates the jobs of the last two weeks, as the fleet's commits record
them, with the policy of each overlay and with some dozen others. It prints the
policies that no other beats in both wait and cost, and proposes the one with the
shortest p95 wait that costs no more pod time than today's, as a diff to review and
to commit by hand. It changes nothing.

The jobs are an estimate (docs/explanation/scaling-quality.md): commits do not
record how long single jobs ran and what they depended on. Check the following
weeks with muster report. Reusable agents shorten waits most, but builds then share
a pod: they are proposed if the policy has reuse, or with --reuse
(docs/explanation/agent-job.md).`,
		Example: `  muster-sim advise
  muster-sim advise linux --reuse --more 0.1
  muster-sim advise --syncer told --webhooks`,
		ValidArgsFunction: git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string { return o.Overlays }),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args) },
	}
	git.AddReading(c)
	a.git.AddLog(c)
	f := c.Flags()
	f.StringVar(&a.since, "since", "14d", "replay jobs since this time or age, such as 7d")
	invocation.NumberVar(f, &a.more, "more", "", 0, -0.99, 10, "share of today's pod time that a proposal may add, such as 0.1; if negative, it must save that share")
	f.BoolVar(&a.reuse, "reuse", false, "also propose agents that run several jobs")
	a.syncer.addTo(c)
	f.BoolVar(&a.webhooks, "webhooks", false, "assume that Buildkite's webhooks trigger muster")
	a.startup = w.Startup
	f.Var(&a.startup, "startup", "shortest and longest time from pod creation to agent registration")
	return c
}

func (a *adviseFlags) run(ctx context.Context, args []string) error {
	p := a.git.Program
	since, err := invocation.Moment("since", a.since, p.Clock.Now())
	if err != nil {
		return err
	}
	if a.repository, err = a.git.Open(ctx, invocation.Nearest); err != nil {
		return err
	}
	defer p.Progress.Done()
	p.Progress.Doing("reading " + a.repository.String())
	head, err := a.repository.Head(ctx)
	if err != nil {
		return err
	}
	overlays, err := a.git.Load(ctx, head.Tree)
	if err != nil {
		return err
	}
	names := invocation.OverlayNames(overlays)
	chosen, err := output.ChooseOverlays(args, names, a.git.Overlays)
	if err != nil {
		return err
	}
	current := map[string]plan.Policy{}
	for i := range overlays {
		current[overlays[i].Path] = overlays[i].Policy
	}
	past, err := readPast(ctx, a.git.Overlays, a.repository, head.Commit, since, nil)
	var overrides map[string][]plan.Override
	if err == nil {
		overrides, err = pastOverrides(ctx, a.git.Overlays, a.repository, past, current)
	}
	p.Progress.Done()
	if err != nil {
		return fmt.Errorf("reading the history before %.7s: %w", head.Commit, err)
	}
	for i, name := range chosen {
		if i > 0 {
			fmt.Fprintln(p.Stdout)
		}
		o := &overlays[slices.Index(names, name)]
		if err := a.advise(ctx, head, o, overlays, past.Observed[o.Path], overrides[o.Path]); err != nil {
			return err
		}
	}
	return nil
}

// advise searches for a better policy of one overlay, and prints the result.
func (a *adviseFlags) advise(ctx context.Context, head branch.Head, o *fleet.Overlay, loaded []fleet.Overlay, observed []plan.Observation, overrides []plan.Override) error {
	p := a.git.Program
	load, err := simulation.Rebuild(o.Name, o.Name, observed)
	switch {
	case o.Policy.Lease == 0: // every valid policy has a lease
		fmt.Fprintf(p.Stdout, "%s: its policy is invalid: muster check has details\n", o.Name)
		return nil
	case err != nil:
		fmt.Fprintf(p.Stdout, "%s: nothing to simulate: %v since %s\n", o.Name, err, a.since)
		return nil
	}
	p.Progress.Doing("playing " + o.Name)
	scenario := a.scenario()
	scenario.Overrides = overrides
	answer, err := advice.Find(ctx, advice.Question{
		Policy: o.Policy, Scenario: scenario, Workload: load, More: a.more, Reuse: a.reuse, Workers: runtime.GOMAXPROCS(0),
	})
	p.Progress.Done()
	if err != nil {
		return fmt.Errorf("simulating %s: %w", o.Name, err)
	}
	if err := PrintAdvice(p.Stdout, o.Name, load, answer); err != nil {
		return err
	}
	for _, other := range loaded {
		if other.Name != o.Name && other.Policy.Queue == o.Policy.Queue {
			fmt.Fprintf(p.Stdout, "Other overlays serve the queue %s too, such as %s: they were not simulated.\n", o.Policy.Queue, other.Name)
			break
		}
	}
	if !a.reuse && !o.Policy.Reuse.On() {
		fmt.Fprintln(p.Stdout, "Reusable agents were not simulated: give --reuse.")
	}
	if answer.Proposed == nil {
		return nil
	}
	file := path.Join(o.Path, "scaling.yaml")
	before, err := fs.ReadFile(head.Tree, file)
	if err != nil {
		return err
	}
	after, err := policy.Apply(file, before, policy.Edit{Set: answer.Proposed.Values()})
	if err != nil {
		fmt.Fprintf(p.Stdout, "Edit the file by hand: %v\n", err)
		return nil
	}
	fmt.Fprintln(p.Stdout)
	_, err = p.Stdout.Write(diff.Diff("a/"+file, before, "b/"+file, after))
	return err
}

// scenario returns the scenario of the flags.
func (a *adviseFlags) scenario() simulation.Scenario {
	w := simulation.DefaultScenario()
	a.syncer.use(&w)
	w.Startup = a.startup
	if a.webhooks {
		w.Triggered = simulation.WebhookInterval
	}
	return w
}
