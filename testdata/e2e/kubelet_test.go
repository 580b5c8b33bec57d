package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"muster/testdata/e2e/node"
	"muster/testdata/e2e/process"
)

// realNode is a kubelet with containerd, runc and a bridge: containers on this machine.
type realNode struct {
	name       string
	bridge     string
	network    string // the first three numbers of its pods' addresses
	suite      *suite
	cluster    *cluster
	dir        string
	containerd *process.Process
	kubelet    *process.Process
	socket     string
	buildkite  *buildkite
}

const (
	realNodeName = "real" // of the first; the others' names begin with it
	// The label of all of them.
	realNodeLabel = "e2e.muster.dev/real"
)

var (
	// firstNetwork is the third number of the addresses of the first node's pods; the
	// second node has the next one. Suites that run beside each other have others.
	firstNetwork = 100 + os.Getpid()%70*2
	// bridgeAddress is the first node's own on its bridge: pods of all reach git and
	// Buildkite there.
	bridgeAddress = fmt.Sprintf("10.213.%d.1", firstNetwork)
)

// noContainers says why this machine runs no containers; nil: it does.
func noContainers() error {
	if os.Getuid() != 0 {
		return errors.New("not root")
	}
	for _, program := range []string{"containerd", "runc", "ctr", "ip", "/usr/lib/cni/bridge", "/bin/busybox", "tini", "ldd"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	_, err := os.Stat(fakeTime)
	return err
}

// realNodes are N nodes of this machine, which are started once.
func (w *world) realNodes(t tb, count int) []*realNode {
	for i := len(w.real); i < count; i++ {
		n := &realNode{
			name: realNodeName, bridge: fmt.Sprintf("e2e-muster%d", firstNetwork+i), network: fmt.Sprintf("10.213.%d", firstNetwork+i),
			suite: w.suite, cluster: w.cluster, buildkite: w.buildkite,
		}
		if i > 0 {
			n.name += fmt.Sprintf("-%d", i+1)
		}
		w.real = append(w.real, n)
		n.start(w.ctx, t)
		if i > 0 {
			continue
		}
		var err error
		w.realBuildkite, err = w.buildkite.listen(bridgeAddress)
		must(t, err)
		results.ran("`TestRealNode`, `TestDeployed`: kubelet " + w.suite.programs["kubelet"].Version + ", Debian's containerd; the agent image built from its Dockerfile")
	}
	return w.real[:count]
}

// start starts it, with the images that pods ask for.
func (n *realNode) start(ctx context.Context, t tb) {
	// Below /var/lib: sockets have short paths.
	dir, err := os.MkdirTemp("/var/lib", "muster-e2e-")
	must(t, err)
	n.dir, n.socket = dir, filepath.Join(dir, "containerd.sock")
	must(t, n.addBridge(ctx))
	n.startContainerd(ctx, t)
	n.images(ctx, t)
	n.startKubelet(ctx, t)
}

func (n *realNode) write(name, text string) error {
	path := filepath.Join(n.dir, name)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// runProgram runs a program to its end.
func runProgram(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// addBridge makes the bridge and says how pods are put on it.
func (n *realNode) addBridge(ctx context.Context) error {
	_ = runProgram(ctx, "ip", "link", "delete", n.bridge)
	return errors.Join(
		runProgram(ctx, "ip", "link", "add", n.bridge, "type", "bridge"),
		runProgram(ctx, "ip", "address", "add", n.network+".1/24", "dev", n.bridge),
		runProgram(ctx, "ip", "link", "set", n.bridge, "up"),
		n.write("cni/10-bridge.conflist", `{"cniVersion": "0.4.0", "name": "e2e", "plugins": [{"type": "bridge", "bridge": "`+n.bridge+`", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "`+n.dir+`/addresses", "ranges": [[{"subnet": "`+n.network+`.0/24", "gateway": "`+n.network+`.1"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`),
	)
}

func (n *realNode) startContainerd(ctx context.Context, t tb) {
	// restrict_oom_score_adj: where the machine's own limits the container's, runc fails.
	config := `version = 2
root = "` + n.dir + `/containerd"
state = "` + n.dir + `/run"
[grpc]
  address = "` + n.socket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + n.dir + `/cni"
`
	must(t, n.write("config.toml", config))
	var err error
	n.containerd, err = process.Start(n.suite.logs, process.Command{
		Name: n.name + "-containerd", Path: "containerd", Args: []string{"--config", filepath.Join(n.dir, "config.toml")}, Env: os.Environ(), Dir: n.dir,
	})
	must(t, err)
	must(t, n.containerdAnswers(ctx))
}

func (n *realNode) containerdAnswers(ctx context.Context) error {
	return eventually(ctx, time.Minute, "containerd answers", func() error {
		return runProgram(ctx, "ctr", "--address", n.socket, "version")
	})
}

func (n *realNode) startKubelet(ctx context.Context, t tb) {
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
readOnlyPort: 0
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
resolvConf: ""
localStorageCapacityIsolation: true
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
registerWithTaints: [{key: e2e.muster.dev/reserved, effect: NoSchedule}]
podLogsDir: %s
nodeStatusUpdateFrequency: 5s
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`, freePorts(t, 1)[0], n.socket, filepath.Join(n.suite.logs, n.name+"-pods"))
	must(t, n.write("kubelet.yaml", config))
	var err error
	n.kubelet, err = process.Start(n.suite.logs, process.Command{
		Name: n.name + "-kubelet", Path: n.suite.programs["kubelet"].Path, Dir: n.dir, Env: os.Environ(),
		Args: []string{
			"--config=" + filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig=" + n.cluster.kubeconfig, "--root-dir=" + filepath.Join(n.dir, "kubelet"),
			"--cert-dir=" + filepath.Join(n.dir, "kubelet-certificates"), "--hostname-override=" + n.name, "--node-ip=" + n.network + ".1",
			"--node-labels=" + realNodeLabel + "=yes",
		},
	})
	must(t, err)
	must(t, n.isReady(ctx))
}

// isReady waits until the node is ready.
func (n *realNode) isReady(ctx context.Context) error {
	return eventually(ctx, 2*time.Minute, "the node "+n.name+" is ready", func() error {
		if err := n.kubelet.Died(); err != nil {
			return err
		}
		if status, err := n.cluster.readiness(ctx, n.name); status != "True" {
			return errors.Join(fmt.Errorf("it is %q", status), err)
		}
		return nil
	})
}

// readiness is what a node's condition Ready says: True, False, or Unknown where
// nothing was heard of it.
func (c *cluster) readiness(ctx context.Context, name string) (string, error) {
	var object struct {
		Status node.Status `json:"status"`
	}
	if err := c.Get(ctx, "/api/v1/nodes/"+name, &object); err != nil {
		return "", err
	}
	for _, c := range object.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status, nil
		}
	}
	return "", nil
}

// cordon keeps new pods off the node, or lets them come again.
func (n *realNode) cordon(ctx context.Context, off bool) error {
	return n.cluster.Merge(ctx, "/api/v1/nodes/"+n.name, map[string]any{"spec": map[string]any{"unschedulable": off}})
}

// lose lets the machine die, as far as anybody can tell: containers and those who
// watch over them end without a word, and nothing is heard of the node any more.
func (n *realNode) lose() {
	n.kubelet.Kill()
	n.containerd.Kill()
	for _, pid := range process.Find("containerd-shim", n.socket) {
		process.KillTree(pid)
	}
}

// comeBack starts it again, with what was on its disk.
func (n *realNode) comeBack(ctx context.Context) error {
	if err := n.containerd.Start(); err != nil {
		return err
	}
	if err := n.containerdAnswers(ctx); err != nil {
		return err
	}
	if err := n.kubelet.Start(); err != nil {
		return err
	}
	return n.isReady(ctx)
}

// close ends containers, kubelet and containerd, and takes mounts and bridge away.
func (n *realNode) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if n.kubelet != nil {
		n.kubelet.Kill()
	}
	ctr := []string{"--address", n.socket, "--namespace", "k8s.io"}
	out, _ := exec.CommandContext(ctx, "ctr", append(ctr, "tasks", "list", "--quiet")...).Output()
	for _, task := range strings.Fields(string(out)) {
		_ = runProgram(ctx, "ctr", append(ctr, "tasks", "kill", "--signal", "SIGKILL", task)...)
		_ = runProgram(ctx, "ctr", append(ctr, "tasks", "delete", "--force", task)...)
	}
	if n.containerd != nil {
		n.containerd.Stop(5 * time.Second)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], n.dir+"/") {
			_ = runProgram(ctx, "umount", "--lazy", fields[1])
		}
	}
	_ = runProgram(ctx, "ip", "link", "delete", n.bridge)
	// What is still mounted is not this test's to remove.
	if mounts, err := os.ReadFile("/proc/self/mounts"); err == nil && !strings.Contains(string(mounts), n.dir+"/") {
		os.RemoveAll(n.dir)
	}
}
