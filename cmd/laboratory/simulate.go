package laboratory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/generator/simulation"
	"muster/gitops/keyvalue"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// simulate contains the flags of muster-sim simulate.
type simulate struct {
	git                   invocation.Repository
	workloads, algorithms []string
	csv, history, overlay string
	policy                string
	seed                  uint64
	length, interval      time.Duration
	startup               durationRange
	syncer                syncerFlag
	nodes, requests       int
	neverRegistered       float64
	out                   []string
}

func (p program) simulateCommand() *cobra.Command {
	s := simulate{git: invocation.Repository{Program: p.Program}}
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Compare muster with other ways to scale, in simulated time",
		Long: `simulate runs workloads through muster's own decision and through the published
rules of other autoscalers, with the same jobs and the same random numbers, and
prints for each how long jobs waited, how many agents were started, and how many of
them were unused.

Without flags it simulates one day of one workload with a dozen algorithms.
--workload and --algorithms choose others, or "all".

The workloads are generated, or one is read: from a CSV file, or with --history from
the observations in the commits of a fleet repository. With --history, the row muster
has the fleet's own policy, and each row muster-NAME changes the fields of its name:
what that policy would have done. --policy replaces the fleet's own.
docs/explanation/scaling-quality.md explains the table, and
docs/how-to/tune-waits-and-cost.md the columns of the CSV file.`,
		Example: `  muster-sim simulate
  muster-sim simulate --history --repo https://git.example.com/fleet.git
  muster-sim simulate --history fleet --overlay overlays/large \
    --policy other.yaml`,
		Args: invocation.AtMostOne("repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The value of --history may also follow a space.
			if len(args) == 1 {
				if s.history != sameRepository {
					return output.Usage(fmt.Errorf("unknown argument %q", args[0]))
				}
				s.history = args[0]
			}
			return s.run(cmd)
		},
	}
	s.addFlags(c)
	s.git.AddReading(c)
	invocation.CompleteFlag(c, "overlay", s.git.Completion(invocation.Unlimited, func(o invocation.CloneNames) []string {
		for i, name := range o.Overlays {
			o.Overlays[i] = s.git.Overlays + "/" + name
		}
		return o.Overlays
	}))
	return c
}

// addFlags adds the flags of the scenario and of the output files.
func (s *simulate) addFlags(c *cobra.Command) {
	w := simulation.DefaultScenario()
	f := c.Flags()
	f.StringSliceVar(&s.workloads, "workload", nil, "workloads to generate: all, or some of "+strings.Join(workloadNames(), ", ")+"; drawn is 100 at random, drawn-17 one of them (default "+simulation.DefaultLoad+")")
	f.StringSliceVar(&s.algorithms, "algorithms", nil, "algorithms to compare: all, or some of "+strings.Join(algorithmNames(), ", ")+" (default "+strings.Join(simulation.DefaultAlgorithms(), ", ")+")")
	f.StringVar(&s.csv, "csv", "", "CSV file with the jobs of the workload")
	f.StringVar(&s.history, "history", "", "fleet repository (directory or URL) whose commits are the workload; without a value, that of --repo")
	f.Lookup("history").NoOptDefVal = sameRepository
	f.StringVar(&s.overlay, "overlay", "overlays/default", "with --history, the overlay's directory in that repository")
	f.StringVar(&s.policy, "policy", "", "scaling policy, as in scaling.yaml; other algorithms use its max and idle time-out")
	invocation.NumberVar(f, &s.seed, "seed", "", w.Seed, 0, math.MaxUint64, "random seed: the same seed gives the same output")
	invocation.DurationVar(f, &s.length, "length", 0, "length of generated workloads, such as 12h or 7d (default each workload's own, a day for most); with --history, age of the oldest jobs (default all)")
	invocation.DurationVar(f, &s.interval, "interval", w.Interval, "time between ticks")
	s.syncer.addTo(c)
	s.addFaults(f)
	s.startup = w.Startup
	f.Var(&s.startup, "startup", "shortest and longest time from pod creation to agent registration")
	f.StringArrayVar(&s.out, "out", nil, "output file besides standard output: .json for the results, .svg for a chart of waits against cost; repeatable")
}

// addFaults adds the flag of what limits or breaks the simulated world.
func (s *simulate) addFaults(f *pflag.FlagSet) {
	var requests, nodes, noShow string
	form := keyvalue.Form{Name: "a fault", Example: "requests=50,nodes=40,no-show=0.05", Fields: map[string]*string{
		"requests": &requests, "nodes": &nodes, "no-show": &noShow,
	}}
	invocation.FormVar(f, form, "faults", "limits and faults, as in "+form.Example+": Buildkite's limit of requests per minute (polls then use muster's own client, which takes longer to simulate), the agents that the nodes have room for at once, and the share of the pods whose agent never registers", func() (err error) {
		if s.requests, err = readFault("requests", requests, 1, math.MaxInt); err == nil {
			s.nodes, err = readFault("nodes", nodes, 1, math.MaxInt)
		}
		if err == nil {
			s.neverRegistered, err = readFault("no-show", noShow, 0, 1.0)
		}
		return err
	})
}

// readFault parses the number of a fault; 0 if it is absent.
func readFault[T int | float64](key, text string, least, most T) (n T, err error) {
	if text == "" {
		return 0, nil
	}
	if n, err = invocation.ReadNumber(text, least, most); err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return n, err
}

func workloadNames() []string {
	return invocation.Map(simulation.Loads(), func(l simulation.Load) string { return l.Name })
}

func algorithmNames() []string {
	return invocation.Map(simulation.Algorithms(), func(a simulation.Named) string { return a.Name })
}

func (s *simulate) run(cmd *cobra.Command) error {
	if err := s.check(); err != nil {
		return output.Usage(err)
	}
	named := func(a simulation.Named) string { return a.Name }
	algorithms, err := choose("--algorithms", s.algorithms, simulation.DefaultAlgorithms(), simulation.Algorithms(), named)
	if err != nil {
		return output.Usage(err)
	}
	scenario, err := s.scenario()
	if err != nil {
		return output.Usage(err)
	}
	progress := s.git.Program.Progress
	progress.Doing("reading the workloads")
	cases, err := s.cases(cmd, scenario)
	if err != nil {
		return err
	}
	if s.csv == "" && s.history == "" && len(s.workloads) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Simulating the workload %s, %s, with %s.\nOther workloads, or all (--workload): %s\nOther algorithms, or all (--algorithms): %s\n\n",
			simulation.DefaultLoad, cases[0].Workload.Length, ledger.Count(len(algorithms), "algorithm"), others(workloadNames(), simulation.DefaultLoad), others(algorithmNames(), simulation.DefaultAlgorithms()...))
	}
	doing := func(runs int) {
		progress.Doing(fmt.Sprintf("simulating %s with %s: %d of %d finished", ledger.Count(len(cases), "workload"), ledger.Count(len(algorithms), "algorithm"), runs, len(cases)*len(algorithms)))
	}
	doing(0)
	printed := 0
	rows, err := simulation.Compare(cmd.Context(), cases, algorithms, runtime.GOMAXPROCS(0), func(complete []simulation.Row, runs int) error {
		for ; printed < len(complete)/len(algorithms); printed++ {
			progress.Done()
			if printed > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if err := PrintCase(cmd.OutOrStdout(), cases[printed], algorithms, complete[printed*len(algorithms):][:len(algorithms)]); err != nil {
				return err
			}
		}
		doing(runs)
		return nil
	})
	progress.Done()
	if err != nil {
		return err
	}
	if err := PrintMeans(cmd.OutOrStdout(), cases, algorithms, rows); err != nil {
		return err
	}
	if len(cases) > 1 && algorithms[0].Name == "muster" {
		if err := PrintSummary(cmd.OutOrStdout(), cases, algorithms, rows); err != nil {
			return err
		}
	}
	return s.write(cases, algorithms, rows)
}

// write writes the files that the flags select.
func (s *simulate) write(cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
	d := Compared(cases, algorithms, rows)
	text, err := d.JSON()
	for _, name := range s.out {
		content := text
		if filepath.Ext(name) == ".svg" {
			content = d.Chart()
		}
		if err == nil {
			err = s.git.Program.WriteFile(name, content)
		}
	}
	return err
}

// longestWorkload is the maximum length of a generated workload.
const longestWorkload = 31 * 24 * time.Hour

// check validates the flags that do not depend on others.
func (s *simulate) check() error {
	switch {
	case s.csv != "" && s.history != "", (s.csv != "" || s.history != "") && len(s.workloads) > 0:
		return errors.New("--workload, --csv and --history exclude each other: use one of them")
	case s.length < 0 || s.length > longestWorkload:
		return fmt.Errorf("--length %s: use at most 31d", invocation.ShortDuration(s.length))
	case s.interval < time.Second:
		return errors.New("--interval is below one second")
	}
	for _, name := range s.out {
		if ext := filepath.Ext(name); ext != ".json" && ext != ".svg" {
			return fmt.Errorf("--out %s: the file's name must end in .json or .svg", name)
		}
	}
	return nil
}

// others returns the names that are not chosen, as a list.
func others(names []string, chosen ...string) string {
	return strings.Join(slices.DeleteFunc(names, func(n string) bool { return slices.Contains(chosen, n) }), ", ")
}

// choose returns the elements of all that names contains, in the order of all. No names are
// the defaults, and the single name "all" is every element.
func choose[T any](flag string, names, defaults []string, all []T, name func(T) string) ([]T, error) {
	if len(names) == 1 && names[0] == "all" {
		return all, nil
	}
	if len(names) == 0 {
		names = defaults
	}
	known := invocation.Map(all, name)
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("%s %s: use all, or some of %s", flag, n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(x T) bool { return !slices.Contains(names, name(x)) }), nil
}

// scenario returns the default scenario with the changes of the flags.
func (s *simulate) scenario() (simulation.Scenario, error) {
	w := simulation.DefaultScenario()
	s.syncer.use(&w)
	w.Startup, w.Seed, w.Interval = s.startup, s.seed, s.interval
	if s.requests > 0 {
		w.Requests, w.Client = s.requests, simulatedClient
	}
	w.Faults.Nodes, w.Faults.NoShow = s.nodes, s.neverRegistered
	if s.policy == "" {
		return w, nil
	}
	text, err := s.git.Program.ReadFile(s.policy)
	if err != nil {
		return w, fmt.Errorf("--policy: %w", err)
	}
	w.Policy, err = policy.Parse(s.policy, text)
	return w, err
}

// simulatedClient returns muster's own client for a simulated Buildkite.
func simulatedClient(server *fakebuildkite.Server) simulation.Client {
	client, err := buildkite.New(buildkite.Config{
		Org: "acme", Token: func() (string, error) { return "test-token", nil }, HTTP: server.Transport(),
	})
	if err != nil {
		panic(err) // its settings are constants
	}
	return client
}

// cases returns the workloads to simulate, each with its scenario.
func (s *simulate) cases(cmd *cobra.Command, scenario simulation.Scenario) ([]simulation.Case, error) {
	switch {
	case s.csv != "":
		text, err := s.git.Program.ReadFile(s.csv)
		if err != nil {
			return nil, output.Usage(fmt.Errorf("--csv: %w", err))
		}
		workload, err := simulation.ReadCSV(output.ShownAs(filepath.Base(s.csv)), bytes.NewReader(text), scenario.Policy.Queue)
		if err != nil {
			return nil, output.Usage(fmt.Errorf("%s: %w", s.csv, err))
		}
		return []simulation.Case{{Scenario: scenario, Workload: workload}}, nil
	case s.history != "":
		c, err := s.rebuild(cmd.Context(), scenario)
		return []simulation.Case{c}, err
	}
	loads, err := s.loads()
	if err != nil {
		return nil, output.Usage(err)
	}
	var cases []simulation.Case
	for _, l := range loads {
		workload := l.Generate(s.seed, s.length)
		cases = append(cases, simulation.Case{Scenario: l.Scenario(scenario), Workload: workload, About: l.About})
	}
	return cases, nil
}

// loads returns the workloads that --workload selects: the drawn ones last.
func (s *simulate) loads() ([]simulation.Load, error) {
	var others []string
	var drawn []simulation.Load
	for _, name := range s.workloads {
		before := len(drawn)
		for seed := uint64(1); seed <= simulation.DrawnLoads; seed++ {
			if name == "drawn" || name == fmt.Sprintf("drawn-%d", seed) {
				drawn = append(drawn, simulation.Drawn(seed))
			}
		}
		if len(drawn) == before {
			others = append(others, name)
		}
	}
	if len(drawn) > 0 && len(others) == 0 {
		return drawn, nil
	}
	loads, err := choose("--workload", others, []string{simulation.DefaultLoad}, simulation.Loads(), func(l simulation.Load) string { return l.Name })
	return append(loads, drawn...), err
}

// sameRepository is the value of --history that selects the repository of --repo.
const sameRepository = "-"

// rebuild returns the workload that the history records, with the scenario of the flags and,
// unless --policy is given, the overlay's policy at the head.
func (s *simulate) rebuild(ctx context.Context, scenario simulation.Scenario) (c simulation.Case, err error) {
	if s.history != sameRepository {
		if s.git.Repo, err = s.git.Program.CloneAt(s.history); err != nil {
			return c, output.Usage(err)
		}
	}
	repository, err := s.git.Reader(slog.New(slog.NewTextHandler(s.git.Program.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return c, err
	}
	head, err := repository.Head(ctx)
	if err != nil {
		return c, err
	}
	file := s.overlay + "/scaling.yaml"
	text, err := fs.ReadFile(head.Tree, file)
	var current plan.Policy
	if err == nil {
		if current, err = policy.Parse(file, text); s.policy == "" {
			scenario.Policy = current
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	period, since := "the history", time.Time{}
	if s.length > 0 {
		period = "the last " + invocation.ShortDuration(s.length) + " of the history"
		since = s.git.Program.Clock.Now().Add(-s.length)
	}
	past, err := readPast(ctx, s.git.Overlays, repository, head.Commit, since, func(r ledger.Operation) error {
		return fmt.Errorf("reading the history of %s: commit %s: %w", repository, r.Commit.ID, r.Damage)
	})
	if err != nil {
		return c, err
	}
	observed := past.Observed
	if len(observed[s.overlay]) == 0 {
		has := "which has no commit by muster"
		if len(observed) > 0 {
			has = "which has observations of " + strings.Join(slices.Sorted(maps.Keys(observed)), ", ")
		}
		return c, output.Usage(fmt.Errorf("--overlay %s: there is no observation of it in %s, %s", s.overlay, period, has))
	}
	name := output.ShownAs(strings.TrimSuffix(filepath.Base(s.git.Repo), ".git"))
	load, err := simulation.Rebuild(cmp.Or(name, "history"), strings.TrimPrefix(s.overlay, s.git.Overlays+"/"), observed[s.overlay])
	if err != nil {
		return c, output.Usage(fmt.Errorf("%s: %w", s.overlay, err))
	}
	overrides, err := pastOverrides(ctx, s.git.Overlays, repository, past, map[string]plan.Policy{s.overlay: current})
	scenario.Overrides = overrides[s.overlay]
	return simulation.Case{Scenario: scenario, Workload: load}, err
}
