// Package simulation plays the world around muster: the syncer and the
// Kubernetes cluster that turn committed Jobs into agents of a simulated
// Buildkite.
package simulation

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"muster/generator/buildkite/buildkitetest"
)

// Cluster is a Kubernetes cluster with a syncer: it runs the Jobs that an
// overlay lists, each once for as long as its manifest stays, and their pods
// are agents of the simulated Buildkite. It runs what the manifests say and
// knows nothing of how muster decides.
type Cluster struct {
	// Buildkite is where the agents register, and whose clock counts.
	Buildkite *buildkitetest.Server
	// BuildkiteCluster is the Buildkite cluster of the agents' token.
	BuildkiteCluster string
	// Boot is the shortest and the longest time from a Job's creation to its
	// agent's registration.
	Boot [2]time.Duration
	// Random makes boot times; it must be seeded for a run that can be repeated.
	Random *rand.Rand

	jobs map[string]bool // Jobs created, by name
}

// job is as much of a Job's manifest as running it takes.
type job struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Completions int
		Template    struct {
			Metadata struct{ Annotations map[string]string }
		}
	}
}

// Sync does what Argo CD and Flux do with a new commit: it creates the Jobs of
// an overlay that are not there yet, and leaves the others alone.
func (c *Cluster) Sync(tree fs.FS, overlay string) error {
	dir := path.Join(overlay, "dispatches")
	text, err := fs.ReadFile(tree, path.Join(dir, "kustomization.yaml"))
	if err != nil {
		return fmt.Errorf("syncing %s: %w", overlay, err)
	}
	var list struct{ Resources []string }
	if err := yaml.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("syncing %s: %w", overlay, err)
	}
	if c.jobs == nil {
		c.jobs = map[string]bool{}
	}
	for _, name := range list.Resources {
		text, err := fs.ReadFile(tree, path.Join(dir, name))
		if err != nil {
			return fmt.Errorf("syncing %s: %w", overlay, err)
		}
		var j job
		if err := yaml.Unmarshal(text, &j); err != nil {
			return fmt.Errorf("syncing %s: %w", overlay, err)
		}
		if c.jobs[j.Metadata.Name] {
			continue
		}
		c.jobs[j.Metadata.Name] = true
		for index := range j.Spec.Completions {
			if err := c.schedule(j, index); err != nil {
				return fmt.Errorf("running Job %s: %w", j.Metadata.Name, err)
			}
		}
	}
	return nil
}

// schedule lets one pod of the Job start after its boot time, and do what the
// base's command does.
func (c *Cluster) schedule(j job, index int) error {
	annotations := j.Spec.Template.Metadata.Annotations
	notAfter, err := time.Parse(time.RFC3339, annotations["muster.dev/not-after"])
	if err != nil {
		return err
	}
	idle, err := strconv.Atoi(annotations["muster.dev/idle-timeout"])
	if err != nil {
		return err
	}
	tags := append(strings.Split(annotations["muster.dev/agent-tags"], ","), fmt.Sprintf("index=%d", index))
	boot := c.Boot[0] + time.Duration(c.Random.Int64N(int64(c.Boot[1]-c.Boot[0])+1))
	c.Buildkite.At(c.Buildkite.Now().Add(boot), func() {
		if c.Buildkite.Now().After(notAfter) {
			return
		}
		// An agent that Buildkite refuses exits, as the real one does; the lease
		// takes care of what it was counted for.
		_, _ = c.Buildkite.Connect(buildkitetest.Agent{
			Name: fmt.Sprintf("%s-%d", j.Metadata.Name, index), Cluster: c.BuildkiteCluster, Tags: tags,
			AfterJob: true, IdleTimeout: time.Duration(idle) * time.Second,
		})
	})
	return nil
}
