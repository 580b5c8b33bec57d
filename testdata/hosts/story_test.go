package hosts

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/buildkite"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops"
)

var (
	program   = flag.String("muster", "../../bin/muster", "the program, as make build makes it")
	rivalTime = flag.Duration("rival", 5*time.Second, "how long another writer pushes ten times a second")
	patience  = flag.Duration("patience", 5*time.Minute, "how long a test waits for a line in the log of muster run")
)

// story is muster at work for one fleet, at one host.
type story struct {
	t       *testing.T
	server  server
	place   place
	row     *row
	world   *fakebuildkite.Server
	queue   string // the Buildkite cluster
	cluster *simulation.Cluster
	client  *buildkite.Client
	log     bytes.Buffer
	repo    *gitops.Repository
	ticks   *generator.Generator
	onTick  func(generator.Result) // after one of a run's
}

// tell is the standard story. Each part continues where the previous one ended.
func tell(t *testing.T, s server, r *row) {
	y := begin(t, s, r)
	for _, part := range []struct {
		name string
		play func()
	}{
		{"seed", y.seed}, {"check", y.check}, {"dispatch", y.dispatch}, {"idle", y.idle}, {"retire", y.retire}, {"writable", y.writable},
		{"twenty ticks", y.twentyTicks}, {"rival", y.rival}, {"protection", y.protection}, {"locked", y.locked}, {"signatures", y.signatures},
		{"restart", y.restart}, {"rename", y.rename}, {"whole", y.whole},
	} {
		if !t.Run(part.name, func(t *testing.T) { y.t = t; part.play() }) {
			return
		}
		r.run = append(r.run, part.name)
	}
}

func begin(t *testing.T, s server, r *row) *story {
	y := &story{t: t, server: s, place: s.repository(t), row: r}
	y.world = fakebuildkite.New(fakebuildkite.Options{Now: time.Now(), OnAgentEnd: func(a fakebuildkite.AgentRecord) { y.cluster.AgentEnded(a) }})
	y.queue = y.world.AddCluster("ci")
	y.world.AddQueue(y.queue, "default")
	y.world.SetDefaultQueue(y.queue, "default")
	y.cluster = &simulation.Cluster{Buildkite: y.world, BuildkiteCluster: y.queue, Fate: func() simulation.Fate { return simulation.Fate{} }}
	var err error
	y.client, err = buildkite.New(buildkite.Config{Org: "acme", HTTP: y.world.Transport(), Token: func() (string, error) { return "test-token", nil }})
	must(t, err)
	return y
}

// Now and Sleep are muster's clock, which is Buildkite's.
func (y *story) Now() time.Time { return y.world.Now() }

func (y *story) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		y.world.Advance(d)
		return nil
	}
}

// muster starts muster anew, with a configuration of the repository.
func (y *story) muster(c gitops.Config) {
	y.t.Helper()
	y.log.Reset()
	log := slog.New(slog.NewTextHandler(&y.log, nil))
	c.Log, c.TempDir = log, y.t.TempDir()
	y.repo = open(y.t, c)
	y.ticks = generator.New(generator.Config{Repository: generator.Fleet{Writer: y.repo, Version: "test"}, Buildkite: y.client, Clock: y, Overlays: "overlays", Log: log, Done: func(r generator.Result, err error) {
		if err == nil && y.onTick != nil {
			y.onTick(r)
		}
	}})
}

// build begins a build of N jobs.
func (y *story) build(jobs int) string {
	return y.world.CreateBuild(fakebuildkite.Build{Cluster: y.queue, Steps: []fakebuildkite.Step{{Label: "test", Parallelism: jobs, Duration: time.Second}}})
}

// tick lets muster tick once, which may not fail, and then the cluster follow git for a
// while.
func (y *story) tick(pass time.Duration) generator.Result {
	y.t.Helper()
	result, err := y.ticks.Tick(y.t.Context())
	if err != nil {
		y.t.Fatalf("the tick: %v", err)
	}
	must(y.t, y.cluster.Sync(result.Head.Tree, "overlays/default"))
	y.world.Advance(pass)
	return result
}

// subjects are those of the last commits, the newest first.
func (y *story) subjects(n string) []string {
	y.t.Helper()
	out, err := y.place.Git("log", "-"+n, "--format=%s", "main")
	must(y.t, err)
	return strings.Split(strings.TrimSpace(out), "\n")
}

func (y *story) head() string {
	y.t.Helper()
	head, err := y.place.Head()
	must(y.t, err)
	return head
}

// git runs git itself in a directory, with the credentials of who may write.
func (y *story) git(dir string, args ...string) string {
	y.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), y.place.environ...)
	return output(y.t, cmd)
}

// seed begins a fleet as a person does: muster init, and git push.
func (y *story) seed() {
	dir := filepath.Join(y.t.TempDir(), "fleet")
	output(y.t, exec.Command(*program, "init", dir))
	y.git(dir, "init", "--quiet")
	y.git(dir, "add", ".")
	y.git(dir, "commit", "--quiet", "-m", "Begin the fleet")
	y.git(dir, "push", "--quiet", y.place.url, "HEAD:refs/heads/main")
	y.row.offers = offers(y.t, y.place, dir)
	y.head()
}

// runCheck is muster check as a person runs it, with more arguments.
func (y *story) runCheck(flags ...string) (string, error) {
	api := httptest.NewServer(y.world)
	defer api.Close()
	cmd := exec.Command(*program, append([]string{"check", "--repo", y.place.config.URL}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+y.t.TempDir(), "MUSTER_BUILDKITE_URL="+api.URL+"/", "MUSTER_BUILDKITE_ORG=acme", "BUILDKITE_API_TOKEN=test-token")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// check finds a new fleet in order.
func (y *story) check() {
	if out, err := y.runCheck(y.place.flags...); err != nil || !strings.HasSuffix(out, "OK\n") {
		y.t.Fatalf("%v\n%s", err, out)
	}
	y.muster(y.place.config)
}

// dispatch orders agents for three jobs.
func (y *story) dispatch() {
	y.build(3)
	y.tick(time.Second)
	if got := y.subjects("1")[0]; !strings.HasPrefix(got, "default: dispatch 3 agents") {
		y.t.Errorf("the last commit is %q", got)
	}
}

// idle does nothing while there is nothing to do, for one request.
func (y *story) idle() {
	before, head := y.repo.Stats().Requests, y.head()
	y.tick(time.Second)
	if y.head() != head {
		y.t.Errorf("muster commits %q", y.subjects("1")[0])
	}
	if y.row.idle = y.repo.Stats().Requests - before; y.row.idle != 1 {
		y.t.Errorf("%d requests, want 1", y.row.idle)
	}
}

// retire takes out of git what is over.
func (y *story) retire() {
	for range 40 {
		y.tick(time.Minute)
		if strings.Contains(y.subjects("1")[0], "retire") {
			return
		}
	}
	y.t.Errorf("nothing is retired: %q", y.subjects("5"))
}
