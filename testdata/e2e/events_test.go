package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
)

// events are what the cluster has told of Jobs and pods.
type events struct {
	mu     sync.Mutex
	jobs   map[string]*seenJob // by UID
	pods   map[string]*seenPod // by UID
	killed []node.Killed
}

// seenJob is one life of a Job.
type seenJob struct {
	UID, Name, Namespace, Overlay string
	Completions                   int
	Added                         time.Time
	Running                       time.Time // the first pod's
	Finished                      time.Time // Complete or Failed
	Failed                        bool
	Deleted                       time.Time
	Succeeded, FailedPods         int
}

// seenPod is one life of a pod.
type seenPod struct {
	UID, Name, Job, Overlay string
	Index                   int
	Created                 time.Time // by the API server's clock, to the second
	Added, Scheduled        time.Time
	Running                 time.Time
	Phase                   string
	Ready                   bool // it was once
	killed                  bool
}

type jobObject struct {
	Metadata node.Metadata `json:"metadata"`
	Spec     struct {
		Completions *int `json:"completions"`
	} `json:"spec"`
	Status struct {
		Succeeded  int              `json:"succeeded"`
		Failed     int              `json:"failed"`
		Conditions []node.Condition `json:"conditions"`
	} `json:"status"`
}

func watchEvents(ctx context.Context, c *cluster) *events {
	e := &events{jobs: map[string]*seenJob{}, pods: map[string]*seenPod{}}
	go c.Watch(ctx, "/apis/batch/v1/jobs", e.job)
	go c.Watch(ctx, "/api/v1/pods", e.pod)
	return e
}

func (e *events) job(event kube.Event) {
	now := time.Now()
	var o jobObject
	if json.Unmarshal(event.Object, &o) != nil || o.Metadata.Labels["muster.dev/dispatch"] == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[o.Metadata.UID]
	if j == nil {
		j = &seenJob{
			UID: o.Metadata.UID, Name: o.Metadata.Name, Namespace: o.Metadata.Namespace, Overlay: o.Metadata.Labels["muster.dev/overlay"], Added: now,
		}
		e.jobs[o.Metadata.UID] = j
	}
	if o.Spec.Completions != nil {
		j.Completions = *o.Spec.Completions
	}
	j.Succeeded, j.FailedPods = o.Status.Succeeded, o.Status.Failed
	for _, c := range o.Status.Conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") && j.Finished.IsZero() {
			j.Finished, j.Failed = now, c.Type == "Failed"
		}
	}
	if event.Type == "DELETED" {
		j.Deleted = now
	}
}

func (e *events) pod(event kube.Event) {
	now := time.Now()
	var o node.Pod
	if json.Unmarshal(event.Object, &o) != nil || o.Metadata.Labels["muster.dev/dispatch"] == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.pods[o.Metadata.UID]
	if p == nil {
		p = &seenPod{
			UID: o.Metadata.UID, Name: o.Metadata.Name, Job: o.Metadata.Labels["muster.dev/dispatch"], Overlay: o.Metadata.Labels["muster.dev/overlay"],
			Created: o.Metadata.CreationTimestamp, Added: now,
		}
		p.Index, _ = strconv.Atoi(o.Metadata.Annotations["batch.kubernetes.io/job-completion-index"])
		e.pods[o.Metadata.UID] = p
	}
	if p.Scheduled.IsZero() && o.Spec.NodeName != "" {
		p.Scheduled = now
	}
	p.Phase, p.Ready = o.Status.Phase, p.Ready || slices.ContainsFunc(o.Status.Conditions, func(c node.Condition) bool { return c.Type == "Ready" && c.Status == "True" })
	// Of a real node the API server is the only witness.
	if strings.HasPrefix(o.Spec.NodeName, realNodeName) && o.Metadata.DeletionTimestamp != nil && p.Phase == "Running" && !p.killed {
		p.killed = true
		e.killed = append(e.killed, node.Killed{Pod: o, At: now, Disrupted: o.Disrupted()})
	}
	if p.Running.IsZero() && o.Status.Phase == "Running" {
		p.Running = now
		for _, j := range e.jobs {
			if j.Name == p.Job && j.Running.IsZero() {
				j.Running = now
			}
		}
	}
}

// kill notes a pod that somebody ended while it ran.
func (e *events) kill(k node.Killed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killed = append(e.killed, k)
}

// killedOf are the pods of an overlay that were ended while they ran.
func (e *events) killedOf(overlay string) []node.Killed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.killed), func(k node.Killed) bool {
		return k.Pod.Metadata.Labels["muster.dev/overlay"] != overlay
	})
}

// jobsOf are the lives of an overlay's Jobs, by the dispatch's name.
func (e *events) jobsOf(overlay string) map[string][]seenJob {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := map[string][]seenJob{}
	for j := range maps.Values(e.jobs) {
		if j.Overlay == overlay {
			found[j.Name] = append(found[j.Name], *j)
		}
	}
	return found
}

// podsOf are the lives of the pods of an overlay.
func (e *events) podsOf(overlay string) []seenPod {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []seenPod
	for p := range maps.Values(e.pods) {
		if p.Overlay == overlay {
			found = append(found, *p)
		}
	}
	return found
}
