package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/process"
)

// argoCD is the application controller, the repo server, the API server and redis.
type argoCD struct {
	suite     *suite
	cluster   *cluster
	processes map[string]*process.Process
	url       string
	// What a further part needs to be told.
	kubeconfig, repoServer string
	env                    []string
}

func (a *argoCD) name() string                       { return "argocd" }
func (a *argoCD) parts() map[string]*process.Process { return a.processes }
func (a *argoCD) versions() string {
	return fmt.Sprintf("Argo CD %s, kustomize %s", a.suite.programs["argocd"].Version, a.suite.programs["kustomize"].Version)
}

func (a *argoCD) object(overlay string) string {
	return kube.Path("argoproj.io/v1alpha1", "applications", "argocd", "agents-"+overlay)
}

func (a *argoCD) notify() string {
	return "kind=argocd,name=argocd,url=" + a.url + ",secret-file=" + a.suite.secretFile()
}

func startArgoCD(ctx context.Context, t tb, s *suite, c *cluster) *argoCD {
	a := &argoCD{suite: s, cluster: c, processes: map[string]*process.Process{}}
	program := s.programs["argocd"]
	c.define(ctx, t, filepath.Join(program.Dir, "crds", "*.yaml"))
	must(t, a.configure(ctx))
	ports := freePorts(t, 6)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	port := func(i int) string { return fmt.Sprint(ports[i]) }
	s.part(t, a.processes, "redis", "redis-server", nil, "--port", port(0), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	a.kubeconfig, a.repoServer = filepath.Join(c.dir, "kubeconfig-argocd"), at(1)
	must(t, writeKubeconfig(a.kubeconfig, c.URL, "argocd"))
	home := filepath.Join(s.dir, "argocd")
	a.env = []string{
		"KUBECONFIG=" + a.kubeconfig, "ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_TLS_DATA_PATH=" + home + "/tls", "ARGOCD_SSH_DATA_PATH=" + home + "/ssh", "ARGOCD_GNUPGHOME=" + home + "/gpg",
		"ARGOCD_PLUGINSOCKFILEPATH=" + home + "/plugins",
		"PATH=" + strings.Join([]string{s.programs["kustomize"].Dir, filepath.Join(program.Dir, "bin"), os.Getenv("PATH")}, ":"),
	}
	for _, folder := range []string{"tls", "ssh", "gpg", "plugins"} {
		must(t, os.MkdirAll(filepath.Join(home, folder), 0o700))
	}
	s.part(t, a.processes, "argocd-repo-server", program.Path, a.env, "repo-server", "--address=127.0.0.1", "--port="+port(1),
		"--metrics-address=127.0.0.1", "--metrics-port="+port(2), "--redis="+at(0), "--disable-tls", "--client-ca-path=")
	s.part(t, a.processes, "argocd-application-controller", program.Path, a.env, "application-controller", "--kubeconfig="+a.kubeconfig,
		"--namespace=argocd", "--metrics-port="+port(3), "--redis="+at(0), "--repo-server="+at(1), "--repo-server-plaintext")
	a.url = "http://" + at(4)
	s.part(t, a.processes, "argocd-server", program.Path, a.env, "server", "--kubeconfig="+a.kubeconfig, "--namespace=argocd",
		"--insecure", "--address=127.0.0.1", "--port="+port(4), "--metrics-port="+port(5), "--redis="+at(0), "--repo-server="+at(1), "--repo-server-plaintext",
		"--staticassets="+home)
	must(t, eventually(ctx, 5*time.Minute, "Argo CD's API server answers", func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}))
	return a
}

// configure makes what Argo CD's own installation has beside the processes: its
// defaults, a project that may all, and the secret of the webhook.
func (a *argoCD) configure(ctx context.Context) error {
	if err := a.cluster.addPlainNamespace(ctx, "argocd"); err != nil {
		return err
	}
	return a.cluster.Apply(ctx, `
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: e2e-e2e-e2e-e2e, webhook.github.secret: `+tellSecret+`}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
`)
}

// applicationStatus is the status of an Application.
type applicationStatus struct {
	Status struct {
		Sync           struct{ Status, Revision string } `json:"sync"`
		Health         struct{ Status string }           `json:"health"`
		OperationState struct{ Phase, Message string }   `json:"operationState"`
		Conditions     []struct{ Type, Message string }  `json:"conditions"`
	} `json:"status"`
}

func (a *argoCD) status(ctx context.Context, overlay string) (bool, string, error) {
	var object applicationStatus
	if err := a.cluster.Get(ctx, a.object(overlay), &object); err != nil {
		return false, "", err
	}
	status := object.Status
	words := fmt.Sprintf("%s, %s; operation %s: %s %v", status.Sync.Status, status.Health.Status, status.OperationState.Phase, status.OperationState.Message, status.Conditions)
	return status.Sync.Status == "Synced" && status.Health.Status == "Healthy", words, nil
}

func (a *argoCD) applied(ctx context.Context, overlay string) (string, error) {
	var object applicationStatus
	err := a.cluster.Get(ctx, a.object(overlay), &object)
	if err == nil && object.Status.Sync.Status != "Synced" {
		err = fmt.Errorf("it is %s", object.Status.Sync.Status)
	}
	return object.Status.Sync.Revision, err
}

func (a *argoCD) refresh(ctx context.Context, overlay string) error {
	return a.cluster.Merge(ctx, a.object(overlay), annotated("argocd.argoproj.io/refresh", "normal"))
}
