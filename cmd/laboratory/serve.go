package laboratory

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/output"
	"muster/generator"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/finding"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/gitserver"

	"github.com/spf13/cobra"
)

// An incident begins incidentBegin after the start, and ends after incidentLength.
const (
	incidentBegin  = 2 * time.Minute
	incidentLength = 10 * time.Minute
)

// serveAgentToken is the agent token of the simulated Buildkite.
const serveAgentToken = "test-agent-token"

// serveStep is how often the simulation catches up with the clock.
const serveStep = 100 * time.Millisecond

// incident is something that goes wrong.
type incident struct {
	name, description string
	set               func(s *serve, on bool)
}

var incidents = []incident{
	{"buildkite-fails", "Buildkite answers half of all requests with 503", func(s *serve, on bool) { s.failing(on, 0.5) }},
	{"buildkite-down", "Buildkite answers every request with 503", func(s *serve, on bool) { s.failing(on, 1) }},
	{"no-agents", "new pods never register an agent", func(s *serve, on bool) { s.noAgents = on }},
	{"no-nodes", "the cluster has room for two pods", func(s *serve, on bool) {
		if s.cluster.SetNodes(0); on {
			s.cluster.SetNodes(2)
		}
	}},
	{"no-sync", "the syncer applies nothing", func(s *serve, on bool) { s.noSync = on }},
}

// serve is a simulated Buildkite, git server, cluster and syncer, which follow the clock.
type serve struct {
	simulatedFleet
	dir, incident string

	clock    generator.Clock
	stderr   io.Writer
	random   *rand.Rand
	noAgents bool
	noSync   bool
	failed   string // the last error of a sync, which was printed
}

func (p program) serveCommand() *cobra.Command {
	s := &serve{}
	var names, described []string
	for _, i := range incidents {
		names = append(names, i.name)
		described = append(described, fmt.Sprintf("  %-16s %s", i.name, i.description))
	}
	c := &cobra.Command{
		Use:   "serve [DIR]",
		Short: "Simulate Buildkite, git, a cluster and a syncer for muster run",
		Long: `serve plays what muster needs, in real time, so that muster run and its page can be
tried without an account: a Buildkite with two queues and new builds every minute,
a git server with a fleet repository in DIR, by default muster-serve, and a cluster
whose syncer applies it. The repository of an earlier serve is replaced. It prints
the command line of muster, and runs until it is interrupted.

With --incident something goes wrong from the second to the twelfth minute:
` + strings.Join(described, "\n"),
		Example: `  muster-sim serve
  muster-sim serve --incident no-agents`,
		Args: invocation.AtMostOne("directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.dir = cmp.Or(strings.Join(args, ""), "muster-serve")
			s.clock, s.stderr = p.Clock, p.Stderr
			return s.run(cmd.Context(), cmd.OutOrStdout(), p.Invocation)
		},
	}
	c.Flags().StringVar(&s.incident, "incident", "", "what goes wrong: "+strings.Join(names, ", "))
	invocation.OneOf(c, "incident", names...)
	return c
}

// run serves until the context ends.
func (s *serve) run(ctx context.Context, out io.Writer, invoked string) error {
	var wrong *incident
	for i := range incidents {
		if incidents[i].name == s.incident {
			wrong = &incidents[i]
		}
	}
	if s.incident != "" && wrong == nil {
		names := invocation.Map(incidents, func(i incident) string { return i.name })
		return output.Usage(fmt.Errorf("--incident %q: %s", s.incident, finding.DidYouMean(s.incident, names, "use "+finding.Or(names))))
	}
	start := s.clock.Now().UTC()
	if _, err := demoRepository(s.dir, start.Add(-time.Hour)); err != nil {
		return err
	}
	git, err := gitserver.Serve(s.dir, gitserver.Options{})
	if err != nil {
		return err
	}
	defer git.Close()
	address := git.URL + "/fleet.git"
	if s.syncer, err = gitops.New(gitops.Config{URL: address}); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the simulated Buildkite: %w", err)
	}
	s.play(ctx, start)
	api := &http.Server{Handler: s.Buildkite, ReadHeaderTimeout: time.Minute}
	go func() { _ = api.Serve(listener) }() // until it is closed
	defer api.Close()
	muster, sim := "muster", "muster-sim"
	if abs, err := filepath.Abs(strings.Trim(invoked, "'")); err == nil && invoked != "" { // the other terminal may be elsewhere
		muster, sim = invocation.ShellWord(filepath.Join(filepath.Dir(abs), muster)), invocation.ShellWord(abs)
	}
	fmt.Fprintf(out, `Buildkite is simulated at http://%s/, and the fleet repository is %s.
In another terminal, run muster, and open http://%s/ in a browser:

  export BUILDKITE_API_TOKEN=test-token MUSTER_BUILDKITE_ORG=acme
  export MUSTER_BUILDKITE_URL=http://%[1]s/ MUSTER_REPO=%[2]s
  %[4]s run --listen %[3]s

In a third one, with the same exports, try muster plan, history and explain, or
compare muster's beliefs with this simulation before you do so with your account:

  echo %[5]s >agent-token
  %[6]s live --agent-endpoint http://%[1]s/ --agent-token-file agent-token --write

Interrupt this command to end the simulation.
`, listener.Addr(), address, pageAddress(), muster, serveAgentToken, sim)
	if wrong != nil {
		s.schedule(start, *wrong)
	}
	for s.clock.Sleep(ctx, serveStep) == nil {
		s.Buildkite.AdvanceTo(s.clock.Now())
	}
	return nil // interrupted, as it must be
}

// pageAddress returns an address at which muster can serve its page: its usual one, or another if that is in use.
func pageAddress() string {
	const usual = "127.0.0.1:8080"
	for _, address := range []string{usual, "127.0.0.1:0"} {
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close() // muster listens there soon
			return l.Addr().String()
		}
	}
	return usual
}

// play begins the fleet, and schedules builds and syncs.
func (s *serve) play(ctx context.Context, start time.Time) {
	s.random = rand.New(rand.NewPCG(uint64(start.UnixNano()), 1))
	s.begin(start, s.random)
	s.Buildkite.SetLimits(50, 200) // Buildkite's own
	s.Buildkite.AddAgentToken(s.queues, serveAgentToken)
	fates := s.cluster.Fate
	s.cluster.Fate = func() simulation.Fate {
		fate := fates()
		fate.NoShow = fate.NoShow || s.noAgents
		return fate
	}
	s.builds()
	s.Buildkite.At(start.Add(demoSync), func() { s.sync(ctx) })
}

// builds creates up to three builds, and again a minute later.
func (s *serve) builds() {
	for range 1 + s.random.IntN(3) {
		s.Buildkite.CreateBuild(demoBuild(s.queues, s.random))
	}
	s.Buildkite.At(s.Buildkite.Now().Add(time.Minute), s.builds)
}

// sync applies the head to the cluster, and again later. It prints a new error.
func (s *serve) sync(ctx context.Context) {
	s.Buildkite.At(s.Buildkite.Now().Add(demoSync), func() { s.sync(ctx) })
	if s.noSync {
		return
	}
	text := ""
	if err := s.apply(ctx); err != nil && ctx.Err() == nil {
		text = err.Error()
	}
	if text != s.failed && text != "" {
		fmt.Fprintln(s.stderr, "the syncer fails:", output.ShownAs(text))
	}
	s.failed = text
}

// schedule lets an incident happen.
func (s *serve) schedule(start time.Time, wrong incident) {
	for at, on := range map[time.Duration]bool{incidentBegin: true, incidentBegin + incidentLength: false} {
		s.Buildkite.At(start.Add(at), func() {
			wrong.set(s, on)
			fmt.Fprintf(s.stderr, "%s %s: %s\n", s.Buildkite.Now().Format(time.TimeOnly), map[bool]string{true: "begins", false: "ends"}[on], wrong.description)
		})
	}
}

// failing lets Buildkite refuse a share of all requests.
func (s *serve) failing(on bool, share float64) {
	s.Buildkite.Recover()
	if on {
		random := rand.New(rand.NewPCG(s.random.Uint64(), 1)) // drawn by requests, under the server's lock
		s.Buildkite.Fail(fakebuildkite.Fault{Times: -1, Status: http.StatusServiceUnavailable, Hits: func() bool { return random.Float64() < share }})
	}
}
