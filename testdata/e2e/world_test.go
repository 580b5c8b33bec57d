package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/testdata/e2e/node"
	"muster/testdata/e2e/process"
)

// world is everything: a cluster with its syncers, a git host, Buildkite, muster.
type world struct {
	suite     *suite
	ctx       context.Context
	cancel    context.CancelFunc
	cluster   *cluster
	node      *node.Node
	agents    *agents
	events    *events
	buildkite *buildkite
	git       *gitHost
	syncers   map[string]syncer
	muster    *process.Process
	pulse     *pulse
	real      []*realNode

	realBuildkite string // where pods of real nodes reach Buildkite
}

func newWorld(ctx context.Context, s *suite) (*world, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &world{suite: s, ctx: ctx, cancel: cancel}
	var err error
	w.agents = &agents{
		dir: filepath.Join(s.dir, "p"), binary: s.agent, fails: map[string]map[string]bool{}, held: map[string]chan struct{}{}, light: map[string]*lightAgent{}, ended: map[string]bool{},
	}
	if err := os.MkdirAll(w.agents.dir, 0o755); err != nil {
		return w, err
	}
	if w.buildkite, err = startBuildkite(ctx, s.dir, func(r fakebuildkite.AgentRecord) { go w.agents.left(r) }); err != nil {
		return w, err
	}
	w.agents.buildkite = w.buildkite
	if w.git, err = startGit(s.dir, s.muster); err != nil {
		return w, err
	}
	if w.cluster, err = startCluster(ctx, s, "cluster"); err != nil {
		return w, err
	}
	if err := w.cluster.addNamespace(ctx, "buildkite"); err != nil {
		return w, err
	}
	w.events = watchEvents(ctx, w.cluster)
	if w.node, err = w.cluster.addNode(ctx, "stand-in", false, w.agents, w.events.kill); err != nil {
		return w, err
	}
	if w.syncers, err = startSyncers(ctx, s, w.cluster); err != nil {
		return w, err
	}
	if err := w.introduce(ctx); err != nil {
		return w, err
	}
	if err := w.startMuster("muster"); err != nil {
		return w, err
	}
	for _, p := range w.processes() {
		if err := p.Died(); err != nil {
			return w, err
		}
	}
	return w, nil
}

// scenarios are the overlays of the tests, without their syncer.
var scenarios = []string{
	"pulse", "life", "edits", "failures", "deleted", "left", "eviction", "twice", "corrected", "namespace", "told", "node", "priority", "reuse", "clock-fast", "clock-slow",
	"policy", "policy-beside", "webhook", "webhook-beside", "quota", "quota-beside", "many", "two", "real", "deployed", "chaos-0", "chaos-1", "chaos-2",
	"rights", "rewritten", "unstarted", "drain", "crash", "preempted", "date-fast", "date-slow",
}

// introduce makes the fleet repository, as init writes it.
func (w *world) introduce(ctx context.Context) error {
	err := w.git.edit("begin the fleet", func(dir string) error {
		for name := range w.syncers {
			for _, scenario := range scenarios {
				if err := w.init(dir, scenario+"-"+name, name); err != nil {
					return err
				}
				// muster learns of a queue within a minute: it is there before muster.
				w.buildkite.AddQueue(w.buildkite.cluster, scenario+"-"+name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if f, ok := w.syncers["flux"].(*flux); ok {
		path, err := f.introduce(ctx, w.git.clone)
		if err != nil {
			return err
		}
		f.receiver += path
	}
	if _, ok := w.syncers["argocd"]; ok {
		text, err := os.ReadFile(filepath.Join(w.git.clone, "syncer", "project.yaml"))
		if err != nil {
			return err
		}
		return w.cluster.Apply(ctx, string(text))
	}
	return nil
}

// init runs muster init, and puts the repository's address where its words say so.
func (w *world) init(dir, queue, syncer string, more ...string) error {
	cmd := exec.Command(w.suite.muster, append([]string{"init", dir, "--queue", queue, "--syncer", syncer}, more...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("muster init: %w\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "syncer", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("https://git.example.com/ci/fleet.git"), []byte(w.git.url))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// startMuster starts muster run, told of nothing but the repository, Buildkite and
// the syncers.
func (w *world) startMuster(name string) error {
	args := []string{
		"run", "--repo", w.git.url, "--buildkite-org", "acme", "--buildkite-url", w.buildkite.url, "--interval", "2s", "--startup-jitter", "0s", "--log-format", "json",
	}
	for _, s := range w.syncers {
		args = append(args, "--notify", s.notify())
	}
	var err error
	w.muster, err = process.Start(w.suite.logs, process.Command{
		Name: name, Path: w.suite.muster, Args: args, Dir: w.suite.dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.suite.dir, "BUILDKITE_API_TOKEN=test-token"},
	})
	return err
}

// onPush calls f after each push until the test ends, as the git host's own webhook
// does, for syncers that muster does not tell.
func (w *world) onPush(t *testing.T, f func()) {
	ctx, stop := context.WithCancel(w.ctx)
	t.Cleanup(stop)
	go func() {
		for last := ""; ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
			if head, err := w.git.Head(); err == nil && head != last {
				last = head
				f()
			}
		}
	}()
}

// close ends everything.
func (w *world) close() {
	if w.muster != nil {
		w.muster.Kill()
	}
	for _, n := range w.real {
		n.close()
	}
	if w.node != nil {
		w.node.Stop()
	}
	for _, s := range w.syncers {
		for _, p := range s.parts() {
			p.Kill()
		}
	}
	w.cancel()
	if w.cluster != nil {
		w.cluster.close()
	}
	if w.buildkite != nil {
		w.buildkite.close()
	}
}

// processes are all that should run.
func (w *world) processes() []*process.Process {
	all := []*process.Process{w.muster}
	for _, p := range w.cluster.processes {
		all = append(all, p)
	}
	for _, s := range w.syncers {
		for _, p := range s.parts() {
			all = append(all, p)
		}
	}
	return all
}
