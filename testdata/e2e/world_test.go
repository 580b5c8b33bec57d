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
	real      []*realNode

	realBuildkite string // where pods of real nodes reach Buildkite
}

func newWorld(ctx context.Context, t tb, s *suite) *world {
	ctx, cancel := context.WithCancel(ctx)
	w := &world{suite: s, ctx: ctx, cancel: cancel}
	w.agents = &agents{
		dir: filepath.Join(s.dir, "p"), binary: s.agent, fails: map[string]map[string]bool{}, held: map[string]chan struct{}{}, light: map[string]*lightAgent{}, ended: map[string]bool{},
	}
	must(t, os.MkdirAll(w.agents.dir, 0o755))
	w.buildkite = startBuildkite(ctx, t, s.dir, func(r fakebuildkite.AgentRecord) { go w.agents.left(r) })
	w.agents.buildkite = w.buildkite
	w.git = startGit(t, s.dir, s.muster)
	w.cluster = startCluster(ctx, t, s, "cluster")
	must(t, w.cluster.addNamespace(ctx, "buildkite"))
	w.events = watchEvents(ctx, w.cluster)
	w.node = w.cluster.addNode(t, w, node.Config{Name: "stand-in"})
	w.syncers = startSyncers(ctx, t, s, w.cluster)
	w.introduce(t)
	w.startMuster(t, "muster")
	for _, p := range w.processes() {
		must(t, p.Died())
	}
	return w
}

// scenarios are the overlays of the tests, without their syncer.
var scenarios = []string{
	"life", "edits", "failures", "deleted", "left", "eviction", "twice", "corrected", "namespace", "told", "trace", "node", "priority", "reuse", "clock-fast", "clock-slow",
	"policy", "policy-beside", "webhook", "webhook-beside", "quota", "quota-beside", "many", "two", "real", "deployed", "chaos-0", "chaos-1", "chaos-2",
	"rights", "rewritten", "transformed", "unstarted", "drain", "crash", "preempted", "date-fast", "date-slow",
	"pod-quota", "limit-range", "budget", "secret",
}

// introduce makes the fleet repository, as init writes it.
func (w *world) introduce(t tb) {
	must(t, w.git.edit("begin the fleet", func(dir string) error {
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
	}))
	if f, ok := w.syncers["flux"].(*flux); ok {
		f.introduce(w.ctx, t, w.git.clone)
	}
	if _, ok := w.syncers["argocd"]; ok {
		must(t, w.cluster.applyFiles(w.ctx, filepath.Join(w.git.clone, "syncer", "project.yaml")))
	}
}

// init runs muster init, puts the repository's address where its words say so, and has
// orders leave git after five minutes, not thirty: half of a shorter TTL, which takes a
// shorter lease.
func (w *world) init(dir, queue, syncer string, more ...string) error {
	cmd := exec.Command(w.suite.muster, append([]string{"init", dir, "--queue", queue, "--syncer", syncer}, more...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("muster init: %w\n%s", err, out)
	}
	for _, edit := range []struct{ files, from, to string }{
		{"syncer/*.yaml", "https://git.example.com/ci/fleet.git", w.git.url},
		{"base/job.yaml", "ttlSecondsAfterFinished: 3600", "ttlSecondsAfterFinished: 600"},
		{"overlays/*/scaling.yaml", "lease: auto", "lease: 10m"},
	} {
		files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(edit.files)))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			text = bytes.ReplaceAll(text, []byte(edit.from), []byte(edit.to))
			if err := os.WriteFile(file, text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// startMuster starts muster run, told of nothing but the repository, Buildkite and
// the syncers.
func (w *world) startMuster(t tb, name string) {
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
	must(t, err)
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
