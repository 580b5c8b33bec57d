package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/node"
	"muster/testdata/e2e/process"
)

// cluster is a control plane and the nodes that stand in.
type cluster struct {
	*kube.Client
	name       string
	dir        string
	kubeconfig string
	processes  map[string]*process.Process
}

const adminToken = "e2e-admin"

// startCluster starts etcd, API server, controller manager and scheduler from empty
// data.
func startCluster(ctx context.Context, t tb, s *suite, name string) *cluster {
	c := &cluster{name: name, dir: filepath.Join(s.dir, name), processes: map[string]*process.Process{}}
	must(t, os.MkdirAll(c.dir, 0o700))
	c.writeFiles(t)
	ports := freePorts(t, 3)
	etcd, peer, api := ports[0], ports[1], ports[2]
	c.Client = kube.New(fmt.Sprintf("https://127.0.0.1:%d", api), adminToken)
	c.kubeconfig = filepath.Join(c.dir, "kubeconfig")
	must(t, writeKubeconfig(c.kubeconfig, c.URL, "default"))
	url := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	c.start(t, s, "etcd", "etcd", "--data-dir="+filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+url(etcd), "--advertise-client-urls="+url(etcd),
		"--listen-peer-urls="+url(peer), "--initial-advertise-peer-urls="+url(peer), "--initial-cluster=default="+url(peer))
	file := func(name string) string { return filepath.Join(c.dir, name) }
	c.start(t, s, "kube-apiserver", "kube-apiserver", "--etcd-servers="+url(etcd),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", api), "--cert-dir="+file("certificates"),
		"--endpoint-reconciler-type=none", "--token-auth-file="+file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-key-file="+file("accounts.pub"), "--service-account-signing-key-file="+file("accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
		"--default-unreachable-toleration-seconds=5", "--default-not-ready-toleration-seconds=5",
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false")
	c.waitReady(ctx, t)
	shared := []string{"--kubeconfig=" + c.kubeconfig, "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000"}
	c.start(t, s, "kube-controller-manager", "kube-controller-manager", append(shared, "--secure-port=0", "--use-service-account-credentials=false",
		"--service-account-private-key-file="+file("accounts.key"), "--node-monitor-grace-period=45s", "--node-monitor-period=2s",
		// How soon a namespace is looked at again that pods kept: half their grace, or this.
		"--namespace-sync-period=10s",
		"--concurrent-job-syncs=20", "--concurrent-gc-syncs=40",
		"--controllers=job-controller,ttl-after-finished-controller,garbage-collector-controller,namespace-controller,serviceaccount-controller,"+
			"cronjob-controller,resourcequota-controller,node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller,disruption-controller,deployment-controller,replicaset-controller,statefulset-controller")...)
	c.start(t, s, "kube-scheduler", "kube-scheduler", append(shared, "--secure-port=0")...)
	return c
}

// start starts a part of the control plane.
func (c *cluster) start(t tb, s *suite, name, part string, args ...string) {
	var err error
	c.processes[name], err = process.Start(s.logs, process.Command{
		Name: c.name + "-" + name, Path: s.programs["controlplane"].Path, Args: append([]string{part}, args...),
		Env: append(os.Environ(), "HOME="+c.dir), Dir: c.dir,
	})
	must(t, err)
}

func (c *cluster) waitReady(ctx context.Context, t tb) {
	must(t, eventually(ctx, 5*time.Minute, "the API server is ready", func() error {
		for _, p := range c.processes {
			if err := p.Died(); err != nil {
				return err
			}
		}
		return c.Get(ctx, "/readyz", nil)
	}))
}

func (c *cluster) close() {
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"} {
		if p := c.processes[name]; p != nil {
			p.Kill()
		}
	}
}

// writeFiles makes the keys of service accounts, and who may ask.
func (c *cluster) writeFiles(t tb) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	for name, content := range map[string][]byte{
		"accounts.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"accounts.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv":   []byte(adminToken + ",admin,admin,system:masters\n"),
	} {
		must(t, os.WriteFile(filepath.Join(c.dir, name), content, 0o600))
	}
}

// writeKubeconfig writes how the API server is reached.
func writeKubeconfig(path, url, namespace string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: e2e
contexts: [{name: e2e, context: {cluster: e2e, user: admin, namespace: %s}}]
clusters: [{name: e2e, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: %s}}]
`, namespace, url, adminToken)
	return os.WriteFile(path, []byte(text), 0o600)
}

// addNamespace makes a namespace in which only restricted pods run, with the agents'
// Secret.
func (c *cluster) addNamespace(ctx context.Context, name string) error {
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	secret := map[string]any{
		"metadata": map[string]any{"name": "buildkite-agent"}, "stringData": map[string]string{"token": agentToken},
	}
	return errors.Join(
		c.ensure(ctx, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name, "labels": labels}}),
		c.ensure(ctx, kube.Path("v1", "secrets", name, ""), secret),
	)
}

// ensure makes an object that may be there already.
func (c *cluster) ensure(ctx context.Context, path string, object any) error {
	err := c.Post(ctx, path, object)
	if kube.Exists(err) {
		return nil
	}
	return err
}

func (c *cluster) addNode(t tb, w *world, config node.Config) *node.Node {
	config.Client, config.Runner, config.Now, config.OnKill = c.Client, w.agents, time.Now, w.events.kill
	n, err := node.Start(w.ctx, config)
	must(t, err)
	return n
}

// freePorts are ports of loopback that nobody listens on now.
func freePorts(t tb, n int) []int {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// eventually asks until there is no error; after the patience it is an error.
func eventually(ctx context.Context, patience time.Duration, what string, check func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("not in %s: %s: %w", patience, what, errors.Join(ctx.Err(), err))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// define applies definitions of kinds, and waits until the API server serves them: a
// controller that begins before that ends at once.
func (c *cluster) define(ctx context.Context, t tb, patterns ...string) {
	must(t, c.applyFiles(ctx, patterns...))
	var all struct {
		Items []struct {
			Spec struct {
				Group    string
				Names    struct{ Plural string }
				Versions []struct {
					Name   string
					Served bool
				}
			} `json:"spec"`
		} `json:"items"`
	}
	must(t, c.Get(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &all))
	for _, d := range all.Items {
		for _, v := range d.Spec.Versions {
			if !v.Served {
				continue
			}
			kind := d.Spec.Group + "/" + v.Name
			must(t, eventually(ctx, 5*time.Minute, kind+" "+d.Spec.Names.Plural+" are served", func() error {
				return c.serves(ctx, kind, d.Spec.Names.Plural)
			}))
		}
	}
}

// serves is an error until the API server has a resource, and says so to those that ask
// what it has.
func (c *cluster) serves(ctx context.Context, version, plural string) error {
	var known struct {
		Resources []struct{ Name string } `json:"resources"`
	}
	if err := errors.Join(c.Get(ctx, kube.Path(version, plural, "", "")+"?limit=1", nil), c.Get(ctx, "/apis/"+version, &known)); err != nil {
		return err
	}
	for _, r := range known.Resources {
		if r.Name == plural {
			return nil
		}
	}
	return fmt.Errorf("%s is not among %v", plural, known.Resources)
}

// applyFiles applies what folders have, in order of name.
func (c *cluster) applyFiles(ctx context.Context, patterns ...string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return errors.Join(err, fmt.Errorf("no files %s", pattern))
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := c.Apply(ctx, strings.TrimPrefix(string(text), "---")); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}
