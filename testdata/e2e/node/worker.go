package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"muster/testdata/e2e/kube"
)

// podWorker lives one pod.
type podWorker struct {
	node *Node

	mu      sync.Mutex
	pod     Pod
	gone    bool // from the API server
	running Running
	killed  bool // somebody was told

	changed chan struct{}
}

// update is what the API server says of the pod now.
func (w *podWorker) update(pod Pod, gone bool) {
	w.mu.Lock()
	w.pod, w.gone = pod, w.gone || gone
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *podWorker) state() (Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.gone
}

func (w *podWorker) isRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running != nil
}

func (w *podWorker) killNow() {
	w.mu.Lock()
	running := w.running
	w.mu.Unlock()
	if running != nil {
		running.Kill()
	}
}

// leaving says that the pod is to end: deleted, or gone already.
func (w *podWorker) leaving() bool {
	pod, gone := w.state()
	return gone || pod.Metadata.DeletionTimestamp != nil
}

// work starts the pod, waits for its end and says what came of it.
func (w *podWorker) work(ctx context.Context) {
	pod, _ := w.state()
	if pod.Status.Phase == "Succeeded" || pod.Status.Phase == "Failed" {
		w.waitForDeletion(ctx)
		return
	}
	for started := false; !started; {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
			if w.leaving() {
				w.finish(ctx, "Failed", -1)
				return
			}
		case <-w.node.mayStart():
			started = true
		}
	}
	running, err := w.start(ctx)
	if err != nil {
		w.finish(ctx, "Failed", 128)
		return
	}
	w.mu.Lock()
	w.running = running
	w.mu.Unlock()
	w.say(ctx, "Running", 0)
	w.attend(ctx, running)
	w.mu.Lock()
	w.running = nil
	w.mu.Unlock()
	if ctx.Err() != nil || w.node.isLost() {
		return
	}
	phase := "Succeeded"
	if running.Exit() != 0 {
		phase = "Failed"
	}
	w.finish(ctx, phase, running.Exit())
}

func (w *podWorker) start(ctx context.Context) (Running, error) {
	pod, _ := w.state()
	var env map[string]string
	for {
		var err error
		if strings.HasPrefix(pod.Spec.Containers[0].Image, MissingRegistry) {
			err = errors.New("ErrImagePull")
		} else if env, err = pod.environment(pod.Spec.Containers[0], w.node.secret(ctx)); err == nil {
			break
		}
		// Image and Secret may come: a kubelet tries again until the pod is deleted.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
		if w.leaving() {
			return nil, err
		}
	}
	return w.node.Runner.Run(pod, pod.Spec.Containers[0], env)
}

// attend waits until the process has ended, and passes on that it is to.
func (w *podWorker) attend(ctx context.Context, running Running) {
	var deadline <-chan time.Time
	for {
		select {
		case <-running.Over():
			return
		case <-ctx.Done():
			running.Kill()
			<-running.Over()
			return
		case <-deadline:
			running.Kill()
			deadline = nil
		case <-w.changed:
			if !w.leaving() || deadline != nil {
				continue
			}
			pod, gone := w.state()
			w.tell(pod)
			running.Terminate()
			grace := time.Duration(0)
			if pod.Metadata.DeletionGracePeriodSeconds != nil && !gone {
				grace = time.Duration(*pod.Metadata.DeletionGracePeriodSeconds) * time.Second
			}
			deadline = time.After(grace)
		}
	}
}

// tell says once that somebody ends the pod while it runs.
func (w *podWorker) tell(pod Pod) {
	if w.killed || w.node.OnKill == nil {
		return
	}
	w.killed = true
	w.node.OnKill(Killed{Pod: pod, At: w.node.Now(), Disrupted: pod.Disrupted()})
}

// say writes the pod's status, until it is taken.
func (w *podWorker) say(ctx context.Context, phase string, exit int) {
	pod, _ := w.state()
	now := w.node.Now().UTC().Format(time.RFC3339)
	ready := "False"
	state := map[string]any{"terminated": map[string]any{"exitCode": exit, "reason": phase, "startedAt": now, "finishedAt": now}}
	if phase == "Running" {
		ready = "True"
		state = map[string]any{"running": map[string]any{"startedAt": now}}
	}
	container := pod.Spec.Containers[0]
	status := map[string]any{
		"phase": phase,
		"conditions": []map[string]any{
			{"type": "Ready", "status": ready, "lastTransitionTime": now},
			{"type": "ContainersReady", "status": ready, "lastTransitionTime": now},
		},
		"containerStatuses": []map[string]any{{
			"name": container.Name, "image": container.Image, "imageID": "", "ready": ready == "True", "restartCount": 0, "state": state,
		}},
	}
	if phase == "Running" {
		status["startTime"], status["podIP"], status["hostIP"] = now, "127.0.0.1", "127.0.0.1"
	}
	body := map[string]any{"metadata": map[string]any{"uid": pod.Metadata.UID}, "status": status}
	path := kube.Path("v1", "pods", pod.Metadata.Namespace, pod.Metadata.Name)
	for ctx.Err() == nil {
		w.node.writes <- struct{}{}
		err := w.node.Client.Strategic(ctx, path+"/status", body)
		<-w.node.writes
		if err == nil || kube.Missing(err) || kube.Exists(err) {
			return
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// finish writes how the pod has ended, and lets the API server forget it once it is
// to be deleted.
func (w *podWorker) finish(ctx context.Context, phase string, exit int) {
	w.say(ctx, phase, exit)
	w.waitForDeletion(ctx)
}

func (w *podWorker) waitForDeletion(ctx context.Context) {
	for !w.leaving() {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
	}
	pod, gone := w.state()
	options := map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
		"preconditions": map[string]any{"uid": pod.Metadata.UID},
	}
	for !gone && ctx.Err() == nil {
		w.node.writes <- struct{}{}
		err := w.node.Client.Delete(ctx, kube.Path("v1", "pods", pod.Metadata.Namespace, pod.Metadata.Name), options)
		<-w.node.writes
		if err == nil || kube.Exists(err) {
			return
		}
		pause(ctx, 500*time.Millisecond)
		_, gone = w.state()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
