package generator_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"muster/generator/buildkite/fakebuildkite"
)

// kube is one Kubernetes cluster with a syncer, and everything that can go
// wrong in it. It runs what the manifests say and knows nothing of how muster
// decides. A pod's fate is drawn when its Job is created.
type kube struct {
	buildkite *fakebuildkite.Server
	fleet     *fleet
	overlay   string // its directory
	cluster   string // Buildkite's, of the agents' token
	random    *rand.Rand

	lag       time.Duration // between two syncs
	boot      [2]time.Duration
	skew      time.Duration // of the cluster's clock
	nodes     int           // pods that have room at once; zero is any number
	noShow    float64       // share of pods that never come up
	crash     float64       // share of agents that die without a word
	down      bool          // the syncer is
	broken    bool          // the image never starts
	untagged  string        // a tag that agents lose on the way
	onAgent   func(r registration)
	onProblem func(text string)

	jobs    map[string]*kubeJob
	created map[string]string // every manifest ever applied, by name
	waiting []*pod
	running int
	syncs   int
	pods    map[string]*pod // by agent
}

const timeToLive = time.Hour // ttlSecondsAfterFinished of every template here

// kubeJob is a Job in the cluster.
type kubeJob struct {
	name     string
	agents   int
	tags     []string
	notAfter time.Time
	idle     time.Duration
	priority int
	open     int // indexes that have not ended
	finished time.Time
	came     map[int]bool
}

// pod is one attempt at one index.
type pod struct {
	job     *kubeJob
	index   int
	boot    time.Duration
	noShow  bool
	dies    time.Duration // after registering; zero is never
	agent   string
	ended   bool
	drained bool
}

// registration is an agent that has come.
type registration struct {
	agent, dispatch string
	index           int
	late            time.Duration // after its lease, by the true time
	again           bool          // the index had come before
}

type kubeManifest struct {
	Metadata struct{ Name string }
	Spec     struct {
		Completions int
		Template    struct {
			Metadata struct{ Annotations map[string]string }
		}
	}
}

// start lets the syncer look now and every lag from now on.
func (k *kube) start() {
	k.jobs, k.pods, k.created = map[string]*kubeJob{}, map[string]*pod{}, map[string]string{}
	k.tick()
}

func (k *kube) tick() {
	if !k.down {
		k.sync()
	}
	k.buildkite.At(k.buildkite.Now().Add(k.lag), k.tick)
}

// sync applies what the tip holds. An overlay that does not build is left as it
// is; Jobs whose manifests are gone stay (Prune=false).
func (k *kube) sync() {
	t := k.fleet.head().tree
	dir := path.Join(k.overlay, "dispatches")
	var list struct{ Resources []string }
	if yaml.Unmarshal(t.files[path.Join(dir, "kustomization.yaml")], &list) != nil {
		return
	}
	manifests := make([]kubeManifest, len(list.Resources))
	for i, name := range list.Resources {
		text, ok := t.files[path.Join(dir, name)]
		if !ok {
			return
		}
		if k.jobs[strings.TrimSuffix(name, ".yaml")] != nil && k.created[strings.TrimSuffix(name, ".yaml")] == string(text) {
			continue
		}
		if yaml.Unmarshal(text, &manifests[i]) != nil || manifests[i].Metadata.Name == "" {
			return
		}
	}
	k.syncs++
	for i, name := range list.Resources {
		if m := manifests[i]; m.Metadata.Name != "" {
			k.apply(m, string(t.files[path.Join(dir, name)]))
		}
	}
}

func (k *kube) apply(m kubeManifest, text string) {
	name := m.Metadata.Name
	if before, ok := k.created[name]; ok && before != text {
		k.onProblem(fmt.Sprintf("the manifest of Job %s was edited", name))
	}
	k.created[name] = text
	if k.jobs[name] != nil {
		return
	}
	a := m.Spec.Template.Metadata.Annotations
	notAfter, err := time.Parse(time.RFC3339, a["muster.dev/not-after"])
	idle, idleErr := strconv.Atoi(a["muster.dev/idle-timeout"])
	if err != nil || idleErr != nil {
		return // the pods refuse to start, and fail
	}
	j := &kubeJob{
		name: name, agents: m.Spec.Completions, tags: strings.Split(a["muster.dev/agent-tags"], ","),
		notAfter: notAfter, idle: time.Duration(idle) * time.Second, priority: 2, open: m.Spec.Completions, came: map[int]bool{},
	}
	if a["muster.dev/purpose"] == "upkeep" {
		j.priority = 1
	}
	k.jobs[name] = j
	for index := range j.agents {
		k.create(j, index)
	}
}

func (k *kube) create(j *kubeJob, index int) {
	p := &pod{job: j, index: index, boot: k.boot[0] + time.Duration(k.random.Int64N(int64(k.boot[1]-k.boot[0])+1))}
	noShow, dies, when := k.random.Float64(), k.random.Float64(), k.random.Int64N(int64(20*time.Minute))
	p.noShow = noShow < k.noShow || k.broken
	if dies < k.crash {
		p.dies = 1 + time.Duration(when)
	}
	if k.nodes > 0 && k.running >= k.nodes {
		k.waiting = append(k.waiting, p)
		return
	}
	k.schedule(p)
}

func (k *kube) schedule(p *pod) {
	k.running++
	k.buildkite.At(k.buildkite.Now().Add(p.boot), func() { k.register(p) })
}

// register does what the base's command does.
func (k *kube) register(p *pod) {
	now, j := k.buildkite.Now(), p.job
	if p.noShow || k.jobs[j.name] != j || now.Add(k.skew).Truncate(time.Second).After(j.notAfter) {
		k.end(p, true)
		return
	}
	tags := slices.DeleteFunc(slices.Clone(j.tags), func(t string) bool { return t == k.untagged })
	id, err := k.buildkite.Connect(fakebuildkite.Agent{
		Name: fmt.Sprintf("%s-%d", j.name, p.index), Cluster: k.cluster, Tags: append(tags, fmt.Sprintf("index=%d", p.index)),
		Priority: j.priority, AfterJob: true, IdleTimeout: j.idle,
	})
	if err != nil {
		k.end(p, true)
		return
	}
	p.agent = id
	k.pods[id] = p
	if k.onAgent != nil {
		k.onAgent(registration{agent: id, dispatch: j.name, index: p.index, late: now.Sub(j.notAfter), again: j.came[p.index]})
	}
	j.came[p.index] = true
	if p.dies > 0 {
		k.buildkite.At(now.Add(p.dies), func() { k.kill(p) })
	}
}

// kill ends an agent without a word: its index has failed.
func (k *kube) kill(p *pod) {
	if !p.ended {
		k.buildkite.LoseAgent(p.agent)
		k.end(p, true)
	}
}

// drain takes a pod's node away: an idle agent leaves, one that works is killed
// when its time is up. The index is run again.
func (k *kube) drain(p *pod, busy bool) {
	if p.ended || p.agent == "" {
		return
	}
	p.drained = true
	if busy {
		k.buildkite.LoseAgent(p.agent)
		k.end(p, false)
		return
	}
	k.buildkite.StopAgent(p.agent) // comes back through agentEnded
}

// agentEnded is called when an agent has left.
func (k *kube) agentEnded(a fakebuildkite.AgentRecord) {
	if p := k.pods[a.ID]; p != nil {
		k.end(p, !p.drained)
	}
}

// end frees a pod's node; done says that its index has ended with it.
func (k *kube) end(p *pod, done bool) {
	if p.ended {
		return
	}
	p.ended = true
	delete(k.pods, p.agent)
	k.running--
	j := p.job
	if done {
		if j.open--; j.open == 0 {
			j.finished = k.buildkite.Now()
			k.buildkite.At(j.finished.Add(timeToLive), func() {
				if k.jobs[j.name] == j {
					delete(k.jobs, j.name)
				}
			})
		}
	} else if k.jobs[j.name] == j {
		k.create(j, p.index)
	}
	for len(k.waiting) > 0 && (k.nodes == 0 || k.running < k.nodes) {
		next := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.schedule(next)
	}
}
