package laboratory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"muster/cmd/chart"
	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/cmd/starter"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/gitserver"

	"github.com/spf13/cobra"
)

func (p program) demoCommand() *cobra.Command {
	var length time.Duration
	c := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Play a morning with a simulated Buildkite and real git",
		Example: `  muster-sim demo
  muster-sim demo fleet-demo --length 90m`,
		Long: `demo starts a simulated Buildkite and a bare git repository in DIR, by default
muster-demo, where it replaces an earlier demo. It runs the real loop against both,
over HTTP and git, through a morning of builds that passes in seconds. A simulated
cluster runs the Jobs that muster commits. It prints a summary, and leaves the
repository and a picture of the morning. It connects to nothing outside this
machine.`,
		Args: invocation.AtMostOne("directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if length < DemoInterval || length > demoMorning {
				return output.Usage(fmt.Errorf("--length %s: use %s to %s", invocation.ShortDuration(length), DemoInterval, invocation.ShortDuration(demoMorning)))
			}
			s := demoSettings{dir: cmp.Or(strings.Join(args, ""), "muster-demo"), length: length, invocation: cmp.Or(p.Invocation, p.Name()), progress: p.Progress}
			return playDemo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), s)
		},
	}
	invocation.DurationVar(c.Flags(), &length, "length", demoMorning, "length of the morning, in simulated time")
	return c
}

// The morning: from eight to noon on a Monday, a tick every 15 seconds.
const (
	demoSeed     = 2026
	demoMorning  = 4 * time.Hour
	DemoInterval = 15 * time.Second
	demoSync     = 20 * time.Second // the syncer's latency
)

func demoStart() time.Time { return time.Date(2026, time.November, 23, 8, 0, 0, 0, time.UTC) }

// demoSettings contains the flags of muster-sim demo.
type demoSettings struct {
	dir        string
	length     time.Duration
	invocation string           // how muster was called
	progress   *output.Progress // nil: milestones are printed instead
}

// Demo is the simulation of a morning.
type Demo struct {
	demoSettings
	stderr     io.Writer
	Repository gitserver.Repository
	simulatedFleet
	url    string // of the repository
	failed error

	// The results of the ticks.
	ticks   []generator.Result
	commits map[string]int // of each overlay
	largest ledger.Draft   // the dispatch of the most agents
}

func (d *Demo) end() time.Time { return demoStart().Add(d.length) }

// NewDemo returns a demonstration of the given length, with its repository in dir, that prints nothing.
func NewDemo(dir string, length time.Duration) *Demo {
	return &Demo{demoSettings: demoSettings{dir: dir, length: length}, stderr: io.Discard, commits: map[string]int{}}
}

// Clock returns the simulated clock.
func (d *Demo) Clock() generator.Clock { return demoClock{demo: d} }

func playDemo(ctx context.Context, stdout, stderr io.Writer, s demoSettings) error {
	d := &Demo{demoSettings: s, stderr: stderr, commits: map[string]int{}}
	git, err := d.Open(ctx)
	if err != nil {
		return err
	}
	defer git.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the simulated Buildkite: %w", err)
	}
	api := &http.Server{Handler: d.Buildkite, ReadHeaderTimeout: time.Minute}
	go api.Serve(listener)
	defer api.Close()
	client, err := buildkite.New(buildkite.Config{Org: "acme", URL: "http://" + listener.Addr().String() + "/", Token: demoToken})
	if err != nil {
		return err
	}

	fmt.Fprintf(stderr, demoIntroduction, demoStart().Format("Monday"), demoStart().Format("15:04"), d.end().Format("15:04"), d.url, listener.Addr())
	d.showProgress()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := d.Loop(ctx, invocation.Version, generator.Config{Buildkite: client, Log: log}); err != nil {
		return err
	}
	d.progress.Done()
	return d.conclude(stdout)
}

func demoToken() (string, error) { return "test-token", nil }

// Open creates the repository, and returns its server; it makes Buildkite and the cluster.
func (d *Demo) Open(ctx context.Context) (*gitserver.Server, error) {
	var err error
	if d.Repository, err = demoRepository(d.dir, demoStart().Add(-time.Hour)); err != nil {
		return nil, err
	}
	git, err := gitserver.Serve(d.dir, gitserver.Options{Remember: true})
	if err != nil {
		return nil, err
	}
	d.url = git.URL + "/fleet.git"
	if d.syncer, err = gitops.New(gitops.Config{URL: d.url}); err != nil {
		git.Close()
		return nil, err
	}
	d.scenario(ctx)
	return git, nil
}

// demoIntroduction describes the simulation.
const demoIntroduction = `A simulated %s, %s to %s: builds for two queues, and agents that take 25 to 70 s to start.
muster polls every 15 s and commits to %s, which a simulated cluster syncs.
Buildkite is simulated at http://%s. Nothing leaves this machine.
`

// Loop runs the real loop through the morning. It completes the configuration.
func (d *Demo) Loop(ctx context.Context, version string, c generator.Config) error {
	writer, err := gitops.New(gitops.Config{URL: d.url})
	if err != nil {
		return err
	}
	simulated, stop := context.WithCancel(ctx)
	defer stop()
	c.Repository, c.Overlays = generator.Fleet{Writer: writer, Version: version}, "overlays"
	c.Clock, c.Done = demoClock{d, stop}, d.record
	err = generator.New(c).Run(simulated, DemoInterval, 0)
	switch {
	case ctx.Err() != nil: // the cause of any other error
		return invocation.Interruption{Err: fmt.Errorf("interrupted at %s of the morning: what was committed is in %s", d.Buildkite.Now().Format("15:04"), d.fleetDir())}
	case err != nil:
		return err
	}
	return d.failed
}

func (d *Demo) fleetDir() string { return filepath.Join(d.dir, "fleet.git") }

// record stores the result of a tick.
func (d *Demo) record(r generator.Result, err error) {
	if err != nil {
		d.failed = errors.Join(d.failed, err)
		return
	}
	r.Head.Tree = nil // large
	d.ticks = append(d.ticks, r)
	for _, a := range r.Operations {
		d.commits[a.Decision.Overlay]++
		if a.Kind == ledger.Dispatch && a.Decision.Figures.Dispatch > d.largest.Decision.Figures.Dispatch {
			d.largest = a
		}
	}
	d.showProgress()
}

// showProgress shows the time and the totals so far.
func (d *Demo) showProgress() {
	now := d.Buildkite.Now()
	inFlight, commits := 0, 0
	if len(d.ticks) > 0 {
		for _, x := range d.ticks[len(d.ticks)-1].Decisions {
			inFlight += x.Figures.InFlight + x.Figures.Dispatch
		}
	}
	for _, n := range d.commits {
		commits += n
	}
	const width = 8
	played := now.Sub(demoStart())
	done := min(width, int(width*played/d.length))
	bar := strings.Repeat("#", done) + strings.Repeat(".", width-done)
	text := fmt.Sprintf("%s [%s] %3d jobs finished, %2d agents in flight, %3d commits",
		now.Format("15:04"), bar, d.Buildkite.Stats().Finished, inFlight, commits)
	d.progress.Doing(text)
	milestone := played%(30*time.Minute) == 0 && (played == 0) == (len(d.ticks) == 0)
	if d.progress == nil && milestone {
		fmt.Fprintln(d.stderr, text)
	}
}

// demoClock advances simulated time: Sleep returns at once, after all events of the interval
// have happened.
type demoClock struct {
	demo *Demo
	stop context.CancelFunc
}

func (c demoClock) Now() time.Time { return c.demo.Buildkite.Now() }

func (c demoClock) Sleep(ctx context.Context, d time.Duration) error {
	c.demo.Buildkite.Advance(d)
	if c.demo.failed != nil || !c.Now().Before(c.demo.end()) {
		c.stop()
	}
	return ctx.Err()
}

// conclude draws the picture and prints the page.
func (d *Demo) conclude(out io.Writer) error {
	picture := filepath.Join(d.dir, demoPicture)
	if err := os.WriteFile(picture, d.timeline(demoQueues...).SVG(), 0o666); err != nil {
		return err
	}
	var page bytes.Buffer
	d.table(&page)
	if err := d.decision(&page); err != nil {
		return err
	}
	repo, muster := invocation.ShellWord(d.fleetDir()), strings.Replace(d.invocation, "muster-sim", "muster", 1)
	fmt.Fprintf(&page, "\nThe morning as a picture, for a browser: %s. Commands to try:\n", picture)
	w := tabwriter.NewWriter(&page, 0, 0, 3, ' ', 0)
	for _, next := range [][2]string{
		{"git -C " + repo + " log", "every decision, and why"},
		{muster + " history --repo " + repo, "the same in lines, with each outcome"},
		{d.invocation + " simulate --history " + repo, "the same morning under other scalers' rules"},
		{muster + " init fleet", "begin a fleet repository of your own"},
	} {
		fmt.Fprintf(w, "  %s\t# %s\n", next[0], next[1])
	}
	_ = w.Flush() // into memory
	_, err := out.Write(page.Bytes())
	return err
}

// account is the result of the morning for one overlay.
type account struct {
	waits          []time.Duration
	agents, unused int
}

// accounts returns the results by overlay, from Buildkite's records.
func (d *Demo) accounts() map[string]*account {
	all := map[string]*account{}
	of := map[string]*account{} // by agent
	for _, name := range demoQueues {
		all[name] = &account{}
	}
	for _, a := range d.Buildkite.Agents() {
		for _, tag := range a.Tags {
			name, _ := strings.CutPrefix(tag, "overlay=")
			if all[name] == nil || name == tag {
				continue
			}
			of[a.ID] = all[name]
			all[name].agents++
			if !a.Ended.IsZero() && a.Jobs == 0 && a.Job == "" {
				all[name].unused++
			}
		}
	}
	for _, j := range d.Buildkite.Jobs() {
		if mine := of[j.Agent]; mine != nil && !j.Started.IsZero() {
			mine.waits = append(mine.waits, j.Started.Sub(j.Runnable))
		}
	}
	return all
}

// table prints a line for each overlay.
func (d *Demo) table(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "OVERLAY\tJOBS\tMEDIAN WAIT\tP95 WAIT\tAGENTS STARTED\tUNUSED\tCOMMITS")
	accounts := d.accounts()
	for _, name := range demoQueues {
		a := accounts[name]
		waits := simulation.SumUp(a.waits)
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%d\n", name, len(a.waits), waits.P50.Round(time.Second), waits.P95.Round(time.Second), a.agents, a.unused, d.commits[name])
	}
	_ = w.Flush() // into memory
}

// pageWidth is the maximum number of columns of the page.
const pageWidth = 96

// decision prints the commit of the largest dispatch, with long lines shortened.
func (d *Demo) decision(out io.Writer) error {
	if len(d.largest.Decision.Dispatch) == 0 {
		return nil
	}
	text, err := d.Repository.Git("log", "-1", "--format=%h%n%B", "--fixed-strings", "--grep=Dispatch: "+d.largest.Decision.Dispatch[0].ID, "--grep=Operation: dispatch", "--all-match", "main")
	if err != nil {
		return err
	}
	commit, message, _ := strings.Cut(strings.TrimSpace(text), "\n")
	fmt.Fprintf(out, "\nThe largest order, at %s, as commit %s explains it:\n", d.largest.Decision.At().Format("15:04:05"), commit)
	for line := range strings.Lines(message) {
		fmt.Fprintln(out, strings.TrimRight("  "+clipped(strings.TrimSuffix(line, "\n"), pageWidth-2), " "))
	}
	return nil
}

// clipped shortens a text to the given number of characters, and appends its length.
func clipped(text string, room int) string {
	size := utf8.RuneCountInString(text)
	if size <= room {
		return text
	}
	end := fmt.Sprintf("... (%d characters)", size)
	return string([]rune(text)[:max(0, room-len(end))]) + end
}

// timeline returns the chart of the morning: pending jobs and agents of some overlays. The largest
// dispatch is labelled with the subject of its commit.
func (d *Demo) timeline(overlays ...string) chart.Timeline {
	t := chart.Timeline{Title: "muster-sim demo: a morning, " + demoStart().Format("Monday, 15:04") + " to " + d.end().Format("15:04")}
	all, marks := map[string]*[4]chart.Series{}, map[string][]chart.Mark{}
	for _, tick := range d.ticks {
		if len(tick.Decisions) == 0 {
			continue
		}
		t.Times = append(t.Times, tick.Decisions[0].At())
		for _, x := range tick.Decisions {
			if all[x.Overlay] == nil {
				all[x.Overlay] = &[4]chart.Series{{Name: "pending"}, {Name: "busy"}, {Name: "idle"}, {Name: "in flight"}}
			}
			for i, n := range []int{x.Figures.Pending, x.Figures.Busy, x.Figures.Idle, x.Figures.InFlight} {
				s := &all[x.Overlay][i]
				s.Values = append(s.Values, float64(n))
			}
		}
		for _, a := range tick.Operations {
			if a.Kind == ledger.Dispatch {
				m := chart.Mark{At: a.Decision.At(), Label: fmt.Sprint(a.Decision.Figures.Dispatch), Text: a.Decision.At().Format("15:04:05 ") + ledger.Subject(a)}
				if m.At.Equal(d.largest.Decision.At()) && a.Path == d.largest.Path {
					m.Callout = ledger.Subject(a)
				}
				marks[a.Decision.Overlay] = append(marks[a.Decision.Overlay], m)
			}
		}
	}
	for _, name := range overlays {
		series := all[name]
		t.Bands = append(t.Bands,
			chart.Stack{Title: name + ": jobs without an agent", Series: series[:1]},
			chart.Stack{Title: name + ": agents", Series: series[1:], Marks: marks[name], MarksAre: "ordered"})
	}
	return t
}

// demoPicture is the file name of the chart.
const demoPicture = "timeline.svg"

// demoQueues are the overlays of the demo, each with a queue of its name.
var demoQueues = []string{"default", "large"}

// demoRepository creates the bare repository with a new fleet, whose commit has the given time.
func demoRepository(dir string, at time.Time) (gitserver.Repository, error) {
	bare := filepath.Join(dir, "fleet.git")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return gitserver.Repository{}, output.Usage(err)
	}
	for _, e := range entries {
		if e.Name() != "fleet.git" && e.Name() != demoPicture {
			return gitserver.Repository{}, output.Usage(fmt.Errorf("%s contains more than an earlier demo: name another directory", dir))
		}
	}
	repository := gitserver.Repository{Dir: bare}
	if len(entries) > 0 {
		if mark, err := repository.Git("config", "--local", "muster.demo"); err != nil || strings.TrimSpace(mark) != "true" {
			return repository, output.Usage(fmt.Errorf("%s was not created by an earlier demo: name another directory", bare))
		}
		if err := errors.Join(os.RemoveAll(bare), os.RemoveAll(filepath.Join(dir, demoPicture))); err != nil {
			return repository, err
		}
	}
	if repository, err = gitserver.Init(bare); err != nil {
		return repository, err
	}
	// The repository need not survive a power failure.
	if err := errors.Join(repository.Configure("muster.demo", "true"), repository.Configure("core.fsync", "none")); err != nil {
		return repository, err
	}
	changes, err := demoFleet()
	if err != nil {
		return repository, err
	}
	_, err = repository.Commit(demoBegin, at, changes...)
	return repository, err
}

const demoBegin = `Begin the fleet

As muster init writes it, with two overlays: default, of at most 40 agents and
with a buffer of 2, and large, of at most 10.
`

// demoFleet returns the files of muster init, with larger limits.
func demoFleet() ([]branch.Change, error) {
	changes, err := starter.Changes(func(text []byte) []byte {
		s := strings.Replace(string(text), "max: 10 ", "max: 40 ", 1)
		return []byte(strings.Replace(s, "# buffer: 0 ", "buffer: 2   ", 1))
	})
	if err != nil {
		return nil, err
	}
	large, err := starter.OverlayFiles(starter.Overlay{Name: "large", Queue: "large"})
	for name, content := range large {
		changes = append(changes, branch.Change{Path: path.Join("overlays/large", name), Content: content})
	}
	return changes, err
}

// scenario begins the fleet, and schedules what will happen.
func (d *Demo) scenario(ctx context.Context) {
	random := rand.New(rand.NewPCG(demoSeed, 1))
	d.begin(demoStart(), random)
	d.morning(d.queues, random)
	d.Buildkite.At(demoStart().Add(demoSync), func() { d.sync(ctx) })
}

// morning schedules builds: few at eight, many around ten, one burst.
func (d *Demo) morning(cluster string, random *rand.Rand) {
	for minute := range int(demoMorning.Minutes()) - 25 {
		builds := 0
		if busy := 0.25 - 0.2*math.Abs(float64(minute)-120)/120; random.Float64() < busy {
			builds = 1
		}
		if minute == 95 {
			builds = 6
		}
		for range builds {
			at := demoStart().Add(time.Duration(minute)*time.Minute + time.Duration(random.IntN(60))*time.Second)
			build := demoBuild(cluster, random)
			d.Buildkite.At(at, func() { d.Buildkite.CreateBuild(build) })
		}
	}
}

// demoBuild lints, then tests in parallel, then packages on a large machine.
func demoBuild(cluster string, random *rand.Rand) fakebuildkite.Build {
	between := func(low, high int) time.Duration { return time.Duration(low+random.IntN(high-low)) * time.Second }
	return fakebuildkite.Build{
		Pipeline: "app", Cluster: cluster, Branch: "main", Message: "A change",
		Steps: []fakebuildkite.Step{
			{Label: "lint", Duration: between(30, 90)},
			{Label: "test", Parallelism: 2 + random.IntN(7), Duration: between(120, 420)},
			{Type: fakebuildkite.Wait},
			{Label: "package", Agents: []string{"queue=large"}, Duration: between(60, 180)},
		},
	}
}

// sync applies the head to the cluster, and schedules the next sync.
func (d *Demo) sync(ctx context.Context) {
	d.Buildkite.At(d.Buildkite.Now().Add(demoSync), func() { d.sync(ctx) })
	err := d.apply(ctx)
	if err != nil && ctx.Err() == nil && d.failed == nil {
		d.failed = err
	}
}
