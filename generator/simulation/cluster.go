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

	"muster/generator/buildkite/fakebuildkite"
)

// Cluster is a Kubernetes cluster with a syncer: it runs the Jobs that an
// overlay lists, each once for as long as its manifest stays, and their pods
// are agents of the simulated Buildkite. It runs what the manifests say and
// knows nothing of how muster decides.
type Cluster struct {
	// Buildkite is where the agents register, and whose clock counts.
	Buildkite *fakebuildkite.Server
	// BuildkiteCluster is the Buildkite cluster of the agents' token.
	BuildkiteCluster string
	// Boot is the shortest and the longest time from a Job's creation to its
	// agent's registration.
	Boot [2]time.Duration
	// Trouble is what goes wrong; the zero value is a cluster without any.
	Trouble Trouble
	// Random makes boot times and troubles, the same number of draws for each
	// pod; it must be seeded for a run that can be repeated.
	Random *rand.Rand

	jobs    map[string]bool // Jobs created, by name
	pods    map[string]*pod // pods whose agents are connected, by agent
	waiting []*pod          // pods that wait for a node, in order
	running int             // pods that have a node
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
		if err := c.create(j); err != nil {
			return fmt.Errorf("running Job %s: %w", j.Metadata.Name, err)
		}
	}
	return nil
}

// create runs a Job as its annotations ask for it.
func (c *Cluster) create(j job) error {
	annotations := j.Spec.Template.Metadata.Annotations
	notAfter, err := time.Parse(time.RFC3339, annotations["muster.dev/not-after"])
	if err != nil {
		return err
	}
	idle, err := strconv.Atoi(annotations["muster.dev/idle-timeout"])
	if err != nil {
		return err
	}
	c.Run(Work{
		Name: j.Metadata.Name, Agents: j.Spec.Completions, Tags: strings.Split(annotations["muster.dev/agent-tags"], ","),
		NotAfter: notAfter, IdleTimeout: time.Duration(idle) * time.Second,
	})
	return nil
}
