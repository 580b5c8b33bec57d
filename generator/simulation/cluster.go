// Package simulation plays the world around muster: the syncer and the
// Kubernetes cluster that turn committed Jobs into agents of a simulated
// Buildkite, and workloads and other algorithms to compare muster with.
package simulation

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"muster/generator/buildkite/fakebuildkite"
)

// Cluster is a Kubernetes cluster with a syncer: it runs the Jobs that an
// overlay lists, and their pods are agents of the simulated Buildkite. It runs
// what the manifests say and knows nothing of how muster decides. What goes
// wrong is the caller's to say: by the fates of pods, by its fields, which may
// be changed as time goes by, and by its methods.
type Cluster struct {
	// Buildkite is where the agents register, and whose clock counts. Its
	// OnAgentEnd must call [Cluster.AgentEnded].
	Buildkite *fakebuildkite.Server
	// BuildkiteCluster is the Buildkite cluster of the agents' token.
	BuildkiteCluster string
	// Fate returns the fate of each pod when the pod is created.
	Fate func() Fate
	// Nodes is how many pods have room at once; zero has room for all. The
	// others wait, first come first served. See [Cluster.SetNodes].
	Nodes int
	// Skew is how far the cluster's clock is ahead.
	Skew time.Duration
	// Untagged is a tag that agents lose on the way, as when a template
	// overwrites it; * is all of them.
	Untagged string
	// Patches says that the syncer patches Jobs that are there, as Argo CD does; Flux
	// leaves them as they are (annotation ssa: IfNotPresent of base/job.yaml).
	Patches bool
	// NoHook says that the agents' template is without the hook of base/job.yaml
	// that looks at the lease again before the agent connects.
	NoHook bool
	// Registered is called when an agent has registered, Exited when a pod has ended; both are
	// optional.
	Registered, Exited func(*Pod)

	jobs    map[string]*Job   // those that are there, by name
	created map[string]string // the manifests of all that ever were, by name
	pods    map[string]*Pod   // those whose agents are connected, by agent
	trying  []*Pod            // those whose agents try to register or to connect, in order
	waiting []*Pod            // for a node, in order
	running int               // pods that have a node
}

// Job is a Kubernetes Job of agents. It is Indexed: each of its pods is an
// attempt at one index, 0 to Agents-1
// (kubernetes.io/docs/concepts/workloads/controllers/job "Completion mode").
type Job struct {
	Name   string
	Agents int
	// Tags are the tags of each agent, in addition to its index.
	Tags []string
	// Priority is the agents' (buildkite-agent start --priority).
	Priority int
	// NotAfter is the end of the lease: an agent that starts later exits at once. Zero means that
	// the Job has no lease.
	NotAfter time.Time
	// IdleTimeout is how long each agent waits for a job.
	IdleTimeout time.Duration
	// Uptime is for how long each agent takes jobs; zero: it takes one.
	Uptime time.Duration
	// TTL is how long the Job stays after its last index has ended; zero is for
	// ever (kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished).
	TTL time.Duration
	// Life is how the agents live, where they are not those of base/job.yaml.
	Life Life

	open       int          // indexes that have not ended
	registered map[int]bool // indexes that have registered
	pods       map[int]*Pod // the last of each index
}

// ErrEdited is returned by [Cluster.Sync] for a manifest that is not what its
// Job was made from, or last patched with. muster never writes such a one.
var ErrEdited = errors.New("its manifest was edited")

// Sync applies a new commit like Argo CD and Flux: it creates the Jobs of an overlay that do not
// exist, including those that existed before. It leaves existing Jobs alone, or patches them: see
// Patches and [Cluster.patch]. A Job whose manifest has left git stays: base/job.yaml tells both
// not to prune it (docs/explanation/agent-job.md). An overlay with an unreadable file does not
// build, and stays as it is.
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
	var jobs []Job
	var manifests []string
	var edited error
	for _, file := range list.Resources {
		text, err := fs.ReadFile(tree, path.Join(dir, file))
		if err != nil {
			return fmt.Errorf("syncing %s: %w", overlay, err)
		}
		if name := strings.TrimSuffix(file, ".yaml"); c.jobs[name] != nil && c.created[name] == string(text) {
			continue
		}
		j, err := readJob(text)
		if err != nil {
			return fmt.Errorf("syncing %s: %s: %w", overlay, file, err)
		}
		if before, known := c.created[j.Name]; known && before != string(text) {
			edited = &EditedError{Job: j.Name}
			if c.jobs[j.Name] != nil {
				c.patch(j, string(text))
				continue
			}
		}
		jobs, manifests = append(jobs, j), append(manifests, string(text))
	}
	for i, j := range jobs {
		c.Run(j)
		c.created[j.Name] = manifests[i]
	}
	return edited
}

// EditedError is an [ErrEdited] that names the last edited Job.
type EditedError struct{ Job string }

// Error returns the name of the Job and the text of ErrEdited.
func (e *EditedError) Error() string { return e.Job + ": " + ErrEdited.Error() }

// Unwrap returns ErrEdited.
func (e *EditedError) Unwrap() error { return ErrEdited }

// patch is a syncer's patch of a Job that is there. Its pod template is immutable,
// and an Indexed Job's completions change only together with its parallelism, to
// the same number: then pods of the highest indexes are ended, or more are made
// (kubernetes.io/docs/concepts/workloads/controllers/job "Elastic Indexed Jobs"),
// of an index whose pod still finishes its job once that has ended (podReplacementPolicy
// Failed; firstPendingIndexes in pkg/controller/job of Kubernetes 1.37).
// Anything else the API server refuses.
func (c *Cluster) patch(to Job, text string) {
	j := c.jobs[to.Name]
	same := slices.Equal(j.Tags, to.Tags) && j.Priority == to.Priority && j.NotAfter.Equal(to.NotAfter) && j.IdleTimeout == to.IdleTimeout && j.Uptime == to.Uptime
	if !c.Patches || !same || j.open == 0 {
		return
	}
	c.created[to.Name] = text
	from := j.Agents
	j.Agents = to.Agents
	for index := to.Agents; index < from; index++ {
		if p := j.pods[index]; p.Agent != "" {
			c.Kill(p)
		} else {
			c.drop(p)
		}
	}
	for index := from; index < to.Agents; index++ {
		j.open++
		if p := c.ending(j, index); p != nil {
			p.spare, p.drained, j.pods[index] = false, true, p
			continue
		}
		c.create(j, index)
	}
}

// ending returns the pod of an index that finishes its job although it is not its index's pod; nil without one.
func (c *Cluster) ending(j *Job, index int) *Pod {
	for _, p := range c.pods {
		if p.Job == j && p.Index == index && p.spare {
			return p
		}
	}
	return nil
}

// drop ends a pod whose agent has not connected.
func (c *Cluster) drop(p *Pod) {
	switch {
	case p.ended:
	case slices.Contains(c.trying, p):
		p.stop()
		c.giveUp(p)
	default:
		c.waiting = slices.DeleteFunc(c.waiting, func(x *Pod) bool { return x == p })
		c.end(p, true)
	}
}

// readJob reads as much of a Job's manifest as running it takes. The
// annotations are those that base/job.yaml hands to the agent's command, and
// the priorities are that command's.
func readJob(text []byte) (Job, error) {
	var m struct {
		Metadata struct{ Name string }
		Spec     struct {
			Completions             int
			TTLSecondsAfterFinished int
			Template                struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		return Job{}, err
	}
	if m.Metadata.Name == "" {
		return Job{}, errors.New("has no name")
	}
	annotations := m.Spec.Template.Metadata.Annotations
	notAfter, err := time.Parse(time.RFC3339, annotations["muster.dev/not-after"])
	if err != nil {
		return Job{}, err
	}
	idle, err := strconv.Atoi(annotations["muster.dev/idle-timeout"])
	if err != nil {
		return Job{}, err
	}
	uptime := 0
	if said, ok := annotations["muster.dev/uptime"]; ok {
		if uptime, err = strconv.Atoi(said); err != nil {
			return Job{}, err
		}
	}
	priority := 2
	if annotations["muster.dev/purpose"] == "warm-pool" {
		priority = 1
	}
	return Job{
		Name: m.Metadata.Name, Agents: m.Spec.Completions, Tags: strings.Split(annotations["muster.dev/agent-tags"], ","),
		Priority: priority, NotAfter: notAfter, IdleTimeout: time.Duration(idle) * time.Second,
		Uptime: time.Duration(uptime) * time.Second, TTL: time.Duration(m.Spec.TTLSecondsAfterFinished) * time.Second,
	}, nil
}

// Run creates a Job and its pods, unless it is there.
func (c *Cluster) Run(j Job) {
	if c.jobs == nil {
		c.jobs, c.created, c.pods = map[string]*Job{}, map[string]string{}, map[string]*Pod{}
	}
	if c.jobs[j.Name] != nil {
		return
	}
	j.open, j.registered, j.pods = j.Agents, map[int]bool{}, map[int]*Pod{}
	c.jobs[j.Name], c.created[j.Name] = &j, ""
	for index := range j.Agents {
		c.create(&j, index)
	}
}

// Jobs lists the Jobs that are there, by name.
func (c *Cluster) Jobs() []string { return slices.Sorted(maps.Keys(c.jobs)) }

// Has reports whether a Job is there.
func (c *Cluster) Has(job string) bool { return c.jobs[job] != nil }

// Created reports whether a Job was ever made.
func (c *Cluster) Created(job string) bool { _, ok := c.created[job]; return ok }

// Delete deletes a Job like a person: its agents are gone, its pods that are starting never
// register, and it is created once more while its manifest is in git.
func (c *Cluster) Delete(job string) {
	j := c.jobs[job]
	delete(c.jobs, job)
	for _, p := range j.pods {
		if p.twin != nil { // neither outlives the Job
			p.twin.twin, p.twin = nil, nil
		}
	}
	for _, p := range slices.Clone(c.trying) {
		if p.Job == j {
			p.stop()
			c.giveUp(p)
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(c.pods)) {
		if p := c.pods[agent]; p != nil && p.Job == j {
			c.Kill(p)
		}
	}
}

// finish notes that one more index of a Job has ended.
func (c *Cluster) finish(j *Job) {
	if j.open--; j.open > 0 || j.TTL == 0 {
		return
	}
	c.Buildkite.At(c.Buildkite.Now().Add(j.TTL), func() {
		if c.jobs[j.Name] == j {
			delete(c.jobs, j.Name)
		}
	})
}
