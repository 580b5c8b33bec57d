package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/laboratory"
	"muster/cmd/starter"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"
	"muster/gitops/unraced"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

var updateScripts = flag.Bool("update", false, "write what was printed into the scripts and documents")

// realVariable makes the test binary muster or, if it has its name, muster-sim, with the real clock and signals.
const realVariable = "TEST_REAL_MUSTER"

func TestMain(m *testing.M) {
	if os.Getenv(realVariable) != "" || len(os.Args) == 2 && os.Args[1] == invocation.BuildArgument {
		commands := allCommands
		if os.Getenv(realVariable) == laboratory.Commands.Name {
			commands = laboratory.Commands
		}
		if err := os.Unsetenv(realVariable); err != nil {
			panic(err)
		}
		invocation.Main(commands)
		return
	}
	if begin := os.Getenv(stepVariable); begin != "" {
		os.Exit(stepped(begin))
	}
	testscript.Main(tidy{m}, map[string]func(){"muster": func() { os.Exit(scripted(allCommands)) }, "muster-sim": func() { os.Exit(scripted(laboratory.Commands)) }, "ticking": ticking})
}

// scripted runs muster or muster-sim at the time of the script.
func scripted(commands invocation.Commands) int {
	now, err := time.Parse(time.RFC3339, os.Getenv("FAKE_NOW"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	p := program{invocation.Program{Args: os.Args[1:], Environ: os.Environ(), Stdout: overheard(os.Stdout), Stderr: overheard(os.Stderr), Clock: stoppedClock{now}}}
	switch os.Getenv("FAKE_END") {
	case "yes":
		p.Clock = endingClock{stoppedClock{now}}
	case "never":
		p.Clock = waitingClock{stoppedClock{now}}
	}
	return p.Run(context.Background(), commands)
}

type stoppedClock struct{ now time.Time }

func (c stoppedClock) Now() time.Time                                 { return c.now }
func (stoppedClock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// endingClock ends muster run after its first tick, and any wait of another command.
type endingClock struct{ stoppedClock }

func (endingClock) Sleep(context.Context, time.Duration) error { return context.Canceled }

// waitingClock lets muster run wait after its first tick until its process is killed.
type waitingClock struct{ stoppedClock }

func (waitingClock) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// start is the time at which every script begins.
var start = time.Date(2026, time.November, 21, 2, 15, 0, 0, time.UTC)

// scenario contains the servers of a script: git over HTTP with a bare repository, Buildkite,
// and a cluster.
type scenario struct {
	git       *gitserver.Server
	repo      gitserver.Repository
	buildkite *fakebuildkite.Server
	api       *httptest.Server
	agents    *httptest.Server // the Agent API
	cluster   *simulation.Cluster
	conflicts atomic.Int64 // remaining pushes before which another writer pushes
	deny      atomic.Int64 // what the git server answers next; zero: what it should
	syncers   *syncers
	sent      sent
}

// racedScripts are the scripts of commands with several goroutines that no shorter test runs. They
// run with the race detector.
var racedScripts = []string{"history", "verify"}

// TestScripts runs racedScripts.
func TestScripts(t *testing.T) { runScripts(t, true) }

// TestUnracedScripts runs all other scripts, without the race detector, with which hundreds of
// starts of the program take most of the time.
func TestUnracedScripts(t *testing.T) {
	unraced.Only(t)
	runScripts(t, false)
}

func runScripts(t *testing.T, raced bool) {
	all, err := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "*.txtar"))
	check(t, err)
	found := 0
	files := slices.DeleteFunc(all, func(file string) bool {
		of := slices.Contains(racedScripts, strings.TrimSuffix(filepath.Base(file), ".txtar"))
		if of {
			found++
		}
		return of != raced
	})
	if found != len(racedScripts) {
		t.Errorf("%d of the scripts %q are there", found, racedScripts)
	}
	testscript.Run(t, scriptParams(files))
}

// scriptParams returns the parameters of scripts, with their commands.
func scriptParams(files []string) testscript.Params {
	return testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *updateScripts,
		Setup: func(env *testscript.Env) error {
			w := newScenario(scriptTest{env}, env.WorkDir)
			w.syncers = newSyncers(scriptTest{env})
			env.Values["world"] = w
			for name, value := range map[string]string{
				"FAKE_NOW": start.Format(time.RFC3339), "REPO": w.git.URL + "/fleet.git",
				"MUSTER_REPO": w.git.URL + "/fleet.git", "MUSTER_BUILDKITE_URL": w.api.URL + "/", "MUSTER_BUILDKITE_ORG": "acme",
				"MUSTER_AGENT_ENDPOINT": w.agents.URL + "/v3/", "FLUX_RECEIVER": w.syncers.flux.URL + "/hook/0123",
				"ARGOCD": w.syncers.argocd.URL, "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
				"GORACE": "atexit_sleep_ms=10", // by default each call waits a second for races to come
			} {
				env.Setenv(name, value)
			}
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "Ada")
				env.Setenv("GIT_"+who+"_EMAIL", "ada@example.com")
				env.Setenv("GIT_"+who+"_DATE", start.Add(-time.Hour).Format(time.RFC3339))
			}
			w.plant(env)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"build": cmdBuild, "connect": cmdConnect, "advance": cmdAdvance, "sync": cmdSync,
			"fail": cmdFail, "recover": cmdRecover, "conflict": cmdConflict, "password": cmdPassword, "requests": cmdRequests,
			"publish": cmdPublish, "pausequeue": cmdPauseQueue, "fill": cmdFill, "nameless": cmdNameless, "status": cmdStatus, "documented": cmdDocumented,
			"deny": cmdDeny, "hook": cmdHook, "hostile": cmdHostile, "canaries": cmdCanaries, "notified": cmdNotified, "stacks": cmdStacks,
			"limit": cmdLimit, "restore": cmdRestore,
		},
	}
}

// scriptTest is a script as the lifetime of servers.
type scriptTest struct{ env *testscript.Env }

func (s scriptTest) Fatal(args ...any) { s.env.T().Fatal(args...) }
func (s scriptTest) Cleanup(f func())  { s.env.Defer(f) }

func newScenario(t lifetime, dir string) *scenario {
	w := &scenario{buildkite: fakebuildkite.New(fakebuildkite.Options{Now: start.Add(-time.Minute), Token: leaktest.BuildkiteToken})}
	var err error
	w.repo, err = gitserver.Init(filepath.Join(dir, "srv", "fleet.git"))
	check(t, err)
	w.git = serveGit(t, filepath.Join(dir, "srv"), gitserver.Options{Username: "git", Wrap: w.forestall})
	cluster := w.buildkite.AddCluster("ci")
	for _, key := range []string{"default", "linux-large"} {
		w.buildkite.AddQueue(cluster, key)
	}
	w.buildkite.SetDefaultQueue(cluster, "default")
	w.api = serveHTTP(t, w.sent.only("Buildkite", "Buildkite's token", w.buildkite))
	w.buildkite.AddAgentToken(cluster, leaktest.AgentToken)
	w.buildkite.AddAgentToken("", "bkct_elsewhere")
	w.agents = serveHTTP(t, w.sent.only("the Agent API", "the agents' token", w.buildkite))
	w.cluster = &simulation.Cluster{Buildkite: w.buildkite, BuildkiteCluster: cluster,
		Fate: func() simulation.Fate { return simulation.Fate{Startup: 30 * time.Second} }}
	return w
}

// forestall pushes before muster does, as often as the script requests.
func (w *scenario) forestall(next http.Handler) http.Handler {
	return w.sent.only("git's host", "the password for git", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.denied(rw, r) {
			return
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") && w.conflicts.Load() > 0 {
			left := w.conflicts.Add(-1)
			if _, err := w.repo.Commit("Other commit", start, branch.Change{Path: "other", Content: fmt.Append(nil, left)}); err != nil {
				panic(err)
			}
		}
		next.ServeHTTP(rw, r)
	}))
}

func scenarioOf(ts *testscript.TestScript) *scenario { return ts.Value("world").(*scenario) }

// number returns the number in an argument of a command.
func number(ts *testscript.TestScript, arg string) int {
	n, err := strconv.Atoi(arg)
	ts.Check(err)
	return n
}

// cmdBuild creates a build: build COUNT DURATION [RULE...].
func cmdBuild(ts *testscript.TestScript, _ bool, args []string) {
	duration, err := time.ParseDuration(args[1])
	ts.Check(err)
	w := scenarioOf(ts)
	w.buildkite.CreateBuild(fakebuildkite.Build{Cluster: w.cluster.BuildkiteCluster,
		Steps: []fakebuildkite.Step{{Label: "test", Parallelism: number(ts, args[0]), Duration: duration, Agents: hostiles(args[2:])}}})
}

// cmdConnect connects agents: connect COUNT TAG...
func cmdConnect(ts *testscript.TestScript, _ bool, args []string) {
	w := scenarioOf(ts)
	for range number(ts, args[0]) {
		_, err := w.buildkite.Connect(fakebuildkite.Agent{Cluster: w.cluster.BuildkiteCluster, Tags: hostiles(args[1:])})
		ts.Check(err)
	}
}

// cmdAdvance advances the time: advance DURATION.
func cmdAdvance(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	now, err := time.Parse(time.RFC3339, ts.Getenv("FAKE_NOW"))
	ts.Check(err)
	now = now.Add(d)
	scenarioOf(ts).buildkite.AdvanceTo(now)
	ts.Setenv("FAKE_NOW", now.Format(time.RFC3339))
}

// cmdSync applies the head to the cluster: sync OVERLAY.
func cmdSync(ts *testscript.TestScript, _ bool, args []string) {
	w := scenarioOf(ts)
	repository, err := gitops.New(gitops.Config{URL: w.git.URL + "/fleet.git", Credentials: remote.Credentials{Password: remote.StaticPassword("git", leaktest.GitPassword)}})
	ts.Check(err)
	head, err := repository.Head(context.Background())
	ts.Check(err)
	ts.Check(w.cluster.Sync(head.Tree, args[0]))
}

// cmdConflict makes another writer push before the next pushes: conflict COUNT.
func cmdConflict(ts *testscript.TestScript, _ bool, args []string) {
	scenarioOf(ts).conflicts.Store(int64(number(ts, args[0])))
}

// cmdPassword sets the password of the git server: password SECRET.
func cmdPassword(ts *testscript.TestScript, _ bool, args []string) {
	scenarioOf(ts).git.SetPassword(args[0])
}

// cmdRequests prints the requests to git since the previous call.
func cmdRequests(ts *testscript.TestScript, _ bool, _ []string) {
	for _, r := range scenarioOf(ts).git.Requests() {
		fmt.Fprintln(ts.Stdout(), r)
	}
}

// cmdStacks prints the stacks that are registered in Buildkite.
func cmdStacks(ts *testscript.TestScript, _ bool, _ []string) {
	fmt.Fprintln(ts.Stdout(), scenarioOf(ts).buildkite.Stacks())
}

// cmdPublish commits a directory's files to the branch, whole: publish DIR.
func cmdPublish(ts *testscript.TestScript, _ bool, args []string) {
	w := scenarioOf(ts)
	changes, err := filesBelow(os.DirFS(ts.MkAbs(args[0])))
	ts.Check(err)
	_, err = w.repo.Commit("Change the fleet\n", start.Add(-time.Hour), changes...)
	ts.Check(err)
}

// cmdPauseQueue pauses a queue in Buildkite: pausequeue KEY.
func cmdPauseQueue(ts *testscript.TestScript, _ bool, args []string) {
	w := scenarioOf(ts)
	w.buildkite.PauseQueue(w.cluster.BuildkiteCluster, args[0])
}

// cmdLimit limits the requests to Buildkite: limit USER ORGANISATION.
func cmdLimit(ts *testscript.TestScript, _ bool, args []string) {
	scenarioOf(ts).buildkite.SetLimits(number(ts, args[0]), number(ts, args[1]))
}

// cmdFill writes a file of a size: fill FILE BYTES.
func cmdFill(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat("#", number(ts, args[1]))), 0o644))
}

// cmdNameless copies a file without what follows from every byte of the fleet's
// first commit, the names of commits and dispatches: nameless FROM TO.
func cmdNameless(ts *testscript.TestScript, _ bool, args []string) {
	text := regexp.MustCompile(`\b(default|large|warm)-[0-9a-z]{8}\b`).ReplaceAllString(ts.ReadFile(args[0]), "$1-ID")
	text = regexp.MustCompile(`(commit) [0-9a-f]{7,}`).ReplaceAllString(text, "$1 HASH")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

// cmdStatus runs muster and expects an exit code: status CODE muster ARGS...
func cmdStatus(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		var exited *exec.ExitError
		if !errors.As(err, &exited) {
			ts.Fatalf("%v", err)
		}
		code = exited.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// cmdDocumented runs the step of docs/how-to/review-policy-changes.md that contains a
// text, as its service would, and expects an exit code: documented CODE TEXT.
func cmdDocumented(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(filepath.Join(top, "docs", "how-to", "review-policy-changes.md"))
	ts.Check(err)
	var steps []string
	for _, m := range regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1) {
		type step struct{ Run, Command string }
		var file struct {
			Steps []step
			Jobs  map[string]struct{ Steps []step }
		}
		ts.Check(yaml.Unmarshal([]byte(m[1]), &file))
		for _, s := range append(file.Steps, file.Jobs["check"].Steps...) {
			switch {
			case s.Run != "":
				steps = append(steps, s.Run)
			case s.Command != "":
				steps = append(steps, strings.ReplaceAll(s.Command, "$$", "$"))
			}
		}
	}
	steps = slices.DeleteFunc(steps, func(step string) bool { return !strings.Contains(step, args[1]) })
	if len(steps) != 1 {
		ts.Fatalf("docs/how-to/review-policy-changes.md has %d steps that contain %q, want 1", len(steps), args[1])
	}
	cmdStatus(ts, false, []string{args[0], "sh", "-e", "-c", steps[0]})
}

// filesBelow returns the changes that add all files of a tree.
func filesBelow(tree fs.FS) (changes []branch.Change, err error) {
	files, err := starter.Embedded(tree, ".")
	for name, content := range files {
		changes = append(changes, branch.Change{Path: name, Content: content})
	}
	return changes, err
}
