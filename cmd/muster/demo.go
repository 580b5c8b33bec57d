package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/gitserver"
)

func (p program) demoCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a morning with a simulated Buildkite and a real git repository",
		Long: `demo starts a simulated Buildkite and a bare git repository in a directory,
and runs the real loop against both, over HTTP and git, through a morning of
builds that passes in under a minute. A simulated cluster runs the Jobs that
muster commits. Nothing leaves this machine.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return playDemo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, demoMorning)
		},
	}
	c.Flags().StringVar(&dir, "dir", "muster-demo", "where the repository is made; an earlier demo there is replaced")
	return c
}

// The morning: from eight to noon on a Monday, a tick every 15 seconds.
const (
	demoSeed     = 2026
	demoMorning  = 4 * time.Hour
	demoInterval = 15 * time.Second
	demoSync     = 20 * time.Second // the syncer's latency
)

func demoStart() time.Time { return time.Date(2026, time.November, 23, 8, 0, 0, 0, time.UTC) }

// demo is a morning under way.
type demo struct {
	out       io.Writer
	buildkite *fakebuildkite.Server
	cluster   *simulation.Cluster
	syncer    *gitops.Repository
	end       time.Time
	failed    error
	commits   int
}

func playDemo(ctx context.Context, out, progress io.Writer, dir string, length time.Duration) error {
	repository, err := demoRepository(dir)
	if err != nil {
		return err
	}
	git, err := gitserver.Serve(dir, gitserver.Options{Remember: true})
	if err != nil {
		return err
	}
	defer git.Close()
	url := git.URL + "/fleet.git"
	d := &demo{out: progress, end: demoStart().Add(length)}
	d.buildkite = fakebuildkite.New(fakebuildkite.Options{Now: demoStart(), OnAgentEnd: func(a fakebuildkite.AgentRecord) { d.cluster.AgentEnded(a) }})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the simulated Buildkite: %w", err)
	}
	api := &http.Server{Handler: d.buildkite, ReadHeaderTimeout: time.Minute}
	go api.Serve(listener)
	defer api.Close()
	d.syncer, err = gitops.New(gitops.Config{URL: url})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(demoSeed, 1))
	queue := d.buildkite.AddCluster("ci")
	d.buildkite.AddQueue(queue, "default")
	d.buildkite.SetDefaultQueue(queue, "default")
	d.cluster = &simulation.Cluster{
		Buildkite: d.buildkite, BuildkiteCluster: queue,
		Fate: simulation.Trouble{}.Fates([2]time.Duration{25 * time.Second, 70 * time.Second}, random),
	}
	d.morning(queue, random)
	d.buildkite.At(demoStart().Add(demoSync), func() { d.sync(ctx) })

	fleet, err := gitops.New(gitops.Config{URL: url})
	if err != nil {
		return err
	}
	client, err := buildkite.New(buildkite.Config{Org: "acme", URL: "http://" + listener.Addr().String() + "/", Token: func() (string, error) { return "test-token", nil }})
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "A morning of builds in simulated time: Buildkite at http://%s, git at %s\n\n", listener.Addr(), url)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g := generator.New(generator.Config{
		Repository: gitops.Fleet{Writer: fleet, Version: Version}, Buildkite: client, Overlays: "overlays",
		Clock: demoClock{d, stop}, Log: slog.New(slog.NewTextHandler(progress, &slog.HandlerOptions{Level: slog.LevelWarn})), Done: d.show,
	})
	if err := g.Run(ctx, demoInterval, 0); err != nil {
		return err
	}
	if d.failed != nil {
		return d.failed
	}
	return d.conclude(out, repository, dir)
}

// demoRepository makes the bare repository with a new fleet in it.
func demoRepository(dir string) (gitserver.Repository, error) {
	bare := filepath.Join(dir, "fleet.git")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return gitserver.Repository{}, usage(err)
	}
	for _, e := range entries {
		if e.Name() != "fleet.git" {
			return gitserver.Repository{}, usage(fmt.Errorf("%s holds more than an earlier demo: choose another directory with --dir", dir))
		}
	}
	repository := gitserver.Repository{Dir: bare}
	if len(entries) > 0 {
		if mark, err := repository.Git("config", "--local", "muster.demo"); err != nil || strings.TrimSpace(mark) != "true" {
			return repository, usage(fmt.Errorf("%s is not of an earlier demo: choose another directory with --dir", bare))
		}
		if err := os.RemoveAll(bare); err != nil {
			return repository, err
		}
	}
	if repository, err = gitserver.Init(bare); err != nil {
		return repository, err
	}
	if err := repository.Configure("muster.demo", "true"); err != nil {
		return repository, err
	}
	changes, err := starterChanges(demoPolicy)
	if err != nil {
		return repository, err
	}
	_, err = repository.Commit("Begin the fleet\n\nAs muster init writes it, with at most 40 agents and a buffer of 2.\n", demoStart().Add(-time.Hour), changes...)
	return repository, err
}

// demoPolicy asks for more than a new policy does.
func demoPolicy(text []byte) []byte {
	s := strings.Replace(string(text), "max: 10 ", "max: 40 ", 1)
	return []byte(strings.Replace(s, "# buffer: 0 ", "buffer: 2   ", 1))
}

// morning schedules builds: few at eight, many around ten, one burst.
func (d *demo) morning(cluster string, random *rand.Rand) {
	for minute := range int(demoMorning.Minutes()) - 25 {
		builds := 0
		if busy := 0.25 - 0.2*abs(float64(minute)-120)/120; random.Float64() < busy {
			builds = 1
		}
		if minute == 95 {
			builds = 6
		}
		for range builds {
			at := demoStart().Add(time.Duration(minute)*time.Minute + time.Duration(random.IntN(60))*time.Second)
			build := demoBuild(cluster, random)
			d.buildkite.At(at, func() { d.buildkite.CreateBuild(build) })
		}
	}
}

func abs(x float64) float64 { return max(x, -x) }

// demoBuild lints, then tests in parallel, then packages.
func demoBuild(cluster string, random *rand.Rand) fakebuildkite.Build {
	between := func(low, high int) time.Duration { return time.Duration(low+random.IntN(high-low)) * time.Second }
	return fakebuildkite.Build{
		Pipeline: "app", Cluster: cluster, Branch: "main", Message: "A change",
		Steps: []fakebuildkite.Step{
			{Label: "lint", Duration: between(30, 90)},
			{Label: "test", Parallelism: 2 + random.IntN(7), Duration: between(120, 420)},
			{Type: fakebuildkite.Wait},
			{Label: "package", Duration: between(60, 180)},
		},
	}
}

// sync lets the cluster apply what the branch holds, and comes again.
func (d *demo) sync(ctx context.Context) {
	d.buildkite.At(d.buildkite.Now().Add(demoSync), func() { d.sync(ctx) })
	tip, err := d.syncer.Tip(ctx)
	if err == nil {
		err = d.cluster.Sync(tip.Tree, "overlays/default")
	}
	if err != nil && ctx.Err() == nil && d.failed == nil {
		d.failed = err
	}
}

// show prints a line for each tick that committed something.
func (d *demo) show(r generator.Result, err error) {
	if err != nil {
		d.failed = err
		return
	}
	d.commits += len(r.Acts)
	if len(r.Acts) == 0 {
		return
	}
	s := r.Decisions[0].Sum
	fmt.Fprintf(d.out, "%s  %3d pending %3d busy %3d idle %3d in flight   %s\n", d.buildkite.Now().Format("15:04:05"), s.Pending, s.Busy, s.Idle, s.InFlight, generator.Summary(r.Acts))
}

// conclude prints what there is to see.
func (d *demo) conclude(out io.Writer, repository gitserver.Repository, dir string) error {
	log, err := repository.Git("log", "--oneline")
	if err != nil {
		return err
	}
	message, err := repository.Git("log", "-1", "--format=%B", "--grep=^Act: dispatch", "--grep=^Agents: [0-9][0-9]", "--all-match", "-E")
	if err != nil {
		return err
	}
	stats := d.buildkite.Stats()
	fmt.Fprintf(out, "\n$ git log --oneline\n%s\n$ git log -1 --format=%%B    # one decision, with its reasons\n%s\n", log, message)
	fmt.Fprintf(out, "%d jobs ran on %d agents, %d of which never had a job; %d commits.\n\n", stats.Started, stats.Agents, stats.InVain, d.commits)
	git := "git -C " + filepath.Join(dir, "fleet.git")
	fmt.Fprintln(out, "What to look at next:")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, next := range [][2]string{
		{git + " log -p", "every decision and the Jobs it wrote"},
		{git + " log --grep 'Act: retire'", "what became of them"},
		{"muster init fleet", "a fleet repository of your own"},
	} {
		fmt.Fprintf(w, "  %s\t%s\n", next[0], next[1])
	}
	return w.Flush()
}

// demoClock lets simulated time pass: whoever sleeps wakes up at once, and
// everything that was to happen in between has happened.
type demoClock struct {
	demo *demo
	stop context.CancelFunc
}

func (c demoClock) Now() time.Time { return c.demo.buildkite.Now() }

func (c demoClock) Sleep(ctx context.Context, d time.Duration) error {
	c.demo.buildkite.Advance(d)
	if c.demo.failed != nil || !c.Now().Before(c.demo.end) {
		c.stop()
	}
	return ctx.Err()
}
