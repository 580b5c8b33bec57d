package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/cmd/muster/output"
	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/ledger"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/gitserver"
)

func (p program) demoCommand() *cobra.Command {
	var dir string
	var length time.Duration
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a morning with a simulated Buildkite and a real git repository",
		Long: `demo starts a simulated Buildkite and a bare git repository in a directory,
and runs the real loop against both, over HTTP and git, through a morning of
builds that passes in seconds. A simulated cluster runs the Jobs that muster
commits. It ends in a page of what there is to see, and leaves the repository
and a picture of the morning. Nothing leaves this machine.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if length < demoInterval || length > demoMorning {
				return output.Usage(fmt.Errorf("--length %s: use %s to %s", length, demoInterval, demoMorning))
			}
			progress := &output.Steps{Screen: p.screen.steps, Lines: cmd.ErrOrStderr()}
			return playDemo(cmd.Context(), cmd.OutOrStdout(), progress, demoSettings{dir: dir, length: length, invocation: cmp.Or(p.invocation, "muster")})
		},
	}
	c.Flags().StringVar(&dir, "dir", "muster-demo", "directory for the repository; replaces an earlier demo")
	c.Flags().DurationVar(&length, "length", demoMorning, "length of the morning, in simulated time")
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

// demoSettings are what a call of the demo asks for.
type demoSettings struct {
	dir        string
	length     time.Duration
	invocation string // how muster was called
}

// demo is a morning under way.
type demo struct {
	demoSettings
	progress   *output.Steps
	repository gitserver.Repository
	buildkite  *fakebuildkite.Server
	cluster    *simulation.Cluster
	syncer     *gitops.Repository
	failed     error

	// What the ticks came to.
	ticks   []generator.Result
	commits map[string]int   // of each overlay
	largest ledger.Operation // the dispatch of the most agents
}

func (d *demo) end() time.Time { return demoStart().Add(d.length) }

func playDemo(ctx context.Context, out io.Writer, progress *output.Steps, s demoSettings) error {
	defer progress.End()
	d := &demo{demoSettings: s, progress: progress, commits: map[string]int{}}
	var err error
	if d.repository, err = demoRepository(d.dir); err != nil {
		return err
	}
	git, err := gitserver.Serve(d.dir, gitserver.Options{Remember: true})
	if err != nil {
		return err
	}
	defer git.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the simulated Buildkite: %w", err)
	}
	fleetURL := git.URL + "/fleet.git"
	if d.syncer, err = gitops.New(gitops.Config{URL: fleetURL}); err != nil {
		return err
	}
	d.scenario(ctx)
	api := &http.Server{Handler: d.buildkite, ReadHeaderTimeout: time.Minute}
	go api.Serve(listener)
	defer api.Close()

	fmt.Fprintf(progress, demoIntroduction, demoStart().Format("Monday"), demoStart().Format("15:04"), d.end().Format("15:04"), fleetURL, listener.Addr())
	d.advance()
	if err := d.loop(ctx, fleetURL, "http://"+listener.Addr().String()+"/"); err != nil {
		return err
	}
	progress.End()
	return d.conclude(out)
}

// demoIntroduction says what is played.
const demoIntroduction = `A simulated %s, %s to %s: builds for two queues, and agents that take 25 to 70 s to start.
muster looks every 15 s and commits to %s, which a simulated cluster syncs.
Buildkite is simulated at http://%s. Nothing leaves this machine.
`

// loop runs the real loop through the morning.
func (d *demo) loop(ctx context.Context, fleetURL, buildkiteURL string) error {
	writer, err := gitops.New(gitops.Config{URL: fleetURL})
	if err != nil {
		return err
	}
	client, err := buildkite.New(buildkite.Config{Org: "acme", URL: buildkiteURL, Token: func() (string, error) { return "test-token", nil }})
	if err != nil {
		return err
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	g := generator.New(generator.Config{
		Repository: generator.Fleet{Writer: writer, Version: Version}, Buildkite: client, Overlays: "overlays",
		Clock: demoClock{d, stop}, Log: slog.New(slog.NewTextHandler(d.progress, &slog.HandlerOptions{Level: slog.LevelWarn})), Done: d.note,
	})
	err = g.Run(playing, demoInterval, 0)
	switch {
	case ctx.Err() != nil: // whatever failed, failed because of it
		return fmt.Errorf("interrupted at %s of the morning: what was committed is in %s", d.buildkite.Now().Format("15:04"), d.fleetDir())
	case err != nil:
		return err
	}
	return d.failed
}

func (d *demo) fleetDir() string { return filepath.Join(d.dir, "fleet.git") }

// note keeps what a tick came to.
func (d *demo) note(r generator.Result, err error) {
	if err != nil {
		d.failed = errors.Join(d.failed, err)
		return
	}
	r.Head.Tree = nil // not needed any more, and large
	d.ticks = append(d.ticks, r)
	for _, a := range r.Operations {
		d.commits[a.Decision.Overlay]++
		if a.Kind == ledger.Dispatch && a.Decision.Sum.Dispatch > d.largest.Decision.Sum.Dispatch {
			d.largest = a
		}
	}
	d.advance()
}

// advance says how far the morning has come.
func (d *demo) advance() {
	now := d.buildkite.Now()
	inFlight, commits := 0, 0
	if len(d.ticks) > 0 {
		for _, x := range d.ticks[len(d.ticks)-1].Decisions {
			inFlight += x.Sum.InFlight + x.Sum.Dispatch
		}
	}
	for _, n := range d.commits {
		commits += n
	}
	const width = 16
	played := now.Sub(demoStart())
	done := min(width, int(width*played/d.length))
	d.progress.Step(fmt.Sprintf("%s [%s%s] %3d jobs finished, %2d agents in flight, %3d commits",
		now.Format("15:04"), strings.Repeat("#", done), strings.Repeat(".", width-done), d.buildkite.Stats().Finished, inFlight, commits),
		played%(30*time.Minute) == 0 && (played == 0) == (len(d.ticks) == 0))
}

// overlays are the names of those that were decided on, in order.
func (d *demo) overlays() []string {
	var names []string
	for _, t := range d.ticks {
		for _, x := range t.Decisions {
			names = append(names, x.Overlay)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// demoClock advances simulated time: Sleep returns at once, after all events of the interval
// have happened.
type demoClock struct {
	demo *demo
	stop context.CancelFunc
}

func (c demoClock) Now() time.Time { return c.demo.buildkite.Now() }

func (c demoClock) Sleep(ctx context.Context, d time.Duration) error {
	c.demo.buildkite.Advance(d)
	if c.demo.failed != nil || !c.Now().Before(c.demo.end()) {
		c.stop()
	}
	return ctx.Err()
}
