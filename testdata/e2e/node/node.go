// Package node stands in for a node: it runs the pods that are bound to it without
// containers, as a kubelet does as far as an API server can tell. What a pod runs is
// the runner's affair.
package node

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"muster/testdata/e2e/kube"
)

// Runner runs the container of a pod.
type Runner interface {
	// Run starts it; an error is a container that cannot be started.
	Run(pod Pod, container Container, env map[string]string) (Running, error)
}

// Running is a container's process.
type Running interface {
	// Over is closed when it has ended; Exit is its code from then on.
	Over() <-chan struct{}
	Exit() int
	// Terminate is SIGTERM to process 1, Kill ends all of it.
	Terminate()
	Kill()
}

// Killed is a pod that somebody ended while it ran: the evidence of a killed agent.
type Killed struct {
	Pod Pod
	At  time.Time
	// Disrupted says that it was evicted, preempted or drained.
	Disrupted bool
}

// Config is what a node is made of.
type Config struct {
	Name   string
	Client *kube.Client
	Runner Runner
	// Now is the clock.
	Now func() time.Time
	// OnKill is told of each pod that is ended while it runs; nil: nobody is.
	OnKill func(Killed)
	// Pods is how many the node takes; zero means 5,000.
	Pods int
	// Reserved keeps pods away that do not tolerate the taint [ReservedTaint].
	Reserved bool
}

// ReservedTaint is the key of the taint of nodes that are for some pods alone.
const ReservedTaint = "e2e.muster.dev/reserved"

// MissingRegistry begins the names of images that cannot be pulled.
const MissingRegistry = "missing.example.com/"

// Node is a stand-in that runs.
type Node struct {
	Config

	cancel context.CancelFunc
	work   sync.WaitGroup

	// writes bounds how many statuses are written at a time, as a kubelet's own limit
	// does: thousands at once keep the API server from hearing that the node is well.
	writes chan struct{}

	mu    sync.Mutex
	pods  map[string]*podWorker // by UID
	held  bool
	ready chan struct{} // closed when pods may start
	lost  bool
}

// Start makes the node known and runs its pods until Stop.
func Start(ctx context.Context, c Config) (*Node, error) {
	if c.Pods == 0 {
		c.Pods = 5000
	}
	ctx, cancel := context.WithCancel(ctx)
	n := &Node{Config: c, cancel: cancel, pods: map[string]*podWorker{}, writes: make(chan struct{}, 16), ready: make(chan struct{})}
	close(n.ready)
	if err := n.register(ctx); err != nil {
		cancel()
		return nil, err
	}
	n.work.Go(func() { n.heartbeat(ctx) })
	n.work.Go(func() {
		c.Client.Watch(ctx, "/api/v1/pods?fieldSelector=spec.nodeName="+c.Name, func(e kube.Event) { n.see(ctx, e) })
	})
	return n, nil
}

// Stop ends all that runs on the node, without a word to the API server.
func (n *Node) Stop() {
	n.cancel()
	n.mu.Lock()
	for _, w := range n.pods {
		w.killNow()
	}
	n.mu.Unlock()
	n.work.Wait()
}

// Remove stops the node and takes it out of the cluster. A node that is left there and not
// ready keeps the pods of others where they are: with more than half of the nodes not ready,
// a small cluster evicts nothing (kubernetes.io/docs/concepts/architecture/nodes, "Rate
// limits on eviction").
func (n *Node) Remove(ctx context.Context) error {
	n.Stop()
	return n.Client.Delete(ctx, "/api/v1/nodes/"+n.Name, nil)
}

// Lose lets the node die: its processes end without a word, and nothing is heard of
// it any more.
func (n *Node) Lose() {
	n.mu.Lock()
	n.lost = true
	n.mu.Unlock()
	n.Stop()
}

// Hold keeps pods from starting, as where images are pulled for long, until Release.
func (n *Node) Hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.held {
		n.held, n.ready = true, make(chan struct{})
	}
}

// Release lets them start.
func (n *Node) Release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held {
		n.held = false
		close(n.ready)
	}
}

// Count is how many pods run.
func (n *Node) Count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	running := 0
	for _, w := range n.pods {
		if w.isRunning() {
			running++
		}
	}
	return running
}

func (n *Node) register(ctx context.Context) error {
	body := map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": n.Name, "labels": map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/hostname": n.Name, "kubernetes.io/arch": "amd64"}},
	}
	if n.Reserved {
		body["spec"] = map[string]any{"taints": []map[string]any{{"key": ReservedTaint, "effect": "NoSchedule"}}}
	}
	if err := n.Client.Post(ctx, "/api/v1/nodes", body); err != nil && !kube.Exists(err) {
		return err
	}
	return n.beat(ctx)
}

// beat says that the node is well, and how much it has.
func (n *Node) beat(ctx context.Context) error {
	now := n.Now().UTC()
	amount := map[string]string{"cpu": "20000", "memory": "100Ti", "ephemeral-storage": "1000Ti", "pods": fmt.Sprint(n.Pods)}
	status := map[string]any{
		"capacity": amount, "allocatable": amount,
		"conditions": []map[string]any{{
			"type": "Ready", "status": "True", "reason": "StandIn",
			"lastHeartbeatTime": now.Format(time.RFC3339), "lastTransitionTime": now.Format(time.RFC3339),
		}},
	}
	if err := n.Client.Strategic(ctx, "/api/v1/nodes/"+n.Name+"/status", map[string]any{"status": status}); err != nil {
		return err
	}
	lease := map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": n.Name, "namespace": "kube-node-lease"},
		"spec":     map[string]any{"holderIdentity": n.Name, "leaseDurationSeconds": 40, "renewTime": now.Format("2006-01-02T15:04:05.000000Z")},
	}
	raw, err := json.Marshal(lease)
	if err != nil {
		return err
	}
	path := "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + n.Name + "?fieldManager=" + n.Name + "&force=true"
	return n.Client.Do(ctx, "PATCH", path, "application/apply-patch+yaml", raw, nil)
}

func (n *Node) heartbeat(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
			_ = n.beat(ctx) // the next one is soon
		}
	}
}

// see takes what the API server says of a pod to the pod's worker.
func (n *Node) see(ctx context.Context, e kube.Event) {
	var pod Pod
	if json.Unmarshal(e.Object, &pod) != nil {
		return
	}
	n.mu.Lock()
	w := n.pods[pod.Metadata.UID]
	if w == nil && e.Type != "DELETED" {
		w = &podWorker{node: n, pod: pod, changed: make(chan struct{}, 1)}
		n.pods[pod.Metadata.UID] = w
		n.work.Go(func() {
			w.work(ctx)
			n.mu.Lock()
			delete(n.pods, pod.Metadata.UID)
			n.mu.Unlock()
		})
	}
	n.mu.Unlock()
	if w != nil {
		w.update(pod, e.Type == "DELETED")
	}
}

func (n *Node) mayStart() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}

func (n *Node) isLost() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// secret reads a key of a Secret.
func (n *Node) secret(ctx context.Context) func(namespace, name, key string) (string, error) {
	return func(namespace, name, key string) (string, error) {
		var s struct {
			Data map[string]string `json:"data"`
		}
		if err := n.Client.Get(ctx, kube.Path("v1", "secrets", namespace, name), &s); err != nil {
			return "", err
		}
		value, err := base64.StdEncoding.DecodeString(s.Data[key])
		return string(value), err
	}
}
