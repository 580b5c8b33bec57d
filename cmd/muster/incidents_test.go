package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/cmd/starter"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/condition"
	"muster/generator/plan"
	"muster/generator/simulation"
	"muster/gitops"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/gitops/leaktest"

	"sigs.k8s.io/yaml"
)

var playIncidents = flag.Bool("incidents", false, "TestIncidents plays every incident and not only a short one; with -update it records the results")

// incident is something that goes wrong around muster.
type incident struct {
	name string
	// prepare changes the fleet before muster starts, and begin lets the incident happen; both are
	// optional.
	prepare, begin func(w *incidentWorld)
	// ownBuilds: begin creates the builds. Otherwise five jobs of 20 minutes come when it begins.
	ownBuilds bool
	// firstDay: no agent has ever registered.
	firstDay bool
	// lasts is for how long muster is watched; zero is incidentLasts.
	lasts time.Duration
	// agentToken: muster run has an agent token. webhooks: it receives webhooks of Buildkite.
	agentToken, webhooks bool
	// want is the condition that every surface has to report; fine: there is none.
	want conditionKey
	fine bool
	// alone: no surface that knows the condition reports another one, which would be a symptom of it.
	alone bool
	// draws is the number of waiting jobs at which the page's chart ends; zero: it is not read.
	draws int
	// explains is what explain prints after five minutes, with single spaces; optional.
	explains string
	// blind are the surfaces that cannot know the condition, and why.
	blind map[surface]string
}

// watched is for how long muster is watched.
func (x incident) watched() time.Duration { return cmp.Or(x.lasts, incidentLasts) }

// The times of an incident.
const (
	// incidentBegins is when something goes wrong, a few seconds after a tick.
	incidentBegins = 10*time.Minute + sampleAfterTick
	// incidentLasts is for how long muster is watched then.
	incidentLasts = 9 * time.Minute
	// lateAlert is for how long it is watched if an alert has a delay of up to 20 minutes.
	lateAlert = 22 * time.Minute
	// reportedWithin is the time within which a surface reports a condition.
	reportedWithin = 5 * time.Minute
	// tickInterval is the time between ticks, and sampleAfterTick the time between a tick and
	// the sample of a minute.
	tickInterval    = 15 * time.Second
	sampleAfterTick = 5 * time.Second
	// startup is how long agents need, and syncInterval is that of the syncer.
	startup      = 25 * time.Second
	syncInterval = 30 * time.Second
)

// incidentWorld is a fleet in use: muster run in this process, a git server, a simulated
// Buildkite, a syncer and a cluster. Time passes only while muster sleeps.
type incidentWorld struct {
	t         *testing.T
	begin     time.Time
	buildkite *fakebuildkite.Server
	cluster   *simulation.Cluster
	fate      simulation.Fate // of the pods that are created from now on
	repo      gitserver.Repository
	git       *gitserver.Server
	api       *httptest.Server
	agents    *httptest.Server // the Agent API
	syncer    *gitops.Repository
	stopped   bool // the syncer
	synced    string
	gitDown   atomic.Bool
	// slow and gitSlow are the times that a response of Buildkite and of the git server to muster
	// run takes.
	slow, gitSlow atomic.Int64
	clock         *steppingClock
	log           incidentLog
	// sampling: a command is run, which takes no time.
	sampling atomic.Bool
	address  string
	metrics  metricsRecording
	home     string // of the user
}

const (
	incidentToken       = "bkua_incident"
	incidentGitPassword = "incident-password"
	incidentOverlay     = "default"
)

func newIncidentWorld(t *testing.T) *incidentWorld {
	t.Helper()
	w := &incidentWorld{t: t, begin: time.Date(2026, time.November, 23, 8, 0, 0, 0, time.UTC), fate: simulation.Fate{Startup: startup}, home: t.TempDir()}
	w.clock = &steppingClock{world: w, sleeps: make(chan *sleeper)}
	w.buildkite = fakebuildkite.New(fakebuildkite.Options{Token: incidentToken, Now: w.begin, OnAgentEnd: func(a fakebuildkite.AgentRecord) { w.cluster.AgentEnded(a) }})
	cluster := w.buildkite.AddCluster("ci")
	w.buildkite.AddQueue(cluster, "default")
	w.buildkite.SetDefaultQueue(cluster, "default")
	w.buildkite.AddAgentToken(cluster, leaktest.AgentToken)
	w.cluster = &simulation.Cluster{Buildkite: w.buildkite, BuildkiteCluster: cluster, Fate: func() simulation.Fate { return w.fate }}
	var err error
	served := filepath.Join(t.TempDir(), "srv")
	w.repo, err = gitserver.Init(filepath.Join(served, "fleet.git"))
	check(t, err)
	w.git = serveGit(t, served, gitserver.Options{Remember: true, Username: "git", Password: incidentGitPassword, Wrap: w.disturb})
	own := serveGit(t, served, gitserver.Options{Remember: true})
	w.syncer, err = gitops.New(gitops.Config{URL: own.URL + "/fleet.git"})
	check(t, err)
	w.api = serveHTTP(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if d := time.Duration(w.slow.Load()); d > 0 && !w.sampling.Load() {
			w.buildkite.Advance(d)
		}
		w.buildkite.ServeHTTP(rw, r)
	}))
	w.agents = serveHTTP(t, w.buildkite)
	changes, err := starter.Changes(func(policy []byte) []byte { return policy })
	check(t, err)
	_, err = w.repo.Commit("Begin the fleet\n", w.begin.Add(-time.Hour), changes...)
	check(t, err)
	w.metrics.names = map[string]bool{}
	for _, name := range alertMetrics(t) {
		w.metrics.names[name] = true
	}
	w.syncLater()
	return w
}

// disturb lets the git server fail.
func (w *incidentWorld) disturb(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.gitDown.Load() {
			http.Error(rw, "unavailable", http.StatusServiceUnavailable)
			return
		}
		if d := time.Duration(w.gitSlow.Load()); d > 0 && !w.sampling.Load() {
			w.buildkite.Advance(d)
		}
		next.ServeHTTP(rw, r)
	})
}

// syncLater lets the syncer apply the branch at each of its intervals.
func (w *incidentWorld) syncLater() {
	w.buildkite.At(w.buildkite.Now().Add(syncInterval), func() {
		defer w.syncLater()
		head, err := w.syncer.Head(context.Background())
		if w.stopped || err != nil || head.Commit == w.synced {
			return
		}
		w.synced = head.Commit
		// An edited manifest is an error of the syncer alone: the Job stays as it is.
		if err := w.cluster.Sync(head.Tree, "overlays/"+incidentOverlay); err != nil && !errors.Is(err, simulation.ErrEdited) {
			w.t.Log(err)
		}
	})
}

// build creates a build of a step with n parallel jobs.
func (w *incidentWorld) build(n int, duration time.Duration, rules ...string) {
	w.t.Helper()
	w.buildIn(w.cluster.BuildkiteCluster, n, duration, rules...)
}

// buildIn is build in a Buildkite cluster.
func (w *incidentWorld) buildIn(cluster string, n int, duration time.Duration, rules ...string) {
	w.buildkite.CreateBuild(fakebuildkite.Build{
		Cluster: cluster,
		Steps:   []fakebuildkite.Step{{Label: "test", Parallelism: n, Duration: duration, Agents: rules}},
	})
}

// edit replaces text in a file of the fleet repository, as a person.
func (w *incidentWorld) edit(file, before, after string) {
	w.t.Helper()
	text, err := w.repo.ReadFile(file)
	check(w.t, err)
	if !bytes.Contains(text, []byte(before)) {
		w.t.Fatalf("%s does not contain %q:\n%s", file, before, text)
	}
	w.commit(branch.Change{Path: file, Content: bytes.ReplaceAll(text, []byte(before), []byte(after))})
}

// reformat writes a file in another format, as a formatter.
func (w *incidentWorld) reformat(file string) {
	w.t.Helper()
	text, err := w.repo.ReadFile(file)
	check(w.t, err)
	content, err := yaml.YAMLToJSON(text)
	check(w.t, err)
	w.commit(branch.Change{Path: file, Content: content})
}

func (w *incidentWorld) commit(changes ...branch.Change) {
	w.t.Helper()
	_, err := w.repo.Commit("Change the fleet\n", w.buildkite.Now(), changes...)
	check(w.t, err)
}

// policy changes the policy of the overlay.
func (w *incidentWorld) policy(before, after string) {
	w.t.Helper()
	w.edit("overlays/"+incidentOverlay+"/scaling.yaml", before, after)
}

// dispatch returns the file of the newest dispatch.
func (w *incidentWorld) dispatch() string {
	w.t.Helper()
	dir := "overlays/" + incidentOverlay + "/dispatches/"
	out, err := w.repo.Git("log", "--format=", "--name-only", "--diff-filter=A", "refs/heads/main", "--", dir)
	check(w.t, err)
	for name := range strings.Lines(out) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, dir+incidentOverlay+"-") {
			return name
		}
	}
	w.t.Fatalf("no dispatch in\n%s", out)
	return ""
}

// hook gives the repository a hook that rejects every push with a message.
func (w *incidentWorld) hook(message string) {
	w.t.Helper()
	dir := filepath.Join(w.repo.Dir, "hooks")
	script := "#!/bin/sh\ncat >&2 <<'END'\n" + message + "\nEND\nexit 1\n"
	check(w.t, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "pre-receive"), []byte(script), 0o755)))
}

// secondMuster lets another muster, whose repository has one overlay of the same queue, order agents
// for the pending jobs, and the cluster start them.
func (w *incidentWorld) secondMuster(overlay string) {
	w.t.Helper()
	repo, err := gitserver.Init(filepath.Join(filepath.Dir(w.repo.Dir), "second.git"))
	check(w.t, err)
	parts, err := starter.Fleet(starter.Overlay{Name: overlay, Queue: starter.DefaultQueue})
	check(w.t, err)
	var changes []branch.Change
	for _, part := range parts {
		for name, content := range part.Files {
			changes = append(changes, branch.Change{Path: part.Path + "/" + name, Content: content})
		}
	}
	_, err = repo.Commit("Begin another fleet\n", w.begin, changes...)
	check(w.t, err)
	if r := w.command("run", "--once", "--repo", w.git.URL+"/second.git"); r.failed != "" {
		w.t.Fatal(r.failed)
	}
	second, err := gitops.New(gitops.Config{URL: "file://" + repo.Dir})
	check(w.t, err)
	head, err := second.Head(w.t.Context())
	check(w.t, err)
	check(w.t, w.cluster.Sync(head.Tree, "overlays/"+overlay))
}

// steppingClock is muster's clock: the world's, plus Skew. A sleep ends when the test lets it.
type steppingClock struct {
	world  *incidentWorld
	skew   atomic.Int64
	sleeps chan *sleeper
}

// sleeper is a sleep until a time of the world.
type sleeper struct {
	until time.Time
	wake  chan struct{}
}

func (c *steppingClock) Now() time.Time {
	return c.world.buildkite.Now().Add(time.Duration(c.skew.Load()))
}

func (c *steppingClock) Sleep(ctx context.Context, d time.Duration) error {
	s := &sleeper{until: c.world.buildkite.Now().Add(d), wake: make(chan struct{})}
	select {
	case c.sleeps <- s:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-s.wake:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// environ is the environment of muster.
func (w *incidentWorld) environ() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"BUILDKITE_API_TOKEN=" + incidentToken, "MUSTER_GIT_USERNAME=git", "MUSTER_GIT_PASSWORD=" + incidentGitPassword,
		"MUSTER_REPO=" + w.git.URL + "/fleet.git", "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL=" + w.api.URL + "/",
		"MUSTER_AGENT_ENDPOINT=" + w.agents.URL + "/v3/",
	}
}

// play lets muster run until the end of the incident, and returns what the surfaces reported at
// each minute.
func (w *incidentWorld) play(x incident) []minuteSample {
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan int, 1)
	args := []string{"run", "--listen", "127.0.0.1:0", "--startup-jitter", "0", "--log-format", "json"}
	if x.agentToken {
		args = append(args, "--agent-token-file", agentTokenFile(w.t))
	}
	if x.webhooks {
		args = append(args, "--buildkite-webhook-secret-file", tempFile(w.t, "secret", "sesame\n"))
	}
	p := program{invocation.Program{Args: args, Environ: w.environ(), Stdout: &w.log, Stderr: &w.log, Clock: w.clock}}
	go func() { ended <- p.run(ctx) }()
	defer func() {
		stop()
		if code := <-ended; code != invocation.ExitOK {
			w.t.Errorf("muster run ended with exit code %d:\n%s", code, w.log.text())
		}
	}()
	if !x.firstDay {
		w.build(plan.MinStartupTimes, time.Minute)
	}
	var samples []minuteSample
	next := w.begin.Add(sampleAfterTick)
	w.scrapeLater(next)
	for {
		var s *sleeper
		select {
		case s = <-w.clock.sleeps:
		case code := <-ended:
			ended <- code
			return samples
		}
		w.findAddress()
		for ; next.Before(s.until); next = next.Add(tickInterval) {
			w.buildkite.AdvanceTo(next)
			switch since := next.Sub(w.begin) - incidentBegins; {
			case since == 0:
				w.log.begins = len(w.log.lines())
				if x.begin != nil {
					x.begin(w)
				}
				if !x.ownBuilds {
					w.build(5, 20*time.Minute)
				}
			case since > x.watched():
				w.drawn(x)
				return samples
			case since > 0:
				samples = w.sample(samples, since)
			}
		}
		w.buildkite.AdvanceTo(s.until)
		close(s.wake)
	}
}

// sample reads the surfaces after a tick: those of muster run at every tick, and the commands at
// every minute, and once more if they disagree with the others.
func (w *incidentWorld) sample(samples []minuteSample, since time.Duration) []minuteSample {
	readings := w.readRun()
	last := len(samples) - 1
	switch {
	case since%time.Minute == 0:
		w.readCommands(readings)
		return append(samples, minuteSample{minute: int(since / time.Minute), readings: readings, ticks: []map[surface]reading{readings}})
	case last < 0:
		samples, last = append(samples, minuteSample{}), 0
	case len(samples[last].ticks) == 1 && samples[last].minute > 0 && !samples[last].agree():
		w.readCommands(readings)
		samples[last].again = readings
	}
	samples[last].ticks = append(samples[last].ticks, readings)
	return samples
}

// drawn asserts at which number of waiting jobs the page's chart ends.
func (w *incidentWorld) drawn(x incident) {
	w.t.Helper()
	if x.draws == 0 {
		return
	}
	var chart struct{ Pending []*int }
	check(w.t, json.Unmarshal([]byte(w.get("/timeline.json?hours=1&overlay="+incidentOverlay)), &chart))
	if n := len(chart.Pending); n == 0 || chart.Pending[n-1] == nil || *chart.Pending[n-1] != x.draws {
		w.t.Errorf("the chart does not end at %d waiting jobs: %s", x.draws, w.get("/timeline.json?hours=1&overlay="+incidentOverlay))
	}
}

// incidentLog is the log of muster run.
type incidentLog struct {
	sharedBuffer
	begins int // the number of lines before the incident
}

// logLine is a line of the log.
type logLine struct {
	Msg, Address, Overlay, Condition, Reason, Message, Err, Remedy string
}

func (l *incidentLog) lines() []logLine {
	var all []logLine
	for line := range strings.Lines(l.text()) {
		var x logLine
		if err := json.Unmarshal([]byte(line), &x); err == nil {
			all = append(all, x)
		}
	}
	return all
}

// TestIncidents plays incidents against muster, and asserts that every surface reports the same
// condition within minutes, and no cause that muster cannot observe. It plays one of them; with
// -incidents, as make incidents runs it, all.
func TestIncidents(t *testing.T) {
	results := recordedIncidents(t)
	metrics := ""
	for _, x := range incidents {
		if !*playIncidents && x.name != shortIncident {
			continue
		}
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			w := newIncidentWorld(t)
			if x.prepare != nil {
				x.prepare(w)
			}
			r := judge(t, x, w.play(x))
			if t.Failed() {
				t.Logf("log:\n%s", w.log.text())
			}
			results.check(t, r)
			m := w.recordedMetrics(x)
			if metrics += m; !*playIncidents || !*updateScripts {
				checkIncidentMetrics(t, m)
			}
		})
	}
	if *playIncidents && *updateScripts && !t.Failed() {
		results.write(t)
		writeIncidentMetrics(t, metrics)
	}
}

// conditionKey is a condition without its figures. Those of JobsServed have no overlay: the log
// and the page name the queue, and the metrics do not.
type conditionKey struct {
	Type    condition.Type `json:"type"`
	Reason  string         `json:"reason"`
	Overlay string         `json:"overlay,omitempty"`
}

func (k conditionKey) String() string {
	text := fmt.Sprintf("%s (%s)", k.Type, k.Reason)
	if k.Overlay != "" {
		text = k.Overlay + ": " + text
	}
	return text
}
