package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"muster/testdata/e2e/archive"
	"muster/testdata/e2e/process"
)

// realNode is a kubelet with containerd, runc and a bridge: containers on this machine.
type realNode struct {
	suite      *suite
	cluster    *cluster
	dir        string
	containerd *process.Process
	kubelet    *process.Process
	socket     string
	buildkite  *buildkite
}

const (
	realNodeName = "real"
	bridge       = "e2e-muster0"
	// The node's own address on the bridge: pods reach Buildkite there.
	bridgeAddress = "10.213.77.1"
)

// noContainers says why this machine runs no containers; nil: it does.
func noContainers() error {
	if os.Getuid() != 0 {
		return errors.New("not root")
	}
	for _, program := range []string{"containerd", "runc", "ctr", "ip", "/usr/lib/cni/bridge", "/bin/busybox", "/usr/bin/tini-static"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	return nil
}

// realNode is the machine's, which is started once.
func (w *world) realNode() (*realNode, error) {
	if w.real != nil {
		return w.real, nil
	}
	var err error
	w.real, err = startRealNode(w.ctx, w.suite, w.cluster, w.buildkite)
	return w.real, err
}

// startRealNode starts one, with the images that pods ask for.
func startRealNode(ctx context.Context, s *suite, c *cluster, b *buildkite) (*realNode, error) {
	n := &realNode{suite: s, cluster: c, buildkite: b}
	// Below /var/lib: sockets have short paths.
	dir, err := os.MkdirTemp("/var/lib", "muster-e2e-")
	if err != nil {
		return nil, err
	}
	n.dir, n.socket = dir, filepath.Join(dir, "containerd.sock")
	if err := n.network(ctx); err != nil {
		return n, err
	}
	if err := n.startContainerd(ctx); err != nil {
		return n, err
	}
	if err := n.images(ctx); err != nil {
		return n, err
	}
	return n, n.startKubelet(ctx)
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

// network makes the bridge and says how pods are put on it.
func (n *realNode) network(ctx context.Context) error {
	_ = runProgram(ctx, "ip", "link", "delete", bridge)
	return errors.Join(
		runProgram(ctx, "ip", "link", "add", bridge, "type", "bridge"),
		runProgram(ctx, "ip", "address", "add", bridgeAddress+"/24", "dev", bridge),
		runProgram(ctx, "ip", "link", "set", bridge, "up"),
		n.write("cni/10-bridge.conflist", `{"cniVersion": "0.4.0", "name": "e2e", "plugins": [{"type": "bridge", "bridge": "`+bridge+`", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "`+n.dir+`/addresses", "ranges": [[{"subnet": "10.213.77.0/24", "gateway": "`+bridgeAddress+`"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`),
	)
}

func (n *realNode) startContainerd(ctx context.Context) error {
	// restrict_oom_score_adj: where the machine's own limits the container's, runc fails.
	config := `version = 2
root = "` + n.dir + `/containerd"
state = "` + n.dir + `/run"
[grpc]
  address = "` + n.socket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "e2e.local/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + n.dir + `/cni"
`
	if err := n.write("config.toml", config); err != nil {
		return err
	}
	var err error
	n.containerd, err = process.Start(n.suite.logs, process.Command{
		Name: "containerd", Path: "containerd", Args: []string{"--config", filepath.Join(n.dir, "config.toml")}, Env: os.Environ(), Dir: n.dir,
	})
	if err != nil {
		return err
	}
	return eventually(ctx, time.Minute, "containerd answers", func() error {
		return runProgram(ctx, "ctr", "--address", n.socket, "version")
	})
}

// images imports the agent's image under the name that the base says, and the one that
// holds a pod's network.
func (n *realNode) images(ctx context.Context) error {
	read := func(path string) []byte {
		content, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		return content
	}
	links := map[string]string{}
	for _, name := range strings.Fields("sh date tr mkdir cat chmod sleep env id touch rm printf test [ ls echo true false uname hostname") {
		links["bin/"+name] = "busybox"
	}
	base, err := os.ReadFile(filepath.Join(n.suite.root, "base", "job.yaml"))
	if err != nil {
		return err
	}
	_, name, _ := bytes.Cut(base, []byte("image: "))
	name, _, _ = bytes.Cut(name, []byte("\n"))
	busybox := read("/bin/busybox")
	for _, image := range []archive.Image{
		{Name: "e2e.local/pause:1", Files: map[string][]byte{"bin/busybox": busybox}, Command: []string{"/bin/busybox", "sleep", "1000000000"}},
		{
			Name: string(name), Links: links, Folders: []string{"tmp", "home/ubuntu"},
			Files: map[string][]byte{
				"bin/busybox": busybox, "usr/bin/tini": read("/usr/bin/tini-static"), "usr/local/bin/buildkite-agent": read(n.suite.agent),
				"usr/local/bin/buildkite-agent-entrypoint": []byte("#!/bin/sh\nset -eu\nexec tini -g -- buildkite-agent \"$@\"\n"),
				"etc/passwd":                  []byte("root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n"),
				"etc/ssl/certs/buildkite.pem": read(n.buildkite.certificate),
			},
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "SSL_CERT_FILE=/etc/ssl/certs/buildkite.pem", "BUILDKITE_SHELL=/bin/sh -e -c"},
		},
	} {
		path := filepath.Join(n.dir, "image.tar")
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(image.Write(file), file.Close()); err != nil {
			return err
		}
		if err := n.load(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// load imports an image.
func (n *realNode) load(ctx context.Context, archive string) error {
	return runProgram(ctx, "ctr", "--address", n.socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", "native", archive)
}

func (n *realNode) startKubelet(ctx context.Context) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
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
podLogsDir: %s/pods
nodeStatusUpdateFrequency: 5s
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`, ports[0], n.socket, n.suite.logs)
	if err := n.write("kubelet.yaml", config); err != nil {
		return err
	}
	n.kubelet, err = process.Start(n.suite.logs, process.Command{
		Name: "kubelet", Path: n.suite.programs["kubelet"].Path, Dir: n.dir, Env: os.Environ(),
		Args: []string{
			"--config=" + filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig=" + n.cluster.kubeconfig, "--root-dir=" + filepath.Join(n.dir, "kubelet"),
			"--cert-dir=" + filepath.Join(n.dir, "kubelet-certificates"), "--hostname-override=" + realNodeName, "--node-ip=" + bridgeAddress,
		},
	})
	if err != nil {
		return err
	}
	return eventually(ctx, 2*time.Minute, "the node is ready", func() error {
		if err := n.kubelet.Died(); err != nil {
			return err
		}
		var object struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string } `json:"conditions"`
			} `json:"status"`
		}
		if err := n.cluster.Get(ctx, "/api/v1/nodes/"+realNodeName, &object); err != nil {
			return err
		}
		for _, c := range object.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", object.Status.Conditions)
	})
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
	_ = runProgram(ctx, "ip", "link", "delete", bridge)
	// What is still mounted is not this test's to remove.
	if mounts, err := os.ReadFile("/proc/self/mounts"); err == nil && !strings.Contains(string(mounts), n.dir+"/") {
		os.RemoveAll(n.dir)
	}
}
