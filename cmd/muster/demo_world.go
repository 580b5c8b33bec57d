package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/simulation"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// demoPicture is the file that the picture of the morning is in.
const demoPicture = "timeline.svg"

// demoQueues are the overlays of the demo, each with a queue of its name.
var demoQueues = []string{"default", "large"}

// demoRepository makes the bare repository with a new fleet in it.
func demoRepository(dir string) (gitserver.Repository, error) {
	bare := filepath.Join(dir, "fleet.git")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return gitserver.Repository{}, usage(err)
	}
	for _, e := range entries {
		if e.Name() != "fleet.git" && e.Name() != demoPicture {
			return gitserver.Repository{}, usage(fmt.Errorf("%s holds more than an earlier demo: choose another directory with --dir", dir))
		}
	}
	repository := gitserver.Repository{Dir: bare}
	if len(entries) > 0 {
		if mark, err := repository.Git("config", "--local", "muster.demo"); err != nil || strings.TrimSpace(mark) != "true" {
			return repository, usage(fmt.Errorf("%s is not of an earlier demo: choose another directory with --dir", bare))
		}
		if err := errors.Join(os.RemoveAll(bare), os.RemoveAll(filepath.Join(dir, demoPicture))); err != nil {
			return repository, err
		}
	}
	if repository, err = gitserver.Init(bare); err != nil {
		return repository, err
	}
	// What is played again in seconds need not outlive a power failure.
	if err := errors.Join(repository.Configure("muster.demo", "true"), repository.Configure("core.fsync", "none")); err != nil {
		return repository, err
	}
	changes, err := demoFleet()
	if err != nil {
		return repository, err
	}
	_, err = repository.Commit(demoBegin, demoStart().Add(-time.Hour), changes...)
	return repository, err
}

const demoBegin = `Begin the fleet

As muster init writes it, with two overlays: default, of at most 40 agents and
with a buffer of 2, and large, of at most 10.
`

// demoFleet is what muster init writes, with policies that ask for more.
func demoFleet() ([]branch.Change, error) {
	changes, err := starterChanges(func(text []byte) []byte {
		s := strings.Replace(string(text), "max: 10 ", "max: 40 ", 1)
		return []byte(strings.Replace(s, "# buffer: 0 ", "buffer: 2   ", 1))
	})
	if err != nil {
		return nil, err
	}
	large, err := overlayFiles(newOverlay{name: "large", queue: "large"})
	for name, content := range large {
		changes = append(changes, branch.Change{Path: path.Join("overlays/large", name), Content: content})
	}
	return changes, err
}

// world makes Buildkite and the cluster, and schedules what will happen.
func (d *demo) world(ctx context.Context) {
	d.buildkite = fakebuildkite.New(fakebuildkite.Options{Now: demoStart(), OnAgentEnd: func(a fakebuildkite.AgentRecord) { d.cluster.AgentEnded(a) }})
	random := rand.New(rand.NewPCG(demoSeed, 1))
	cluster := d.buildkite.AddCluster("ci")
	for _, key := range demoQueues {
		d.buildkite.AddQueue(cluster, key)
	}
	d.buildkite.SetDefaultQueue(cluster, demoQueues[0])
	d.cluster = &simulation.Cluster{
		Buildkite: d.buildkite, BuildkiteCluster: cluster,
		Fate: simulation.Trouble{}.Fates([2]time.Duration{25 * time.Second, 70 * time.Second}, random),
	}
	d.morning(cluster, random)
	d.buildkite.At(demoStart().Add(demoSync), func() { d.sync(ctx) })
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

// sync lets the cluster apply what the branch holds, and comes again.
func (d *demo) sync(ctx context.Context) {
	d.buildkite.At(d.buildkite.Now().Add(demoSync), func() { d.sync(ctx) })
	err := d.apply(ctx)
	if err != nil && ctx.Err() == nil && d.failed == nil {
		d.failed = err
	}
}

func (d *demo) apply(ctx context.Context) error {
	tip, err := d.syncer.Tip(ctx)
	if err != nil {
		return err
	}
	for _, name := range demoQueues {
		if err := d.cluster.Sync(tip.Tree, path.Join("overlays", name)); err != nil {
			return err
		}
	}
	return nil
}
