package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/testdata/e2e/kube"
	"muster/testdata/e2e/process"
)

// syncer is one that applies what is in git: Flux or Argo CD.
type syncer interface {
	// name is what init --syncer takes.
	name() string
	// notify is what muster run --notify is told.
	notify() string
	// status is what the syncer says of an overlay: whether it is as it should be,
	// and its words.
	status(ctx context.Context, overlay string) (ok bool, words string, err error)
	// applied is the commit of which an overlay was applied last.
	applied(ctx context.Context, overlay string) (string, error)
	// refresh has it look at an overlay now, as the git host's own webhook does.
	refresh(ctx context.Context, overlay string) error
	// object is the path of what the syncer was told of an overlay.
	object(overlay string) string
	// parts are its processes.
	parts() map[string]*process.Process
	// versions are those of its parts, as a table says them.
	versions() string
}

// part starts a process of a syncer.
func (s *suite) part(parts map[string]*process.Process, name, program string, env []string, args ...string) error {
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return err
	}
	p, err := process.Start(s.logs, process.Command{
		Name: name, Path: program, Args: args, Dir: dir,
		Env: append(append(os.Environ(), "HOME="+dir, "TMPDIR="+filepath.Join(dir, "tmp"), "GIT_CONFIG_NOSYSTEM=1"), env...),
	})
	parts[name] = p
	return err
}

const tellSecret = "e2e-told"

// flux is source-controller, kustomize-controller and notification-controller.
type flux struct {
	suite     *suite
	cluster   *cluster
	processes map[string]*process.Process
	receiver  string
}

func (f *flux) name() string                       { return "flux" }
func (f *flux) parts() map[string]*process.Process { return f.processes }
func (f *flux) versions() string {
	p := f.suite.programs
	return fmt.Sprintf("kustomize-controller %s, source-controller %s, notification-controller %s",
		p["kustomize-controller"].Version, p["source-controller"].Version, p["notification-controller"].Version)
}

func (f *flux) object(overlay string) string {
	return kube.Path("kustomize.toolkit.fluxcd.io/v1", "kustomizations", "flux-system", "agents-"+overlay)
}

// startFlux starts the three; the prefix tells their logs and folders from others'.
func startFlux(ctx context.Context, s *suite, c *cluster, prefix string) (*flux, error) {
	f := &flux{suite: s, cluster: c, processes: map[string]*process.Process{}}
	var kinds []string
	for _, program := range []string{"source-controller", "kustomize-controller", "notification-controller"} {
		kinds = append(kinds, filepath.Join(s.programs[program].Dir, "crds", "*.yaml"))
	}
	if err := c.define(ctx, kinds...); err != nil {
		return nil, err
	}
	if err := c.addPlainNamespace(ctx, "flux-system"); err != nil {
		return nil, err
	}
	ports, err := freePorts(9)
	if err != nil {
		return nil, err
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	kubeconfig := filepath.Join(c.dir, "kubeconfig-flux")
	if err := writeKubeconfig(kubeconfig, c.URL, "flux-system"); err != nil {
		return nil, err
	}
	env := []string{"RUNTIME_NAMESPACE=flux-system", "KUBECONFIG=" + kubeconfig}
	common := func(i int) []string {
		return []string{"--metrics-addr=" + at(i), "--health-addr=" + at(i+1), "--enable-leader-election=false", "--watch-all-namespaces"}
	}
	storage := filepath.Join(s.dir, prefix+"flux-archives")
	if err := os.MkdirAll(storage, 0o755); err != nil {
		return nil, err
	}
	if err := s.part(f.processes, prefix+"source-controller", s.programs["source-controller"].Path, env,
		append(common(0), "--storage-path="+storage, "--storage-addr="+at(6), "--storage-adv-addr="+at(6))...); err != nil {
		return nil, err
	}
	if err := s.part(f.processes, prefix+"kustomize-controller", s.programs["kustomize-controller"].Path, env, common(2)...); err != nil {
		return nil, err
	}
	f.receiver = "http://" + at(7)
	return f, s.part(f.processes, prefix+"notification-controller", s.programs["notification-controller"].Path, env,
		append(common(4), "--receiverAddr="+at(7), "--events-addr="+at(8))...)
}

// introduce applies what all overlays share, and finds the Receiver's path.
func (f *flux) introduce(ctx context.Context, fleet string) (string, error) {
	secret := map[string]any{"metadata": map[string]any{"name": "muster-receiver"}, "stringData": map[string]string{"token": tellSecret}}
	if err := f.cluster.Post(ctx, kube.Path("v1", "secrets", "flux-system", ""), secret); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(fleet, "syncer", "fleet.yaml"))
	if err != nil {
		return "", err
	}
	if err := f.cluster.Apply(ctx, string(text)); err != nil {
		return "", err
	}
	var receiver struct {
		Status struct {
			WebhookPath string `json:"webhookPath"`
		} `json:"status"`
	}
	err = eventually(ctx, 5*time.Minute, "the Receiver has a path", func() error {
		path := kube.Path("notification.toolkit.fluxcd.io/v1", "receivers", "flux-system", "muster")
		if err := f.cluster.Get(ctx, path, &receiver); err != nil || receiver.Status.WebhookPath == "" {
			return fmt.Errorf("no path: %w", err)
		}
		return nil
	})
	return receiver.Status.WebhookPath, err
}

func (f *flux) notify() string {
	return "kind=flux,name=flux,url=" + f.receiver + ",secret-file=" + f.suite.secretFile()
}

func (f *flux) status(ctx context.Context, overlay string) (bool, string, error) {
	var object struct {
		Status struct {
			Conditions []struct {
				Type, Status, Reason, Message string
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := f.cluster.Get(ctx, f.object(overlay), &object); err != nil {
		return false, "", err
	}
	for _, c := range object.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True", c.Reason + ": " + c.Message, nil
		}
	}
	return false, "no condition Ready", nil
}

func (f *flux) applied(ctx context.Context, overlay string) (string, error) {
	var object struct {
		Status struct {
			LastAppliedRevision string `json:"lastAppliedRevision"`
		} `json:"status"`
	}
	err := f.cluster.Get(ctx, f.object(overlay), &object)
	_, commit, _ := strings.Cut(object.Status.LastAppliedRevision, "sha1:")
	return commit, err
}

func (f *flux) refresh(ctx context.Context, _ string) error {
	path := kube.Path("source.toolkit.fluxcd.io/v1", "gitrepositories", "flux-system", "fleet")
	return f.cluster.Merge(ctx, path, annotated("reconcile.fluxcd.io/requestedAt", time.Now().Format(time.RFC3339Nano)))
}

// has waits until Flux has fetched what is newest in git: a Kustomization of a
// directory that it does not have waits for a minute.
func (f *flux) has(w *world) error {
	head, err := w.git.Head()
	if err != nil {
		return err
	}
	if err := f.refresh(w.ctx, ""); err != nil {
		return err
	}
	path := kube.Path("source.toolkit.fluxcd.io/v1", "gitrepositories", "flux-system", "fleet")
	return eventually(w.ctx, 5*time.Minute, "Flux has "+head, func() error {
		var object struct {
			Status struct {
				Artifact struct{ Revision string } `json:"artifact"`
			} `json:"status"`
		}
		if err := f.cluster.Get(w.ctx, path, &object); err != nil {
			return err
		}
		_, commit, _ := strings.Cut(object.Status.Artifact.Revision, "sha1:")
		if _, err := w.git.Git("merge-base", "--is-ancestor", head, commit); err != nil {
			return fmt.Errorf("it has %s", commit)
		}
		return nil
	})
}

func annotated(name, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]string{name: value}}}
}

// addPlainNamespace makes a namespace without anything in it.
func (c *cluster) addPlainNamespace(ctx context.Context, name string) error {
	err := c.Post(ctx, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
	if kube.Exists(err) {
		return nil
	}
	return err
}

// secretFile is where muster reads what syncers know too.
func (s *suite) secretFile() string { return filepath.Join(s.dir, "tell-secret") }

// startSyncers starts those that are chosen.
func startSyncers(ctx context.Context, s *suite, c *cluster) (map[string]syncer, error) {
	if err := os.WriteFile(s.secretFile(), []byte(tellSecret), 0o600); err != nil {
		return nil, err
	}
	all := map[string]syncer{}
	if slices.Contains(syncers(), "flux") {
		f, err := startFlux(ctx, s, c, "")
		if err != nil {
			return nil, err
		}
		all["flux"] = f
	}
	if slices.Contains(syncers(), "argocd") {
		a, err := startArgoCD(ctx, s, c)
		if err != nil {
			return nil, err
		}
		all["argocd"] = a
	}
	return all, nil
}
